"""Files that another process appends to: trajectories and tables.

An incomplete record waits for its rest. A position is a byte of the file, so resuming
costs the same however long the file is.
"""

from __future__ import annotations

from ldmaps.streaming.sources.growing_table import GrowingTable
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory

__all__ = ["GrowingTable", "GrowingTrajectory"]
