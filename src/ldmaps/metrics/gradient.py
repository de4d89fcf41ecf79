"""Gradients of squared distances to landmarks, summed with given shares: what a smooth map differentiates.

    g_cj ──► Σ_j g_cj ∂d²(x, z_j)/∂x

One class per form in which a metric knows its landmarks; each is made once for the landmarks of a map
and then called for batches of points. :class:`Places` are what is moved along a gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.metrics.base import SquaresGradient

__all__ = ["AlignedGradient", "Places", "SuperposedGradient", "VectorGradient"]


class Places(NamedTuple):
    """Where points are, for those who move them.

    Attributes
    ----------
    values : ndarray of shape (n, features), float64
        What :meth:`~ldmaps.metrics.Metric.prepare` makes the same points of, to rounding.
    scales : ndarray of shape (features,), float64
        A small move δ is a distance of √Σ (scale·δ)² at most, unless few atoms turn a whole frame; 0 where a feature
        does not count.
    """

    values: NDArray[np.float64]
    scales: NDArray[np.float64]


class VectorGradient(SquaresGradient):
    """∂d²/∂x = 2(x − z_j) for rows of features, taken the shorter way round where they are periodic.

    Parameters
    ----------
    values : ndarray of shape (M, features)
    period : ndarray of shape (features,), optional
    """

    def __init__(self, values: NDArray[Any], period: NDArray[np.float64] | None = None) -> None:
        self.columns = np.ascontiguousarray(values.T, np.float64)
        self.period = period

    def add_up(
        self,
        X: NDArray[np.float64],
        squared: NDArray[Any],
        shares: NDArray[Any],
        gradient: NDArray[Any],
    ) -> None:
        """Write the sums; see :class:`SquaresGradient`."""
        period = np.zeros(len(self.columns)) if self.period is None else self.period
        if self.period is not None:
            X = X - period * np.rint(X / period)  # angles may be many periods away
        kernels.vector_gradients(self.columns, X, period, shares, gradient)


class SuperposedGradient(SquaresGradient):
    """∂d²/∂x_a = 2 w_a (x_a − R_j z_ja): frames superposed on landmarks.

    Parameters
    ----------
    landmarks : ndarray of shape (M, a, 3)
        Centred, times √w, of norm 1.
    norms, scales : ndarray of shape (M,)
        Squared norm and norm that they had.
    kept : ndarray of int, shape (a,)
        Which atoms of a frame these are.
    weights : ndarray of shape (a,)
        Their weights, which sum to 1.
    """

    def __init__(
        self,
        landmarks: NDArray[Any],
        norms: NDArray[Any],
        scales: NDArray[Any],
        kept: NDArray[np.intp],
        weights: NDArray[np.float64],
    ) -> None:
        size = kernels.GRADIENT_BLOCK
        n_landmarks, n_atoms = landmarks.shape[:2]
        # Four atoms and a whole block at a time; what is filled up with zeros adds nothing.
        padded = np.zeros((-(-n_landmarks // size) * size, 3 * (-(-n_atoms // 4) * 4)), landmarks.dtype)
        padded[:n_landmarks, : 3 * n_atoms] = landmarks.reshape(n_landmarks, -1)
        blocks = padded.reshape(-1, size, padded.shape[1]).transpose(0, 2, 1)
        self.blocks = np.ascontiguousarray(blocks).reshape(len(blocks), -1)
        self.norms, self.scales = np.ascontiguousarray(norms), np.ascontiguousarray(scales)
        self.kept, self.weights = kept, weights

    def add_up(
        self,
        X: NDArray[np.float64],
        squared: NDArray[Any],
        shares: NDArray[Any],
        gradient: NDArray[Any],
    ) -> None:
        """Write the sums; see :class:`SquaresGradient`."""
        gradient[:] = 0
        kernels.rmsd_gradients(
            X.reshape(len(X), -1, 3),
            self.kept,
            self.weights,
            self.blocks,
            self.norms,
            self.scales,
            squared,
            shares,
            gradient.reshape(*shares.shape[:2], -1, 3),
        )


class AlignedGradient(SquaresGradient):
    """Frames of which some atoms are superposed on landmarks, and all are compared.

    Parameters
    ----------
    landmarks : ndarray of shape (M, a, 3)
        Moved so that the weighted mean of the superposed atoms is 0; float64.
    kept : ndarray of int, shape (a,)
        Which atoms of a frame these are.
    weights, fit_weights : ndarray of shape (a,)
        Weights in the mean and in the superposition; each sums to 1.
    """

    def __init__(
        self,
        landmarks: NDArray[np.float64],
        kept: NDArray[np.intp],
        weights: NDArray[np.float64],
        fit_weights: NDArray[np.float64],
    ) -> None:
        self.landmarks = np.ascontiguousarray(landmarks)
        self.kept, self.weights, self.fit_weights = kept, weights, fit_weights

    def add_up(
        self,
        X: NDArray[np.float64],
        squared: NDArray[Any],
        shares: NDArray[Any],
        gradient: NDArray[Any],
    ) -> None:
        """Write the sums; see :class:`SquaresGradient`."""
        gradient[:] = 0
        kernels.aligned_gradients(
            X.reshape(len(X), -1, 3),
            self.kept,
            self.weights,
            self.fit_weights,
            self.landmarks,
            shares,
            gradient.reshape(*shares.shape[:2], -1, 3),
        )
