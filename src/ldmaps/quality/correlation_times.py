r"""How long coordinates remember: autocorrelation, and the number of independent samples.

    ρ(t) = ⟨(x_i − x̄)(x_{i+t} − x̄)⟩ / ⟨(x_i − x̄)²⟩,   τ = ½ + Σ_{t=1}^{W} ρ(t)

in points, over pairs within the same file, with Sokal's window: the first W ≥ 5τ. A mean over N points
is as good as one over N/(2τ) independent ones, and τ itself is known to τ√(4(W + ½ − τ)/N) (Wolff 2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

#: Sokal's window, in correlation times.
WINDOW = 5.0
#: Fewer independent samples say little of how slow a coordinate is.
FEW_INDEPENDENT = 20.0


@dataclass(frozen=True)
class CorrelationTime:
    """How long one coordinate remembers, in points."""

    time: float  # τ and its standard error
    error: float
    n_independent: float  # N/(2τ)

    @property
    def is_known(self) -> bool:
        """Whether the run is long enough to say."""
        return self.n_independent >= FEW_INDEPENDENT


def runs_of(n_points: int, files: NDArray[np.int32] | None) -> list[slice]:
    """Return the stretches of consecutive points that are of one file."""
    edges = [] if files is None else (np.flatnonzero(np.diff(files)) + 1).tolist()
    return [slice(start, stop) for start, stop in pairwise([0, *edges, n_points])]


def autocorrelation(
    values: NDArray[np.float64], runs: Sequence[slice], most: int | None = None
) -> NDArray[np.float64]:
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


def correlation_time(values: NDArray[np.float64], runs: Sequence[slice]) -> CorrelationTime:
    """Return the integrated correlation time of one coordinate; parameters as for :func:`autocorrelation`."""
    n = sum(run.stop - run.start for run in runs)
    rho = autocorrelation(values, runs)
    times = 0.5 + np.concatenate([[0.0], np.cumsum(rho[1:])])
    enough = np.arange(len(times)) >= WINDOW * times
    window = int(np.argmax(enough)) if enough.any() else len(times) - 1
    time = max(float(times[window]), 0.5)
    error = time * float(np.sqrt(4.0 * max(window + 0.5 - time, 0.5) / n))
    return CorrelationTime(time, error, n / (2.0 * time))
