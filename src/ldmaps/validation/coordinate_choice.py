"""Which modes become coordinates, if their number is left to the data.

- All modes that tell metastable states apart.
- The modes before the largest drop of the eigenvalues, or before a later one that is as large within its error.
- But if most modes are harmonics, the data have few dimensions, and every drop is one that a continuous coordinate
  has: then all modes that are no harmonics, unless a step of the walk forgets them.
- No harmonics, and no noise at the end. Modes that resampling mixes come together.
- Two coordinates at least, to look at, unless nothing is left but harmonics and noise that the first one half predicts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import spectral_gap
from ldmaps.validation.sampling import NO_STRUCTURE, Sampling

#: A drop of the eigenvalues is as large as another unless it is smaller by so many standard errors.
AS_LARGE = 1.5
#: A second coordinate to look at has this share of the largest eigenvalue that it could have, and others predict less
#: than this of it.
SECOND, HALF_PREDICTED = 0.5, 0.5


def coordinates_kept(spectrum: NDArray[np.float64], sampling: Sampling) -> NDArray[np.intp]:
    """Return which modes to keep as coordinates, in rising order; both arguments are in the order of eigenvalues."""
    is_new = np.asarray(~sampling.follows.any(axis=1))
    worth = np.flatnonzero(is_new & sampling.is_reproducible)
    worth = worth[worth < n_considered(spectrum, sampling)]
    last = max([sampling.n_states - 2, 0, *worth.tolist()])
    is_kept = is_new & (np.arange(len(is_new)) <= last)
    for mode in np.flatnonzero(is_kept & sampling.is_reproducible):
        is_kept |= is_new & (sampling.groups == sampling.groups[mode])
    if len(is_new) == 1:  # too few points to judge another
        return np.arange(spectral_gap(spectrum))
    if is_kept.sum() < 2:
        is_seen = sampling.eigenvalues >= SECOND * sampling.eigenvalues[:2].min()
        is_other = is_new & (sampling.r2 < HALF_PREDICTED)
        second = np.flatnonzero(is_other & ~is_kept & is_seen)[:1]
        is_kept[second] = True
    return np.flatnonzero(is_kept)


def n_considered(spectrum: NDArray[np.float64], sampling: Sampling) -> int:
    """Return how many leading modes are considered as coordinates."""
    judged = len(sampling.eigenvalues)
    gap = gap_within_errors(spectrum, sampling)
    if sampling.n_states == 1 and 2 * sampling.follows.any(axis=1).sum() > judged:
        gap = max(gap, int((sampling.eigenvalues >= NO_STRUCTURE).sum()))
    return min(max(sampling.n_states - 1, gap), judged)


def gap_within_errors(spectrum: NDArray[np.float64], sampling: Sampling) -> int:
    """Return how many modes stand before the last drop of the eigenvalues that is as large as the largest."""
    gap, count = spectral_gap(spectrum), min(len(sampling.errors), len(spectrum) - 1)
    if gap > count:
        return gap
    drops = (spectrum[:-1] - spectrum[1:])[:count]
    squares = sampling.errors[np.argsort(-sampling.eigenvalues, kind="stable")] ** 2
    variances = (squares + np.append(squares[1:], squares[-1]))[:count]
    largest = int(np.argmax(drops))
    lacking = drops[largest] - drops
    is_as_large = lacking <= AS_LARGE * np.sqrt(variances + variances[largest])
    return max(gap, int(np.flatnonzero(is_as_large)[-1]) + 1)
