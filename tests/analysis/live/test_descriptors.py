"""A stream with a live page goes on while 1,200 connections that say nothing are opened to it."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("resource", reason="limits are those of POSIX")
pytest.importorskip("uvicorn")

RUN = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.streaming import OutputFile, StreamEmbedder
from ldmaps.analysis import LivePage

points = swiss_roll(300, random_state=0).points
model = LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(points)
with LivePage(model) as page:
    print(page.port, flush=True)
    assert sys.stdin.readline()  # all have connected
    summary = StreamEmbedder(model, max_batch=50).run(
        points, [OutputFile("psi.csv"), page], checkpoint="c", checkpoint_every=0.0
    )
    print(summary.records, flush=True)
"""


def connected(port, count):
    """Open connections; return those that were accepted, or refused later."""
    import socket

    opened = []
    for _ in range(count):
        try:
            opened.append(socket.create_connection(("127.0.0.1", port), 10))
        except OSError:  # more than the server's queue holds
            continue
    return opened


@pytest.mark.slow
def test_a_stream_outlives_twelve_hundred_idle_connections(tmp_path):
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    opened = []
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        try:
            opened = connected(int(process.stdout.readline()), 1200)
            out, err = process.communicate("go\n", timeout=300)
        finally:
            process.kill()
            for one in opened:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (process.returncode, out, err) == (0, "300\n", "")
    assert len(opened) > 1000
    assert len((tmp_path / "psi.csv").read_text().splitlines()) == 301
