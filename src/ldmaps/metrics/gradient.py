"""Gradients of squared distances to landmarks, summed with given shares: what a smooth map differentiates.

    g_cj ──► Σ_j g_cj ∂d²(x, z_j)/∂x

One class per form in which a metric knows its landmarks; each is made once for the landmarks of a map
and then called for batches of points. :class:`Places` are what is moved along a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.metrics.base import SquaresGradient

__all__ = [
    "CONTACT_POWER",
    "CONTACT_RADIUS",
    "AlignedGradient",
    "FeatureGradient",
    "FeatureGroup",
    "Places",
    "SuperposedGradient",
    "VectorGradient",
]

#: Distance in nm at which a contact is half one, and the power with which it falls: 1/(1 + (r/r0)⁶).
CONTACT_RADIUS, CONTACT_POWER = 0.8, 6


class Places(NamedTuple):
    """Where points are, for those who move them."""

    #: (n, features): what :meth:`~ldmaps.metrics.Metric.prepare` makes the same points of, to rounding
    values: NDArray[np.float64]
    #: (features,): A small move δ is a distance of √Σ (scale·δ)² at most, unless few atoms turn a whole
    #: frame; 0 where a feature does not count
    scales: NDArray[np.float64]


class VectorGradient(SquaresGradient):
    """∂d²/∂x = 2(x − z_j) for rows of features, taken the shorter way round where they are periodic."""

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
    """∂d²/∂x_a = 2 w_a (x_a − R_j z_ja): frames superposed on landmarks."""

    def __init__(
        self,
        landmarks: NDArray[Any],  # (M, a, 3): centred, times √w, of norm 1
        norms: NDArray[Any],  # (M,): squared norm and norm that they had
        scales: NDArray[Any],
        kept: NDArray[np.intp],  # (a,): which atoms of a frame these are
        weights: NDArray[np.float64],  # (a,), which sum to 1
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
    """Frames of which some atoms are superposed on landmarks, and all are compared."""

    def __init__(
        self,
        landmarks: NDArray[np.float64],  # (M, a, 3): the weighted mean of the superposed atoms is 0
        kept: NDArray[np.intp],  # (a,): which atoms of a frame these are
        weights: NDArray[np.float64],  # in the mean
        fit_weights: NDArray[np.float64],  # in the superposition; each sums to 1
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


class FeatureGroup(NamedTuple):
    """Features of one kind."""

    kind: str
    atoms: NDArray[np.intp]
    first: int  # column of the first

    @property
    def columns(self) -> slice:
        """Which columns they are."""
        return slice(self.first, self.first + len(self.atoms))


class FeatureGradient(SquaresGradient):
    """∂d²/∂x through the features of frames."""

    def __init__(
        self,
        values: Callable[[NDArray[Any]], NDArray[np.float64]],  # features of frames, not scaled
        groups: Sequence[FeatureGroup],
        scales: NDArray[np.float64],
        by_scaled: SquaresGradient,  # by scaled features
    ) -> None:
        self._values, self._groups, self._scales, self._by_scaled = values, groups, scales, by_scaled

    def add_up(
        self,
        X: NDArray[np.float64],
        squared: NDArray[Any],
        shares: NDArray[Any],
        gradient: NDArray[Any],
    ) -> None:
        """Write the sums; see :class:`SquaresGradient`."""
        frames = np.ascontiguousarray(X.reshape(len(X), -1, 3))
        values = self._values(frames)
        by_value = np.empty((*shares.shape[:2], len(self._scales)), gradient.dtype)
        self._by_scaled.add_up(values * self._scales, squared, shares, by_value)
        by_value *= self._scales.astype(gradient.dtype)
        gradient[:] = 0
        by_atom = gradient.reshape(*shares.shape[:2], -1, 3)
        for kind, atoms, first in self._groups:
            if kind == "contact":  # s' = −6 (r/r0)⁶ s²/r, and s²(r/r0)⁶ = s(1 − s)
                contact = values[:, first:]
                r = CONTACT_RADIUS * (1 / contact - 1) ** (1 / CONTACT_POWER)
                slope = -CONTACT_POWER * contact * (1 - contact) / np.maximum(r, np.finfo(float).tiny)
                by_value[:, :, first:] *= slope[:, None].astype(gradient.dtype)
            kernels.add_internal_gradients(frames, atoms, first, by_value, by_atom)
