"""``ldmaps fit`` and ``ldmaps embed`` on workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

from ldmaps import load
from ldmaps.cli import main
from ldmaps.cluster import reading


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with two trajectories, and the map that one process fits to them."""
    folder = tmp_path_factory.mktemp("run")
    whole = mdtraj_trajectory(100)
    whole[0].save_pdb(str(folder / "top.pdb"))
    whole[:120].save(str(folder / "0.xtc"))
    whole[120:].save(str(folder / "1.xtc"))
    assert main(["fit", *inputs(folder), *SETTINGS, "-o", str(folder / "plain.ldm"), "-q"]) == 0
    return folder


SETTINGS = ["-m", "30", "--epsilon", "0.005", "--n-components", "2"]


def inputs(folder):
    return [str(folder / "0.xtc"), str(folder / "1.xtc"), "-t", str(folder / "top.pdb")]


@pytest.fixture
def address(cluster, with_workers):
    """The scheduler of a cluster with two workers."""
    with_workers(2).close()
    return cluster.scheduler_address


#: Pieces of 50 frames.
SMALL = ["--piece", str(50 * (22 * 12 + reading.ROW_BYTES))]


def test_fit_on_a_scheduler_writes_the_same_model(run, address, tmp_path, capsys):
    output = str(tmp_path / "map.ldm")
    assert main(["fit", *inputs(run), *SETTINGS, "-o", output, "--scheduler", address, *SMALL]) == 0
    assert "2 coordinates of" in capsys.readouterr().err
    found, plain = load(output), load(run / "plain.ldm")
    np.testing.assert_array_equal(found.landmark_indices_, plain.landmark_indices_)
    np.testing.assert_array_equal(found.embedding_, plain.embedding_)
    np.testing.assert_array_equal(found.training_.times, plain.training_.times)
    np.testing.assert_array_equal(found.training_.files, plain.training_.files)
    assert found.source_ == plain.source_


@pytest.mark.parametrize("suffix", ["csv", "npy", "parquet"])
def test_embed_on_a_scheduler_writes_the_same_rows(run, address, tmp_path, suffix):
    plain, found = (str(tmp_path / f"{name}.{suffix}") for name in ("plain", "found"))
    assert main(["embed", str(run / "plain.ldm"), *inputs(run), "-o", plain, "-q"]) == 0
    assert (
        main(
            ["embed", str(run / "plain.ldm"), *inputs(run), "-o", found, "-q", "--scheduler", address, *SMALL]
        )
        == 0
    )
    if suffix == "parquet":
        from pyarrow import parquet

        assert parquet.read_table(found).equals(parquet.read_table(plain))
    else:
        with open(plain, "rb") as one, open(found, "rb") as other:
            assert one.read() == other.read()


def test_parts_and_their_index(run, address, tmp_path):
    plain, found = str(tmp_path / "plain.csv"), str(tmp_path / "found.csv")
    command = ["embed", str(run / "plain.ldm"), *inputs(run), "-q"]
    assert main([*command, "-o", plain]) == 0
    assert main([*command, "-o", found, "--scheduler", address, *SMALL, "--parts"]) == 0
    with open(os.path.join(found, "index.json")) as stream:
        index = json.load(stream)
    lines = []
    for entry in index["parts"]:
        with open(os.path.join(found, entry["part"])) as part:
            rows = part.read().splitlines()[1:]
        assert len(rows) == entry["rows"] == entry["last"] - entry["first"] + 1
        assert rows[0].startswith(f"{entry['file']},{entry['first']},")
        lines += rows
    with open(plain) as stream:
        assert lines == stream.read().splitlines()[1:]
    assert len(index["parts"]) > 4
    assert index["rows"] == len(lines)
    assert sorted(os.listdir(found)) == sorted(["index.json", *(entry["part"] for entry in index["parts"])])
    # A second time only with --force, which replaces all of it.
    assert main([*command, "-o", found, "--scheduler", address, *SMALL, "--parts"]) == 1
    assert main([*command, "-o", found, "--scheduler", address, *SMALL, "--parts", "--force"]) == 0


def test_a_bad_frame_leaves_no_output(run, address, tmp_path, capsys):
    rows = np.ones((600, 66), dtype=np.float32)
    rows[550, 3] = np.nan
    frames = rows.reshape(600, 22, 3)
    np.save(tmp_path / "frames.npy", frames)
    for parts in ([], ["--parts"]):
        output = str(tmp_path / "out.csv")
        command = ["embed", str(run / "plain.ldm"), str(tmp_path / "frames.npy"), "-o", output, "-q"]
        assert main([*command, "--scheduler", address, *SMALL, *parts]) == 1
        error = capsys.readouterr().err
        assert "frames.npy: frame 550 (atom 1) holds NaN" in error
        assert error.count("\n") == 1
        assert os.listdir(tmp_path) == ["frames.npy"]


def test_no_scheduler_and_parts_without_workers_are_one_line(run, tmp_path, monkeypatch, capsys):
    from ldmaps.cluster import engine

    monkeypatch.setattr(engine, "SCHEDULER_WAIT", 1)
    command = ["embed", str(run / "plain.ldm"), *inputs(run), "-o", str(tmp_path / "out.csv")]
    assert main([*command, "--scheduler", "tcp://127.0.0.1:9"]) == 1
    error = capsys.readouterr().err
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in error
    assert error.count("\n") == 1
    assert main([*command, "--parts"]) == 1
    assert "--parts requires --workers N" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_piece_that_is_no_size_is_one_line(run, capsys):
    assert main(["fit", *inputs(run), "-o", "map.ldm", "--workers", "2", "--piece", "big"]) == 2
    assert "must be a size such as \"64MB\", or a number of bytes, got 'big'" in capsys.readouterr().err


def children(process):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    return [int(number) for number in listed.stdout.split()]


@pytest.mark.slow
def test_workers_of_its_own_and_an_interruption(run, tmp_path):
    """A whole process: it fits on two workers; interrupted in the middle it leaves no output and no process."""
    command = [sys.executable, "-m", "ldmaps"]
    output = str(tmp_path / "map.ldm")
    done = subprocess.run(
        [*command, "fit", *inputs(run), *SETTINGS, "-o", output, "--workers", "2", "--worker-memory", "1GB"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(load(output).embedding_, load(run / "plain.ldm").embedding_)
    frames = np.concatenate([mdtraj_trajectory(100).xyz] * 400)
    np.save(tmp_path / "many.npy", frames)
    embedded = str(tmp_path / "out.csv")
    arguments = ["embed", output, str(tmp_path / "many.npy"), "-o", embedded, "--workers", "2"]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not any(
            name.endswith(".part") for name in os.listdir(tmp_path)
        ):
            time.sleep(0.02)
        started = children(process.pid)
        assert started
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 130, error
    assert error.strip().splitlines()[-1] == "ldmaps: interrupted; no partial output was left"
    assert sorted(os.listdir(tmp_path)) == ["many.npy", "map.ldm"]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{number}") for number in started):
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{number}") for number in started)
