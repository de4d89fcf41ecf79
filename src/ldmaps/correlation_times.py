r"""How long coordinates remember: autocorrelation, and the number of independent samples.

    ρ(t) = ⟨(x_i − x̄)(x_{i+t} − x̄)⟩ / ⟨(x_i − x̄)²⟩,   τ = ½ + Σ_{t=1}^{W} ρ(t)

in points, over pairs within the same file, with Sokal's window: the first W ≥ 5τ. A mean over N points is as good as
one over N/(2τ) independent ones, and τ itself is known to τ√(4(W + ½ − τ)/N) (Wolff 2004). The mean x̄ is that of the
same points, which takes 2τ/N off every ρ: τ is multiplied by 1 + (2W + 1)/N for it. With ten independent samples it
would else be 30 % too short on average.

A yardstick is the slowest that a linear combination of functions w(x) reaches, which maximises the autocorrelation of
b·w(x) at a lag (VAC: Noé & Nüske 2013): C_t b = ρ C_0 b, C_0 = ½(X₀ᵀX₀ + X_tᵀX_t)/n, C_t = ½(X₀ᵀX_t + X_tᵀX₀)/n. What
is fitted to one half of the pairs is judged on the other: in the half it was fitted to, noise looks slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

#: Sokal's window, in correlation times.
WINDOW = 5.0
#: Fewer independent samples say little of how slow a coordinate is.
FEW_INDEPENDENT = 20.0
#: Shortest correlation time, of values that alternate: their mean is better known than that of independent ones, but no
#: series is worth more than ten times its points.
SHORTEST = 0.05
#: Directions of C_0 below this share of its largest are left out: the functions are nearly dependent.
RANK_TOLERANCE = 1e-5

_Array = NDArray[np.float64]


class CorrelationTime(NamedTuple):
    """How long one coordinate remembers, in points."""

    time: float  # τ and its standard error
    error: float
    n_independent: float  # N/(2τ)

    @property
    def upper(self) -> float:
        """What τ hardly exceeds: one standard error more. A block must be long enough for this."""
        return self.time + self.error


def runs_of(n_points: int, files: NDArray[np.int32] | None) -> list[slice]:
    """Return the stretches of consecutive points that are of one file."""
    edges = [] if files is None else (np.flatnonzero(np.diff(files)) + 1).tolist()
    return [slice(start, stop) for start, stop in pairwise([0, *edges, n_points])]


def autocorrelation(values: _Array, runs: Sequence[slice], most: int | None = None) -> _Array:
    """Return ρ(0 … W) of one coordinate over pairs within runs; W ends where no run is longer than twice it."""
    last = max(run.stop - run.start for run in runs) // 2
    last = last if most is None else min(last, most)
    mean = np.mean(np.concatenate([values[run] for run in runs]))
    sums, pairs = np.zeros(last + 1), np.zeros(last + 1)
    for run in runs:
        part = values[run] - mean
        n, here = len(part), min(last, len(part) - 1) + 1
        size = scipy.fft.next_fast_len(n + here, real=True)
        power = np.abs(scipy.fft.rfft(part, size)) ** 2
        sums[:here] += scipy.fft.irfft(power, size)[:here]
        pairs[:here] += n - np.arange(here)
    covariance = sums / np.maximum(pairs, 1)
    if covariance[0] <= 0:
        return np.zeros(last + 1)
    return np.asarray(covariance / covariance[0])


def correlation_time(values: _Array, runs: Sequence[slice]) -> CorrelationTime:
    """Return the integrated correlation time of one coordinate; parameters as for :func:`autocorrelation`."""
    n = sum(run.stop - run.start for run in runs)
    times, window = _summed(autocorrelation(values, runs))
    time = float(times[window])
    if time < 0.5:
        # Sums over values that alternate do so as well; their mean is near the limit. Three lags at least.
        window = min(max(window, int(WINDOW * 0.5) + 1), len(times) - 1)
        time = max(float(times[max(window - 1, 0) : window + 1].mean()), SHORTEST)
    time *= 1.0 + (2.0 * window + 1.0) / n
    error = time * float(np.sqrt(4.0 * max(window + 0.5 - time, 0.5) / n))
    return CorrelationTime(time, error, n / (2.0 * time))


def longest_memory(values: _Array, runs: Sequence[slice]) -> float:
    """Return an upper estimate of how long a series remembers, in points, one that oscillates included.

    Positive and negative parts of an oscillating ρ cancel in τ; in ½ + 2Σρ² they do not, which is τ as well for an
    exponential memory.
    """
    n = sum(run.stop - run.start for run in runs)
    times, window = _summed(2.0 * autocorrelation(values, runs) ** 2)
    squared = float(times[window] * (1.0 + (2.0 * window + 1.0) / n))
    return max(float(correlation_time(values, runs).upper), squared)


def _summed(terms: _Array) -> tuple[_Array, int]:
    """Return ½ plus the sum of all terms up to each lag but the first term, and Sokal's window for it."""
    times = 0.5 + np.concatenate([[0.0], np.cumsum(terms[1:])])
    enough = np.arange(len(times)) >= WINDOW * times
    return times, int(np.argmax(enough)) if enough.any() else len(times) - 1


def lagged_pairs(runs: list[slice], lag: int, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first points of pairs a lag apart, at most so many, and which of two folds each pair is in."""
    # A fold is a stretch of consecutive points, and no pair has a point within a lag of the other's.
    starts = np.concatenate([np.arange(run.start, max(run.start, run.stop - lag)) for run in runs])
    cut = np.arange(len(starts)) * 2 // max(len(starts), 1)
    # Pairs that end in the next fold, or in the lag behind its beginning, are in none.
    near = np.zeros(len(starts), dtype=bool)
    near[: max(len(starts) - lag, 0)] = cut[: len(starts) - lag] != cut[lag:]
    starts, cut = starts[~near], cut[~near]
    stride = -(-len(starts) // most) if len(starts) else 1
    return starts[::stride].astype(np.intp), cut[::stride].astype(np.intp)


def slowest_combinations(now: _Array, later: _Array) -> tuple[_Array, _Array, _Array]:
    """Return autocorrelations of combinations of functions, the slowest first, their b in columns, and the means."""
    mean = 0.5 * (now.mean(axis=0) + later.mean(axis=0))
    first, second = now - mean, later - mean
    instant = 0.5 * (first.T @ first + second.T @ second) / len(now)
    lagged = 0.5 * (first.T @ second + second.T @ first) / len(now)
    lengths, turns = scipy.linalg.eigh(instant)
    keep = lengths > RANK_TOLERANCE * lengths[-1]
    white = turns[:, keep] / np.sqrt(lengths[keep])
    values, mixed = scipy.linalg.eigh(white.T @ lagged @ white)
    return values[::-1], white @ mixed[:, ::-1], mean


def held_out_correlation(now: _Array, later: _Array, folds: NDArray[np.intp]) -> float:
    """Return the autocorrelation of the slowest combination on pairs that it was not fitted to, the mean over folds."""
    found = []
    for fold in np.unique(folds):
        test = folds == fold
        values, combinations, mean = slowest_combinations(now[~test], later[~test])
        if not len(values):
            return np.nan  # nothing moved in the other fold
        first, second = (now[test] - mean) @ combinations[:, 0], (later[test] - mean) @ combinations[:, 0]
        centre = 0.5 * (first.mean() + second.mean())
        first, second = first - centre, second - centre
        found.append(first @ second / max(0.5 * (first @ first + second @ second), 1e-300))
    return float(np.mean(found))
