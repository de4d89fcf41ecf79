"""Points embedded as they come, against naive float64 loops: kinds of points, sizes, layouts and cuts."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Embedder, OnlineStep
from ldmaps.metrics import RMSD, Euclidean, Features, Hamming, Periodic, StandardizedEuclidean
from ldmaps.metrics.euclidean import RowPoints

BANDWIDTH = 0.7
TOLERANCE = {np.float32: 3e-5, np.float64: 1e-12}


def built(metric, landmarks, dtype=np.float64, k=2):
    rng = np.random.default_rng(1)
    points = metric.prepare(landmarks, dtype)
    step = OnlineStep(
        coefficients=rng.normal(size=(len(points), k)),
        source_weights=rng.uniform(0.5, 1.0, len(points)),
        bandwidth=BANDWIDTH,
    )
    return Embedder.build(metric, points, 1.0, step, np.ones(len(points)))


def naive_rmsd(X, Z, weights):
    """d² of every pair after the best superposition, by singular values."""
    weights = weights / weights.sum()
    squared = np.empty((len(X), len(Z)))
    for i, x in enumerate(X.astype(np.float64)):
        x = x - weights @ x
        for j, z in enumerate(Z.astype(np.float64)):
            z = z - weights @ z
            u, s, vt = np.linalg.svd((weights[:, None] * x).T @ z)
            s[2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
            both = (weights[:, None] * (x**2 + z**2)).sum()
            squared[i, j] = max(0.0, both - 2 * s.sum())
    return squared


def naive_embedding(embedder, squared):
    kernel = np.exp(-squared / (2 * BANDWIDTH)) * embedder.source_weights.astype(np.float64)
    return (kernel / kernel.sum(axis=1, keepdims=True)) @ embedder.coefficients.T.astype(np.float64)


def assert_is(projected, embedder, squared, dtype):
    size = 1.0 + squared.max()
    np.testing.assert_allclose(
        projected.coordinates, naive_embedding(embedder, squared), rtol=0, atol=TOLERANCE[dtype] * size
    )
    lowest = projected._extended.squared_distance
    np.testing.assert_allclose(lowest, squared.min(axis=1), rtol=0, atol=TOLERANCE[dtype] * size)
    near = squared[np.arange(len(squared)), projected.coverage.nearest]
    np.testing.assert_allclose(near, squared.min(axis=1), rtol=0, atol=TOLERANCE[dtype] * size)


def frames_of(n, n_atoms, seed=0):
    rng = np.random.default_rng([n_atoms, seed])
    return rng.normal(size=(n_atoms, 3)) + 0.4 * rng.normal(size=(n, n_atoms, 3))


# -- RMSD -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_atoms", [1, 2, 3, 4, 5, 6, 9, 22, 65, 130])
@pytest.mark.parametrize("n_landmarks", [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33, 65])
def test_frames_of_any_size(n_landmarks, n_atoms, dtype, given):
    weights = np.random.default_rng(n_atoms).uniform(0.2, 3.0, n_atoms)
    Z = frames_of(n_landmarks, n_atoms, 1).astype(given)
    X = frames_of(5, n_atoms, 2).astype(given)
    X[0] = Z[0] @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0].astype(given)
    embedder = built(RMSD(weights), Z, dtype)
    assert_is(
        embedder.project(X, 1),
        embedder,
        naive_rmsd(X, Z, weights),
        np.float32 if given == np.float32 else dtype,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [3, 20, 40])
def test_mirror_images_planes_and_lines(n_landmarks, dtype):
    Z = frames_of(n_landmarks, 6)
    X = np.concatenate([Z[:2], Z[:2] * [1, 1, -1], Z[:2] * [1, 1, 0], Z[:2] * [1, 0, 0], 0 * Z[:1]])
    embedder = built(RMSD(), Z, dtype)
    assert_is(embedder.project(X, 1), embedder, naive_rmsd(X, Z, np.ones(6)), dtype)
    # Landmarks in a plane, on a line and in one point, and frames like them.
    flat = built(RMSD(), X, dtype)
    assert_is(flat.project(X, 1), flat, naive_rmsd(X, X, np.ones(6)), dtype)


@pytest.mark.parametrize("n_landmarks", [4, 40])
def test_an_offset_costs_nothing_that_the_input_still_has(n_landmarks):
    Z = np.round(64 * frames_of(n_landmarks, 8)) / 64
    X = np.round(64 * frames_of(20, 8, 1)) / 64
    embedder = built(RMSD(), Z, np.float32)
    near = embedder.project(X.astype(np.float32), 1)
    for offset in (4096.0, 1e5):
        moved = X + np.array([offset, -offset, 3.0])
        far = moved.astype(np.float32)
        np.testing.assert_array_equal(far, moved)
        np.testing.assert_array_equal(embedder.project(far, 1).coordinates, near.coordinates)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [4, 9, 40])
def test_atoms_without_weight_are_left_out_but_must_be_finite(n_landmarks, dtype):
    weights = np.array([1.0, 0, 2, 1, 0, 3, 1, 0])
    Z, X = frames_of(n_landmarks, 8), frames_of(7, 8, 1)
    embedder = built(RMSD(weights), Z, dtype)
    projected = embedder.project(X, 1)
    kept = np.flatnonzero(weights)
    assert_is(projected, embedder, naive_rmsd(X[:, kept], Z[:, kept], weights[kept]), dtype)
    X[3, 1] = 1e5  # which changes nothing
    np.testing.assert_array_equal(embedder.project(X, 1).coordinates, projected.coordinates)
    X[3, 1, 0] = np.nan
    with pytest.raises(InvalidInputError, match=r"point 3 \(atom 1\) holds NaN"):
        embedder.project(X, 1)


def test_alignment_on_some_atoms_is_prepared():
    embedder = built(RMSD(superpose_on=[0, 1, 2]), frames_of(4, 6))
    assert embedder.direct_step is None
    assert embedder.project(frames_of(3, 6, 1)).coordinates.shape == (3, 2)


# -- rows ------------------------------------------------------------------------------------


def naive_rows(X, Z, factors=1.0, period=None):
    difference = (X[:, None].astype(np.float64) - Z[None]) * factors
    if period is not None:
        difference -= period * np.round(difference / period)
    return (difference**2).sum(axis=2)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 2, 3, 8, 16, 33, 64])
@pytest.mark.parametrize("n_landmarks", [1, 3, 8, 16, 17, 70])
def test_rows_of_any_size(n_landmarks, n_features, dtype, given):
    rng = np.random.default_rng([n_landmarks, n_features])
    Z, X = (rng.normal(size=(n, n_features)).astype(given) for n in (n_landmarks, 19))
    scale = rng.uniform(0.5, 2.0, n_features)
    precision = np.float32 if given == np.float32 else dtype
    for metric, factors in ((Euclidean(), 1.0), (StandardizedEuclidean(scale), 1 / scale)):
        embedder = built(metric, Z, dtype)
        assert_is(embedder.project(X, 1), embedder, naive_rows(X, Z, factors), precision)
    embedder = built(Periodic(2.0), Z, dtype)
    assert_is(embedder.project(3 * X, 1), embedder, naive_rows(3 * X, Z, period=2.0), precision)


def test_a_feature_that_does_not_count_must_be_finite():
    embedder = built(StandardizedEuclidean([1.0, np.inf]), np.eye(2))
    assert embedder.project(np.array([[1.0, 1e300]])).coordinates.shape == (1, 2)
    for bad in (np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="holds NaN or an infinite value"):
            embedder.project(np.array([[1.0, bad]]))


# -- every kind --------------------------------------------------------------------------------

KINDS = {
    "rmsd, few": (lambda: RMSD(), (7, 3), 5),
    "rmsd, weighed": (lambda: RMSD(np.arange(1.0, 8.0)), (7, 3), 40),
    "rmsd, some atoms": (lambda: RMSD([1, 1, 0, 1, 1, 1, 0]), (7, 3), 9),
    "rmsd, many": (lambda: RMSD(), (7, 3), 69),
    "euclidean, few": (lambda: Euclidean(), (3,), 6),
    "euclidean, many": (lambda: Euclidean(), (5,), 90),
    "euclidean, wide": (lambda: Euclidean(), (40,), 6),
    "euclidean, wide and many": (lambda: Euclidean(), (40,), 70),
    "standardized": (lambda: StandardizedEuclidean([0.5, 1.0, 4.0]), (3,), 6),
    "periodic": (lambda: Periodic(2.0), (3,), 20),
    "features": (
        lambda: Features(7, dihedrals=[[0, 1, 2, 3]], distances=[[0, 6]], contacts=[[1, 5], [0, 4]]),
        (7, 3),
        12,
    ),
}


def is_left_to_products(embedder):
    """Say whether rows are prepared, and then depend on their batch by rounding, with a narrow instruction set."""
    is_wide = isinstance(embedder.landmarks, RowPoints)
    return is_wide and kernels.INSTRUCTION_SET != "x86_64_v4" and embedder.direct_step is None


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    make, shape, n_landmarks = KINDS[request.param]
    rng = np.random.default_rng(5)
    centre = rng.normal(size=shape)
    Z, X = (centre + 0.5 * rng.normal(size=(n, *shape)) for n in (n_landmarks, 150))
    return make(), Z, X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_used_and_agrees_with_prepared_points(kind, dtype):
    metric, Z, X = kind
    embedder = built(metric, Z, dtype)
    direct = embedder.project_directly(X)
    assert direct is not None or is_left_to_products(embedder)
    if direct is None:
        pytest.skip("products of matrices are quicker with this instruction set")
    expected = embedder.extend(embedder.prepare(X), 1)
    allowed = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(direct.coordinates, expected.coordinates, **allowed)
    np.testing.assert_allclose(direct._extended.squared_distance, expected.squared_distance, **allowed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_threads_streams_and_gradients_give_the_same_bits(kind, dtype):
    metric, Z, X = kind
    X = X.astype(dtype)
    embedder = built(metric, Z, dtype)
    if is_left_to_products(embedder):
        pytest.skip("products of matrices are rounded otherwise for other numbers of rows")
    whole = embedder.project(X, 1)
    wanted = [whole.coordinates, *whole.coverage[:3]]
    for size in (1, 2, 7, 64, 100):
        parts = [embedder.project(X[begin : begin + size], 1) for begin in range(0, len(X), size)]
        for position, expected in enumerate(wanted):
            found = [(part.coordinates, *part.coverage[:3])[position] for part in parts]
            np.testing.assert_array_equal(np.concatenate(found), expected)
    np.testing.assert_array_equal([embedder.embed_one(x) for x in X], whole.coordinates)
    extended, _ = embedder.extend_with_gradient(X, 1)
    np.testing.assert_array_equal(extended.coordinates, whole.coordinates)
    np.testing.assert_array_equal(extended.squared_distance, whole._extended.squared_distance)
    np.testing.assert_array_equal(extended.nearest, whole.coverage.nearest)
    cut = built(metric, Z, dtype)
    cut.__dict__["_direct_rows"] = 13
    np.testing.assert_array_equal(cut.project(X, 3).coordinates, whole.coordinates)


@pytest.mark.parametrize("draw", range(12))
def test_no_bit_depends_on_the_cut_whatever_the_sizes(draw):
    rng = np.random.default_rng(draw)
    n_features, n_landmarks = rng.integers(1, 40), rng.integers(1, 140)
    dtype, given = (np.float32, np.float64)[draw % 2], (np.float32, np.float64)[draw // 2 % 2]
    metric, shape = [
        (RMSD(rng.uniform(0.1, 1.0, n_features)), (n_features, 3)),
        (Euclidean(), (n_features,)),
        (StandardizedEuclidean(rng.uniform(0.5, 2.0, n_features)), (n_features,)),
        (Periodic(rng.uniform(0.5, 3.0, n_features)), (n_features,)),
    ][draw % 4]
    embedder = built(metric, rng.normal(size=(n_landmarks, *shape)), dtype)
    if is_left_to_products(embedder):
        pytest.skip("products of matrices are rounded otherwise for other numbers of rows")
    X = rng.normal(size=(60, *shape)).astype(given)
    whole = embedder.project(X, 1)
    cuts = np.unique(rng.integers(0, 60, 9))
    parts = [embedder.project(part, 1) for part in np.split(X, cuts) if len(part)]
    for position, expected in enumerate([whole.coordinates, *whole.coverage[:3]]):
        found = [(part.coordinates, *part.coverage[:3])[position] for part in parts]
        np.testing.assert_array_equal(np.concatenate(found), expected)
    np.testing.assert_array_equal([embedder.embed_one(x) for x in X], whole.coordinates)
    squared = embedder.squares(X)
    np.testing.assert_array_equal(squared.min(axis=1), whole._extended.squared_distance)
    np.testing.assert_array_equal(squared.argmin(axis=1), whole.coverage.nearest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_without_coordinates_are_the_same(kind, dtype):
    metric, Z, X = kind
    embedder = built(metric, Z, dtype)
    for points in (X, X[:1], X[:3]):  # of the same size, so that products of matrices are, too
        placed = embedder.without_coordinates.project(points, 1)
        assert placed.coordinates.shape == (len(points), 0)
        for found, expected in zip(placed.coverage, embedder.project(points, 1).coverage, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [5, 70])
@pytest.mark.parametrize("reach", [0.9, 1.9, 3.9, 40.0])
def test_angles_many_periods_away(reach, n_landmarks, dtype):
    rng = np.random.default_rng(2)
    Z, X = rng.uniform(-1, 1, size=(n_landmarks, 5)), rng.uniform(-reach, reach, size=(37, 5))
    X[0] = [2.0, -2.0, 1.0, -1.0, 0.0]
    Z, X = Z.astype(dtype), X.astype(dtype)
    embedder = built(Periodic(2.0), Z, dtype)
    assert_is(embedder.project(X, 1), embedder, naive_rows(X, Z, period=2.0), dtype)
    assert_is(embedder.project(X[:2], 1), embedder, naive_rows(X[:2], Z, period=2.0), dtype)


@pytest.mark.parametrize("step", [1, 2, 7, 200])
def test_points_inside_are_counted(kind, step):
    metric, Z, X = kind
    projected = built(metric, Z).project(X)
    distances = np.sqrt(projected._extended.squared_distance)
    projected._embedder.squared_radii[:] = np.median(distances) ** 2
    expected = projected.coverage.inside[::step]
    assert projected.count_inside(step) == np.count_nonzero(expected)
    assert step > 10 or 0 < np.count_nonzero(expected) < len(expected)


LAYOUTS = {
    "every second": lambda X: np.repeat(X, 2, axis=0)[::2],
    "Fortran": np.asfortranarray,
    "backwards": lambda X: X[..., ::-1].copy()[..., ::-1],
    "swapped bytes": lambda X: X.astype(X.dtype.newbyteorder()),
    "at an odd byte": lambda X: np.frombuffer(b"?" + X.tobytes(), offset=1).reshape(X.shape),
    "read-only": lambda X: np.lib.stride_tricks.as_strided(X, writeable=False),
    "a list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_and_types_change_no_bit(kind, layout):
    metric, Z, X = kind
    embedder = built(metric, Z)
    np.testing.assert_array_equal(embedder.project(layout(X)).coordinates, embedder.project(X).coordinates)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 63, 149])
def test_a_value_that_is_not_finite_is_found_on_the_way(kind, row, bad, dtype):
    metric, Z, X = kind
    embedder = built(metric, Z, dtype)
    for place in (0, -1):
        broken = X.astype(dtype)
        broken[row].reshape(-1)[place] = bad
        assert embedder.project_directly(broken) is None
        with pytest.raises(InvalidInputError, match=f"point {row} .* holds NaN or an infinite value"):
            embedder.project(broken)
        with pytest.raises(InvalidInputError, match=f"point {row} .* holds NaN or an infinite value"):
            embedder.extend_with_gradient(broken)


def test_settings_that_changed_are_noticed():
    for metric, name, value in (
        (RMSD(np.ones(7)), "weights", np.arange(1.0, 8.0)),
        (StandardizedEuclidean([1.0, 2.0, 3.0]), "scale", [3.0, 2.0, 1.0]),
        (Periodic(2.0), "period", 3.0),
    ):
        shape = (7, 3) if metric.takes_frames else (3,)
        rng = np.random.default_rng(0)
        embedder = built(metric, rng.normal(size=(5, *shape)))
        X = rng.normal(size=(4, *shape))
        assert embedder.project_directly(X) is not None
        setattr(metric, name, value)
        assert embedder.project_directly(X) is None
        expected = embedder.extend(embedder.prepare(X)).coordinates
        np.testing.assert_array_equal(embedder.project(X).coordinates, expected)


def test_metrics_without_a_direct_step_are_prepared():
    embedder = built(Hamming(), np.eye(4))
    assert embedder.direct_step is None
    assert embedder.project_directly(np.eye(4)) is None
    assert embedder.project(np.eye(4)).coordinates.shape == (4, 2)
