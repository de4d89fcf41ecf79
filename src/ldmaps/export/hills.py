"""Widths of metadynamics' Gaussian hills: the spread of the map's points within the basins of a coordinate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.domain import BUMP_SHARE

#: The narrowest hills, as a share of the range that the landmarks span: narrower ones make grids too large.
SMALLEST_SHARE = 1 / 200
#: Fewer points do not show basins; hills are then as wide as they may be.
FEWEST_POINTS = 200
#: Bins over the range in which basins are looked for.
N_BINS = 60
#: Two peaks are two basins if the density between them falls below this share of the lower one.
VALLEY = 0.5
#: Standard errors of counts by which a valley must be deeper than chance makes it.
CLEARLY = 4.0
#: Groups that hold a smaller share of the points are no basins.
SMALLEST_BASIN = 0.05


class Hills(NamedTuple):
    """What metadynamics along each coordinate needs."""

    widths: NDArray[np.float64]  # (k,), standard deviations
    at_ends: NDArray[np.float64]  # (k,), shares of the points within one width of an end; NaN where not known


def hills_of(model: Any) -> Hills:
    """Return widths of hills along the coordinates of a map, and how many of its points are at the ends of each."""
    landmarks = model.landmark_embedding_.astype(np.float64)
    stored = model.map_.embedding
    values = landmarks if stored is None else np.asarray(stored, dtype=np.float64)
    weights = np.asarray(model.multiplicities_, dtype=np.float64) if stored is None else np.ones(len(values))
    widths, at_ends = [], []
    for column, ends in enumerate(model.embedder_.coefficients.astype(np.float64)):
        span, here = float(np.ptp(landmarks[:, column])), values[:, column]
        width = BUMP_SHARE * span
        if len(here) >= FEWEST_POINTS:
            width = float(np.clip(spread_within_basins(here), SMALLEST_SHARE * span, width))
        widths.append(width)
        near = (here - ends.min() < width) | (ends.max() - here < width)
        # A few landmarks, which a file without its points has, are all near ends.
        is_known = len(here) >= FEWEST_POINTS or stored is not None
        at_ends.append(float(weights[near].sum() / weights.sum()) if is_known else np.nan)
    return Hills(np.array(widths), np.array(at_ends))


def _is_valley(count: int, peak: int) -> bool:
    return count < VALLEY * peak and peak - count > CLEARLY * np.sqrt(peak + count)


def spread_within_basins(values: NDArray[np.float64]) -> float:
    """Return the standard deviation of values within the narrowest of their groups, which valleys separate."""
    counts, edges = np.histogram(values, N_BINS)
    # From the highest bin down, bins join the group beside them; two groups that meet are one unless both are higher
    # than the valley in which they meet.
    group = np.full(N_BINS, -1)
    peak: list[int] = []
    for place in np.argsort(-counts, kind="stable").tolist():
        beside = {int(group[at]) for at in (place - 1, place + 1) if 0 <= at < N_BINS and group[at] >= 0}
        if not beside:
            group[place] = len(peak)
            peak.append(int(counts[place]))
            continue
        high, *low = sorted(beside, key=lambda number: -peak[number])
        group[place] = high
        if low and not _is_valley(int(counts[place]), peak[low[0]]):
            group[group == low[0]] = high
    members = group[np.clip(np.searchsorted(edges, values, side="right") - 1, 0, N_BINS - 1)]
    spreads = [
        float(values[members == number].std())
        for number in np.unique(members)
        if (members == number).mean() >= SMALLEST_BASIN
    ]
    return min(spreads)
