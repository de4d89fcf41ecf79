r"""Which mode of a new map is which coordinate of the old one, and how to turn it so that little moves.

Eigenvectors come with any sign, in the order of their eigenvalues, turned at will
among equals, scaled by the total mass and orthogonal to a constant that depends
on where the mass is. None of that is news about the data, so it is undone:

    y_l(x) = a_l Σ_m λ_mᵗ ψ_m(x) T_ml + b_l

- T picks the mode with the largest overlap, wherever it stands in the spectrum, and
  turns modes only among those whose rates are nearly equal (orthogonal Procrustes);
- a and b bring it as close to the old coordinate as they can, over the old landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ldmaps.diffusion.spectrum import Spectrum

__all__ = ["ModeMatch", "as_solved", "match_modes"]

#: Modes whose rates −log λ differ by less than this share may turn among themselves, so they may be turned back.
NEAR_DEGENERATE = 0.05
#: A coordinate with less than this share of its variance in common with its old self is a different one.
SAME_SHARE = 0.5

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class ModeMatch:
    """How coordinates are made of modes.

    Attributes
    ----------
    modes : ndarray of int, shape (k,)
        Mode with the largest part in each coordinate.
    mixture : ndarray of shape (K, k)
        T times a.
    shift : ndarray of shape (k,)
        b.
    in_common : ndarray of shape (k,)
        Squared correlation with the old coordinate over the old landmarks; NaN for a new one.
    """

    modes: NDArray[np.intp]
    mixture: _Array
    shift: _Array
    in_common: _Array

    def coordinates(self, spectrum: Spectrum, power: float) -> _Array:
        """Return ΨΛ^power T·a + b, of shape (M', k): coordinates for t, Nyström's coefficients for t − 1."""
        return np.asarray((spectrum.vectors * _powers(spectrum, power)) @ self.mixture + self.shift)

    def eigenvalues(self, spectrum: Spectrum) -> _Array:
        """Return λ of each coordinate; of a mixture, the mean by the parts' squares."""
        parts = self.mixture**2
        return np.asarray(spectrum.eigenvalues @ parts / parts.sum(axis=0))

    def slower_modes(self) -> NDArray[np.intp]:
        """Return the modes that are no coordinate though slower than one that is."""
        return np.setdiff1d(np.arange(self.modes.max(initial=0)), self.modes)

    def with_further(self, count: int, scale: float) -> ModeMatch:
        """Return the match with the slowest modes that are no coordinate yet as further coordinates."""
        free = np.setdiff1d(np.arange(len(self.mixture)), self.modes)[:count]
        further = np.zeros((len(self.mixture), len(free)))
        further[free, np.arange(len(free))] = scale
        return replace(
            self,
            modes=np.concatenate([self.modes, free]),
            mixture=np.column_stack([self.mixture, further]),
            shift=np.concatenate([self.shift, np.zeros(len(free))]),
            in_common=np.concatenate([self.in_common, np.full(len(free), np.nan)]),
        )


def as_solved(old: _Array, weights: _Array, spectrum: Spectrum, time: float) -> ModeMatch:
    """Take the leading modes as they are, and only say what they have in common with the old coordinates."""
    k = old.shape[1]
    mixture = np.eye(len(spectrum.eigenvalues), k)
    found = ModeMatch(np.arange(k), mixture, np.zeros(k), np.zeros(k))
    new = found.coordinates(spectrum, time)[: len(old)]
    return replace(found, in_common=_correlation(old, new, weights) ** 2)


def match_modes(
    old: _Array, weights: _Array, spectrum: Spectrum, all_weights: _Array, time: float
) -> ModeMatch:
    """Match the modes of a new map to old coordinates.

    Parameters
    ----------
    old : ndarray of shape (M, k)
        Coordinates of the old landmarks.
    weights : ndarray of shape (M,)
        Their multiplicities in the old map.
    spectrum : Spectrum
        K ≥ k modes of the new map over M' landmarks, the old ones first.
    all_weights : ndarray of shape (M',)
        Multiplicities in the new map.
    time : float
        Diffusion time t.
    """
    modes = spectrum.vectors * _powers(spectrum, time)
    overlap = _overlap(old, modes, weights, all_weights)
    _, order = linear_sum_assignment(-np.abs(overlap))
    mixture = np.zeros((len(spectrum.eigenvalues), old.shape[1]))
    for group in _near_degenerate(spectrum.eigenvalues):
        columns = np.flatnonzero(np.isin(order, group))
        if not len(columns):
            continue
        # Orthonormal columns nearest to the overlaps: a sign for a mode of its own, a turn among equals.
        left, _, right = np.linalg.svd(overlap[np.ix_(columns, group)].T, full_matrices=False)
        mixture[np.ix_(group, columns)] = left @ right
    new = modes[: len(old)] @ mixture
    correlation = _correlation(old, new, weights)
    in_common = correlation**2
    spread_old, spread_new = _spread(old, weights), _spread(new, weights)
    fitted = np.divide(
        correlation * spread_old, spread_new, out=np.ones_like(correlation), where=spread_new > 0
    )
    # Least squares would flatten a coordinate that is a different one now. It keeps the scale that the larger mass
    # calls for.
    scale = np.where(in_common >= SAME_SHARE, fitted, np.sqrt(all_weights.sum() / weights.sum()))
    shift = _mean(old, weights) - scale * _mean(new, weights)
    return ModeMatch(np.abs(mixture).argmax(axis=0), mixture * scale, shift, in_common)


def _powers(spectrum: Spectrum, power: float) -> _Array:
    # Modes beyond those asked for may have eigenvalues of zero, which no power but 0 bears.
    values = np.maximum(spectrum.eigenvalues, np.finfo(np.float64).tiny)
    return np.asarray(np.where(spectrum.eigenvalues > 0, values**power, 0.0))


def _mean(values: _Array, weights: _Array) -> _Array:
    return np.asarray(weights @ values / weights.sum())


def _spread(values: _Array, weights: _Array) -> _Array:
    return np.asarray(np.sqrt(_mean((values - _mean(values, weights)) ** 2, weights)))


def _correlation(old: _Array, new: _Array, weights: _Array) -> _Array:
    products = _mean((old - _mean(old, weights)) * (new - _mean(new, weights)), weights)
    lengths = _spread(old, weights) * _spread(new, weights)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def _overlap(old: _Array, modes: _Array, weights: _Array, all_weights: _Array) -> _Array:
    """Return the part of each mode (of its length over all landmarks) that is an old coordinate, (k, K).

    By the length over all landmarks, because a mode that leads to the new points is
    nearly flat on the old ones, and what slope it has there resembles an old coordinate.
    """
    centred = old - _mean(old, weights)
    there = modes[: len(old)]
    products = (centred * weights[:, None]).T @ (there - _mean(there, weights))
    lengths = np.sqrt(weights @ centred**2)[:, None] * np.sqrt(all_weights @ modes**2)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def _near_degenerate(eigenvalues: _Array) -> list[NDArray[np.intp]]:
    """Return runs of modes whose rates follow each other closely."""
    rates = -np.log(np.clip(eigenvalues, np.finfo(np.float64).tiny, 1.0))
    apart = np.diff(rates) >= NEAR_DEGENERATE * rates[1:]
    return np.split(np.arange(len(rates)), np.flatnonzero(apart) + 1)
