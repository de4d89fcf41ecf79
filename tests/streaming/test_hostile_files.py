"""Checkpoints, outside files and npy headers that are whole, and not what they should be."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.archive import read_archive, write_archive
from ldmaps.datasets import swiss_roll
from ldmaps.errors import CheckpointError, InvalidInputError, SourceError
from ldmaps.streaming import OutputFile, StreamEmbedder
from ldmaps.streaming.checkpoint import Checkpoint
from ldmaps.streaming.reservoir import OutsideFile, read_outside
from ldmaps.streaming.sources.tables import open_decoder

POINTS = swiss_roll(300, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS)


# -- checkpoints -----------------------------------------------------------------------


def run(model, place, **settings):
    StreamEmbedder(model, max_batch=20).run(
        place / "input.csv", [OutputFile(place / "psi.csv")], checkpoint=place / "c", **settings
    )


@pytest.mark.parametrize(
    "change",
    [
        {"sinks": 7},
        {"sinks": [{"name": 2.5, "mark": None}]},
        {"sinks": lambda sinks: [{"name": sinks[0]["name"]}]},
        {"sinks": lambda sinks: [{**sinks[0], "mark": {}}]},
        {"sinks": lambda sinks: [{**sinks[0], "mark": {"bytes": -5, "checksums": [0, 0]}}]},
        {"counts": {"events": 3}},
        {"counts": None},
        {"position": {"start": {}, "offset": 1}},
        {"position": {}},
        {"position": lambda position: {**position, "offset": -100}},
        {"position": lambda position: {**position, "start": -100}},
        {"position": lambda position: {**position, "n_columns": {}}},
        {"position": lambda position: {**position, "n_columns": 1 << 40}},
        {"position": lambda position: {**position, "number": 1 << 63}},
        {"counts": lambda counts: {**counts, "records": 1 << 63}},
        {"position": lambda position: {key: value for key, value in position.items() if key != "mark"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_signed_checkpoints_of_another_make_are_called_damaged(model, tmp_path, change):
    np.savetxt(tmp_path / "input.csv", POINTS, delimiter=",")
    run(model, tmp_path, max_records=100)
    written = (tmp_path / "psi.csv").read_bytes()
    with Checkpoint(tmp_path / "c") as checkpoint:
        content = checkpoint.read()
        for name in ("format", "version", "library_version"):
            content.pop(name)
        for name, value in change.items():
            content[name] = value(content[name]) if callable(value) else value
        checkpoint.write(**content)
    with pytest.raises((CheckpointError, SourceError), match=r"damaged|belongs to|says that|is not the file"):
        run(model, tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == written


def test_a_checkpoint_of_endless_depth_is_damaged(tmp_path):
    (tmp_path / "c").write_text("[" * 200_000)
    with Checkpoint(tmp_path / "c") as checkpoint, pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.read()


# -- outside files ----------------------------------------------------------------------


@pytest.fixture
def outside(model, tmp_path):
    path = tmp_path / "outside.npz"
    reservoir = OutsideFile(path, model, capacity=20)
    reservoir.offer(POINTS[:30] + 50.0)
    reservoir.count([0, 3, 3])
    reservoir.flush()
    reservoir.close()
    return path, reservoir


def test_what_was_left_outside_comes_back(model, outside):
    path, reservoir = outside
    read = read_outside(path, model)
    np.testing.assert_array_equal(read["points"], reservoir.points)
    np.testing.assert_array_equal(read["weights"], reservoir.weights)
    np.testing.assert_array_equal(read["counts"], [1, 0, 0, 2])
    with np.load(path) as arrays:  # people may look into it
        np.testing.assert_array_equal(arrays["points"], reservoir.points)


def test_an_empty_reservoir_comes_back_empty(model, tmp_path):
    reservoir = OutsideFile(tmp_path / "none.npz", model)
    reservoir.flush()
    reservoir.close()
    assert len(read_outside(tmp_path / "none.npz", model)["points"]) == 0


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"format": "ldmaps model"}, {}, "its header does not say so"),
        ({"version": 2}, {}, "has version 2"),
        ({"version": [1]}, {}, "has version"),
        ({"model": "0" * 32}, {}, "another map"),
        ({"model": None}, {}, "another map"),
        ({}, {"points": np.full((20, 3), np.nan)}, "not finite"),
        ({}, {"points": np.ones((19, 3))}, "have shapes"),
        ({}, {"points": np.ones(20)}, "have shapes"),
        ({}, {"points": np.ones((20, 3), dtype=np.int64)}, "points holds int64"),
        ({}, {"weights": np.zeros(20)}, "negative"),
        ({}, {"weights": np.ones((20, 1))}, "have shapes"),
        ({}, {"counts": np.array([-1])}, "negative"),
        ({}, {"counts": np.ones(41, dtype=np.int64)}, "has 40 landmarks"),
        ({}, {"counts": np.ones(3)}, "counts holds float64"),
        ({}, {"counts": None}, "expected points, numbers, weights, counts"),
        ({}, {"more": np.ones(1)}, "expected points, numbers, weights, counts"),
    ],
)
def test_outside_files_of_another_make_are_refused(model, outside, header, arrays, message):
    path, _ = outside
    entries, members = read_archive(path)
    members |= arrays
    write_archive(
        path, {**entries, **header}, {name: one for name, one in members.items() if one is not None}
    )
    with pytest.raises(InvalidInputError, match=message):
        read_outside(path, model)


def test_damaged_and_foreign_outside_files_are_refused(model, outside):
    path, _ = outside
    whole = path.read_bytes()
    np.savez_compressed(path, points=POINTS)
    foreign = path.read_bytes()
    for data in (b"", whole[:-1], whole[: len(whole) // 2], foreign, b"PK\x03\x04 rubbish"):
        path.write_bytes(data)
        with pytest.raises(InvalidInputError, match="is not a file that ldmaps stream --outside wrote"):
            read_outside(path, model)


# -- npy -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"{'descr': '<f8', 'shape': (",
        b"(" * 500,
        b"{" * 3000,
        b"{'descr': '<f8', 'fortran_order': 0, 'shape': 1}",
    ],
)
def test_npy_headers_that_are_no_python_are_refused(text):
    header = text + b" " * 8 + b"\n"
    decoder = open_decoder("npy", {"n_features": 3})
    with pytest.raises(InvalidInputError, match="cannot be read"):
        decoder.feed(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header, 0.0)
