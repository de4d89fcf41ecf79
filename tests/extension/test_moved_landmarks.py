"""Landmarks moved off the data: the gradient that moves them, and what stays true of the map around them."""

from __future__ import annotations

import types

import numpy as np
import pytest
import scipy.optimize
from archive_edits import edit_archive
from scipy.spatial.transform import Rotation

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import GradientError, ModelFileError
from ldmaps.extension import distilled, least_squares
from ldmaps.extension.least_squares import Problem, Rows, Setting
from ldmaps.landmarks.base import assign
from ldmaps.metrics import RMSD, Euclidean, Hamming, Periodic
from ldmaps.metrics.base import squared_matrix
from ldmaps.validation.fidelity import nrmse

RNG = np.random.default_rng(0)
ROLL = swiss_roll(700, random_state=4).points
TRAIN, TEST = ROLL[:500], ROLL[500:]
ALANINE = alanine_dipeptide(stride=60)
HEAVY_WEIGHTS = np.where(ALANINE.masses > 2, ALANINE.masses, 0.0)
FRAMES, NEW_FRAMES = ALANINE.frames[:300].astype(np.float64), ALANINE.frames[300:].astype(np.float64)
ANGLES = RNG.uniform(-7.0, 7.0, (120, 3))
CASES = {
    "euclidean": (Euclidean(), TRAIN[:120]),
    "many features": (Euclidean(), RNG.normal(size=(120, 40))),
    "periodic": (Periodic([2 * np.pi, 5.0, 9.0]), ANGLES),
    "rmsd": (RMSD(), 10 * FRAMES[:120]),
    "rmsd, weighted": (RMSD(weights=HEAVY_WEIGHTS), 10 * FRAMES[:120]),
    "rmsd, some superposed": (RMSD(weights=ALANINE.masses, superpose_on=[4, 6, 8, 10]), 10 * FRAMES[:120]),
}


# -- where points are ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_positions_are_those_of_the_points(name, kind):
    metric, X = CASES[name]
    points = metric.prepare(X.astype(kind))
    positions = metric.places(points)
    again = metric.prepare(positions.values, kind)
    room = (1e-4 if kind == np.float32 else 1e-12) * squared_matrix(metric, points).max()
    expected = squared_matrix(metric, points, points.take(np.arange(30)))
    np.testing.assert_allclose(squared_matrix(metric, again, points)[:, :30], expected, atol=room)


@pytest.mark.parametrize("name", CASES)
def test_scales_say_how_far_a_move_is(name):
    metric, X = CASES[name]
    points = metric.prepare(X)
    values, scales = metric.places(points)
    steps = 1e-3 * np.random.default_rng(1).normal(size=values.shape)
    moved = np.diag(squared_matrix(metric, metric.prepare(values + steps), points))
    most = ((scales * steps) ** 2).sum(axis=1)
    if name.startswith("rmsd"):  # a part of any move is a turn or a shift
        # Those of a few atoms alone may turn the whole.
        assert (moved <= most * (1 + 1e-6)).all() or "superposed" in name
        assert moved.mean() > 0.5 * most.mean()
    else:
        np.testing.assert_allclose(moved, most, rtol=1e-6)


def test_points_of_other_metrics_have_no_positions():
    metric = Hamming()
    assert not metric.is_differentiable
    with pytest.raises(GradientError, match="landmarks cannot be optimised"):
        metric.places(metric.prepare(np.eye(4)))


# -- the gradient --------------------------------------------------------------------


def recorded_loss(monkeypatch, name, weights=None):
    """Return the loss that moving minimises, where it starts, and what it is made of."""
    metric, X = CASES[name]
    rng = np.random.default_rng(2)
    rows, landmarks = metric.prepare(X[10:]), metric.prepare(X[:6])
    weights = np.ones(110) if weights is None else weights
    problem = Problem(metric, landmarks, rng.normal(size=(6, 2)), 1)
    data = Rows(rows, rng.normal(size=(110, 2)), weights, np.arange(110))
    width = 0.5 * float(np.median(squared_matrix(metric, rows, landmarks)))
    setting = Setting(width, rng.uniform(-1, 0, 6))
    seen = {}

    def record(loss, start, **settings):
        seen.update(loss=loss, start=start, bounds=settings["bounds"])
        return types.SimpleNamespace(x=start)

    monkeypatch.setattr(scipy.optimize, "minimize", record)
    least_squares.move(problem, data, setting)
    return seen["loss"], seen["start"], problem, data, setting


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.2, 3.0, 110)], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_by_positions_is_the_slope_of_the_loss(monkeypatch, name, weights):
    loss, start, problem, _, _ = recorded_loss(monkeypatch, name, weights)
    n_counting = int((problem.metric.places(problem.landmarks).scales > 0).sum())
    assert len(start) == 6 + 1 + 6 * n_counting  # s, the width, and every feature that counts
    rng = np.random.default_rng(3)
    place = start + 0.1 * rng.normal(size=len(start))
    gradient = loss(place)[1]
    steps = 1e-4 * rng.normal(size=(10, len(start)))
    slopes = [loss(place + step)[0] - loss(place - step)[0] for step in steps]
    np.testing.assert_allclose(slopes, 2 * steps @ gradient, atol=1e-5 * np.abs(slopes).max())


def test_the_loss_is_that_of_landmarks_at_the_moved_places(monkeypatch):
    loss, start, problem, data, setting = recorded_loss(monkeypatch, "euclidean")
    moves = 0.3 * np.random.default_rng(5).normal(size=(6, 3))
    value = loss(np.concatenate([start[:6], [0.2], moves.ravel()]))[0]
    Z = problem.landmarks.values + np.sqrt(setting.bandwidth) * moves
    X = data.points.values
    exponent = setting.log_weights - ((X[:, None] - Z) ** 2).sum(axis=2) * np.exp(0.2) / (
        2 * setting.bandwidth
    )
    w = np.exp(exponent)
    w /= w.sum(axis=1, keepdims=True)
    rho = least_squares.TUNING_RIDGE * np.trace(w.T @ w) / 6
    missing = data.targets - w @ problem.baseline
    change = np.linalg.solve(w.T @ w + rho * np.eye(6), w.T @ missing)
    left = ((missing - w @ change) ** 2).sum() + rho * (change**2).sum()
    penalty = least_squares.MOVE_PENALTY * (moves**2).sum(axis=1).mean()
    assert value == pytest.approx(np.log(left / 110) + penalty, abs=1e-10)


def test_a_search_without_steps_moves_nothing(monkeypatch):
    metric, _ = CASES["rmsd, weighted"]
    _, _, problem, data, setting = recorded_loss(monkeypatch, "rmsd, weighted")
    places, found = least_squares.move(problem, data, setting)
    np.testing.assert_allclose(np.diag(squared_matrix(metric, places, problem.landmarks)), 0.0, atol=1e-12)
    assert found.bandwidth == setting.bandwidth


# -- the map -------------------------------------------------------------------------


def distilled_map(*args, **settings):
    return LandmarkDiffusionMap(*args, **{"extension": "distilled", **settings})


MAPS = {
    "roll": lambda: distilled_map(2, 16.0, n_landmarks=12).fit(TRAIN),
    "roll, float32": lambda: distilled_map(2, 16.0, n_landmarks=12).fit(TRAIN.astype(np.float32)),
    "roll, weights and alpha": lambda: distilled_map(2, 16.0, n_landmarks=12, alpha=0.5).fit(
        TRAIN, sample_weight=np.where(np.arange(500) % 7, 1.0 + np.arange(500) % 3, 0.0)
    ),
    "frames": lambda: distilled_map(2, "connected", RMSD(weights=HEAVY_WEIGHTS), n_landmarks=6).fit(FRAMES),
    "tolerance": lambda: LandmarkDiffusionMap(2, 16.0, tolerance=5.0).fit(TRAIN),
}


@pytest.fixture(scope="module", params=MAPS)
def case(request):
    return request.param, MAPS[request.param]()


def points_of(name):
    return FRAMES if name == "frames" else TRAIN


def test_landmarks_are_moved_and_training_points_stand_for_them(case):
    name, model = case
    X = points_of(name)
    representatives = model.map_.representatives
    assert representatives is not None
    assert model.map_.landmark_points is representatives  # what a person is shown of a landmark
    indices = model.landmark_indices_
    assert len(set(indices)) == len(indices) == model.embedder_.n_landmarks
    taken = model.metric_.prepare(X[indices], representatives.dtype)
    metric = model.metric_
    assert np.diag(squared_matrix(metric, taken, representatives)).max() < 1e-9
    apart = squared_matrix(metric, model.embedder_.landmarks, representatives)
    assert np.diag(apart).max() > 1e-4 * model.epsilon_
    # Each stands in its own cell.
    np.testing.assert_array_equal(model.labels_[indices], np.arange(len(indices)))


def test_every_training_point_is_inside_and_counted_where_it_is_nearest(case):
    name, model = case
    X = points_of(name)
    coverage = model.coverage(X)
    weights = np.ones(len(X))
    if "weights" in name:
        weights = np.where(np.arange(500) % 7, 1.0 + np.arange(500) % 3, 0.0)
    assert coverage.inside[weights > 0].all()
    assert (coverage.nearest != model.labels_).sum() <= model.embedder_.n_landmarks
    counted = np.bincount(model.labels_, weights=weights, minlength=len(model.multiplicities_))
    np.testing.assert_allclose(model.multiplicities_, counted)
    assert (model.multiplicities_ > 0).all()


def test_what_is_told_of_training_points_holds(case):
    name, model = case
    X = points_of(name)
    room = 1e-5 if name.endswith("float32") else 1e-13
    np.testing.assert_allclose(model.transform(X.astype(model.embedding_.dtype)), model.embedding_, atol=room)
    np.testing.assert_allclose(
        model.embedding_[model.landmark_indices_], model.landmark_embedding_, atol=room
    )
    distance = model.coverage(X.astype(model.embedding_.dtype)).distance
    np.testing.assert_allclose(model.training_.distance, distance, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutsideDomainWarning")
def test_answers_stay_in_the_hull(case):
    name, model = case
    far = 30.0 * np.random.default_rng(0).normal(size=points_of(name).shape)
    found = model.transform(far.astype(model.embedding_.dtype))
    coefficients = model.embedder_.coefficients
    assert (found >= coefficients.min(axis=1) - 1e-6).all()
    assert (found <= coefficients.max(axis=1) + 1e-6).all()


def test_saved_and_loaded(case, tmp_path):
    name, model = case
    X = points_of(name).astype(model.embedding_.dtype)
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.coverage(X).inside, model.coverage(X).inside)
    kept, before = (m.metric_.export_points(m.map_.landmark_points) for m in (again, model))
    for key in before:
        np.testing.assert_array_equal(kept[key], before[key])
    assert again.map_.representatives is not None


def test_errors_can_be_estimated(case):
    name, model = case
    if name == "tolerance":
        pytest.skip("as the others")
    X = points_of(name).astype(model.embedding_.dtype)
    estimate = model.error_estimate(X[::5])
    assert np.isfinite(estimate.sigma).all()


def test_gradients_are_those_of_the_moved_map():
    model = MAPS["roll"]()
    step = 1e-5
    gradient = model.gradient(TEST[:5])
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        slope = (model.transform(TEST[:5] + shift) - model.transform(TEST[:5] - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[:, :, axis], slope, atol=1e-7)


def test_a_map_of_frames_does_not_know_how_they_are_turned():
    model = MAPS["frames"]()
    turned = Rotation.random(len(NEW_FRAMES), random_state=0).as_matrix()
    moved = np.einsum("nij,naj->nai", turned, NEW_FRAMES) + np.arange(3.0)
    np.testing.assert_allclose(model.transform(moved), model.transform(NEW_FRAMES), atol=1e-9)
    # Nor does its fit, but for what a hundred steps make of rounding.
    turned = Rotation.random(len(FRAMES), random_state=1).as_matrix()
    metric = RMSD(weights=HEAVY_WEIGHTS)
    again = distilled_map(2, model.epsilon_, metric, n_landmarks=6).fit(
        np.einsum("nij,naj->nai", turned, FRAMES)
    )
    assert nrmse(model.embedding_, again.embedding_) < 0.2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_moving_is_kept_only_where_held_out_points_gain(monkeypatch, seed):
    moved = distilled_map(2, 16.0, n_landmarks=12, random_state=seed).fit(TRAIN)
    monkeypatch.setattr(distilled, "MOVED_LANDMARKS", 0)
    kept = distilled_map(2, 16.0, n_landmarks=12, random_state=seed).fit(TRAIN)
    assert kept.map_.representatives is None
    assert moved.distillation_.held_out_z <= kept.distillation_.held_out_z
    exact = DiffusionMap(2, 16.0).fit(TRAIN)
    errors = [
        nrmse(exact.transform(TEST), model.transform(TEST), ranges=np.ptp(exact.embedding_, axis=0))
        for model in (moved, kept)
    ]
    assert errors[0] < 0.8 * errors[1]


def test_a_move_that_held_out_points_lose_by_is_not_taken(monkeypatch):
    real = distilled.move

    def badly(problem, few, start):
        return problem.metric.prepare(problem.landmarks.values + 40.0), real(problem, few, start)[1]

    monkeypatch.setattr(distilled, "move", badly)
    model = distilled_map(2, 16.0, n_landmarks=12).fit(TRAIN)
    assert model.map_.representatives is None
    np.testing.assert_array_equal(model.embedder_.landmarks.values, TRAIN[model.landmark_indices_])


# -- those that stay -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "constants"),
    [
        ({"landmarks": np.arange(0, 500, 40)}, {}),
        ({"n_landmarks": 12}, {"MOVED_LANDMARKS": 11}),
        ({"n_landmarks": 12}, {"MOVED_FEATURES": 35}),
    ],
    ids=["named by the user", "too many", "too many features"],
)
def test_landmarks_that_stay(monkeypatch, settings, constants):
    for name, value in constants.items():
        monkeypatch.setattr(distilled, name, value)
    model = distilled_map(2, 16.0, **settings).fit(TRAIN)
    assert model.map_.representatives is None
    np.testing.assert_array_equal(model.embedder_.landmarks.values, TRAIN[model.landmark_indices_])
    if "landmarks" in settings:
        np.testing.assert_array_equal(model.landmark_indices_, settings["landmarks"])


def test_landmarks_of_a_metric_without_a_gradient_stay():
    def manhattan(x, y):
        return float(np.abs(x - y).sum())

    model = distilled_map(2, "connected", manhattan, n_landmarks=10).fit(TRAIN[:60])
    assert model.map_.representatives is None


def test_more_draws_are_tried_where_landmarks_cannot_be_moved():
    extension = distilled.Distilled()
    assert extension.draws(60, is_differentiable=False) > extension.draws(60) == 1
    assert extension.draws(5) > 1


# -- cells without points ------------------------------------------------------------


def settled(places, X):
    """Return representatives and cells of landmarks at some places."""
    metric = Euclidean()
    points = metric.prepare(X)
    problem = Problem(metric, points, np.zeros((len(X), 1)), 1)
    rows = Rows(points, np.zeros((len(X), 1)), np.ones(len(X)), np.arange(len(X)))
    prepared = metric.prepare(places)
    found = distilled._representatives(problem, rows, prepared)
    if found is None:
        return None, None
    return found, assign(Walk(metric, points, np.ones(len(X)), 0.01), found, prepared)


def test_a_landmark_nobody_is_nearest_to_borrows_a_point():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    # Two more at the place of another: they would like to borrow the same point.
    places = np.array([[0.2, 0.5], [0.8, 0.5], [0.8, 0.5], [9.0, 9.0], [0.5, 0.1], [0.8, 0.5]])
    found, landmarks = settled(places, X)
    assert len(set(found)) == 6
    squares = ((X[:, None] - places) ** 2).sum(axis=2)
    cells = squares.argmin(axis=1)
    for landmark in (0, 1, 4):
        mine = np.flatnonzero(cells == landmark)
        assert found[landmark] == mine[squares[mine, landmark].argmin()]
    assert (landmarks.multiplicities >= 1).all()
    assert landmarks.multiplicities.sum() == 60
    np.testing.assert_array_equal(landmarks.assignment[found], np.arange(6))
    others = np.setdiff1d(np.arange(60), found)
    np.testing.assert_array_equal(landmarks.assignment[others], cells[others])
    # Cells are as wide as before a point was taken from them, so that everybody stays inside.
    assert (squares.min(axis=1) <= landmarks.squared_radii[cells] * (1 + 1e-12)).all()


def test_too_few_points_to_borrow_from():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    assert settled(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 9.0]]), X)[0] is None


def test_the_borrowed_point_is_the_nearest_that_is_free():
    X = np.array([[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [0.3, 0.0], [5.0, 0.0]])
    # The first cell holds 0 to 3; 0 stands for it and 3 is its farthest.
    found, _ = settled(np.array([[0.0, 0.0], [5.0, 0.0], [5.0, 0.0]]), X)
    np.testing.assert_array_equal(found, [0, 4, 2])


# -- files ---------------------------------------------------------------------------


def test_files_from_before_landmarks_were_moved_are_read(tmp_path):
    path = tmp_path / "map.ldm"
    model = LandmarkDiffusionMap(2, 16.0, n_landmarks=20).fit(TRAIN)
    model.save(path)
    edit_archive(path, header={"format_version": [2, 1]})
    again = load(path)
    np.testing.assert_array_equal(again.transform(TEST), model.transform(TEST))
    assert again.map_.landmark_points is again.embedder_.landmarks


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((11, 3)), "11 representatives of float64, expected 12"),
        (np.zeros((12, 3), np.float32), "12 representatives of float32"),
        (np.full((12, 3), np.nan), "representatives cannot be read"),
        (np.zeros((12, 4)), "do not go together"),
    ],
)
def test_representatives_that_fit_no_landmarks_are_refused(tmp_path, values, message):
    path = tmp_path / "map.ldm"
    MAPS["roll"]().save(path)
    edit_archive(path, arrays={"representatives/values": values})
    with pytest.raises(ModelFileError, match=message):
        load(path)
