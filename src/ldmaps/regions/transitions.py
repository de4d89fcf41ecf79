"""How often and how fast a trajectory goes from region to region: a record between two counts for the last visited.

So one that turns back on the way makes no transition, and borders need no hysteresis in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Region
from ldmaps.time_units import PICOSECONDS


@dataclass(frozen=True)
class Transitions:
    """Transitions between regions, and how long it takes until one happens.

    Attributes
    ----------
    names : tuple of str
        Of the regions.
    counts : ndarray of int, shape (b, b)
        How often the trajectory went from the first to the second.
    time_in : ndarray of shape (b,)
        Time spent in each state: in the region, and on the way until another is entered.
    dwell : ndarray of shape (b,)
        Mean time until another region is entered, ``time_in`` by transitions out of it: the
        likeliest one where dwell times are exponential, with visits that the trajectory's
        begin or end cut short counted as such. NaN where the region was never left.
    error, longest : ndarray of shape (b,)
        Its standard error, ``dwell`` by the root of the number of transitions; the longest visit, whole or cut short.
    unit : str
        Of all times above: that of the times given, or "records".
    """

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    time_in: NDArray[np.float64]
    dwell: NDArray[np.float64]
    error: NDArray[np.float64]
    longest: NDArray[np.float64]
    unit: str


def region_labels(
    coordinates: NDArray[np.floating], regions: Mapping[str, Region], coverage: Coverage | None = None
) -> NDArray[np.intp]:
    """Return which region each point is in, -1 for none; where regions overlap, the first counts.

    Parameters
    ----------
    coordinates : ndarray of shape (n, k)
        As ``transform`` returns them.
    regions : mapping of str to Region
        Margins are ignored.
    coverage : Coverage, optional
        Of the points; by default all count as inside the map.

    Returns
    -------
    ndarray of int, shape (n,)
        Number of the region in the order of ``regions``, or -1.

    See Also
    --------
    count_transitions : transitions between regions.
    """
    n = len(coordinates)
    known = coverage or Coverage(np.zeros(n), np.ones(n, dtype=bool), np.zeros(n, dtype=np.intp))
    labels = np.full(n, -1, dtype=np.intp)
    for place, region in enumerate(regions.values()):
        labels[(labels < 0) & region.masks(coordinates, known)[0]] = place
    return labels


def count_transitions(
    labels: ArrayLike,
    names: Sequence[str],
    *,
    times: ArrayLike | None = None,
    files: ArrayLike | None = None,
    unit: str = PICOSECONDS,
) -> Transitions:
    """Count transitions between regions, and measure dwell times.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        Region of each record in the order of time, -1 for none: :func:`region_labels`.
    names : sequence of str
        Of the regions.
    times : array-like of shape (n,), optional
        In ``unit``; without them records are counted.
    files : array-like of shape (n,), optional
        Which trajectory each record belongs to; transitions from one to the next are not counted.
    unit : str
        Of the times: "ps" for frames, "s" for rows of tables.

    Returns
    -------
    Transitions
        Counts, dwell times and their errors.

    See Also
    --------
    region_labels : the labels.
    find_basins : metastable states as regions.

    Examples
    --------
    >>> found = count_transitions([-1, 0, 0, -1, 0, 1, 1, -1, 0], ["A", "B"])
    >>> found.counts.tolist(), found.dwell.tolist()
    ([[0, 1], [1, 0]], [4.0, 3.0])
    """
    places = np.asarray(labels, dtype=np.intp)
    n, b = len(places), len(names)
    if n and (places.max() >= b or places.min() < -1):
        raise InvalidInputError(
            f"labels are -1 or 0 to {b - 1} for {b} regions, got {places.min()} to {places.max()}"
        )
    clock = np.arange(n, dtype=np.float64) if times is None else np.asarray(times, dtype=np.float64)
    owner = np.zeros(n) if files is None else np.unique(np.asarray(files), return_inverse=True)[1]
    if clock.shape != (n,) or owner.shape != (n,):
        raise InvalidInputError(
            f"times and files need one value per label, ({n},), got {clock.shape}, {owner.shape}"
        )
    counts, time_in, longest = np.zeros((b, b), dtype=np.int64), np.zeros(b), np.zeros(b)
    for trajectory in np.split(np.arange(n), np.flatnonzero(np.diff(owner)) + 1):
        # The last region visited, up to each record; those before the first one have none.
        visited = np.maximum.accumulate(np.where(places[trajectory] >= 0, np.arange(len(trajectory)), -1))
        rows = trajectory[visited >= 0]
        if not len(rows):
            continue
        if (np.diff(clock[rows]) < 0).any():
            raise InvalidInputError("times decrease within a trajectory; sort its records by time")
        state = places[trajectory[visited[visited >= 0]]]
        begins = np.concatenate([[0], np.flatnonzero(np.diff(state)) + 1])
        ends = np.concatenate([begins[1:], [len(rows) - 1]])
        lengths = clock[rows[ends]] - clock[rows[begins]]
        visits = state[begins]
        np.add.at(time_in, visits, lengths)
        np.maximum.at(longest, visits, lengths)
        np.add.at(counts, (visits[:-1], visits[1:]), 1)
    exits = counts.sum(axis=1)
    dwell = np.divide(time_in, exits, out=np.full(b, np.nan), where=exits > 0)
    error = np.divide(dwell, np.sqrt(exits), out=np.full(b, np.nan), where=exits > 0)
    return Transitions(
        tuple(names), counts, time_in, dwell, error, longest, "records" if times is None else unit
    )
