"""A source that is taken up again: in another way than it was begun, or after it was changed."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import write_all

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.errors import CheckpointError, InvalidInputError, SourceError
from ldmaps.streaming import OutputFile, Reservoir, StreamEmbedder
from ldmaps.streaming.checkpoint import Checkpoint
from ldmaps.streaming.reservoir import OutsideFile
from ldmaps.streaming.sources import open_source

POINTS = swiss_roll(400, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS[:300])


def run(model, source, place, *sinks, **settings):
    engine = StreamEmbedder(model, max_batch=20, n_threads=1)
    return engine.run(source, [OutputFile(place / "psi.csv"), *sinks], checkpoint=place / "c", **settings)


def whole(model, source, place):
    StreamEmbedder(model, n_threads=1).run(source, [OutputFile(place / "whole.csv", overwrite=True)])
    return (place / "whole.csv").read_bytes()


# -- followed while it grew, then read as complete, and the other way round --------------


@pytest.mark.parametrize("first_follows", [True, False])
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_table_can_be_followed_and_then_read_or_the_other_way_round(model, tmp_path, form, first_follows):
    path = tmp_path / f"input.{form}"
    rows = POINTS[:200].tolist()
    path.write_text("".join(f"{str(row)[1:-1] if form == 'csv' else row}\n" for row in rows))
    for follow, most in ((first_follows, 90), (not first_follows, None)):
        source = open_source(path, follow=follow, idle_end=0.0 if follow else None)
        run(model, source, tmp_path, max_records=most)
    assert (tmp_path / "psi.csv").read_bytes() == whole(model, path, tmp_path)


@pytest.mark.parametrize("first_follows", [True, False])
def test_a_trajectory_goes_on_as_it_was_begun(tmp_path, first_follows):
    pytest.importorskip("mdtraj", reason="mdtraj reads topologies")
    files = write_all(tmp_path, stride=1000)
    import ldmaps.inputs

    frames = ldmaps.inputs.open_files(files["xtc"], files["top"])
    mapped = LandmarkDiffusionMap(1, metric="rmsd", n_landmarks=5, extension="nystrom").fit(frames)

    def source(follow):
        return open_source(files["xtc"], top=files["top"], follow=follow, idle_end=0.0 if follow else None)

    run(mapped, source(first_follows), tmp_path, max_records=4)
    before = (tmp_path / "psi.csv").read_bytes()
    with pytest.raises(SourceError, match="resume in the same way"):
        run(mapped, source(not first_follows), tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == before
    run(mapped, source(first_follows), tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == whole(mapped, source(False), tmp_path)


# -- changed meanwhile -------------------------------------------------------------------


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda points: np.concatenate([points[:40] + 1e-6, points[40:]]),
        lambda points: points[1:],
        lambda points: points[:50],
    ],
    ids=["values", "one left out", "too few"],
)
def test_data_in_memory_that_changed_are_noticed(model, tmp_path, as_list, change):
    def given(points):
        return [row.tolist() for row in points] if as_list else points

    run(model, given(POINTS), tmp_path, max_records=90)
    before = (tmp_path / "psi.csv").read_bytes()
    with pytest.raises(SourceError, match="is not what was read before: it differs before item 90"):
        run(model, given(change(POINTS)), tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == before
    run(model, given(POINTS), tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == whole(model, POINTS, tmp_path)


def test_items_of_every_kind_are_counted_whatever_the_batches(model, tmp_path):
    """Points, arrays of points and what is neither: the cut into polls differs between the two runs."""
    items = [POINTS[0].tolist(), POINTS[1:4], "no point", [1, 2, 3], np.ones(3) * 1j, *POINTS[4:60]]
    run(model, items, tmp_path, max_records=5)
    run(model, items, tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == whole(model, items, tmp_path)
    assert len((tmp_path / "psi.csv").read_text().splitlines()) == 1 + 61


@pytest.mark.parametrize("item", [np.ones(3) + 1j, np.ones(3).astype("M8[s]"), np.ones(3).astype("m8[s]")])
@pytest.mark.parametrize("make", [list, iter, np.array])
def test_what_would_become_numbers_in_silence_is_rejected(model, item, make):
    engine = StreamEmbedder(model, n_threads=1)
    items = [item] * 12
    if make is np.array:
        with pytest.raises(ValueError, match="must be real numbers"):
            list(engine.stream(np.array(items)))
        return
    (*_, last) = engine.stream(make([*items, POINTS[0]]))
    assert len(last) == 1
    assert engine.run(make([*items, POINTS[0]])).rejected == 12


# -- a checkpoint whose reservoir is damaged ---------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": 7},
        {"points": "!"},
        {"shape": [3, 3]},
        {"dtype": "O"},
        {"keys": [0.5]},
        {"keys": None},
        {"numbers": [[1]]},
        {"threshold": "x"},
        {"threshold": -1.0},
        {"drawn": -5},
        {"seen": -1.0},
        {"counts": [-3]},
        {"counts": [[1]]},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("kind", ["reservoir", "outside"])
def test_a_damaged_reservoir_is_found_before_any_output_is_cut(model, tmp_path, change, kind):
    def sink():
        return Reservoir(20) if kind == "reservoir" else OutsideFile(tmp_path / "outside.npz", model, 20)

    data = np.concatenate([POINTS[:60], POINTS[:60] + 100.0])
    run(model, data, tmp_path, sink(), max_records=90)
    with open(tmp_path / "psi.csv", "a") as output:
        output.write("what a crash would have left behind the mark\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "c"}
    with Checkpoint(tmp_path / "c") as checkpoint:
        content = {
            name: value
            for name, value in checkpoint.read().items()
            if name not in ("format", "version", "library_version")
        }
        content["sinks"][1]["mark"] |= change
        checkpoint.write(**content)
    with pytest.raises((CheckpointError, InvalidInputError), match="the checkpoint .* is damaged|capacity 7"):
        run(model, data, tmp_path, sink())
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "c"} == before


def test_a_run_that_failed_before_its_first_checkpoint_can_be_repeated(model, tmp_path, monkeypatch):
    """Whatever it left of its outputs holds no record, so that the same command is not refused."""
    data = np.concatenate([POINTS[:60], POINTS[:60] + 100.0])

    def full(self, **content):
        raise OSError(28, "No space left on device")

    def sink(name):
        return OutsideFile(tmp_path / name, model, 20)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", full)
        with pytest.raises(OSError, match="No space left"):
            run(model, data, tmp_path, sink("outside.npz"))
    run(model, data, tmp_path, sink("outside.npz"))
    StreamEmbedder(model, n_threads=1).run(data, [sink("straight.npz")])
    assert (tmp_path / "outside.npz").read_bytes() == (tmp_path / "straight.npz").read_bytes()
    assert (tmp_path / "psi.csv").read_bytes() == whole(model, data, tmp_path)


def test_outside_files_that_hold_anything_are_not_replaced(model, tmp_path):
    other = LandmarkDiffusionMap(2, 9.0, n_landmarks=30).fit(POINTS[:300])
    for name, made_for, rows, counted in (
        ("records.npz", model, POINTS[:2] + 100.0, []),
        ("counts.npz", model, POINTS[:0], [3]),
        ("another.npz", other, POINTS[:0], []),
    ):
        kept = OutsideFile(tmp_path / name, made_for)
        kept.flush()
        kept.offer(rows)
        kept.count(counted)
        kept.close()
        with pytest.raises(InvalidInputError, match="exists already"):
            OutsideFile(tmp_path / name, model).check()
        OutsideFile(tmp_path / name, model, overwrite=True).check()


def test_the_map_of_a_killed_stream_may_be_read_from_its_file(model, tmp_path):
    model.save(tmp_path / "map.ldm")
    run(model, POINTS, tmp_path, max_records=50)
    run(load(tmp_path / "map.ldm"), POINTS, tmp_path)
    assert (tmp_path / "psi.csv").read_bytes() == whole(model, POINTS, tmp_path)
