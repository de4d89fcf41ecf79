"""Coefficients between bounds, so that a function never leaves them.

w(x) is positive and sums to 1, so w(x)·B lies between the least and the largest coefficient. B is fitted by least
squares to a function that is known at some frames.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

#: Ridge that keeps B near the function at the landmarks, in units of the mean diagonal of the normal equations.
RIDGE = 1e-3

_Array = NDArray[np.float64]


def bounded_fit(
    weights: _Array, values: _Array, counts: _Array, start: _Array, low: float, high: float
) -> _Array:
    """Return B, (M,), with w·B nearest to values at frames, and ``low`` ≤ B ≤ ``high``.

    Parameters
    ----------
    weights : ndarray of shape (n, M)
        w of the frames.
    values : ndarray of shape (n,)
        What the function is there.
    counts : ndarray of shape (n,)
        How much each frame counts.
    start : ndarray of shape (M,)
        What B stays near to where frames do not decide it.
    low, high : float
        The bounds; infinite where there is none.
    """
    scaled = weights * counts[:, None]
    gram, moments = weights.T @ scaled, scaled.T @ values
    ridge = RIDGE * np.trace(gram) / len(gram)
    gram.flat[:: len(gram) + 1] += ridge
    moments += ridge * start
    factor = scipy.linalg.cholesky(gram, lower=True)
    right = scipy.linalg.solve_triangular(factor, moments, lower=True)
    free = scipy.linalg.solve_triangular(factor.T, right, lower=False)
    if low <= free.min() and free.max() <= high:
        return np.asarray(free)
    found = lsq_linear(factor.T, right, bounds=(low, high), method="trf", tol=1e-8, max_iter=200)
    return np.asarray(np.clip(found.x, low, high))
