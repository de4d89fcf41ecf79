"""Embeddings as files: the same bytes however they are made, and whole or not at all."""

from __future__ import annotations

import csv
import io
import threading

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.cli.embed import embed_source
from ldmaps.cli.writers import open_writer
from ldmaps.extension.embedder import Coverage
from ldmaps.inputs import FrameChunk
from ldmaps.progress import Progress


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "timed", "not finite"])
def test_rows_are_what_python_writes(tmp_path, suffix, dtype, kind):
    rng = np.random.default_rng(1)
    n, file = 200, 'run 100 %, "first".xtc'
    coordinates = rng.normal(size=(n, 3)).astype(dtype)
    if kind == "not finite":
        coordinates[5, 1] = np.nan
    times = None if kind == "plain" else 0.1 * np.arange(n)
    chunk = FrameChunk(np.zeros((n, 4, 3)), np.arange(7, n + 7), times, file)
    p = None if kind == "not finite" else rng.random(n)
    coverage = Coverage(np.abs(coordinates[:, 0]), rng.random(n) < 0.5, rng.integers(0, 30, size=n), p)
    path = tmp_path / f"psi.{suffix}"
    with open_writer(str(path), 3, [file]) as writer:
        writer.write(chunk, coordinates, coverage)
        writer.write(chunk, coordinates, coverage)
    expected = io.StringIO()
    table = csv.writer(expected, delimiter="\t" if suffix == "tsv" else ",", lineterminator="\n")
    table.writerow(["file", "frame", "time", "psi2", "psi3", "psi4", "distance", "inside", "nearest", "p"])
    digits = 9 if dtype == np.float32 else 17
    for row in [*range(n)] * 2:
        psi = [f"%.{digits}g" % value for value in coordinates[row]]
        last = [f"{coverage.distance[row]:.5g}", int(coverage.inside[row]), coverage.nearest[row]]
        last.append("nan" if p is None else f"{p[row]:.4g}")
        table.writerow([file, row + 7, "" if times is None else f"{times[row]:.10g}", *psi, *last])
    assert path.read_text() == expected.getvalue()
    assert ("nan" in path.read_text()) == (kind == "not finite")


@pytest.mark.parametrize("timed", [True, False])
def test_an_array_holds_the_columns_however_it_is_cut(monkeypatch, tmp_path, timed):
    rng = np.random.default_rng(2)
    files = ["a.xtc", "longer/b.xtc"]
    parts = []
    for number, n in enumerate((50, 7, 120, 1)):
        chunk = FrameChunk(
            np.zeros((n, 2)), np.arange(3, n + 3), rng.random(n) if timed else None, files[number % 2]
        )
        coverage = Coverage(rng.random(n), rng.random(n) < 0.5, rng.integers(0, 30, size=n))
        parts.append((chunk, rng.normal(size=(n, 2)), coverage))
    texts = []
    for size in (1, 4096, 1 << 18):
        monkeypatch.setattr("ldmaps.cli.writers.BLOCK_BYTES", size)
        path = tmp_path / f"{size}.npy"
        with open_writer(str(path), 2, files) as writer:
            for part in parts:
                writer.write(*part)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] == texts[2]
    rows = np.load(path)
    np.testing.assert_array_equal(rows["file"], np.concatenate([[c.file] * len(c) for c, _, _ in parts]))
    np.testing.assert_array_equal(rows["frame"], np.concatenate([c.numbers for c, _, _ in parts]))
    times = [c.times if timed else np.full(len(c), np.nan) for c, _, _ in parts]
    np.testing.assert_array_equal(rows["time"], np.concatenate(times))
    for place in range(2):
        values = np.concatenate([coordinates[:, place] for _, coordinates, _ in parts])
        np.testing.assert_array_equal(rows[f"psi{place + 2}"], values)
    for place, name in enumerate(("distance", "inside", "nearest")):
        np.testing.assert_array_equal(rows[name], np.concatenate([part[2][place] for part in parts]))


class FullDiskError(Exception):
    pass


def test_an_output_that_fails_ends_all_threads_and_leaves_no_file(tmp_path):
    rng = np.random.default_rng(3)
    model = LandmarkDiffusionMap(2, 2.0, landmarks="kmedoids", n_landmarks=20).fit(rng.normal(size=(200, 3)))
    np.save(tmp_path / "rows.npy", rng.normal(size=(5000, 3)))
    source = ldmaps.inputs.open_files(tmp_path / "rows.npy", chunk=100)

    def write():
        with (
            Progress(False).stage("embedding") as stage,
            open_writer(str(tmp_path / "psi.npy"), 2, source.files) as writer,
        ):
            done = writer.write

            def failing(*part):
                if stage.done >= 500:
                    raise FullDiskError
                done(*part)

            writer.write = failing
            embed_source(model.embedder_, source, writer, stage, 1)

    with pytest.raises(FullDiskError) as failure:
        write()
    # The error still holds the frames it went through: threads end by themselves, not when memory is tidied up.
    assert failure.value.__traceback__ is not None
    assert not [thread for thread in threading.enumerate() if thread.name == "ldmaps-reader"]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]
