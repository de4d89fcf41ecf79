"""Which coordinates resamples give again: alone, only together with others, or not at all.

Two coordinates of nearly the same eigenvalue span a plane that is well defined, but any two axes
in it are as good. So what is compared with each resample is the span of a group of coordinates:
the smallest cosine between it and the span of as many of the resample's modes, 1 where they are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A group is reproducible when its cosine is at least this in all resamples but LOST of them.
REPRODUCIBLE, LOST = 0.9, 0.05
#: Most coordinates that are taken as a group.
LARGEST_GROUP = 4


@dataclass(frozen=True)
class Agreement:
    """How the fitted modes agree with those of resamples."""

    #: (p,): 5 % quantile over resamples of |correlation| of each mode with the one matched to it
    cosine: NDArray[np.float64]
    #: every mode, from 0, in the smallest group that is reproducible, or alone where there is none
    groups: tuple[tuple[int, ...], ...]
    group_cosine: NDArray[np.float64]  # (p,): 5 % quantile of the cosine of the mode's group

    @property
    def is_reproducible(self) -> NDArray[np.bool_]:
        """Whether each mode is reproducible, alone or in its group."""
        return self.group_cosine >= REPRODUCIBLE

    def group_of(self, mode: int) -> tuple[int, ...]:
        """Return the group a mode is in."""
        return next(group for group in self.groups if mode in group)


def matched(
    measure: NDArray[np.float64], fitted: NDArray[np.float64], vectors: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return which mode of each resample is matched to which fitted one, and all correlations."""
    from scipy.optimize import linear_sum_assignment

    lengths = np.sqrt(np.einsum("m,nmi->ni", measure, vectors**2))
    correlations = (fitted.T * measure) @ vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
    places = np.stack([linear_sum_assignment(-(table**2))[1] for table in correlations])
    return places, correlations


def compare_modes(
    measure: NDArray[np.float64], fitted: NDArray[np.float64], vectors: NDArray[np.float64]
) -> Agreement:
    """Find the smallest groups of fitted modes that resamples give again; parameters as for :func:`matched`."""
    places, correlations = matched(measure, fitted, vectors)
    count = fitted.shape[1]
    taken = np.take_along_axis(
        correlations, places[:, None], axis=2
    )  # (n, p, p), matched ones on the diagonal
    alone = np.quantile(np.abs(np.einsum("nii->ni", taken)), LOST, axis=0)
    strengths = np.mean(taken**2, axis=0)
    strengths = strengths + strengths.T
    groups: list[tuple[int, ...]] = [(mode,) for mode in range(count)]
    found: dict[tuple[int, ...], float] = {(mode,): float(alone[mode]) for mode in range(count)}
    for mode in range(count):
        group = next(group for group in groups if mode in group)
        while found[group] < REPRODUCIBLE and len(group) < LARGEST_GROUP:
            others = [other for other in range(count) if other not in group]
            if not others:
                break
            nearest = max(others, key=lambda other: strengths[list(group), other].sum())
            joined = next(other for other in groups if nearest in other)
            group = tuple(sorted({*group, *joined}))
            found[group] = _cosine(taken, group)
        if found[group] >= REPRODUCIBLE and len(group) > 1:
            groups = [other for other in groups if not set(other) & set(group)] + [group]
    ordered = tuple(sorted(groups))
    together = np.empty(count)
    for group in ordered:
        together[list(group)] = found[group]
    return Agreement(alone, ordered, together)


def _cosine(taken: NDArray[np.float64], group: tuple[int, ...]) -> float:
    """Return the 5 % quantile of the smallest cosine between the span of a group and that of its matches."""
    block = taken[:, list(group)][:, :, list(group)]
    return float(np.quantile(np.linalg.svd(block, compute_uv=False)[:, -1], LOST))
