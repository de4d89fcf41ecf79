"""Landmarks that must cover all points, where these are in blocks and too many to bring together.

Both methods choose among a uniform sample and let workers say which of all points lie farthest from what was chosen,
whatever the blocks. Farthest points: M landmarks are traversed in the sample, with δ the distance at which the next
would come, so that no M landmarks cover the points within less than δ/2. Where all points are within 1.1 δ this is 2.2
times the best radius; otherwise the farthest points join the sample. Within √ε: points farther than that from the
sample's landmarks join these, the farthest first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import squared_row
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.landmarks.base import PointsElsewhere
from ldmaps.metrics.base import Metric, Points

#: Points of the sample, points that a pass brings, and most passes.
SAMPLE, BROUGHT, PASSES = 50_000, 2_000, 20
#: Good enough: farthest of all points over the distance at which the sample's next landmark would come.
SLACK = 1.1


def traverse(
    metric: Metric, points: Points, count: int, first: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the first ``count`` points of a farthest-point traversal, and the d² at which each came."""
    # The first comes at infinity; at the end stands the d² of the one that would come next.
    indices = np.empty(count, dtype=np.intp)
    squared = np.empty(count + 1)
    squared[0] = np.inf
    row = np.empty((1, len(points)), dtype=points.dtype)
    lowest = np.full(len(points), np.inf, dtype=points.dtype)
    newest = first
    for place in range(count):
        indices[place] = newest
        np.minimum(lowest, squared_row(metric, points, newest, points, row), out=lowest)
        # Below any distance: duplicates of a landmark come before a second turn of its own.
        lowest[newest] = -1.0
        newest = int(np.argmax(lowest))
        squared[place + 1] = max(0.0, float(lowest[newest]))
    return indices, squared


def farthest_in_blocks(
    walk: Walk, points: PointsElsewhere, count: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return ``count`` landmarks within 2.2 times the best radius of all points."""
    sample = _sample(points, rng, count)
    start = int(sample[rng.integers(len(sample))])
    for _ in range(PASSES):
        near = points.take(sample)
        places, squared = traverse(walk.metric, near, count, int(np.searchsorted(sample, start)))
        chosen = sample[places]
        far, radii = points.cover().add(chosen, BROUGHT)
        if radii[0] <= SLACK**2 * squared[-1]:
            return chosen
        joined = np.union1d(sample, far)
        if len(joined) == len(sample):  # nothing farther is left: the traversal saw all there is to see
            return chosen
        sample = joined
    raise InvalidInputError(
        Named("landmarks", "farthest"),
        f" still left points {np.sqrt(radii[0] / squared[-1]):.2g} times too far away after "
        f"{PASSES} passes over {len(points):,} points in blocks; use more landmarks, or ",
        Named("landmarks", "kmedoids"),
    )


def cover_blocks(
    walk: Walk,
    points: PointsElsewhere,
    select: Callable[[Walk, np.random.Generator], NDArray[np.intp]],
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return landmarks, sorted, such that all points are within √ε of one."""
    sample = _sample(points, rng, 2)
    chosen = sample[select(walk.take(sample), rng)]
    cover = points.cover()
    newest = chosen
    for _ in range(PASSES):
        far, squared = cover.add(newest, BROUGHT)
        far = far[squared > walk.epsilon]
        if not len(far):
            return np.sort(chosen)
        # Of those that were brought, as many as it takes to cover them all.
        brought = points.take(far)
        places, apart = traverse(walk.metric, brought, len(far), 0)
        newest = far[places[apart[:-1] > walk.epsilon]]
        chosen = np.concatenate([chosen, newest])
    far, squared = cover.add(newest, BROUGHT)
    if squared[0] <= walk.epsilon:
        return np.sort(chosen)
    raise InvalidInputError(
        Named("landmarks", "pst"),
        f" left points farther than sqrt(epsilon) = {np.sqrt(walk.epsilon):.4g} from all of its "
        f"{len(chosen):,} landmarks after {PASSES} passes over {len(points):,} points in blocks (the farthest is at "
        f"{np.sqrt(squared[0]):.4g}): epsilon is too small for so many points; make it larger, or use ",
        Named("landmarks", "kmedoids"),
    )


def _sample(points: PointsElsewhere, rng: np.random.Generator, least: int) -> NDArray[np.intp]:
    size = min(len(points), max(SAMPLE, least + 1))
    return np.sort(rng.choice(len(points), size, replace=False))
