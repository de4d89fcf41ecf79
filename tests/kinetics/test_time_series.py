"""Frames in the order of time: lags in the unit of times, and what is refused."""

import mdtraj
import numpy as np
import pytest
from known_diffusions import ornstein_uhlenbeck

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import open_files
from ldmaps.kinetics.time_series import TimeSeries


@pytest.fixture(scope="module")
def frames():
    """Return frames of four atoms, of which one swings slowly."""
    rng = np.random.default_rng(0)
    base = np.array([[0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0], [0.35, 0.15, 0.05]])
    angle = np.zeros(3000)
    for row in range(1, len(angle)):
        angle[row] = 0.95 * angle[row - 1] + 0.3 * rng.normal()
    moving = base + 0.005 * rng.normal(size=(3000, 4, 3))
    moving[:, 3, 2] += 0.1 * angle
    return moving.astype(np.float32)


@pytest.fixture
def written(frames, tmp_path):
    """Return a function that writes frames with times, and opens the files."""
    topology = mdtraj.Topology()
    chain = topology.add_chain()
    residue = topology.add_residue("ALA", chain)
    for number in range(4):
        topology.add_atom(f"C{number}", mdtraj.element.carbon, residue)
    mdtraj.Trajectory(frames[:1], topology).save_pdb(tmp_path / "top.pdb")

    def write(*pieces, **settings):
        names = []
        for number, (part, times) in enumerate(pieces):
            names.append(str(tmp_path / f"run{number}.xtc"))
            mdtraj.Trajectory(part, topology, time=times).save_xtc(names[-1])
        return open_files(names, top=str(tmp_path / "top.pdb"), **settings)

    return write


@pytest.fixture(scope="module")
def model(frames):
    return LandmarkDiffusionMap(n_components=2, epsilon=1e-3, metric="rmsd", n_landmarks=80).fit(frames)


def test_files_are_runs_and_lags_are_in_picoseconds(model, frames, written):
    source = written((frames[:1400], 2.0 * np.arange(1400)), (frames[1400:], 5.0 + 2.0 * np.arange(1600)))
    from_files = model.slow_modes(source, lag=6.0, n_modes=1)
    facts = from_files.record_.facts
    assert (facts["unit"], facts["lag"], facts["n_frames"]) == ("ps", 6.0, 3000)
    runs = np.repeat([0, 1], [1400, 1600])
    from_array = model.slow_modes(frames, lag=3, n_modes=1, runs=runs)
    np.testing.assert_allclose(from_files.timescales_, 2.0 * from_array.timescales_, rtol=0.02)
    np.testing.assert_allclose(facts["lags"], [6.0, 12.0, 18.0, 30.0])


@pytest.mark.parametrize("chunk", [7, 100, 3000])
def test_results_do_not_depend_on_chunks(model, frames, written, chunk):
    source = written((frames, np.arange(3000.0)), chunk=chunk)
    found = model.slow_modes(source, lag=3, n_modes=1)
    whole = model.slow_modes(written((frames, np.arange(3000.0))), lag=3, n_modes=1)
    np.testing.assert_allclose(found.timescales_, whole.timescales_, rtol=1e-5)
    np.testing.assert_allclose(found.timescale_intervals_, whole.timescale_intervals_, rtol=1e-4)


def test_rates_and_passage_times_are_in_the_unit_of_times(model, frames, written):
    source = written((frames, 4.0 * np.arange(3000)))
    height = frames[:, 3, 2]
    sets = {"source": height < 0.0, "target": height > 0.12}
    timed, rows = (model.passage_time(points, lag=lag, **sets) for points, lag in ((source, 4), (frames, 1)))
    assert timed.mean_time_ == pytest.approx(4 * rows.mean_time_, rel=0.02)
    timed, rows = (model.committor(points, lag=lag, **sets) for points, lag in ((source, 4), (frames, 1)))
    for name in ("rate_", "flux_"):
        assert getattr(timed, name) == pytest.approx(getattr(rows, name) / 4, rel=0.02)


def test_files_for_workers_are_read_here(model, frames, written, tmp_path):
    pytest.importorskip("dask", reason="files for workers need dask")
    from ldmaps.cluster import open_blocks

    whole = model.slow_modes(
        written((frames[:1400], np.arange(1400.0)), (frames[1400:], np.arange(1600.0))), lag=3, n_modes=1
    )
    pieces = open_blocks(
        [str(tmp_path / f"run{number}.xtc") for number in range(2)], str(tmp_path / "top.pdb"), piece=100 * 96
    )
    found = model.slow_modes(pieces, lag=3, n_modes=1)
    assert found.record_.facts["unit"] == "ps"
    np.testing.assert_array_equal(found.timescales_, whole.timescales_)
    sets = {"source": frames[:, 3, 2] < -0.05, "target": frames[:, 3, 2] > 0.15}
    assert 0.05 < np.ptp(model.committor(pieces, lag=1, **sets).landmark_embedding_) <= 1.0


def test_a_lag_between_frames_is_refused_with_the_nearest_ones(model, frames, written):
    series = TimeSeries(model, written((frames[:50], 10.0 * np.arange(50))))
    assert series.in_rows(30) == 3
    assert series.in_units(3) == pytest.approx(30)
    with pytest.raises(InvalidInputError, match=r"lag=25 ps is not a multiple of the 10 ps .*; use 20 or 30"):
        series.in_rows(25.0)
    with pytest.raises(InvalidInputError, match="use 10$"):
        series.in_rows(4.0)


@pytest.mark.parametrize("chunk", [50, 11])
def test_frames_at_unequal_spacing_are_refused(model, frames, written, chunk):
    times = np.arange(50.0)
    times[22:] += 7.0
    series = TimeSeries(model, written((frames[:50], times), chunk=chunk))
    with pytest.raises(
        InvalidInputError, match=r"run0.xtc: time goes from 21 to 29, where all others are 1 apart"
    ):
        list(series)


def test_times_of_another_file_may_begin_anywhere(model, frames, written):
    source = written((frames[:50], np.arange(50.0)), (frames[:50], 1e5 + np.arange(50.0)))
    stretches = list(TimeSeries(model, source))
    assert [stretch.begins_run for stretch in stretches] == [True, True]
    assert [stretch.rows for stretch in stretches] == [slice(0, 50), slice(50, 100)]


def test_files_with_other_spacing_are_refused(model, frames, written):
    source = written((frames[:50], np.arange(50.0)), (frames[:50], 2 * np.arange(50.0)))
    with pytest.raises(InvalidInputError, match="run1.xtc: time goes from 0 to 2"):
        list(TimeSeries(model, source))


def test_files_have_their_own_runs(model, frames, written):
    with pytest.raises(InvalidInputError, match="leave runs out"):
        model.slow_modes(written((frames[:50], np.arange(50.0))), lag=1, runs=np.zeros(50))


def test_slow_modes_of_frames_are_a_map_of_frames(model, frames, tmp_path):
    slow = model.slow_modes(frames, lag=3, n_modes=1)
    slow.save(tmp_path / "slow.ldm")
    loaded = ldmaps.load(tmp_path / "slow.ldm")
    moved = frames[:100] + np.float32(3.0)
    np.testing.assert_allclose(loaded.transform(moved), slow.transform(frames[:100]), atol=1e-3)
    assert loaded.gradient(frames[:2]).shape == (2, 1, 4, 3)


@pytest.mark.parametrize("with_runs", [False, True])
@pytest.mark.parametrize("chunks", [(700, 2), (333, 1), (2000, 2)])
def test_blocks_of_a_dask_array_are_rows_in_order(with_runs, chunks):
    array = pytest.importorskip("dask.array")
    points = ornstein_uhlenbeck(2000, [30.0, 8.0])
    runs = np.repeat([0, 1, 2], [700, 600, 700]) if with_runs else None
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.3, n_landmarks=50).fit(points)
    found = model.slow_modes(array.from_array(points, chunks=chunks), lag=3, n_modes=1, runs=runs)
    truth = model.slow_modes(points, lag=3, n_modes=1, runs=runs)
    np.testing.assert_allclose(
        found.transform(points[:50]), truth.transform(points[:50]), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(found.timescale_errors_, truth.timescale_errors_, rtol=1e-6)
