"""Joining consecutive records to a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldmaps.streaming.records import Records

__all__ = ["fits", "joined"]


def joined(parts: Sequence[Records]) -> Records:
    """Return consecutive records as one; all points have the same shape."""
    if len(parts) == 1:
        return parts[0]
    filled = [part for part in parts if len(part)] or [parts[0]]
    times = None
    if any(part.times is not None for part in filled):
        times = np.concatenate(
            [np.full(len(part), np.nan) if part.times is None else part.times for part in filled]
        )
    return Records(
        np.concatenate([part.points for part in filled]),
        np.concatenate([part.numbers for part in filled]),
        times,
        np.concatenate([part.arrived for part in filled]),
        tuple(one for part in parts for one in part.rejected),
        parts[-1].position,
    )


def fits(first: Records, then: Records) -> bool:
    """Say whether records can be joined."""
    return not len(first) or not len(then) or first.points.shape[1:] == then.points.shape[1:]
