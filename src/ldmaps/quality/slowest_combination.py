r"""The slowest that a linear combination of the map's own landmark weights w(x) reaches: a yardstick for coordinates.

The variational approach (VAC: Noé & Nüske 2013) maximises the autocorrelation of b·w(x) at a lag,

    C_t b = ρ C_0 b,   C_0 = ½(X₀ᵀX₀ + X_tᵀX_t)/n,   C_t = ½(X₀ᵀX_t + X_tᵀX₀)/n

with w centred in X₀ and, a lag later, in X_t. What is fitted to one half of the pairs is judged on the
other: in the half it was fitted to, noise looks slow.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

#: Directions of C_0 below this share of its largest are left out: the weights are nearly dependent.
RANK_TOLERANCE = 1e-5


def lagged_pairs(
    runs: list[slice], lag: int, most: int, folds: int = 2
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first points of pairs a lag apart, at most so many, and which fold each pair is in."""
    # A fold is a stretch of consecutive points, and no pair has a point within a lag of another fold's.
    starts = np.concatenate([np.arange(run.start, max(run.start, run.stop - lag)) for run in runs])
    cut = np.arange(len(starts)) * folds // max(len(starts), 1)
    # Pairs that end in the next fold, or in the lag behind its beginning, are in none.
    near = np.zeros(len(starts), dtype=bool)
    near[: max(len(starts) - lag, 0)] = cut[: len(starts) - lag] != cut[lag:]
    starts, cut = starts[~near], cut[~near]
    stride = -(-len(starts) // most) if len(starts) else 1
    return starts[::stride].astype(np.intp), cut[::stride].astype(np.intp)


def slowest_combinations(
    now: NDArray[np.float64], later: NDArray[np.float64], n_wanted: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return autocorrelations of the slowest combinations, largest first, their b, (m, wanted), and the means."""
    mean = 0.5 * (now.mean(axis=0) + later.mean(axis=0))
    first, second = now - mean, later - mean
    instant = 0.5 * (first.T @ first + second.T @ second) / len(now)
    lagged = 0.5 * (first.T @ second + second.T @ first) / len(now)
    lengths, turns = scipy.linalg.eigh(instant)
    keep = lengths > RANK_TOLERANCE * lengths[-1]
    white = turns[:, keep] / np.sqrt(lengths[keep])
    values, mixed = scipy.linalg.eigh(white.T @ lagged @ white)
    order = np.argsort(values)[::-1][:n_wanted]
    return values[order], white @ mixed[:, order], mean


def held_out_correlations(
    now: NDArray[np.float64], later: NDArray[np.float64], folds: NDArray[np.intp], n_wanted: int
) -> NDArray[np.float64]:
    """Return the autocorrelations of the slowest combinations on pairs that they were not fitted to."""
    # Averaged over folds, each of which is judged by a fit to the others; parameters as for
    # :func:`slowest_combinations`, and the fold of each pair.
    found = []
    for fold in np.unique(folds):
        test = folds == fold
        _, combination, mean = slowest_combinations(now[~test], later[~test], n_wanted)
        first, second = (now[test] - mean) @ combination, (later[test] - mean) @ combination
        centre = 0.5 * (first.mean(axis=0) + second.mean(axis=0))
        first, second = first - centre, second - centre
        scale = 0.5 * ((first**2).sum(axis=0) + (second**2).sum(axis=0))
        values = (first * second).sum(axis=0) / np.maximum(scale, 1e-300)
        found.append(np.concatenate([values, np.full(n_wanted - len(values), np.nan)]))
    return np.asarray(np.mean(found, axis=0))
