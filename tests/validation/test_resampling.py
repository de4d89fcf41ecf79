"""Blocks, resampled multiplicities and the modes that come of them, against plain bootstraps and dense solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from scipy.linalg import eig
from scipy.signal import lfilter
from scipy.spatial.distance import cdist

from ldmaps.errors import InvalidInputError
from ldmaps.validation.resampling import (
    REPRODUCIBLE,
    Blocks,
    block_error,
    cut_blocks,
    fitted_modes,
    matched,
    reproduced,
    resampled_modes,
    resampled_multiplicities,
)


def test_blocks_of_time_are_consecutive_and_stay_in_their_file():
    files = np.repeat([0, 1, 2], [500, 30, 170]).astype(np.int32)
    blocks = cut_blocks(700, "time", correlation_time=5.5, files=files)
    assert (np.diff(blocks.labels) >= 0).all()
    assert (np.diff(blocks.labels) <= 1).all()
    assert blocks.labels[0] == 0
    assert blocks.labels[-1] == blocks.count - 1
    for label in range(blocks.count):
        assert len(np.unique(files[blocks.labels == label])) == 1
    sizes = np.bincount(blocks.labels)
    assert sizes.min() >= 30  # 8 · 5, or a file that is shorter
    assert sizes.max() <= 50


def test_a_block_is_eight_correlation_times_long_and_there_are_a_dozen_at_least():
    assert cut_blocks(8000, "time", correlation_time=10.5).length == pytest.approx(80)
    assert cut_blocks(800, "time", correlation_time=0.5).length == 1
    short = cut_blocks(120, "time", correlation_time=40.5)
    assert short.count == 12
    assert not short.are_long_enough
    assert cut_blocks(8000, "time", correlation_time=10.5).are_long_enough
    assert cut_blocks(50_000, "time", correlation_time=0.5).count == 1000


def test_rows_are_shuffled_into_blocks_of_equal_size():
    blocks = cut_blocks(5000, "rows", rng=np.random.default_rng(1))
    assert (np.bincount(blocks.labels) == 5).all()
    assert abs(np.corrcoef(blocks.labels, np.arange(5000))[0, 1]) < 0.06


def test_files_are_blocks_of_their_own_and_one_file_is_none():
    files = np.array([3, 3, 5, 5, 5, 3], dtype=np.int32)
    assert cut_blocks(6, "files", files=files).labels.tolist() == [0, 0, 1, 1, 1, 0]
    for nothing in (None, np.zeros(6, dtype=np.int32)):
        with pytest.raises(
            InvalidInputError, match="two files at least; leave it out, or fit on several files"
        ):
            cut_blocks(6, "files", files=nothing)


def test_resampled_multiplicities_are_sums_over_drawn_blocks():
    rng = np.random.default_rng(0)
    cells, weights = rng.integers(0, 7, 200), rng.uniform(0, 3, 200)
    blocks = cut_blocks(200, "time", correlation_time=1.75)
    drawn = resampled_multiplicities(cells, weights, 7, blocks, 4, np.random.default_rng(5))
    counts = np.random.default_rng(5).multinomial(
        blocks.count, np.full(blocks.count, 1 / blocks.count), size=4
    )
    for row, count in zip(drawn, counts, strict=True):
        assert count.sum() == blocks.count
        plain = np.zeros(7)
        for point in range(200):
            plain[cells[point]] += weights[point] * count[blocks.labels[point]]
        np.testing.assert_allclose(row, plain * weights.sum() / plain.sum())


def test_draws_of_no_weight_are_left_out():
    weights = np.zeros(20)
    weights[3] = 2.0
    blocks = Blocks("rows", np.arange(20, dtype=np.int32), 20)
    drawn = resampled_multiplicities(np.arange(20) % 2, weights, 2, blocks, 60, np.random.default_rng(0))
    assert 20 < len(drawn) < 60
    np.testing.assert_allclose(drawn, np.tile([0.0, 2.0], (len(drawn), 1)))


def remembering(n, tau, rng):
    """An AR(1) series of variance 1 whose autocorrelation is exp(-t/tau)."""
    a = np.exp(-1 / tau)
    noise = rng.normal(size=n) * np.sqrt(1 - a**2)
    noise[0] = rng.normal()
    return lfilter([1.0], [1.0, -a], noise)


def test_block_errors_are_those_of_repeated_runs_with_memory_and_weights():
    n, tau, runs = 4000, 10.0, 150
    means, errors = [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x = remembering(n, tau, rng)
        weights = np.exp(0.5 * x)  # which tilt the mean to 0.5
        means.append(weights @ x / weights.sum())
        blocks = cut_blocks(n, "time", correlation_time=tau + 0.5)
        errors.append(block_error(x[:, None], weights, blocks)[0])
    assert np.mean(means) == pytest.approx(0.5, abs=0.03)
    # The standard deviation of 150 runs is known to 6 %.
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)


def test_inflation_makes_up_for_few_and_for_short_blocks():
    assert Blocks("rows", np.arange(10, dtype=np.int32), 10).inflation == pytest.approx(np.sqrt(10 / 9))
    labels = np.repeat(np.arange(50, dtype=np.int32), 40)
    assert Blocks("time", labels, 50, 5.5).inflation == pytest.approx(np.sqrt(50 / 49 / (1 - 5 / 40)))
    assert Blocks("files", labels, 50, 5.5).inflation == pytest.approx(np.sqrt(50 / 49))


# -- modes ------------------------------------------------------------------------


def landmark_walk(alpha=0.0, n=60, epsilon=0.5):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n, 2)) * [3.0, 1.0]
    A = np.exp(-cdist(points, points, "sqeuclidean") / (2 * epsilon))
    c = rng.integers(1, 30, n).astype(float)
    return A, c


def dense_modes(A, c, alpha, count):
    """Right eigenvectors of P over the landmarks with points, and Nyström's values at the others."""
    full = c > 0
    source = c * (A @ c) ** -alpha
    P = A * source / (A @ source)[:, None]
    values, vectors = eig(P[np.ix_(full, full)])
    order = np.argsort(-values.real)[1 : count + 1]
    values, inner = values.real[order], vectors.real[:, order]
    psi = P[:, full] @ inner / values
    return values, psi / np.sqrt(c @ psi**2)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("some", [False, True])
def test_resampled_modes_are_those_of_a_dense_solver(alpha, some, monkeypatch):
    import ldmaps.validation.resampling as module

    if some:  # fewer modes than landmarks
        monkeypatch.setattr(module, "N_MODES", 25)
    A, c = landmark_walk()
    rng = np.random.default_rng(0)
    drawn = rng.poisson(c / 3, size=(12, len(c))) * 3.0
    assert (drawn == 0).any()
    values, vectors = resampled_modes(fitted_modes(A, c, alpha), drawn, 4)
    for row, lam, psi in zip(drawn, values, vectors, strict=True):
        expected, right = dense_modes(A, row, alpha, 4)
        np.testing.assert_allclose(lam, expected, atol=2e-4)  # which vary by 100 times that
        np.testing.assert_allclose(row @ psi**2, 1.0)
        signs = np.sign(row @ (psi * right))
        np.testing.assert_allclose(psi * signs, right, atol=4e-2 * np.abs(right).max())


def test_resampled_modes_do_not_depend_on_threads_or_tiles(monkeypatch):
    import ldmaps.validation.resampling as module

    A, c = landmark_walk()
    drawn = np.random.default_rng(0).poisson(c, size=(9, len(c))).astype(float)
    whole = resampled_modes(fitted_modes(A, c), drawn, 3, 1)[0]
    monkeypatch.setattr(module, "TILE_VALUES", 1)
    each = resampled_modes(fitted_modes(A, c), drawn, 3, 1)[0]
    np.testing.assert_allclose(each, whole, atol=1e-7)
    np.testing.assert_array_equal(resampled_modes(fitted_modes(A, c), drawn, 3, 2)[0], each)


def test_the_fitted_multiplicities_give_the_fitted_modes():
    A, c = landmark_walk()
    fitted = fitted_modes(A, c)
    values, _ = resampled_modes(fitted, np.stack([c, 7 * c]), 5)
    np.testing.assert_allclose(values, np.tile(fitted.eigenvalues[1:6], (2, 1)), atol=1e-12)
    np.testing.assert_allclose(fitted.vectors.T * fitted.measure @ fitted.vectors, np.eye(len(c)), atol=1e-7)


# -- groups -----------------------------------------------------------------------


def turned(fitted, turns):
    return np.stack([fitted @ turn for turn in turns])


def orthonormal(n=40, p=5, seed=0):
    measure = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    return measure, modes_of(measure, np.random.default_rng(seed + 1).normal(size=(n, p)))


def modes_of(measure, functions):
    """Return functions with the same span, of mean 0 and orthonormal by the measure, as the modes of a walk are."""
    root = np.sqrt(measure)[:, None]
    return np.linalg.qr(np.column_stack([root, root * functions]))[0][:, 1:] / root


def rotation(p, i, j, angle):
    turn = np.eye(p)
    turn[[i, i, j, j], [i, j, i, j]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
    return turn


def test_a_pair_that_turns_within_its_plane_is_a_group():
    measure, fitted = orthonormal()
    angles = np.random.default_rng(2).uniform(0, 2 * np.pi, 50)
    vectors = turned(fitted, [rotation(5, 1, 3, angle) for angle in angles])
    cosine, groups, group_cosine = reproduced(matched(measure, fitted, vectors))
    assert groups.tolist() == [0, 1, 2, 1, 3]
    np.testing.assert_allclose(group_cosine, 1.0)
    assert cosine[[1, 3]].max() < 0.8
    np.testing.assert_allclose(cosine[[0, 2, 4]], 1.0)


def test_a_mode_that_leaves_all_others_is_noise():
    measure, fitted = orthonormal(p=8)
    rng = np.random.default_rng(4)
    vectors = turned(fitted, [np.eye(8)] * 60)
    vectors[:, :, 2] = rng.normal(size=(60, 40))
    _, groups, group_cosine = reproduced(matched(measure, fitted, vectors))
    assert np.flatnonzero(group_cosine < REPRODUCIBLE).tolist() == [2]
    assert groups.tolist() == list(range(8))


def test_a_cosine_below_the_bound_in_more_than_five_percent_is_not_reproducible():
    measure, fitted = orthonormal(p=3)
    far = turned(fitted, [np.eye(3)] * 100)
    far[:, :, 0] = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 4)))[0][:, 3:].T
    kept = turned(fitted, [np.eye(3)] * 100)
    for lost, expected in ((3, True), (8, False)):
        vectors = kept.copy()
        vectors[:lost] = far[:lost]
        group_cosine = reproduced(matched(measure, fitted, vectors))[2]
        assert bool(group_cosine[0] >= REPRODUCIBLE) is expected


def test_modes_are_matched_whatever_their_order_sign_and_length():
    measure, fitted = orthonormal(p=4)
    vectors = -3.0 * fitted[None, :, [2, 0, 3, 1]]
    matches = matched(measure, fitted, vectors)
    places, correlations = matches.places, matches.correlations
    assert places.tolist() == [[1, 3, 0, 2]]
    np.testing.assert_allclose(np.take_along_axis(correlations[0], places[0][:, None], 1), -1.0)


def test_six_states_of_other_populations_span_the_same():
    """Five modes of equal eigenvalues come in any rotation, of mean 0 and orthogonal by each resample's own weights."""
    rng = np.random.default_rng(5)
    states = np.repeat(np.eye(6), 10, axis=0)
    measure, drawn = states @ rng.uniform(0.5, 2.0, 6), states @ rng.uniform(0.5, 2.0, (6, 40))
    fitted = modes_of(measure, states[:, 1:])
    turns = [np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(40)]
    vectors = np.stack(
        [modes_of(own, states[:, 1:]) @ turn for own, turn in zip(drawn.T, turns, strict=True)]
    )
    matches = matched(measure, fitted, vectors)
    _, groups, group_cosine = reproduced(matches, n_separating=5)
    assert groups.tolist() == [0] * 5
    np.testing.assert_allclose(group_cosine, 1.0)
    assert reproduced(matches)[2].max() < REPRODUCIBLE  # as harmonics, so many would be noise


@pytest.mark.parametrize("new", [0, 3, 6])
def test_a_mode_mixed_with_many_harmonics_is_a_group_with_them(new):
    measure, fitted = orthonormal(p=7)
    rng = np.random.default_rng(new)
    vectors = turned(fitted, [np.linalg.qr(rng.normal(size=(7, 7)))[0] for _ in range(40)])
    matches = matched(measure, fitted, vectors)
    _, groups, group_cosine = reproduced(matches, is_harmonic=np.arange(7) != new)
    assert groups.tolist() == [0] * 7
    np.testing.assert_allclose(group_cosine, 1.0)
    for others in (0, 7):  # as many new ones, or harmonics alone, are noise
        assert reproduced(matches, is_harmonic=np.arange(7) < others)[2].max() < REPRODUCIBLE


def test_the_cosine_of_a_group_is_that_of_principal_angles():
    measure, fitted = orthonormal(p=3)
    other = modes_of(np.roll(measure, 1), fitted + 0.2 * np.random.default_rng(6).normal(size=fitted.shape))
    root = np.sqrt(measure)[:, None]
    mine, theirs = root * fitted[:, :2], root * (other - measure @ other / measure.sum())[:, :2]
    expected = np.cos(scipy.linalg.subspace_angles(mine, theirs).max())
    np.testing.assert_allclose(matched(measure, fitted, other[None]).cosines((0, 1)), expected)
