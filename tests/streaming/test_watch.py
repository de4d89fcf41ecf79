"""``ldmaps watch`` as a user runs it: a process, records on its stdin, viewers on its page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from polling import PATIENCE

from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main

REASON = "the live page needs starlette, uvicorn and websockets: pip install starlette uvicorn websockets"
for _part in ("starlette", "uvicorn"):
    pytest.importorskip(_part, reason=REASON)
connect = pytest.importorskip("websockets.sync.client", reason=REASON).connect
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals to a process, which only POSIX has")


@pytest.fixture(scope="module")
def points():
    angle = np.random.default_rng(0).uniform(0, 3, 200)
    return np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.fixture(scope="module")
def folder(points, tmp_path_factory):
    """A map, regions and a table."""
    path = tmp_path_factory.mktemp("watch")
    model = LandmarkDiffusionMap(2, n_landmarks=30, extension="nystrom").fit(points)
    model.save(path / "map.ldm")
    middle = float(np.median(model.embedding_[:, 0]))
    (path / "regions.toml").write_text(f'[regions.right]\nkind = "box"\npsi2 = [{middle}, 1e9]\n')
    np.savetxt(path / "table.csv", points, delimiter=",", header="a,b", comments="")
    (path / "token.txt").write_text("a-token-for-tests-0123456789\n")
    return path


class Watch:
    """A running ``ldmaps watch``; its stderr is read line by line in a thread."""

    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ldmaps", "watch", "map.ldm", *arguments, "--port", "0"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def line(self, pattern):
        """Wait for a line and return its match."""
        found = []

        def seen():
            found.extend(match for match in (re.search(pattern, line) for line in self.lines) if match)
            return found or self.process.poll() is not None

        with self._news:
            self._news.wait_for(seen, PATIENCE)
        assert found, self.lines
        return found[0]

    def port(self):
        return int(self.line(r"live page: http://127\.0\.0\.1:(\d+)/")[1])

    def wait(self):
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


def view(port, token=""):
    here = f"127.0.0.1:{port}"
    opened = connect(
        f"ws://{here}/stream", origin=f"http://{here}", open_timeout=PATIENCE, close_timeout=5, proxy=None
    )
    viewer = opened.__enter__()
    viewer.send(json.dumps({"token": token}))
    viewer.recv(timeout=PATIENCE)
    return viewer


def head_when(viewer, done):
    for _ in range(400):
        message = viewer.recv(timeout=PATIENCE)
        head = json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])
        if done(head):
            return head
    raise AssertionError(head)


def test_records_of_a_pipe_reach_the_page_and_ctrl_c_ends_it(folder, points):
    with Watch(folder, "--regions", "regions.toml") as watch:
        viewer = view(watch.port())
        try:
            watch.process.stdin.write("a,b\n")
            for first in (0, 100):
                for a, b in points[first : first + 100]:
                    watch.process.stdin.write(f"{a},{b}\n")
                watch.process.stdin.flush()
                head = head_when(viewer, lambda head, first=first: head["records"] == first + 100)
            assert head["status"] == "running"
            assert head["alarms"] > 0
            assert head["outside"] == 0
            watch.process.stdin.close()
            head_when(viewer, lambda head: head["status"] == "ended")
            watch.line("the page stays; Ctrl-C ends it")
            watch.process.send_signal(signal.SIGINT)
            assert watch.wait() == 0
        finally:
            viewer.close()
        assert watch.process.stdout.read() == ""
        assert any("200 records" in line for line in watch.lines)


def test_a_table_is_read_and_written_and_the_command_ends_with_it(folder, tmp_path):
    output = tmp_path / "psi.csv"
    with Watch(folder, "table.csv", "-o", str(output), "--exit-when-done", "--json") as watch:
        assert watch.wait() == 0, watch.lines
        assert json.loads(watch.process.stdout.read())["records"] == 200
    assert len(output.read_text().splitlines()) == 201


def test_an_interrupted_stream_says_so(folder):
    with Watch(folder) as watch:
        watch.port()
        watch.process.send_signal(signal.SIGINT)
        assert watch.wait() == 130
        assert any("interrupted" in line for line in watch.lines)


def test_terminating_ends_a_page_that_stays(folder):
    with Watch(folder, "table.csv") as watch:
        watch.line("the page stays")
        watch.process.send_signal(signal.SIGTERM)
        assert watch.wait() == 143


def test_tokens(folder):
    with Watch(folder, "--token-file", "token.txt") as watch:
        watch.line(r"/#token=a-token-for-tests-0123456789$")
        viewer = view(watch.port(), "a-token-for-tests-0123456789")
        head_when(viewer, lambda head: head["status"] == "waiting")
        viewer.close()
    with Watch(folder, "--token", "auto") as watch:
        assert len(watch.line(r"/#token=([\w-]+)$")[1]) >= 32


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "without a token"),
        (["--token", "short"], "at least 16 printable"),
        (["--token-file", "nowhere"], "nowhere: no such file"),
        (["--regions", "nowhere.toml"], "nowhere.toml"),
        (["nowhere.csv"], "nowhere.csv"),
        (["--exit-on", "enter:right"], "--regions"),
    ],
)
def test_faulty_settings_are_told_in_a_line(folder, arguments, words, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert main(["watch", "map.ldm", *arguments, "--port", "0"]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("ldmaps: error: ")
    assert words in last


def test_a_taken_port_is_told_in_a_line(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["watch", "map.ldm", "table.csv", "--port", str(port)]) == 1
    said = capfd.readouterr().err
    assert re.fullmatch(rf"ldmaps: error: .*port {port} of 127\.0\.0\.1 .*in use.*\n", said)


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--token", "x", "--token-file", "y"]])
def test_what_is_no_command_line_is_refused(arguments):
    assert main(["watch", "map.ldm", *arguments]) == 2


@pytest.mark.parametrize(
    ("opens", "said"), [(True, ""), (False, "there is no browser here that could be opened")]
)
def test_the_page_is_opened_in_a_browser(folder, monkeypatch, capfd, opens, said):
    asked = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or opens)
    monkeypatch.chdir(folder)
    command = ["watch", "map.ldm", "table.csv", "--port", "0", "--exit-when-done"]
    assert main([*command, "--open", "--token-file", "token.txt"]) == 0
    error = capfd.readouterr().err
    (address,) = asked
    assert f"live page: {address}\n" in error
    assert address.endswith("/#token=a-token-for-tests-0123456789")
    assert said in error
    assert ("no browser" in error) == (not opens)
    # Another token each time, long enough for LivePage.
    addresses = set()
    for _ in range(2):
        assert main([*command, "--token", "auto"]) == 0
        addresses.add(re.search(r"/#token=([\w-]{32,})\n", capfd.readouterr().err)[1])
    assert len(addresses) == 2
    assert len(asked) == 1


def test_a_token_that_is_no_text(folder, monkeypatch, capfd, tmp_path):
    (tmp_path / "token.bin").write_bytes(b"\xff\xfe" * 20)
    monkeypatch.chdir(folder)
    assert main(["watch", "map.ldm", "--token-file", str(tmp_path / "token.bin"), "--port", "0"]) == 1
    assert "token.bin holds no token: it is not text" in capfd.readouterr().err


def test_a_stream_that_fails_says_so_on_the_page(folder, points, monkeypatch, capfd):
    """Its first records were shown, so the page stays for the reason; a stream that never began shows no page."""
    problems = []
    monkeypatch.setattr("ldmaps.analysis.LivePage.fail", lambda page, problem: problems.append(problem))
    monkeypatch.chdir(folder)
    command = [
        "watch",
        "map.ldm",
        "--port",
        "0",
        "--exit-when-done",
        "--bad-records",
        "raise",
        "--max-batch",
        "100",
    ]
    rows = [f"{a},{b}" for a, b in points]
    (folder / "fails.csv").write_text("\n".join(["a,b", *rows, "1,x"]))
    assert main([*command, "fails.csv"]) == 1
    error = capfd.readouterr().err
    (problem,) = problems
    assert "\n" not in problem
    assert "'x' is not a number" in problem
    assert "the stream stopped: " in error
    assert error.splitlines()[-1].startswith("ldmaps: error: ")


def test_a_closed_pipe_is_no_failure_of_the_stream(folder, monkeypatch, capfd):
    failed = []
    monkeypatch.setattr("ldmaps.analysis.LivePage.fail", lambda page, problem: failed.append(problem))

    def closed(self, *sinks):
        self.engine.summary.batches = 1
        raise BrokenPipeError

    monkeypatch.setattr("ldmaps.cli.watch.CommandStream.carry_out", closed)
    monkeypatch.setattr("ldmaps.cli.session._close_stdout", lambda: None)
    monkeypatch.chdir(folder)
    assert main(["watch", "map.ldm", "table.csv", "--port", "0"]) == 141
    assert failed == []
    assert "the stream stopped" not in capfd.readouterr().err
