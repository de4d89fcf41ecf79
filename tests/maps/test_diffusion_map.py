"""The exact map: eigenvectors of the walk, Nyström over all points, weights, α and t."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import DiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.validation.fidelity import match_columns


@pytest.fixture(scope="module")
def cloud() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(150, 4)) * [3.0, 2.0, 1.0, 0.5]


def naive_walk(X: np.ndarray, epsilon: float, weights: np.ndarray, alpha: float) -> np.ndarray:
    """The walk's matrix, transcribed: A, density q, a = A/(q q)^α, P = D⁻¹ a C."""
    n = len(X)
    A = np.array([[np.exp(-np.sum((X[i] - X[j]) ** 2) / (2 * epsilon)) for j in range(n)] for i in range(n)])
    q = A @ weights
    a = A / np.outer(q, q) ** alpha
    P = a * weights
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedding_holds_eigenvectors_of_the_walk(cloud, alpha, weighted):
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(cloud)) if weighted else np.ones(len(cloud))
    model = DiffusionMap(4, "connected", alpha=alpha).fit(cloud, sample_weight=weights)
    walk = naive_walk(cloud, model.epsilon_, weights, alpha)
    psi = model.embedding_
    assert np.linalg.norm(walk @ psi - psi * model.eigenvalues_, axis=0).max() < 1e-10
    values = np.sort(np.linalg.eigvals(walk).real)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[1:5], atol=1e-11)
    np.testing.assert_allclose(weights @ psi**2, 1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("t", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_of_training_points_is_the_embedding(cloud, alpha, t, dtype):
    X = cloud.astype(dtype)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = DiffusionMap(3, "connected", alpha=alpha, diffusion_time=t).fit(X, sample_weight=weights)
    tolerance = 2e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(
        model.transform(X), model.embedding_, atol=tolerance * np.abs(model.embedding_).max()
    )
    assert model.transform(X).dtype == dtype


def test_diffusion_time_scales_each_coordinate_by_its_eigenvalue(cloud):
    still, moved = (DiffusionMap(3, 6.0, diffusion_time=t).fit(cloud) for t in (0.0, 2.0))
    np.testing.assert_allclose(moved.embedding_, still.embedding_ * still.eigenvalues_**2, atol=1e-12)
    np.testing.assert_allclose(
        moved.transform(cloud + 0.01), still.transform(cloud + 0.01) * still.eigenvalues_**2
    )


def test_out_of_sample_matches_the_equation(cloud):
    model = DiffusionMap(2, 5.0).fit(cloud)
    new = np.random.default_rng(9).normal(size=(7, 4))
    for x, got in zip(new, model.transform(new), strict=True):
        row = np.exp(-np.sum((cloud - x) ** 2, axis=1) / (2 * model.epsilon_))
        np.testing.assert_allclose(got, (row / row.sum()) @ model.embedding_ / model.eigenvalues_, atol=1e-12)


def test_integer_weights_equal_repeated_points(cloud):
    counts = np.random.default_rng(2).integers(1, 4, len(cloud))
    weighted = DiffusionMap(3, 4.0).fit(cloud, sample_weight=counts)
    repeated = DiffusionMap(3, 4.0).fit(np.repeat(cloud, counts, axis=0))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, atol=1e-11)
    np.testing.assert_allclose(
        weighted.embedding_, match_columns(weighted.embedding_, repeated.embedding_[first]), atol=1e-9
    )


def test_points_of_zero_weight_take_no_part_and_are_embedded(cloud):
    weights = np.ones(len(cloud))
    weights[::5] = 0.0
    model = DiffusionMap(2, "connected").fit(cloud, sample_weight=weights)
    alone = DiffusionMap(2, "connected").fit(cloud[weights > 0])
    assert model.epsilon_ == alone.epsilon_
    np.testing.assert_allclose(model.embedding_[weights > 0], alone.embedding_, atol=1e-12)
    np.testing.assert_allclose(model.embedding_[::5], alone.transform(cloud[::5]), atol=1e-12)


def test_sparse_kernel_gives_the_dense_map():
    X = swiss_roll(1200, random_state=1).points
    dense = DiffusionMap(2, 3.0, solver="stored").fit(X)
    sparse = DiffusionMap(2, 3.0, solver="sparse").fit(X)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(
        match_columns(dense.embedding_, sparse.embedding_), dense.embedding_, atol=1e-7
    )
    assert (dense.solution_.solver, sparse.solution_.solver) == ("stored", "sparse")
    np.testing.assert_array_equal(sparse.solution_.error_bound, 0.0)


def test_refit_computes_no_distance_again(cloud, monkeypatch):
    model = DiffusionMap(2, "connected", keep_distances=True).fit(cloud)
    monkeypatch.setattr(
        Euclidean, "squared_block", lambda *args: pytest.fail("a distance was computed again")
    )
    model.refit(epsilon=7.0)
    monkeypatch.undo()
    fresh = DiffusionMap(2, 7.0).fit(cloud)
    np.testing.assert_allclose(model.embedding_, fresh.embedding_, atol=1e-12)
    np.testing.assert_allclose(model.transform(cloud[:5] + 0.1), fresh.transform(cloud[:5] + 0.1))
    assert model.epsilon_ == 7.0
    with pytest.raises(InvalidInputError, match="keep_distances=True"):
        fresh.refit(epsilon=3.0)


def test_gap_chooses_the_number_of_components():
    # Three tight clusters: two slow modes between them, then a wide gap.
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]])
    X = np.concatenate([centre + 0.3 * rng.normal(size=(60, 2)) for centre in centres])
    model = DiffusionMap("gap", "connected").fit(X)
    assert model.n_components_ == 2
    assert model.embedding_.shape == (180, 2)
    assert len(model.spectrum_) > 2


def test_a_graph_that_falls_apart_is_an_error_with_the_remedy():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) + 40.0])
    with pytest.raises(DisconnectedError, match=r"2 components .*30, 20") as caught:
        DiffusionMap(2, 9.0).fit(X)
    assert caught.value.component_sizes == (30, 20)
    assert caught.value.joining_epsilon == DiffusionMap(2, "connected").fit(X).epsilon_
    DiffusionMap(2, caught.value.joining_epsilon).fit(X)
    with pytest.raises(DisconnectedError, match=r"2 components .*30, 20"):
        DiffusionMap(2, 9.0, solver="sparse").fit(X)
    with pytest.raises(DisconnectedError, match=r"2 components .*30, 20"):
        DiffusionMap(2, 9.0, solver="streamed").fit(X)


def test_the_tails_of_the_kernel_may_hold_the_walk_together(cloud):
    """Below the connected ε hops of a few √ε still join the points; only a walk in pieces is refused."""
    connected = DiffusionMap(2, "connected").fit(cloud)
    assert DiffusionMap(2, connected.epsilon_ / 4).fit(cloud).eigenvalues_[0] < 1 - 1e-6
    with pytest.raises(DisconnectedError):
        DiffusionMap(2, connected.epsilon_ / 25.1).fit(cloud)


def test_molecular_frames_of_either_shape():
    frames = np.random.default_rng(0).normal(size=(60, 5, 3))
    flat = DiffusionMap(2, "connected", metric="rmsd").fit(frames.reshape(60, 15))
    deep = DiffusionMap(2, "connected", metric=RMSD()).fit(frames)
    np.testing.assert_array_equal(flat.embedding_, deep.embedding_)
    np.testing.assert_array_equal(flat.transform(frames), deep.transform(frames.reshape(60, 15)))


def test_precomputed_distances_give_the_same_map(cloud):
    distances = Euclidean().pairwise(cloud)
    direct = DiffusionMap(3, 5.0).fit(cloud)
    given = DiffusionMap(3, 5.0, metric="precomputed").fit(distances)
    np.testing.assert_allclose(given.embedding_, direct.embedding_, atol=1e-10)
    new = cloud[:4] + 0.2
    np.testing.assert_allclose(
        given.transform(Euclidean().pairwise(new, cloud)), direct.transform(new), atol=1e-10
    )


def test_results_do_not_depend_on_threads():
    X = swiss_roll(900, random_state=0).points
    one, three = (DiffusionMap(3, 4.0, n_threads=n).fit(X) for n in (1, 3))
    np.testing.assert_array_equal(one.embedding_, three.embedding_)
    np.testing.assert_array_equal(one.transform(X + 0.1), three.transform(X + 0.1))
