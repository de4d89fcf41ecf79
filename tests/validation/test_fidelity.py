import math

import numpy as np
import pytest

from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.errors import InvalidInputError
from ldmaps.validation.fidelity import (
    column_matching,
    in_common,
    match_columns,
    nrmse,
    point_errors,
    turn_modes,
)


def pair(seed, n=60, k=4, noise=0.05):
    rng = np.random.default_rng(seed)
    reference = rng.standard_normal((n, k)) * [1.0, 0.5, 2.0, 0.1][:k]
    return reference, reference + noise * np.ptp(reference, axis=0) * rng.standard_normal((n, k))


def naive_zeta(reference, embedding, spans):
    """Eqn zeta_error, point by point."""
    return [
        100 * math.sqrt(sum(((b - a) / span) ** 2 for a, b, span in zip(x, y, spans, strict=True)))
        for x, y in zip(reference.tolist(), embedding.tolist(), strict=True)
    ]


def naive_spans(reference):
    return [max(column) - min(column) for column in reference.T.tolist()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_zeta_and_z_are_the_papers(seed, k):
    reference, embedding = pair(seed, k=k)
    expected = naive_zeta(reference, embedding, naive_spans(reference))
    np.testing.assert_allclose(point_errors(reference, embedding, matched=True), expected, rtol=1e-12)
    np.testing.assert_allclose(point_errors(reference, embedding), expected, rtol=1e-12)
    z = math.sqrt(sum(value**2 for value in expected) / len(expected))
    assert nrmse(reference, embedding) == pytest.approx(z, rel=1e-12)
    assert nrmse(reference, embedding, matched=True) == pytest.approx(z, rel=1e-12)
    # Noise of five percent of each coordinate's range, in k coordinates.
    assert z == pytest.approx(5 * math.sqrt(k), rel=0.35)


def test_worked_example():
    reference = [[0.0, 0.0], [4.0, 1.0]]
    embedding = [[0.4, 0.0], [4.0, 1.2]]
    np.testing.assert_allclose(point_errors(reference, embedding, matched=True), [10.0, 20.0])
    assert nrmse(reference, embedding, matched=True) == pytest.approx(math.sqrt(250.0))


def test_perfect_embedding_has_no_error():
    reference, _ = pair(0)
    assert not point_errors(reference, reference).any()
    assert nrmse(reference, reference) == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_sign_and_order_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    reference, embedding = pair(seed)
    order, signs = rng.permutation(4), rng.choice([-1.0, 1.0], 4)
    shuffled = embedding[:, order] * signs
    assert nrmse(reference, shuffled) == pytest.approx(nrmse(reference, embedding), rel=1e-12)
    np.testing.assert_allclose(
        point_errors(reference, shuffled), point_errors(reference, embedding), rtol=1e-12
    )
    np.testing.assert_array_equal(match_columns(reference, shuffled), embedding)
    if not (np.array_equal(order, np.arange(4)) and (signs > 0).all()):
        assert nrmse(reference, shuffled, matched=True) > 2 * nrmse(reference, embedding)

    found_order, found_signs = column_matching(reference, shuffled)
    np.testing.assert_array_equal(order[found_order], np.arange(4))
    np.testing.assert_array_equal(found_signs, signs[found_order])


def test_columns_are_matched_one_to_one_for_the_best_total():
    # Both columns look most like the first reference; greedy matching would take the better one and lose the other.
    reference = np.eye(3)[:, :2] + 0.0
    embedding = np.array([[1.0, 0.9], [0.0, -0.6], [0.3, 0.0]])
    order, signs = column_matching(reference, embedding)
    assert order.tolist() == [0, 1]
    assert signs.tolist() == [1.0, -1.0]


def test_scale_of_the_columns_does_not_change_the_match():
    reference, embedding = pair(3)
    order, signs = column_matching(reference, embedding[:, ::-1] * [1e6, -1e-6, 1.0, -1.0])
    assert order.tolist() == [3, 2, 1, 0]
    assert signs.tolist() == [-1.0, 1.0, -1.0, 1.0]


def test_column_of_zeros_is_matched_to_what_is_left():
    reference, _ = pair(4, k=3)
    embedding = reference[:, [2, 0, 1]].copy()
    embedding[:, 0] = 0.0
    order, signs = column_matching(reference, embedding)
    assert order.tolist() == [1, 2, 0]
    assert signs.tolist() == [1.0, 1.0, 1.0]


def test_given_ranges_replace_those_of_the_reference():
    reference, embedding = pair(5)
    spans = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(
        point_errors(reference, embedding, ranges=spans), naive_zeta(reference, embedding, spans), rtol=1e-12
    )
    doubled = nrmse(reference, embedding, ranges=2 * np.ptp(reference, axis=0))
    assert doubled == pytest.approx(nrmse(reference, embedding) / 2, rel=1e-12)
    # A single test point has no range of its own and needs the training set's.
    one = point_errors(reference[:1], embedding[:1], ranges=np.ptp(reference, axis=0), matched=True)
    assert one[0] == pytest.approx(point_errors(reference, embedding)[0])


def test_arguments_are_left_alone():
    reference, embedding = pair(6)
    kept = reference.copy(), embedding.copy()
    point_errors(reference, -embedding)
    match_columns(reference, embedding)
    np.testing.assert_array_equal(reference, kept[0])
    np.testing.assert_array_equal(embedding, kept[1])


def test_single_precision_is_compared_in_double():
    reference, embedding = pair(7)
    single = point_errors(reference.astype(np.float32), embedding.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, point_errors(reference, embedding), rtol=1e-3)


@pytest.mark.parametrize("function", [point_errors, nrmse, match_columns, column_matching])
@pytest.mark.parametrize(
    ("first", "second"),
    [((5, 2), (5, 3)), ((5, 2), (4, 2)), ((5,), (5,)), ((0, 2), (0, 2)), ((2, 2, 2), (2, 2, 2))],
)
def test_embeddings_that_do_not_match(function, first, second):
    with pytest.raises(InvalidInputError, match=r"two \(n, k\) arrays of the same shape, got ") as caught:
        function(np.ones(first), np.ones(second))
    assert f"{first} and {second}" in str(caught.value)


@pytest.mark.parametrize("function", [point_errors, nrmse, match_columns, column_matching])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_not_finite(function, which, value):
    arrays = [array.copy() for array in pair(0)]
    arrays[which][3, 1] = value
    with pytest.raises(InvalidInputError, match="finite"):
        function(*arrays)


@pytest.mark.parametrize("ranges", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], 1.0], ids=repr)
def test_ranges_that_cannot_normalise(ranges):
    reference, embedding = pair(0, k=2)
    with pytest.raises(
        InvalidInputError, match=r"needs a positive range to normalise by, got .*or pass ranges="
    ):
        point_errors(reference, embedding, ranges=ranges)


def test_constant_reference_has_no_range():
    with pytest.raises(InvalidInputError, match="give at least two different points"):
        nrmse(np.ones((5, 2)), np.zeros((5, 2)))


# -- modes of a new map, turned to old coordinates ------------------------------------


def turned(old, modes, eigenvalues, weights, growth=1.0):
    lengths = np.sqrt(weights @ modes**2)
    turn = turn_modes(old, modes[: len(old)], np.asarray(eigenvalues), weights[: len(old)], lengths, growth)
    return turn, modes @ turn.mixture + turn.shift


def test_degenerate_modes_are_turned_back():
    """On a square cos x and cos y have one eigenvalue, and any turn of them is as good."""
    side = np.linspace(0, 1, 12)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    squared = ((square[:, None] - square) ** 2).sum(axis=2)
    weights = np.ones(len(square))
    spectrum = solve_spectrum(np.exp(-squared / 0.04), weights, 6)
    assert spectrum.eigenvalues[0] == pytest.approx(spectrum.eigenvalues[1])
    angle = 0.7
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    old = 2.5 * spectrum.vectors[:, :2] @ rotation + [3.0, -1.0]
    np.testing.assert_allclose(
        turned(old, spectrum.vectors, spectrum.eigenvalues, weights)[1], old, atol=1e-9
    )


def test_modes_far_apart_are_never_mixed_and_keep_sign_and_order():
    modes = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 4)))[0]
    old = modes[:, [2, 0]] @ [[0.9, 0.5], [-0.5, -0.9]]
    turn, new = turned(old, modes, [0.9, 0.7, 0.4, 0.1], np.ones(50))
    assert (np.count_nonzero(turn.mixture, axis=0) == 1).all()
    assert np.abs(turn.mixture).argmax(axis=0).tolist() == [2, 0]
    np.testing.assert_array_equal(np.sign((old - old.mean(0)).T @ (new - new.mean(0))).diagonal(), 1)
    # No other scale and origin would be closer, over weighted points too.
    weights = np.random.default_rng(1).random(50) + 0.1
    turn, new = turned(old, modes, [0.9, 0.7, 0.4, 0.1], weights)
    assert weights @ (new - old) == pytest.approx(0, abs=1e-12)
    assert np.sum(weights[:, None] * (new - old) * new, axis=0) == pytest.approx(0, abs=1e-12)


def test_a_mode_that_leads_elsewhere_is_not_taken_for_an_old_coordinate():
    """It is flat on the old points but for a slope that happens to fit; its length is that over all points."""
    rng = np.random.default_rng(0)
    slope = np.linspace(-1, 1, 40)
    away = np.concatenate([0.01 * slope, np.full(40, 1.0)])
    own = np.concatenate([slope + 0.05 * rng.standard_normal(40), 0.1 * rng.standard_normal(40)])
    turn, _ = turned(slope[:, None], np.column_stack([away, own]), [0.99, 0.5], np.ones(80))
    assert np.abs(turn.mixture).argmax(axis=0).tolist() == [1]


def test_a_coordinate_that_became_another_keeps_the_scale_of_its_mode():
    rng = np.random.default_rng(0)
    old, modes = rng.standard_normal((200, 1)), rng.standard_normal((200, 1))
    turn, new = turned(old, modes, [0.9], np.ones(200), growth=1.7)
    assert np.abs(turn.mixture).ravel() == pytest.approx(1.7)
    assert new.mean() == pytest.approx(old.mean())


def test_the_share_in_common_is_the_squared_correlation():
    first, second = pair(0, k=3)
    expected = [np.corrcoef(a, b)[0, 1] ** 2 for a, b in zip(first.T, second.T, strict=True)]
    np.testing.assert_allclose(in_common(first, 5 - 3 * second, np.ones(60)), expected)
    twice = np.repeat(np.arange(60), np.arange(60) % 3 + 1)
    np.testing.assert_allclose(
        in_common(first, second, np.arange(60) % 3 + 1.0),
        in_common(first[twice], second[twice], np.ones(len(twice))),
    )
    assert in_common(np.ones((3, 1)), np.arange(3.0)[:, None], np.ones(3)) == 0.0
