"""Everything a user can get wrong gets a message that names the remedy, and no half-fitted model."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.metrics import RMSD

GOOD = np.random.default_rng(0).normal(size=(40, 3))


def with_value(value: float) -> np.ndarray:
    X = GOOD.copy()
    X[7, 1] = value
    return X


@pytest.mark.parametrize("estimator", [DiffusionMap, LandmarkDiffusionMap])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (with_value(np.nan), "NaN"),
        (with_value(np.inf), "infinity|infinite"),
        (np.empty((0, 3)), "0 sample"),
        (np.empty((10, 0)), "0 feature"),
        (GOOD[:1], "at least two different points"),
        (GOOD[0], "Expected 2D array"),
        (np.zeros((20, 3)), "all 20 points coincide"),
        (np.full((9, 2), "a"), "could not convert|numeric|string"),
        (GOOD.reshape(-1, 4, 3), 'use metric="rmsd"'),
    ],
    ids=["nan", "inf", "empty", "no-features", "one-point", "1-d", "equal", "strings", "frames"],
)
def test_bad_points(estimator, X, message):
    model = estimator(2)
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not hasattr(model, "embedding_")


@pytest.mark.parametrize("estimator", [DiffusionMap, LandmarkDiffusionMap])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "at least 1"),
        ({"random_state": 2**32}, "random_state=4294967296 is no seed; pass None, a whole number from 0 to"),
        ({"random_state": "a"}, 'random_state="a" is no seed'),
        ({"n_components": 2.5}, "whole number"),
        ({"n_components": "gaps"}, '"gap" or a whole number'),
        ({"n_components": 40}, "needs at least 41 landmarks"),
        ({"epsilon": -1.0}, "positive number"),
        ({"epsilon": 0}, "positive number"),
        ({"epsilon": np.nan}, "positive number"),
        ({"epsilon": "big"}, '"connected", "coifman" or a positive number'),
        ({"alpha": 1.5}, "alpha must be between 0"),
        ({"alpha": "1"}, "alpha must be between 0"),
        ({"alpha": np.nan}, "alpha must be between 0"),
        ({"diffusion_time": -1}, "diffusion_time must be 0"),
        ({"diffusion_time": np.inf}, "diffusion_time must be 0"),
        ({"diffusion_time": None}, "diffusion_time must be 0"),
        ({"diffusion_time": 1e6}, "coordinate 2 decays to zero at diffusion time"),
        ({"metric": "euclid"}, "euclidean"),
        ({"metric": 3}, "metric"),
        ({"n_threads": 0}, "n_threads must be a whole number of at least 1"),
        ({"epsilon": 1e18, "n_components": 3}, "zero to rounding|eigenvalues vanish to rounding"),
    ],
)
def test_bad_settings(estimator, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        estimator(**{"n_components": 2, **settings}).fit(GOOD)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_landmarks": 41}, "more than the 40 points"),
        ({"n_landmarks": 1}, "at least 2"),
        ({"n_landmarks": 3.5}, "whole number"),
        ({"n_components": 5, "n_landmarks": 5}, "needs at least 6 landmarks"),
        ({"landmarks": "medoids"}, '"pst", "kmedoids"'),
        ({"landmarks": "pst", "n_landmarks": 10}, "fixes the number of landmarks itself"),
        ({"landmarks": [1, 2, 2]}, "2 is listed twice"),
        ({"landmarks": [1, 50]}, r"0 … 39"),
        ({"landmarks": [0.5, 1.0]}, "integers"),
        ({"landmarks": 7}, "a name, a selector or an array"),
        ({"extension": "magic"}, "extension must be"),
    ],
)
def test_bad_landmark_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        LandmarkDiffusionMap(**{"n_components": 2, **settings}).fit(GOOD)


@pytest.mark.parametrize("estimator", [DiffusionMap, LandmarkDiffusionMap])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(40), "not negative, got -1.0 at index 0"),
        (np.full(40, np.nan), "finite"),
        (np.ones(39), r"one value per point, \(40,\)"),
        (np.zeros(40), "above zero for at least two points, but is above zero for 0 of 40"),
        (["a"] * 40, "must be numbers"),
        (
            np.full(40, 1e-300),
            "must be between 1e-30 and 1e\\+30 .* got 1e-300 to 1e-300. Divide all by their mean",
        ),
        (np.full(40, 1e300), "got 1e\\+300 to 1e\\+300"),
        ([1.0] * 39 + [1e300], "got 1 to 1e\\+300"),
        ([1.0] * 39 + [1e-300], "all others 0 or at least 1e-100 of it"),
        (np.ones(40) + 1j, "sample_weight must be real numbers, got complex numbers"),
        (np.ones(40).astype("m8[s]"), "sample_weight must be real numbers, got values of type timedelta64"),
    ],
)
def test_bad_weights(estimator, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        estimator(2).fit(GOOD, sample_weight=weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("extension", ["nystrom", "distilled"])
def test_weights_at_their_bounds_are_right(dtype, extension):
    """Only ratios of weights matter, up to the norm ψᵀCψ = 1; a weight that counts for nothing is as good as none."""
    rng = np.random.default_rng(1)
    X = swiss_roll(300, random_state=0).points.astype(dtype)
    weights = rng.uniform(0.5, 1.0, size=300)
    landmarks = np.arange(0, 300, 5)

    def coordinates(weights):
        fitted = LandmarkDiffusionMap(2, 9.0, landmarks=landmarks, extension=extension).fit(
            X, sample_weight=weights
        )
        if extension == "distilled":
            errors.append(fitted.distillation_.held_out_z)
        return np.abs(fitted.transform(X).astype(np.float64)) * np.sqrt(weights.max())

    errors = []
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-6, "atol": 1e-9}
    if extension == "distilled":
        # The search for s and h ends where a step gains little. What it minimises is smooth only down to roundings, so
        # that the last bits of the weights, or of BLAS' sums, move its end: coordinates by up to 0.5 % of their range,
        # to maps that are about as near to the exact one.
        tolerance = {"rtol": 2e-2, "atol": 1e-3}
    weights /= weights.max()
    expected = coordinates(weights)
    for scale in (2.0**-98, 2.0**98):  # which rounds nothing
        np.testing.assert_allclose(coordinates(scale * weights), expected, rtol=1e-6, atol=1e-9)
    for scale in (1e-30, 1e30):
        np.testing.assert_allclose(coordinates(scale * weights), expected, **tolerance)
    assert errors == pytest.approx(errors[:1] * len(errors), rel=0.05)
    light = weights.copy()
    light[1::7] = 1e-12
    lightest = light.copy()
    lightest[1::7] = 1e-100
    np.testing.assert_allclose(coordinates(lightest), coordinates(light), **tolerance)


@pytest.mark.parametrize("light", [1e-8, 1e-24, 1e-60, 1e-100])
@pytest.mark.parametrize("n_points", [300, 900])
def test_training_points_of_next_to_no_weight_lie_where_new_ones_would(light, n_points):
    """A solver's rounding errors, divided by the root of such a weight, would be all there is of them."""
    X = swiss_roll(n_points, random_state=0).points
    weights = np.ones(len(X))
    weights[1::7] = light
    model = DiffusionMap(2, 9.0).fit(X, sample_weight=weights)
    np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_time_shrinks_coordinates_and_nothing_else(dtype):
    X = GOOD.astype(dtype)
    plain = LandmarkDiffusionMap(2, 2.0, n_landmarks=20, extension="nystrom").fit(X)
    eigenvalues = plain.eigenvalues_[:2]
    time = np.log(2e-30) / np.log(eigenvalues[-1])
    late = LandmarkDiffusionMap(2, 2.0, n_landmarks=20, extension="nystrom", diffusion_time=time).fit(X)
    shrunk = np.abs(late.transform(X).astype(np.float64)) / eigenvalues**time
    np.testing.assert_allclose(shrunk, np.abs(plain.transform(X)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: X + 1j, "Complex data not supported: points must be real numbers"),
        (lambda X: (X + 1j).tolist(), "Complex data not supported"),
        (lambda X: (1e6 * X).astype("M8[s]"), "got values of type datetime64"),
        (lambda X: (1e6 * X).astype("m8[s]"), "got values of type timedelta64"),
        (lambda X: (1e6 * X).astype("M8[s]").astype(object), "argument must be|got values of type"),
        (lambda X: np.array([[np.datetime64(int(v), "s") for v in row] for row in X]), "datetime64"),
        (lambda X: pd_frame(X, "M8[s]"), "got values of type datetime64"),
        (lambda X: pd_frame(X, complex), "Complex data not supported"),
    ],
)
def test_what_would_become_numbers_in_silence_is_refused(make, message):
    with pytest.raises((InvalidInputError, TypeError), match=message):
        LandmarkDiffusionMap(2, 2.0, n_landmarks=20).fit(make(GOOD))
    model = LandmarkDiffusionMap(2, 2.0, n_landmarks=20).fit(GOOD)
    with pytest.raises((InvalidInputError, TypeError), match=message):
        model.transform(make(GOOD[:3]))


def pd_frame(X, dtype):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    return pandas.DataFrame({"a": X[:, 0].astype(dtype), "b": X[:, 1], "c": X[:, 2]})


def test_new_points_must_fit_the_model():
    frames = np.random.default_rng(0).normal(size=(50, 6, 3))
    model = LandmarkDiffusionMap(2, "connected", metric="rmsd", n_landmarks=20).fit(frames)
    with pytest.raises(ValueError, match="frames of 5 and of 6 atoms cannot be compared"):
        model.transform(frames[:, :5])
    with pytest.raises(InvalidInputError, match=r"\(n, atoms, 3\)"):
        model.transform(frames[:, :, :2])
    with pytest.raises(LdmapsError, match="weights"):
        LandmarkDiffusionMap(2, "connected", metric=RMSD(weights=np.ones(5)), n_landmarks=20).fit(frames)
    with pytest.raises(ValueError, match="NaN"):
        model.transform(np.full((1, 18), np.nan))
    with pytest.raises(LdmapsError, match="finite"):
        model.embedder_.embed_one(np.full((6, 3), np.nan))


def test_feature_count_not_divisible_by_three():
    with pytest.raises(InvalidInputError, match="3"):
        DiffusionMap(2, metric="rmsd").fit(np.random.default_rng(0).normal(size=(20, 7)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [DiffusionMap, LandmarkDiffusionMap])
def test_identical_frames_are_no_map(make, dtype):
    chain = np.cumsum(np.random.default_rng(1).normal(size=(22, 3)), axis=0).astype(dtype)
    with pytest.raises(InvalidInputError, match="all 60 points coincide"):
        make(metric="rmsd").fit(np.stack([chain] * 60))


@pytest.mark.parametrize("n_points", [1, 2000], ids=["few", "many"])
def test_new_points_are_judged_alike_few_or_many(n_points):
    # A few points of the right shape and type go past scikit-learn's checks, which take longer than embedding them.
    model = LandmarkDiffusionMap(2, n_landmarks=10).fit(GOOD)
    points = np.resize(GOOD, (n_points, 3))
    np.testing.assert_array_equal(model.transform(points)[:1], model.transform(GOOD[:1]))
    for value, message in ((np.nan, "Input X contains NaN"), (np.inf, "Input X contains infinity")):
        bad = points.copy()
        bad[0, 1] = value
        with pytest.raises(ValueError, match=message):
            model.transform(bad)
    with pytest.raises(ValueError, match="X has 6 features, but LandmarkDiffusionMap is expecting 3"):
        model.transform(np.resize(GOOD, (n_points, 6)))
    with pytest.raises(InvalidInputError, match="too large"):
        model.transform(np.full((n_points, 3), 1e160))
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.transform(points.reshape(-1))
    with pytest.raises(InvalidInputError, match='use metric="rmsd"'):
        model.transform(points.reshape(-1, 1, 3))


def test_points_without_names_are_told_of_where_the_map_has_names():
    pandas = pytest.importorskip("pandas")
    model = LandmarkDiffusionMap(2, n_landmarks=10).fit(pandas.DataFrame(GOOD, columns=["a", "b", "c"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.transform(GOOD[:1])


def test_masked_values_are_not_taken_for_what_stands_under_the_mask():
    masked = np.ma.masked_greater(GOOD, 2.0)
    assert masked.mask.any()
    model = LandmarkDiffusionMap(2, n_landmarks=10).fit(GOOD)
    row = int(np.flatnonzero(masked.mask.any(axis=1))[0])
    for call in (
        lambda: DiffusionMap(2).fit(masked),
        lambda: LandmarkDiffusionMap(2, n_landmarks=10).fit(masked),
        lambda: LandmarkDiffusionMap(2, n_landmarks=10).fit(
            GOOD, sample_weight=np.ma.masked_less(GOOD[:, 0] ** 2, 0.1)
        ),
        lambda: model.transform(masked),
        lambda: model.transform(masked[row : row + 1]),
        lambda: model.coverage(masked),
        lambda: model.embedder_.embed_one(masked[row]),
        lambda: model.embedder_.prepare(masked),
    ):
        with pytest.raises(InvalidInputError, match=r"values of \w+ are masked; leave out those rows"):
            call()
    np.testing.assert_array_equal(model.transform(np.ma.masked_array(GOOD)), model.transform(GOOD))


def test_frames_of_one_atom_are_refused_by_name():
    frames = np.random.default_rng(0).normal(size=(50, 1, 3))
    for model in (LandmarkDiffusionMap(metric="rmsd"), DiffusionMap(metric="rmsd")):
        with pytest.raises(InvalidInputError, match=r"always zero for a single atom; select at least two"):
            model.fit(frames)
