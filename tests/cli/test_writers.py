"""Embeddings as CSV: the same bytes from compiled loops and from Python."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.cli.writers import open_writer
from ldmaps.extension.embedder import Coverage
from ldmaps.inputs import FrameChunk


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "timed", "not finite"])
def test_compiled_loops_write_like_python(monkeypatch, tmp_path, suffix, dtype, kind):
    rng = np.random.default_rng(1)
    n, file = 200, 'run 100 %, "first".xtc'
    coordinates = rng.normal(size=(n, 3)).astype(dtype)
    if kind == "not finite":
        coordinates[5, 1] = np.nan
    times = None if kind == "plain" else 0.1 * np.arange(n)
    chunk = FrameChunk(np.zeros((n, 4, 3)), np.arange(7, n + 7), times, file)
    coverage = Coverage(np.abs(coordinates[:, 0]), rng.random(n) < 0.5, rng.integers(0, 30, size=n))
    texts = []
    for many in (10**9, 0):
        monkeypatch.setattr("ldmaps.cli.writers.MANY_ROWS", many)
        path = tmp_path / f"{many}.{suffix}"
        with open_writer(str(path), 3, [file]) as writer:
            writer.write(chunk, coordinates, coverage)
            writer.write(chunk, coordinates, coverage)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert texts[0].count(b"\n") == 2 * n + 1
    assert (b"nan" in texts[0]) == (kind == "not finite")
