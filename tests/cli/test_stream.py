"""ldmaps stream: pipes, files, regions, exit codes, interruptions."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ldmaps
from ldmaps.cli import main
from ldmaps.cli.stream import HAPPENED
from ldmaps.datasets import swiss_roll

LDMAPS = [sys.executable, "-m", "ldmaps"]
ROLL = swiss_roll(300, random_state=0).points
HEADER = "number,time,psi2,psi3,distance,inside,nearest,p,region"


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    np.savetxt(folder / "roll.csv", ROLL, delimiter=",", header="x,y,z", comments="", fmt="%.17g")
    np.save(folder / "roll.npy", ROLL)
    (folder / "roll.ndjson").write_text("".join(json.dumps(row) + "\n" for row in ROLL.tolist()))
    assert (
        run(
            "fit",
            folder / "roll.csv",
            "--epsilon",
            9,
            "-m",
            60,
            "--n-components",
            2,
            "-o",
            folder / "map.ldm",
        )
        == 0
    )
    return folder


@pytest.fixture(scope="module")
def regions(folder):
    from ldmaps.regions import Box, save_regions

    path = folder / "regions.json"
    save_regions(path, {"right": Box({"psi2": (0.0, None)}), "nowhere": Box({"psi2": (1e9, None)})})
    return path


def rows_of(text):
    lines = text.splitlines()
    assert lines[0] == HEADER
    return [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]


def psi(rows):
    return np.array([[float(row["psi2"]), float(row["psi3"])] for row in rows])


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "npy"])
@pytest.mark.parametrize("output", ["psi.csv", "psi.ndjson"])
def test_files(folder, tmp_path, capsys, suffix, output):
    assert run("stream", folder / "map.ldm", folder / f"roll.{suffix}", "-o", tmp_path / output) == 0
    text = (tmp_path / output).read_text()
    rows = [json.loads(line) for line in text.splitlines()] if output.endswith("ndjson") else rows_of(text)
    np.testing.assert_allclose(psi(rows), ldmaps.load(folder / "map.ldm").transform(ROLL), rtol=1e-9)
    said = capsys.readouterr()
    assert "300 records" in said.err
    assert "% inside" in said.err
    assert said.out == ""


def test_a_part_of_a_file(folder, tmp_path, capsys):
    part = ("--start", 10, "--stop", 200, "--stride", 7)
    for suffix in ("csv", "npy"):
        output = tmp_path / f"{suffix}.csv"
        assert run("stream", folder / "map.ldm", folder / f"roll.{suffix}", *part, "-o", output) == 0
        expected = ldmaps.load(folder / "map.ldm").transform(ROLL[10:200:7])
        np.testing.assert_allclose(psi(rows_of(output.read_text())), expected, rtol=1e-9)
    capsys.readouterr()
    assert run("stream", folder / "map.ldm", folder / "roll.csv", "--follow", "--stride", 7) == 1
    assert "--stride 7 chooses frames of a file that is finished" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "ndjson", "npy", "reordered"])
def test_pipes(folder, form):
    if form == "reordered":
        data = "z,time,x,y\n" + "".join(f"{z},{i},{x},{y}\n" for i, (x, y, z) in enumerate(ROLL.tolist()))
        data = data.encode()
    elif form == "npy":
        stream = io.BytesIO()
        for row in ROLL:
            np.save(stream, row)
        data = stream.getvalue()
    else:
        data = (folder / f"roll.{form}").read_bytes()
    done = subprocess.run(
        [*LDMAPS, "stream", str(folder / "map.ldm")], input=data, capture_output=True, check=True
    )
    rows = rows_of(done.stdout.decode())
    np.testing.assert_allclose(psi(rows), ldmaps.load(folder / "map.ldm").transform(ROLL), rtol=1e-9)
    assert rows[7]["time"] == ("7" if form == "reordered" else "")
    assert b"300 records" in done.stderr


def test_fields_by_name(folder):
    lines = b'{"z": 3, "y": 2, "x": 1, "time": 0.5}\n{"x": [1, 2, 3]}\n{"y": 2}\n'
    done = subprocess.run(
        [*LDMAPS, "stream", str(folder / "map.ldm")], input=lines, capture_output=True, check=True
    )
    rows = rows_of(done.stdout.decode())
    assert [(row["number"], row["time"]) for row in rows] == [("0", "0.5"), ("1", "")]
    np.testing.assert_array_equal(psi(rows)[0], psi(rows)[1])
    assert b"1 rejected" in done.stderr


def test_stdout_is_flushed_with_every_record(folder):
    """A consumer downstream sees a record before the next one is produced."""
    command = [*LDMAPS, "stream", str(folder / "map.ldm"), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for number in range(3):
            process.stdin.write(b"1,2,3\n")
            process.stdin.flush()
            if number == 0:
                assert process.stdout.readline().decode().strip() == HEADER
            assert process.stdout.readline().startswith(b"%d," % number)
        process.stdin.close()
        assert process.wait(120) == 0


def test_bad_records(folder, tmp_path, capsys):
    (tmp_path / "in.csv").write_text("1,2,3\n1,2\nnan,2,3\n4,5,6\n")
    args = ["stream", folder / "map.ldm", tmp_path / "in.csv", "-o", tmp_path / "psi.csv", "--json"]
    assert run(*args, "--quarantine", tmp_path / "bad") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["records"], summary["rejected"]) == (2, 2)
    assert {"p50", "p99", "p99.9"} <= set(summary["latency"])
    bad = [json.loads(line) for line in (tmp_path / "bad").read_text().splitlines()]
    assert [(one["number"], one["reason"]) for one in bad] == [
        (1, "2 columns, but 3 are expected"),
        (2, "nan at column 1 is not a finite number"),
    ]
    assert run(*args[:-1], "-f", "--bad-records", "raise") == 1
    assert "record 1 cannot be embedded: 2 columns" in capsys.readouterr().err
    assert len(rows_of((tmp_path / "psi.csv").read_text())) == 1
    assert run(*args[:-1], "-f", "--bad-records", "quarantine") == 1
    assert "needs a sink that keeps rejected records" in capsys.readouterr().err


def test_regions_events_and_exit(folder, regions, tmp_path, capsys):
    args = ["stream", folder / "map.ldm", folder / "roll.csv", "--regions", regions]
    outputs = ["-o", tmp_path / "psi.csv", "--events", tmp_path / "events"]
    assert run(*args, *outputs, "--dwell-every", 3) == 0
    rows = rows_of((tmp_path / "psi.csv").read_text())
    assert {row["region"] for row in rows} == {"", "right"}
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert {event["kind"] for event in events} == {"enter", "leave", "dwell"}
    assert "events: dwell:right" in capsys.readouterr().err
    first = next(event["number"] for event in events if event["kind"] == "leave")
    again = [*args, *outputs, "-f", "--max-batch", 1, "--exit-on", "leave:right"]
    assert run(*again) == HAPPENED == 4
    assert f"ended by leave:right at record {first}" in capsys.readouterr().err
    numbers = [int(row["number"]) for row in rows_of((tmp_path / "psi.csv").read_text())]
    assert numbers == list(range(len(numbers)))
    assert first in numbers
    assert len(numbers) < 300
    assert run(*args, *outputs, "-f", "--exit-on", "enter:nowhere") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--events", "e", "--alarm-rate", "none"], "--events needs an alarm or regions"),
        (["--exit-on", "leave:A", "--alarm-rate", "none"], "--exit-on needs an alarm or regions"),
        (["--exit-on", "leave:A"], "there is no region 'A'; the regions are alarm"),
        (["--alarm-rate", "1e-3"], "not calibrated"),
        (
            ["--regions", "REGIONS", "--exit-on", "leave:B"],
            "there is no region 'B'; the regions are alarm, right, nowhere",
        ),
        (["--regions", "REGIONS", "--exit-on", "dwell:right"], "needs --dwell-every"),
        (["-o", "psi.xml"], "must end in one of .csv"),
        (["--columns", "x,y"], "2 columns to use"),
        (["--columns", "a,y,z"], "no column 'a'"),
        (["--events", "-", "--regions", "REGIONS"], "stdout takes one kind of output"),
        (["--quarantine", "ROLL"], "is named twice"),
    ],
)
def test_faults_are_told_in_a_line(folder, regions, capsys, monkeypatch, tmp_path, options, message):
    monkeypatch.chdir(tmp_path)
    names = {"REGIONS": str(regions), "ROLL": str(folder / "roll.csv")}
    options = [names.get(option, option) for option in options]
    assert run("stream", folder / "map.ldm", folder / "roll.csv", *options) == 1
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "options", [["--exit-on", "leave"], ["--exit-on", "jump:A"], ["--max-delay", "-1"], ["--max-batch", "0"]]
)
def test_usage(folder, capsys, options):
    assert run("stream", folder / "map.ldm", *options) == 2
    assert "needed, got" in capsys.readouterr().err


def test_existing_outputs_and_checkpoints(folder, tmp_path, capsys):
    args = ["stream", folder / "map.ldm", folder / "roll.csv", "-o", tmp_path / "psi.csv", "-q"]
    assert run(*args) == 0
    whole = (tmp_path / "psi.csv").read_bytes()
    assert run(*args) == 1
    assert "exists already" in capsys.readouterr().err
    assert run(*args, "--checkpoint", tmp_path / "c") == 1
    capsys.readouterr()
    assert run(*args, "--checkpoint", tmp_path / "c", "-f", "--max-records", 100) == 0
    assert len((tmp_path / "psi.csv").read_text().splitlines()) == 101
    assert run(*args, "--checkpoint", tmp_path / "c") == 0
    assert (tmp_path / "psi.csv").read_bytes() == whole
    assert capsys.readouterr().err == ""


def test_a_pipe_has_no_checkpoint(folder, tmp_path):
    command = [*LDMAPS, "stream", str(folder / "map.ldm"), "--checkpoint", str(tmp_path / "c")]
    done = subprocess.run(command, input="1,2,3\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "stdin cannot be read again" in done.stderr
    assert not (tmp_path / "c").exists()


def test_a_growing_file_is_followed(folder, tmp_path):
    source = tmp_path / "grow.csv"
    source.write_text("x,y,z\n1,2,3\n")
    command = [
        *LDMAPS,
        "stream",
        str(folder / "map.ldm"),
        str(source),
        "--follow",
        "--max-records",
        "3",
        "-q",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            assert process.stdout.readline().startswith(b"0,")
            with open(source, "a") as more:
                more.write("4,5,6\n7,8,9\n")
            assert process.stdout.readline().startswith(b"1,")
            assert process.stdout.readline().startswith(b"2,")
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_a_closed_pipe_ends_quietly(folder, tmp_path):
    np.save(tmp_path / "many.npy", np.tile(ROLL, (300, 1)))
    command = [*LDMAPS, "stream", str(folder / "map.ldm"), str(tmp_path / "many.npy")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 141


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interruption_leaves_valid_outputs(folder, tmp_path, number, status):
    output = tmp_path / "psi.csv"
    command = [*LDMAPS, "stream", str(folder / "map.ldm"), "-o", str(output)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(b"1,2,3\n" * 1000)
        process.stdin.flush()
        deadline = time.monotonic() + 300
        # Not sooner: what stands in the pipe when the signal comes is not read any more.
        while time.monotonic() < deadline and not (
            output.exists() and output.read_bytes().count(b"\n") > 1000
        ):
            time.sleep(0.01)
        process.send_signal(number)
        try:
            assert process.wait(120) == status
        finally:
            process.kill()
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert "1,000 records" in said
    assert len(rows_of(output.read_text())) == 1000


def test_a_stall_is_told(folder):
    command = [*LDMAPS, "stream", str(folder / "map.ldm"), "--stall-after", "0.1", "--on-stall", "raise"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b"1,2,3\n")
        process.stdin.flush()
        assert process.wait(120) == 1
        said = process.stderr.read().decode()
        assert len(rows_of(process.stdout.read().decode())) == 1
        process.stdin.close()
    assert "nothing came from stdin for" in said


def test_help_names_the_status_of_an_event(capsys):
    assert main(["stream", "--help"]) == 0
    assert "Exit status 4" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "  4    an event" in capsys.readouterr().out
