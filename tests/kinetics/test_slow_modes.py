"""Slow modes: against tICA on the same functions, against processes whose time scales are known, and as a map."""

import numpy as np
import pytest
import scipy.linalg
from known_diffusions import double_well, ornstein_uhlenbeck

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.kinetics import FunctionMap
from ldmaps.kinetics.blocks import Blocks, total
from ldmaps.kinetics.lagged_sums import LaggedPairs
from ldmaps.kinetics.slow_modes import Choice, choose, slowest
from ldmaps.kinetics.walk_modes import evaluate, walk_modes

#: In rows. Eigenvalues of the process decay with 1/(n₁/30 + n₂/8): 30, 15, 10, 8, 7.5.
TIMES = [30.0, 8.0]


@pytest.fixture(scope="module")
def process():
    return ornstein_uhlenbeck(50_000, TIMES)


@pytest.fixture(scope="module")
def model(process):
    return LandmarkDiffusionMap(n_components=3, epsilon=0.2, n_landmarks=150).fit(process)


@pytest.fixture(scope="module")
def slow(model, process):
    return model.slow_modes(process, lag=4)


def pairs_of(functions, lag):
    pairs = LaggedPairs([lag, 2 * lag, 3 * lag, 5 * lag])
    pairs.add(functions, None, begins_run=True)
    return pairs


# -- the eigenproblem ------------------------------------------------------------------


def test_combinations_are_those_of_plain_tica(model, process):
    functions = evaluate(walk_modes(model), process[:5000], None)[:, :13]
    found = slowest(total(list(pairs_of(functions, 4).blocks)), Choice(12, 0.0, 0.0), most=12)
    now, later = functions[:-4, 1:], functions[4:, 1:]
    mean = 0.5 * (now.mean(axis=0) + later.mean(axis=0))
    now, later = now - mean, later - mean
    values, vectors = scipy.linalg.eigh(now.T @ later + later.T @ now, now.T @ now + later.T @ later)
    np.testing.assert_allclose(found.autocorrelations, values[::-1], atol=1e-10)
    for mine, other in zip(found.vectors.T[:5], vectors.T[::-1], strict=False):
        assert abs(mine @ other) / np.linalg.norm(mine) / np.linalg.norm(other) == pytest.approx(1, abs=1e-8)


def test_combinations_are_those_of_deeptime(model, process):
    decomposition = pytest.importorskip("deeptime.decomposition")
    functions = evaluate(walk_modes(model), process[:5000], None)[:, :13]
    found = slowest(total(list(pairs_of(functions, 4).blocks)), Choice(12, 0.0, 0.0), most=12)
    other = decomposition.TICA(lagtime=4, epsilon=1e-14, scaling=None).fit_fetch(functions[:, 1:])
    np.testing.assert_allclose(found.autocorrelations, other.singular_values[:12], atol=1e-10)


def test_combinations_are_those_of_vamp_in_both_directions_of_time(model, process):
    decomposition, covariance = (
        pytest.importorskip(f"deeptime.{name}") for name in ("decomposition", "covariance")
    )
    functions = evaluate(walk_modes(model), process[:5000], None)[:, :13]
    sums = total(list(pairs_of(functions, 4).blocks))
    found = slowest(sums, Choice(12, 0.0, 0.0), most=12)
    # VAMP does not assume that time can be reversed, so it is given every pair both ways.
    now, later = functions[:-4, 1:], functions[4:, 1:]
    there = np.concatenate([now, later]), np.concatenate([later, now])
    both = covariance.Covariance(lagtime=4, compute_c0t=True, compute_ctt=True, remove_data_mean=True)
    vamp = decomposition.VAMP(epsilon=1e-14, scaling=None).fit(both.partial_fit(there).model)
    singular = vamp.fetch_model().singular_values
    np.testing.assert_allclose(np.sort(np.abs(found.autocorrelations))[::-1], singular[:12], atol=1e-10)


def test_modes_have_unit_variance_and_a_ridge_keeps_autocorrelations_those_of_the_data(model, process):
    functions = evaluate(walk_modes(model), process[:5000], None)[:, :13]
    sums = total(list(pairs_of(functions, 4).blocks))
    instant, lagged = sums.covariances()
    for ridge in (0.0, 1e-2):
        found = slowest(sums, Choice(12, ridge, 0.0))
        for vector, value in zip(found.vectors.T[:4], found.autocorrelations, strict=False):
            assert vector @ instant @ vector == pytest.approx(1)
            assert vector @ lagged @ vector == pytest.approx(value)


def test_a_ridge_decides_which_combinations_are_looked_at():
    # A slow function of little variance comes last where a ridge is added to that.
    functions = ornstein_uhlenbeck(5000, [3.0, 10.0, 30.0]) * [1.0, 1.0, 0.01]
    sums = total(list(pairs_of(np.column_stack([np.ones(5000), functions]), 4).blocks))
    instant, lagged = sums.covariances()
    for ridge, slowest_of_all in ((0.0, 2), (1e-2, 1)):
        found = slowest(sums, Choice(3, ridge, 0.0), most=1)
        damped = instant + ridge * np.trace(instant) / 3 * np.eye(3)
        vector = scipy.linalg.eigh(lagged, damped)[1][:, -1]
        assert np.argmax(np.abs(vector) * np.sqrt(np.diag(instant))) == slowest_of_all
        value = (vector @ lagged @ vector) / (vector @ instant @ vector)
        np.testing.assert_allclose(found.autocorrelations, [value], atol=1e-10)


def test_more_functions_of_noise_are_not_chosen():
    rng = np.random.default_rng(0)
    slow = ornstein_uhlenbeck(3000, [20.0], seed=1)
    functions = np.column_stack([np.ones(3000), slow, rng.normal(size=(3000, 60))])
    choice, tried = choose(list(pairs_of(functions, 2).blocks), 1)
    assert choice.n_combined <= 5
    assert max(one.n_combined for one in tried) == 50


def test_a_function_that_matters_is_chosen():
    slow = ornstein_uhlenbeck(20_000, [3.0, 5.0, 40.0], seed=1)
    functions = np.column_stack([np.ones(20_000), slow])
    assert choose(list(pairs_of(functions, 2).blocks), 1)[0].n_combined == 3


# -- known time scales -----------------------------------------------------------------


def test_time_scales_of_a_gaussian_process(slow):
    truth = [30.0, 15.0, 10.0, 8.0]
    np.testing.assert_allclose(slow.timescales_[:4], truth, rtol=0.06)
    low, high = slow.timescale_intervals_[:4].T
    assert ((low < truth) & (truth < high)).all()
    assert (slow.timescale_errors_ > 0).all()
    assert any("Chapman-Kolmogorov check passed" in line for line in slow.record_.lines)


def test_implied_time_scales_are_those_at_each_lag(slow):
    facts = slow.record_.facts
    assert list(facts["lags"]) == [4, 8, 12, 20]
    np.testing.assert_allclose(np.array(facts["implied"])[:, :2], [[30.0, 15.0]] * 4, rtol=0.15)


@pytest.mark.filterwarnings("ignore:too few transitions")
def test_blocks_that_are_drawn_again_are_several_time_scales_long(model, process, monkeypatch):
    lengths, at_least = [], Blocks.at_least

    def noted(self, rows):
        drawn = at_least(self, rows)
        lengths.extend(block.n_rows for block in drawn[:-1])
        return drawn

    monkeypatch.setattr(Blocks, "at_least", noted)
    found = model.slow_modes(process[:1280], lag=4, n_modes=1)  # whose sums are kept in blocks of 32
    assert min(lengths) >= 3 * found.timescales_[0]
    assert min(lengths) < 12 * found.timescales_[0]


def test_the_chapman_kolmogorov_check_is_drawn(slow):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    facts = slow.record_.facts
    ax = slow.plot.chapman_kolmogorov()
    np.testing.assert_allclose(
        ax.containers[0].lines[0].get_ydata(), np.array(facts["autocorrelations"])[:, 0]
    )
    for bar, error in zip(
        ax.containers[0].lines[2][0].get_segments(), facts["prediction_errors"], strict=True
    ):
        assert np.ptp(bar[:, 1]) == pytest.approx(4 * error[0], abs=1e-9)
    curve = next(line for line in ax.lines if len(line.get_xdata()) > 10)
    at_lags = np.exp(np.interp(facts["lags"], curve.get_xdata(), np.log(curve.get_ydata())))
    np.testing.assert_allclose(at_lags, np.array(facts["predicted"])[:, 0], rtol=1e-6)
    pyplot.close(ax.figure)


def test_the_slowest_mode_is_the_slow_coordinate(slow, process):
    modes = slow.transform(process)
    assert abs(np.corrcoef(modes[:, 0], process[:, 0])[0, 1]) > 0.99
    assert abs(np.corrcoef(modes[:, 3], process[:, 1])[0, 1]) > 0.95
    np.testing.assert_allclose(modes.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(modes.std(axis=0), 1, rtol=1e-3)


def test_eigenvalues_are_autocorrelations_at_the_lag(slow, process):
    first = slow.transform(process)[:, 0]
    assert np.corrcoef(first[:-4], first[4:])[0, 1] == pytest.approx(slow.eigenvalues_[0], abs=1e-3)
    assert slow.timescales_[0] == pytest.approx(-4 / np.log(slow.eigenvalues_[0]))


def test_a_double_well_with_unequal_diffusion():
    well = double_well((1.0, 0.1))
    runs = well.simulate(100, 200, 0.1, 0.005)
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.08, n_landmarks=200).fit(runs.points)
    found = model.slow_modes(runs.points, lag=5, runs=runs.runs)
    truth, functions = well.timescales(2)
    low, high = 0.1 * found.timescale_intervals_[0]
    assert low < truth[0] < high
    assert 0.1 * found.timescales_[0] == pytest.approx(truth[0], rel=0.2)
    here = model.coverage(well.grid).inside
    modes = found.transform(well.grid[here])[:, 0]
    weights = well.density[here]
    covariance = np.cov(modes, functions[here, 0], aweights=weights)
    assert abs(covariance[0, 1]) / np.sqrt(covariance[0, 0] * covariance[1, 1]) > 0.98


@pytest.mark.slow
def test_intervals_cover_the_truth():
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.3, n_landmarks=60)
    model.fit(ornstein_uhlenbeck(5000, [20.0, 4.0], seed=999))
    covered = []
    for seed in range(100):
        found = model.slow_modes(ornstein_uhlenbeck(5000, [20.0, 4.0], seed=seed), lag=4, n_modes=1)
        low, high = found.timescale_intervals_[0]
        covered.append(low < 20.0 < high)
    assert 0.9 <= np.mean(covered) <= 0.99


# -- what is said of them ----------------------------------------------------------------


def test_a_coordinate_that_is_slow_already_is_named(model, process):
    found = model.slow_modes(process, lag=4, n_modes=1)
    assert found.record_.facts["psi2_timescale"] == pytest.approx(found.timescales_[0], rel=0.03)


def test_a_little_slower_than_the_slow_coordinate_is_not_measurably_slower(model, process):
    found = model.slow_modes(process, lag=4, n_modes=3)  # of at least three functions, which overfit a little
    facts = found.record_.facts
    assert found.timescales_[0] > facts["psi2_timescale"]
    assert not facts["slower_than_psi2"]


def test_data_that_are_too_short_for_the_time_scale_are_warned_about(model):
    with pytest.warns(AccuracyWarning, match="too few transitions"):
        model.slow_modes(ornstein_uhlenbeck(500, TIMES, seed=3), lag=4, n_modes=1)


def test_a_process_with_memory_fails_the_check(model):
    # Rows that are measured with noise have a first step that does not decay as the others.
    rng = np.random.default_rng(0)
    hidden = ornstein_uhlenbeck(50_000, TIMES, seed=5)
    found = model.slow_modes(hidden + 0.5 * rng.normal(size=hidden.shape), lag=1, n_modes=1)
    assert any("use a longer one" in line for line in found.record_.lines)


# -- faults ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lag": 0}, "lag must be a positive number, got 0"),
        ({"lag": float("nan")}, "lag must be a positive number"),
        ({"lag": 2.5}, "lag=2.5 rows is not a whole number of rows; use 2 or 3"),
        ({"lag": 2, "n_modes": 0}, "n_modes"),
        ({"lag": 2, "n_modes": 400}, "is more than the"),
        ({"lag": 20_000}, "no run is long enough for lag=20000"),
        ({"lag": 2, "sample_weight": np.zeros(3000)}, "all weights are 0"),
        ({"lag": 2, "runs": [1, 2]}, "runs needs one number per row"),
        ({"lag": 2, "sample_weight": np.ones(7)}, "sample_weight needs one number per row"),
        ({"lag": 2, "sample_weight": -np.ones(3000)}, "0 or more"),
    ],
)
def test_what_cannot_be_done_is_said(model, process, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        model.slow_modes(process[:3000], **settings)


def test_too_few_rows_are_refused_with_the_number_that_is_needed(model, process):
    with pytest.raises(InvalidInputError, match="100 rows are too few: 192 are the least"):
        model.slow_modes(process[:100], lag=2)


def test_rows_without_order_have_no_slow_mode(model, process):
    with pytest.raises(InvalidInputError, match="order of time"):
        model.slow_modes(np.random.default_rng(0).permutation(process[:3000]), lag=3)


def test_no_pair_is_taken_across_runs(model, process):
    pieces = process[:20_000].reshape(-1, 100, 2)
    order = np.random.default_rng(0).permutation(len(pieces))
    runs = np.repeat(np.arange(len(pieces)), 100)
    straight = model.slow_modes(pieces.reshape(-1, 2), lag=4, n_modes=1, runs=runs)
    shuffled = model.slow_modes(pieces[order].reshape(-1, 2), lag=4, n_modes=1, runs=runs)
    np.testing.assert_allclose(straight.timescales_, shuffled.timescales_, rtol=0.02)


def test_weights_count_as_copies(model, process):
    runs = np.repeat([0, 1], 5_000)
    twice = np.concatenate([process[:10_000], process[5_000:10_000]])
    weighed = model.slow_modes(process[:10_000], lag=4, n_modes=1, runs=runs, sample_weight=1.0 + runs)
    copied = model.slow_modes(twice, lag=4, n_modes=1, runs=np.repeat([0, 1, 2], 5_000))
    if weighed.record_.facts["n_combined"] == copied.record_.facts["n_combined"]:
        np.testing.assert_allclose(weighed.timescales_, copied.timescales_, rtol=1e-3)


# -- as a map ----------------------------------------------------------------------------


def test_it_is_saved_and_loaded(slow, process, tmp_path):
    slow.save(tmp_path / "slow.ldm")
    loaded = ldmaps.load(tmp_path / "slow.ldm")
    assert isinstance(loaded, FunctionMap)
    assert loaded.record_ == slow.record_
    assert loaded.coordinate_names_ == [f"slow{number}" for number in range(1, slow.n_components_ + 1)]
    assert list(loaded.get_feature_names_out()) == loaded.coordinate_names_
    np.testing.assert_array_equal(loaded.transform(process[:100]), slow.transform(process[:100]))
    np.testing.assert_array_equal(loaded.timescales_, slow.timescales_)
    np.testing.assert_array_equal(loaded.eigenvalues_, slow.eigenvalues_)


def test_it_covers_what_the_map_covers(slow, model, process):
    points = np.concatenate([process[:50], [[30.0, 0.0]]])
    for mine, other in zip(slow.coverage(points), model.coverage(points), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_it_has_a_gradient(slow, process):
    points, step = process[:20], 1e-5
    for axis in range(2):
        shift = step * np.eye(2)[axis]
        differences = (slow.transform(points + shift) - slow.transform(points - shift)) / (2 * step)
        np.testing.assert_allclose(slow.gradient(points)[:, :, axis], differences, atol=1e-6)


def test_it_says_what_it_is(slow):
    assert "slow modes (slow1, slow2" in repr(slow)
    assert "time scale" in repr(slow)


def test_it_is_not_fitted(slow, process):
    with pytest.raises(InvalidInputError, match="slow_modes, committor"):
        slow.fit(process)
    with pytest.raises(AttributeError, match="embedding_"):
        slow.embedding_  # noqa: B018


def test_a_float32_map_gives_the_same(model, process, slow):
    single = LandmarkDiffusionMap(n_components=3, epsilon=0.2, n_landmarks=150).fit(
        process.astype(np.float32)
    )
    found = single.slow_modes(process.astype(np.float32), lag=4)
    np.testing.assert_allclose(found.timescales_[:2], slow.timescales_[:2], rtol=0.02)
