"""Whether a walk at some ε reaches all points: what was found, as a value that others act on.

    Connected  one map spans the points
    Apart    a few points lie apart from all others, or carry the first coordinate alone
    Groups   larger groups, which no hop joins (:class:`ldmaps.diffusion.walk.Groups`)

The rule "bulk" looks for all three: its ε is that of a typical point, and a few others may be out of reach. With any
other ε only groups matter. Where states are kept (:mod:`ldmaps.fit.states`), groups belong to the walk, and only points
that are no state of their own lie apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import (
    BULK_HOP,
    BULK_LANDMARK_HOP,
    FEWEST_POINTS,
    REACH,
    SMALL_GROUP,
    Groups,
    Walk,
    disconnected_tree,
    groups_in,
    in_small_groups,
    is_connected,
    landmark_groups,
    stored_spanning_tree,
)
from ldmaps.fit.states import StateSize
from ldmaps.landmarks import Landmarks
from ldmaps.validation.diagnosis import handfuls


@dataclass(frozen=True)
class Connected:
    """One map spans the points."""


@dataclass(frozen=True)
class Apart:
    """A few points do not belong to the walk over the others."""

    members: NDArray[np.intp]  # which of the walk's points
    #: (M,): landmarks all of whose cells lie apart; None where these are none, or the walk is over all points
    landmarks: NDArray[np.bool_] | None = None
    #: whether no hop reaches them; otherwise they are reached, but carry the first coordinate alone
    are_out_of_reach: bool = True


Finding = Connected | Apart | Groups


def examine_points(walk: Walk, squared: Any, *, may_leave_out: bool, keeps_states: bool = False) -> Finding:
    """Say whether hops join all points of a walk, by their d² (stored or sparse) where these are known."""
    tree = disconnected_tree(walk, squared, BULK_HOP if may_leave_out else REACH)
    if tree is None:
        return Connected()
    n_points = len(walk.points)
    if may_leave_out:
        smallest = _smallest(n_points, walk.weights) if keeps_states else None
        apart = in_small_groups(tree, walk.weights, walk.epsilon, n_points, hop=BULK_HOP, smallest=smallest)
        if len(apart):
            return Apart(apart)
    if keeps_states:
        return Connected()
    return groups_in(tree, walk.epsilon) or Connected()


def _smallest(n_points: int, weights: NDArray[np.float64]) -> float:
    return StateSize.of(n_points, float(weights.sum())).smallest


def examine_landmarks(
    walk: Walk,
    landmarks: Landmarks,
    squared: NDArray[Any],
    *,
    may_leave_out: bool,
    keeps_states: bool = False,
) -> Finding:
    """Say whether hops join the landmarks of a walk, given the d² between these, and all points to their landmarks."""
    if may_leave_out:
        if not is_connected(squared, BULK_LANDMARK_HOP**2 * walk.epsilon):
            tree = stored_spanning_tree(np.asarray(squared, dtype=np.float64))
            masses, n_points = landmarks.multiplicities, len(walk.points)
            smallest = _smallest(n_points, masses) if keeps_states else None
            apart = in_small_groups(
                tree, masses, walk.epsilon, n_points, hop=BULK_LANDMARK_HOP, smallest=smallest
            )
            if len(apart):
                return _cells_apart(landmarks, apart)
        farthest = REACH**2 * walk.epsilon
        if landmarks.squared_radii.max() > farthest:
            far = landmarks.beyond(farthest)
            if 0 < len(far) <= SMALL_GROUP * len(walk.points):  # of more, the landmarks are too few
                return Apart(far)
    if keeps_states:
        return Connected()
    groups = landmark_groups(
        squared, landmarks.squared_radii, walk.epsilon, obeys_triangle=walk.metric.is_true_metric
    )
    return groups or Connected()


def examine_modes(
    spectrum: Spectrum, multiplicities: NDArray[np.float64], n_points: int, landmarks: Landmarks | None = None
) -> Connected | Apart:
    """Say whether a handful of points carries the first coordinate of a map over landmarks, or over all points.

    If so, the points that alone carry any other coordinate are named as well.
    """
    carried = handfuls(spectrum.vectors, multiplicities, n_points)
    if 0 not in carried or n_points < FEWEST_POINTS:
        return Connected()
    carriers = np.unique(np.concatenate(list(carried.values())))
    if landmarks is None:
        return Apart(carriers, are_out_of_reach=False)
    found = _cells_apart(landmarks, carriers)
    return Apart(found.members, found.landmarks, are_out_of_reach=False)


def _cells_apart(landmarks: Landmarks, apart: NDArray[np.intp]) -> Apart:
    """Return the finding that the cells of some landmarks lie apart."""
    is_apart = np.isin(np.arange(len(landmarks.indices)), apart)
    return Apart(landmarks.points_in(is_apart), is_apart)
