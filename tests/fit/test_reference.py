"""What landmarks are distilled from and judged against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion import sampled_residuals
from ldmaps.errors import CheckpointError, ConvergenceWarning, DisconnectedError, InvalidInputError
from ldmaps.fit import reference as reference_module
from ldmaps.fit.coordinates import Judged, keep_coordinates
from ldmaps.fit.data import Data
from ldmaps.fit.decide import decide_walk
from ldmaps.fit.recipe import choose_recipe, reference_passes, reference_size
from ldmaps.fit.settings import FitSettings, Seeds
from ldmaps.fit.solve_walk import solve_walk
from ldmaps.metrics import Euclidean, Function
from ldmaps.validation.fidelity import match_columns, nrmse

ROLL = swiss_roll(700, random_state=1).points


def solved(
    X, *, weights=None, alpha=0.0, time=0.0, epsilon=16.0, size=None, max_passes=0, memory=4e9, seed=0
):
    """Return the map that landmarks would learn from: of all points, or of ``size`` medoids."""
    data = Data(Euclidean(), Euclidean().prepare(X), np.ones(len(X)) if weights is None else weights, 3)
    settings = FitSettings(
        is_exact=False,
        n_components=2,
        epsilon=epsilon,
        outliers=0.0,
        alpha=alpha,
        time=time,
        n_threads=None,
        seed=0,
        limits=Limits(memory, max_passes),
        calibration=0.0,
        landmarks="kmedoids",
        n_landmarks=10,
        extension="distilled",
    )
    recipe = choose_recipe(settings, data)
    recipe = replace(recipe, reference_size=len(X) if size is None else size, n_passes=max_passes)
    seeds = Seeds.spawn(seed)
    chosen = decide_walk(recipe, data, None, None, seeds)
    return keep_coordinates(recipe, solve_walk(recipe, chosen, seeds), Judged(None))


@pytest.mark.parametrize(("alpha", "time"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
def test_of_all_points_is_the_exact_map(alpha, time):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(ROLL))
    reference = solved(ROLL, weights=weights, alpha=alpha, time=time)
    exact = DiffusionMap(2, 16.0, alpha=alpha, diffusion_time=time).fit(ROLL, sample_weight=weights)
    wanted = np.array([5, 0, 699, 31])
    np.testing.assert_allclose(reference.coordinates(wanted), exact.embedding_[wanted], atol=1e-12)
    new = reference.walk.metric.prepare(ROLL[:20] + 0.5)
    np.testing.assert_allclose(
        reference.embedder().extend(new).coordinates, exact.transform(ROLL[:20] + 0.5), atol=1e-12
    )


def test_of_medoids_is_close_to_the_exact_map():
    reference = solved(ROLL, size=350)
    exact = DiffusionMap(2, 16.0).fit(ROLL)
    everything = np.arange(len(ROLL))
    found = reference.coordinates(everything)
    assert nrmse(exact.embedding_, found) < 6.0
    # Those it is made of are taken from the eigenvectors, the rest extended; no seam between them.
    extended = reference.embedder().extend(reference.walk.points).coordinates
    np.testing.assert_allclose(match_columns(found, extended), found, atol=1e-10)


def test_data_in_pieces_is_an_error():
    X = np.concatenate([ROLL[:200], ROLL[:200] + 1000.0])
    with pytest.raises(DisconnectedError):
        solved(X)


@pytest.mark.parametrize(
    ("n", "m", "itemsize", "limit", "expected"),
    [
        (20_000, 400, 8, 4e9, 20_000),
        (31_000, 400, 4, 4e9, 31_000),
        (40_000, 400, 4, 4e9, 5000),
        (40_000, 1000, 4, 4e9, 10_000),
        (40_000, 1000, 8, 8 * 6000**2, 6000),
    ],
)
def test_size(n, m, itemsize, limit, expected):
    assert reference_size(Euclidean(), n, m, itemsize, limit) == expected


def test_slow_metrics_are_asked_for_fewer_pairs():
    metric = Function(lambda x, y: float(np.abs(x - y).sum()))
    assert reference_size(metric, 1000, 100, 8, 4e9) == 1000
    assert reference_size(metric, 30_000, 100, 8, 4e9) == 2000


def errors_by_coordinate(exact, found, weights):
    """Z of each coordinate by itself."""
    off = match_columns(exact, found) - exact
    return 100.0 * np.sqrt(weights @ off**2 / weights.sum()) / np.ptp(exact, axis=0)


@pytest.mark.parametrize(("alpha", "time"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_passes_make_the_exact_map(alpha, time, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(ROLL)) if weighted else np.ones(len(ROLL))
    settings = {"weights": weights, "alpha": alpha, "time": time}
    reference = solved(ROLL, size=100, max_passes=20, memory=3e6, **settings)
    exact = solved(ROLL, **settings)
    assert reference.is_exact
    assert reference.solution.solver == "streamed"
    assert reference.solution.error_bound.max() < 0.1
    errors = errors_by_coordinate(exact.own_coordinates, reference.own_coordinates, weights)
    assert (errors <= reference.solution.error_bound).all()
    np.testing.assert_array_equal(exact.solution.error_bound, 0.0)


def test_sparse_kernels_are_stored_as_such():
    """Passes are for kernels that are not sparse."""
    X = swiss_roll(3000, random_state=1).points
    reference = solved(X, epsilon=0.7, size=100, max_passes=20, memory=3e7)
    assert reference.solution.solver == "sparse"
    np.testing.assert_array_equal(reference.solution.error_bound, 0.0)


def test_memory_that_no_pass_fits_into_leaves_medoids():
    reference = solved(ROLL, size=100, max_passes=20, memory=1e5)
    assert len(reference.indices) == 100


def test_too_few_passes_say_so_and_bound_what_they_reached():
    with pytest.warns(ConvergenceWarning, match="after 1 passes"):
        reference = solved(ROLL, size=100, max_passes=1, memory=3e6, epsilon=2.0)
    exact = solved(ROLL, epsilon=2.0)
    errors = errors_by_coordinate(exact.own_coordinates, reference.own_coordinates, np.ones(len(ROLL)))
    bound = reference.solution.error_bound
    assert bound is None or (errors <= bound).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("epsilon", "size"), [(16.0, 350), (16.0, 120), (60.0, 60)])
def test_errors_of_medoid_maps_stay_within_their_bounds(monkeypatch, epsilon, size, weighted, seed):
    """Measured at 300 of 700 rows, so that sampling errors are there."""
    monkeypatch.setattr(sampled_residuals, "SAMPLED_ROWS", 300)
    rng = np.random.default_rng(seed)
    X = swiss_roll(700, random_state=seed).points
    weights = rng.uniform(0.2, 3.0, len(X)) if weighted else np.ones(len(X))
    reference = solved(X, weights=weights, size=size, epsilon=epsilon, time=0.5)
    exact = solved(X, weights=weights, epsilon=epsilon, time=0.5)
    found = reference.coordinates(np.arange(len(X)))
    # A diffusion time other than 0 scales coordinates by eigenvalues, whose errors are of second order.
    errors = errors_by_coordinate(exact.own_coordinates, found, weights)
    if reference.solution.error_bound is None:  # no bound tells coordinates apart that mix at will
        assert exact.spectrum.eigenvalues[0] - exact.spectrum.eigenvalues[1] < 0.01
        return
    assert (errors <= reference.solution.error_bound).all()
    assert (reference.solution.error_bound < 20.0 * errors + 1.0).all(), "a bound that says nothing"


def test_bounds_of_medoid_maps_shrink_with_their_number():
    """On average over draws of medoids and of the rows that tell their errors."""

    def typical(size):
        bounds = [solved(ROLL, size=size, epsilon=60.0, seed=seed).solution.error_bound for seed in range(6)]
        # None where a bound does not tell coordinates apart.
        return np.median([np.inf if bound is None else bound.max() for bound in bounds])

    few, more, many = (typical(size) for size in (30, 100, 400))
    assert few > 2 * more > 4 * many


def test_density_normalisation_leaves_medoids_without_a_bound(monkeypatch):
    # Rows of the walk without it would tell errors of another map.
    monkeypatch.setattr(reference_module, "sampled_errors", lambda *_: np.zeros(3))
    assert solved(ROLL, size=350, alpha=1.0).solution.error_bound is None


@pytest.mark.parametrize(
    ("n", "alpha", "asked", "passes"),
    [
        (40_000, 0.0, None, 20),
        (150_000, 0.0, None, 8),
        (440_000, 0.0, None, 1),
        (440_000, 0.5, None, 0),  # the density alone takes one
        (450_000, 0.0, None, 0),
        (10**7, 0.0, 3, 3),
        (40_000, 0.0, 0, 0),
        (40_000, 1.0, 1, 0),
    ],
)
def test_passes(n, alpha, asked, passes):
    assert reference_passes(Euclidean(), n, alpha, asked) == passes


def test_slow_metrics_take_no_pass_unless_asked_to():
    metric = Function(lambda x, y: float(np.abs(x - y).sum()))
    assert reference_passes(metric, 3000, 0.0, None) == 0
    assert reference_passes(metric, 3000, 0.0, 2) == 2


def test_landmarks_are_distilled_from_the_exact_map_beyond_the_limit():
    """What the reference lacked of exactness was not counted; now it is all there."""
    train, test = ROLL, swiss_roll(300, random_state=7).points
    exact = DiffusionMap(2, 16.0).fit(train)
    settings = {"n_components": 2, "epsilon": 16.0, "n_landmarks": 60, "extension": "distilled"}
    stored = LandmarkDiffusionMap(**settings).fit(train)
    streamed = LandmarkDiffusionMap(**settings, limits=Limits(memory=3e6)).fit(train)
    np.testing.assert_allclose(streamed.eigenvalues_, exact.eigenvalues_, rtol=1e-5)
    ours, theirs = (nrmse(exact.transform(test), each.transform(test)) for each in (streamed, stored))
    assert ours == pytest.approx(theirs, rel=0.2)


def test_interrupted_references_go_on(tmp_path):
    settings = {"n_components": 2, "epsilon": 16.0, "n_landmarks": 60, "extension": "distilled"}
    settings["limits"] = Limits(memory=3e6, resume=tmp_path / "state.npz")
    model = LandmarkDiffusionMap(**settings).fit(ROLL)
    assert (tmp_path / "state.npz").exists()
    again = LandmarkDiffusionMap(**settings).fit(ROLL)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    with pytest.raises(CheckpointError, match="another eigenproblem"):
        LandmarkDiffusionMap(**settings).fit(ROLL[::-1])


def test_passes_that_make_no_sense():
    with pytest.raises(InvalidInputError, match="max_passes must be a whole number of at least 0, got -1"):
        LandmarkDiffusionMap(
            2, 16.0, n_landmarks=60, extension="distilled", limits=Limits(max_passes=-1)
        ).fit(ROLL)
