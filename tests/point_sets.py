"""Small data sets, and naive float64 distances to hold against the library's."""

from itertools import pairwise

import numpy as np
from scipy.sparse.csgraph import connected_components


def sheet(n, seed, dtype=np.float64):
    """A curved two-dimensional sheet in three dimensions, denser at one end, with a little noise."""
    rng = np.random.default_rng(seed)
    u, v = rng.random(n) ** 1.5, rng.random(n)
    points = np.column_stack([np.cos(3 * u), np.sin(3 * u), v]) + 0.01 * rng.standard_normal((n, 3))
    return points.astype(dtype)


def angles(n, seed, dtype=np.float64):
    """Pairs of angles that cross ±π, so that the way round matters."""
    rng = np.random.default_rng(seed)
    walk = np.pi + np.cumsum(0.3 * rng.standard_normal((n, 2)), axis=0)
    return (np.mod(walk + np.pi, 2 * np.pi) - np.pi).astype(dtype)


def blobs(sizes, gap, seed):
    """Tight blobs (about one unit wide) at ``gap`` from each other along the first axis, shuffled."""
    rng = np.random.default_rng(seed)
    parts = [0.5 * rng.random((size, 2)) + [place * gap, 0.0] for place, size in enumerate(sizes)]
    return rng.permutation(np.concatenate(parts))


def euclidean_squares(X, Y=None):
    X = np.asarray(X, dtype=np.float64)
    Y = X if Y is None else np.asarray(Y, dtype=np.float64)
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


def periodic_squares(X, Y=None, period=2 * np.pi):
    X = np.asarray(X, dtype=np.float64)
    Y = X if Y is None else np.asarray(Y, dtype=np.float64)
    difference = X[:, None, :] - Y[None, :, :]
    return ((difference - period * np.round(difference / period)) ** 2).sum(axis=2)


def component_labels(squares, epsilon):
    """Components of the graph of pairs with d² ≤ ε, by scipy over the whole matrix."""
    return connected_components(squares <= epsilon, directed=False)[1]


def is_one_component(squares, epsilon):
    return component_labels(squares, epsilon).max() == 0


def smallest_connecting_epsilon(squares):
    """The smallest d² at which the graph is connected, by bisection over all values of d²."""
    values = np.unique(squares)
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if is_one_component(squares, values[middle]):
            high = middle
        else:
            low = middle + 1
    return float(values[low])


def never_rises(values, slack=0.0):
    return all(after <= before * (1 + slack) for before, after in pairwise(values))
