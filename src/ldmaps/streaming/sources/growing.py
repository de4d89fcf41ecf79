"""Files that another process appends to: trajectories and tables.

A record that is only half written waits for its rest. Where a run stopped is a
byte of the file, so that going on costs nothing however long the file is.
"""

from __future__ import annotations

import os
from typing import Any

from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.frame_formats import FORMATS
from ldmaps.streaming.sources.growing_table import GrowingTable
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory

__all__ = ["GrowingTable", "GrowingTrajectory", "open_growing"]


def open_growing(path: str | os.PathLike[str], **settings: Any) -> Source:
    """Return the source for a growing file: a trajectory if it ends in .xtc, .trr or .dcd, else a table."""
    if os.fspath(path).lower().endswith(FORMATS):
        return GrowingTrajectory(path, **settings)
    return GrowingTable(path, **settings)
