"""Files that another process appends to: trajectories and tables.

A record that is only half written waits for its rest. Where a run stopped is a
byte of the file, so that going on costs nothing however long the file is.
"""

from __future__ import annotations

from ldmaps.streaming.sources.growing_table import GrowingTable
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory

__all__ = ["GrowingTable", "GrowingTrajectory"]
