"""Committors and passage times: against linear algebra of a Markov chain, against potentials whose truth is known."""

import numpy as np
import pytest
from known_diffusions import double_well, mueller_brown

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.kinetics.blocks import total
from ldmaps.kinetics.stopped_sums import StoppedPairs
from ldmaps.kinetics.walk_committor import chain_committor, walk_matrix
from ldmaps.regions import Box

# -- a Markov chain ------------------------------------------------------------------


@pytest.fixture(scope="module")
def chain():
    """Return states of a chain with eight states, in three runs, and which run each is of."""
    rng = np.random.default_rng(0)
    matrix = rng.uniform(size=(8, 8)) ** 4 + 0.05
    matrix /= matrix.sum(axis=1, keepdims=True)
    states = [0]
    for _ in range(5999):
        states.append(rng.choice(8, p=matrix[states[-1]]))
    return np.array(states), np.repeat([0, 1, 2], [2500, 3000, 500])


def sums_of(states, runs, lag, stops, arrives, piece=6000, weights=None):
    pairs, functions = StoppedPairs(lag), np.eye(8)[states]
    for run in np.unique(runs):
        own = np.flatnonzero(runs == run)
        for start in range(0, len(own), piece):
            rows = own[start : start + piece]
            in_set, in_target = np.isin(states[rows], stops), np.isin(states[rows], arrives)
            own_weights = None if weights is None else weights[rows]
            pairs.add(functions[rows], in_set, in_target, own_weights, begins_run=start == 0)
    return total(list(pairs.blocks))


def transition_matrix(states, runs, stops):
    """Return the shares of steps between states that were seen, where stopped states stay."""
    counts = np.zeros((8, 8))
    pairs = np.flatnonzero(runs[1:] == runs[:-1])
    np.add.at(counts, (states[pairs], states[pairs + 1]), 1)
    matrix = counts / counts.sum(axis=1, keepdims=True)
    matrix[stops] = np.eye(8)[stops]
    return matrix


def test_the_committor_of_a_chain_is_that_of_linear_algebra(chain):
    states, runs = chain
    source, target, between = [0, 3], [5], [1, 2, 4, 6, 7]
    sums = sums_of(states, runs, 1, source + target, target)
    found = sums.solve(sums.arrivals, 0.0)
    matrix = transition_matrix(states, runs, source + target)
    truth = np.linalg.solve(
        np.eye(5) - matrix[np.ix_(between, between)], matrix[np.ix_(between, target)].sum(axis=1)
    )
    np.testing.assert_allclose(found[between], truth, atol=1e-10)


def test_the_passage_time_of_a_chain_is_that_of_linear_algebra(chain):
    states, runs = chain
    target, outside = [5, 6], [0, 1, 2, 3, 4, 7]
    sums = sums_of(states, runs, 1, target, target)
    found = sums.solve(sums.durations, 0.0)
    matrix = transition_matrix(states, runs, target)
    truth = np.linalg.solve(np.eye(6) - matrix[np.ix_(outside, outside)], np.ones(6))
    np.testing.assert_allclose(found[outside], truth, rtol=1e-10)


def test_the_flux_of_a_chain_is_that_of_linear_algebra(chain):
    states, runs = chain
    source, target = [0, 3], [5]
    # Steps both ways, so that the chain that was seen is reversible: every run, and backwards after it.
    states, runs = np.concatenate([states, states[::-1]]), np.concatenate([runs, 5 - runs[::-1]])
    sums = sums_of(states, runs, 1, source + target, target, piece=700)
    b = sums.solve(sums.arrivals, 0.0)
    counts = np.zeros((8, 8))
    pairs = np.flatnonzero(runs[1:] == runs[:-1])
    np.add.at(counts, (states[pairs], states[pairs + 1]), 1)
    chance = np.where(np.isin(np.arange(8), target), 1.0, np.where(np.isin(np.arange(8), source), 0.0, b))
    leaving = (counts[source] @ chance).sum() / counts.sum()
    assert sums.flux(b) == pytest.approx(leaving, rel=1e-10)
    arriving = (counts[target] @ (1 - chance)).sum() / counts.sum()
    assert leaving == pytest.approx(arriving, rel=1e-10)  # which is what makes it a chain to test with
    assert sums.mean_committor(b) == pytest.approx(chance[states].mean(), rel=1e-10)


def test_a_passage_time_has_no_flux(chain):
    states = chain[0]
    pairs = StoppedPairs(1, 1)
    pairs.add(np.eye(8)[states], states == 5, states == 5, None, begins_run=True)
    sums = total(list(pairs.blocks))
    assert np.isnan(sums.flux(np.zeros(8)))


def test_passages_from_a_source_are_counted_from_there():
    states = np.array([0, 1, 5, 1, 5, 1, 0, 1, 5, 5])  # from 0 to 5 twice; its border is crossed three times
    for piece in (1, 4, 10):
        pairs = StoppedPairs(1, 1)
        for start in range(0, 10, piece):
            rows = states[start : start + piece]
            pairs.add(np.eye(8)[rows], rows == 5, rows == 5, None, begins_run=start == 0, leaves=rows == 0)
        assert total(list(pairs.blocks)).n_arrivals == 2


def test_the_committor_of_the_walk_is_that_of_a_plain_loop():
    matrix = np.array([[0.5, 0.5, 0, 0], [0.2, 0.4, 0.4, 0], [0, 0.3, 0.3, 0.4], [0, 0, 0.5, 0.5]])
    ends = np.array([True, False, False, False]), np.array([False, False, False, True])
    found, q = chain_committor(matrix, *ends), ends[1].astype(float)
    for _ in range(500):
        q = np.where(ends[0] | ends[1], q, matrix @ q)
    np.testing.assert_allclose(found, q, atol=1e-12)


def test_the_walk_is_normalised_by_the_root_of_the_density():
    points = 2 * np.random.default_rng(0).beta(2, 2, size=(400, 1)) - 1
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.05, n_landmarks=30, extension="nystrom").fit(
        points
    )
    places, counts = points[model.landmark_indices_, 0], model.multiplicities_
    kernel = np.array([[np.exp(-((x - y) ** 2) / 0.1) for y in places] for x in places])
    density = np.array([sum(k * c for k, c in zip(row, counts, strict=True)) for row in kernel])
    truth = np.zeros_like(kernel)
    for row in range(30):
        for column in range(30):
            truth[row, column] = (
                kernel[row, column] / np.sqrt(density[row] * density[column]) * counts[column]
            )
        truth[row] /= truth[row].sum()
    np.testing.assert_allclose(walk_matrix(model), truth, rtol=1e-8)


def test_the_committor_of_even_points_rises_evenly():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(3000, 1))
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.01, n_landmarks=100).fit(points)
    q = model.committor(points, source=points[:, 0] < -0.8, target=points[:, 0] > 0.8)
    x = np.linspace(-0.7, 0.7, 15)
    np.testing.assert_allclose(q.transform(x[:, None])[:, 0], (x + 0.8) / 1.6, atol=0.05)
    assert "alpha = 1/2" in repr(q)
    assert not hasattr(q, "rate_")


@pytest.mark.parametrize("lag", [1, 3, 40])
@pytest.mark.parametrize("piece", [1, 17, 6000])
@pytest.mark.parametrize("weighted", [False, True])
def test_stopped_pairs_are_those_of_a_plain_loop(chain, lag, piece, weighted):
    states, runs = (part[2000:3200] for part in chain)
    stops, arrives = [0, 5], [5]
    weights = np.random.default_rng(1).uniform(0, 2, 1200) if weighted else np.ones(1200)
    change, arrivals, durations, gram = np.zeros((8, 8)), np.zeros(8), np.zeros(8), np.zeros((8, 8))
    for row in range(len(states) - lag):
        if runs[row] != runs[row + lag] or states[row] in stops:
            continue
        end = next((later for later in range(row + 1, row + lag) if states[later] in stops), row + lag)
        first, last = np.eye(8)[states[row]], np.eye(8)[states[end]] * (states[end] not in stops)
        change += weights[row] * np.outer(first, last - first)
        arrivals += weights[row] * first * (states[end] in arrives)
        durations += weights[row] * first * (end - row)
        gram += weights[row] * np.outer(first, first)
    found = sums_of(states, runs, lag, stops, arrives, piece, weights if weighted else None)
    np.testing.assert_allclose(found.change, change)
    np.testing.assert_allclose(found.arrivals, arrivals)
    np.testing.assert_allclose(found.durations, durations)
    np.testing.assert_allclose(found.gram, gram)


def test_weights_count_in_the_flux_as_copies_of_steps(chain):
    states, runs = (part[2000:3200] for part in chain)
    stops, arrives = [0, 5], [5]
    weights = np.random.default_rng(1).uniform(0, 2, 1200)
    b = np.random.default_rng(2).uniform(size=8)
    chance = np.where(states == 5, 1.0, np.where(states == 0, 0.0, b[states]))
    first = np.flatnonzero(runs[1:] == runs[:-1])
    squares = (chance[first + 1] - chance[first]) ** 2
    found = sums_of(states, runs, 1, stops, arrives, 17, weights)
    assert found.flux(b) == pytest.approx(0.5 * np.average(squares, weights=weights[first]))
    assert found.mean_committor(b) == pytest.approx(np.average(chance, weights=weights))


def test_transitions_are_counted_once_however_rows_come():
    states = np.array([0, 0, 1, 0, 1, 5, 5, 1, 5, 2, 0, 5, 1])  # 0 to 5, 5 to 0, 0 to 5
    for piece in (1, 4, 13):
        found = sums_of(states, np.zeros(13), 2, [0, 5], [5], piece)
        assert (found.n_arrivals, found.n_returns) == (2, 1)
        begins_between = sums_of(states[2:], np.zeros(11), 2, [0, 5], [5], piece)
        assert (begins_between.n_arrivals, begins_between.n_returns) == (2, 2)


# -- potentials ----------------------------------------------------------------------


def near(centre, radius):
    return lambda x: ((x - centre) ** 2).sum(axis=-1) < radius**2


def rms(found, truth, weights):
    return np.sqrt(np.average((found - truth) ** 2, weights=weights))


@pytest.fixture(scope="module")
def brown():
    return mueller_brown()


@pytest.fixture(scope="module")
def brown_runs(brown):
    return brown.simulate(200, 100, 1e-3, 1e-4)


@pytest.fixture(scope="module")
def brown_map(brown_runs):
    return LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=200).fit(brown_runs.points)


IN_A, IN_B = near([-0.558, 1.442], 0.2), near([0.623, 0.028], 0.2)


@pytest.fixture(scope="module")
def brown_committor(brown_map, brown_runs):
    points = brown_runs.points
    return brown_map.committor(points, source=IN_A(points), target=IN_B(points), lag=1, runs=brown_runs.runs)


def test_the_committor_of_mueller_brown(brown, brown_committor):
    truth = brown.committor(IN_A(brown.grid), IN_B(brown.grid))
    found = brown_committor.transform(brown.grid)[:, 0]
    assert rms(found, truth, brown.density) < 0.02


def test_the_committor_of_the_walk_alone(brown, brown_map, brown_runs):
    points = brown_runs.points
    truth = brown.committor(IN_A(brown.grid), IN_B(brown.grid))
    by_frames = brown_map.committor(points, source=IN_A(points), target=IN_B(points))
    assert rms(by_frames.transform(brown.grid)[:, 0], truth, brown.density) < 0.06


def test_rates_of_mueller_brown(brown):
    runs = brown.simulate(300, 200, 5e-4, 1e-4, seed=3)
    points = runs.points
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=200).fit(points)
    found = model.committor(points, source=IN_A(points), target=IN_B(points), lag=1, runs=runs.runs)
    q, density, generator = (
        brown.committor(IN_A(brown.grid), IN_B(brown.grid)),
        brown.density,
        brown.generator.tocoo(),
    )
    far = generator.row != generator.col
    one, other, rate = generator.row[far], generator.col[far], generator.data[far]
    flux = 0.5 * (density[one] * rate * (q[one] - q[other]) ** 2).sum()
    truths = {"flux": flux, "rate": flux / ((1 - q) @ density), "back_rate": flux / (q @ density)}
    facts = found.record_.facts
    for name, truth in truths.items():
        low, high = np.array(facts[f"{name}_interval"]) / 5e-4
        assert low < truth < high
        assert facts[name] / 5e-4 == pytest.approx(truth, rel=0.5)
        assert facts[name] / 5e-4 == pytest.approx(np.sqrt(low * high))
    assert found.rate_ == facts["rate"]
    assert found.flux_interval_.tolist() == facts["flux_interval"]
    assert any("rate from source to target" in line for line in found.record_.lines)


def test_a_committor_stays_between_0_and_1(brown, brown_committor):
    everywhere = np.random.default_rng(0).uniform(-5, 5, size=(2000, 2))
    for points in (brown.grid, everywhere):
        found = brown_committor.transform(points)
        assert found.min() >= 0
        assert found.max() <= 1


def test_functions_have_the_values_of_the_sets_inside_these(brown_map, brown_runs):
    points = brown_runs.points
    sets = {"source": points[:, 1] > 1.0, "target": points[:, 1] < 0.3}
    q = brown_map.committor(points, lag=1, runs=brown_runs.runs, **sets).transform(points)[:, 0]
    assert q[sets["source"]].mean() < 0.01
    assert q[sets["target"]].mean() > 0.99
    found = brown_map.passage_time(points, target=sets["target"], lag=1, runs=brown_runs.runs)
    times = found.transform(points)[:, 0]
    assert times[sets["target"]].mean() < 0.01 * times[~sets["target"]].mean()


def test_errors_of_a_committor_are_reported(brown_committor):
    facts = brown_committor.record_.facts
    assert 0 < facts["error"] < 0.1
    assert len(facts["landmark_errors"]) == 200
    assert "standard error" in repr(brown_committor)


def test_the_passage_time_of_mueller_brown(brown, brown_map):
    runs = brown.simulate(400, 100, 2e-3, 1e-4, seed=1)
    points = runs.points
    found = brown_map.passage_time(points, source=IN_A(points), target=IN_B(points), lag=2, runs=runs.runs)
    source = IN_A(brown.grid)
    truth = np.average(brown.passage_times(IN_B(brown.grid))[source], weights=brown.density[source])
    low, high = 2e-3 * found.mean_time_interval_
    assert low < truth < high
    assert found.rate_ == pytest.approx(1 / found.mean_time_)
    np.testing.assert_allclose(found.rate_interval_, 1 / found.mean_time_interval_[::-1])
    assert found.mean_time_ == pytest.approx(np.sqrt(np.prod(found.mean_time_interval_)))
    assert (found.transform(brown.grid) >= 0).all()


def test_a_passage_time_of_closely_spaced_frames_is_not_too_short(brown, brown_map, brown_runs):
    # Nothing that is added to the equation may compete with transitions that take thousands of frames.
    points = brown_runs.points
    found = brown_map.passage_time(
        points, source=IN_A(points), target=IN_B(points), lag=1, runs=brown_runs.runs
    )
    source = IN_A(brown.grid)
    truth = np.average(brown.passage_times(IN_B(brown.grid))[source], weights=brown.density[source])
    low, high = 1e-3 * found.mean_time_interval_
    assert low < truth < high


def test_a_mean_passage_time_weighs_frames_of_the_source(brown, brown_map, brown_runs):
    points = brown_runs.points
    weights = np.exp(2 * points[:, 0])
    sets = {"source": points[:, 1] > 0.1, "target": IN_B(points), "lag": 1, "runs": brown_runs.runs}
    sets["source"] &= ~sets["target"]
    found = brown_map.passage_time(points, sample_weight=weights, **sets)
    source = sets["source"]
    times = found.transform(points[source])[:, 0]
    truth = np.average(times, weights=weights[source])
    assert abs(times.mean() / truth - 1) > 0.1  # without weights it is another
    assert found.mean_time_ == pytest.approx(truth, rel=0.05)
    share = np.average(sets["target"], weights=weights)
    assert found.record_.facts["target_share"] == pytest.approx(share, rel=0.1)


def test_times_that_come_out_below_0_are_warned_about(brown_map, brown_runs):
    points = brown_runs.points
    weights = np.where(points[:, 1] > 0.5, 0.01, 1.0)  # as if nearly all frames had left the source
    with pytest.warns(AccuracyWarning, match="mfpt is negative for 100 % of what is outside the target"):
        found = brown_map.passage_time(
            points,
            source=IN_A(points),
            target=IN_B(points),
            lag=1,
            runs=brown_runs.runs,
            sample_weight=weights,
        )
    assert np.isnan(found.mean_time_)
    assert "times came out below 0" in repr(found)


def test_a_double_well_whose_coordinates_diffuse_unequally():
    well = double_well((1.0, 0.1))
    runs = well.simulate(500, 100, 0.01, 0.005, seed=1)
    points = runs.points

    def along(x):
        return x[:, 0] + 0.3 * x[:, 1]

    model = LandmarkDiffusionMap(n_components=3, epsilon=0.08, n_landmarks=200).fit(points)
    found = model.committor(
        points, source=along(points) < -1.1, target=along(points) > 1.1, lag=5, runs=runs.runs
    )
    sets = along(well.grid) < -1.1, along(well.grid) > 1.1
    truth = well.committor(*sets)
    # What distances between points alone could know: a diffusion that is the same in all directions.
    alike = double_well((1.0, 1.0)).committor(*sets)
    assert rms(alike, truth, well.density) > 0.05
    assert rms(found.transform(well.grid)[:, 0], truth, well.density) < 0.03
    walk = model.committor(points, source=along(points) < -1.1, target=along(points) > 1.1)
    assert rms(walk.transform(well.grid)[:, 0], truth, well.density) > 0.05


# -- sets, and faults ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")  # of few transitions
def test_regions_of_the_map_are_sets(brown_map, brown_runs):
    points, runs = brown_runs.points[:8000], brown_runs.runs[:8000]
    psi = brown_map.transform(points)[:, 0]
    low, high = np.quantile(psi, [0.2, 0.8])
    regions = {"source": Box({"psi2": (None, low)}), "target": Box({"psi2": (high, None)})}
    masks = {"source": psi <= low, "target": psi >= high}
    by_region = brown_map.committor(points, lag=1, runs=runs, **regions)
    by_mask = brown_map.committor(points, lag=1, runs=runs, **masks)
    np.testing.assert_allclose(by_region.transform(points), by_mask.transform(points), atol=1e-6)


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "left"}, "source must be an array of bool"),
        ({"target": np.zeros(4000, dtype=bool)}, "no rows are in target"),
        ({"target": np.ones(4000, dtype=bool)}, "source and target share"),
        ({"source": np.zeros(5, dtype=bool)}, "source has 5 entries, fewer than there are frames"),
        ({"source": np.zeros(4001, dtype=bool)}, "source has 4001 entries for 4000 frames"),
        ({"lag": 1000}, "runs are shorter than the lag"),
        ({"name": "time"}, "cannot be called 'time'"),
        ({"name": "q 1"}, "cannot be called 'q 1'"),
    ],
)
def test_what_cannot_be_done_is_said(brown_map, brown_runs, changed, message):
    points, runs = brown_runs.points[:4000], brown_runs.runs[:4000]
    settings = {"source": IN_A(points), "target": IN_B(points), "lag": 1, "runs": runs} | changed
    with pytest.raises(InvalidInputError, match=message):
        brown_map.committor(points, **settings)


def test_few_transitions_are_warned_about(brown_map, brown_runs):
    points = brown_runs.points[:600]
    with pytest.warns(AccuracyWarning, match="too few transitions"):
        brown_map.committor(
            points, source=IN_A(points), target=IN_B(points), lag=1, runs=brown_runs.runs[:600]
        )


def test_without_a_transition_there_is_no_rate():
    points = double_well((1.0, 1.0)).simulate(1, 3000, 0.05, 0.0125, seed=3).points
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.08, n_landmarks=60).fit(points)
    # A run that stays on the left and one on the right, which cross the border of their set again and again.
    left, right = (points[sign * points[:, 0] > 0.2] for sign in (-1, 1))
    left, right = (half[np.argmax(np.abs(half[:, 0]) > 0.8) :] for half in (left, right))
    both, runs = np.concatenate([left, right]), np.repeat([0, 1], [len(left), len(right)])
    sets = {"source": both[:, 0] < -0.8, "target": both[:, 0] > 0.8}
    for learn, name in ((model.committor, "rate_"), (model.passage_time, "mean_time_")):
        with pytest.warns(AccuracyWarning, match="is reached 0 times"):
            found = learn(both, lag=1, runs=runs, **sets)
        assert np.isnan(getattr(found, name))
        assert "no transition was seen" in repr(found)


def test_intervals_of_few_transitions_are_as_wide_as_their_number_makes_them():
    points = double_well((1.0, 1.0)).simulate(1, 3000, 0.05, 0.0125, seed=3).points
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.08, n_landmarks=60).fit(points)
    part = points[:1200]
    with pytest.warns(AccuracyWarning, match="too few transitions"):
        found = model.committor(part, source=part[:, 0] < -0.8, target=part[:, 0] > 0.8, lag=1)
    high = found.rate_interval_[1]
    assert np.log(high / found.rate_) >= 1.96 / np.sqrt(9)


def test_a_committor_is_saved_and_loaded(brown_committor, brown_runs, tmp_path):
    brown_committor.save(tmp_path / "q.ldm")
    loaded = ldmaps.load(tmp_path / "q.ldm")
    points = brown_runs.points[:100]
    assert loaded.coordinate_names_ == ["q"]
    assert loaded.record_ == brown_committor.record_
    np.testing.assert_array_equal(loaded.transform(points), brown_committor.transform(points))
    np.testing.assert_array_equal(loaded.gradient(points), brown_committor.gradient(points))
    for name in ("eigenvalues_", "spectrum_", "timescales_"):
        assert not hasattr(loaded, name)
