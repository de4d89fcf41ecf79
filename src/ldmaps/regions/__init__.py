"""Regions of a map: drawn by hand or learned as basins, kept in files, and followed by a tracker.

from ldmaps.regions import Box, RegionTracker

tracker = RegionTracker({"right": Box({"psi2": (0.5, None)}, margin=0.2)})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.regions.basins import learn_basins
    from ldmaps.regions.regions import Ball, Box, OutOfDomain, Polygon, load_regions
    from ldmaps.regions.tracker import Event, RegionTracker

__all__ = [
    "Ball",
    "Box",
    "Event",
    "OutOfDomain",
    "Polygon",
    "RegionTracker",
    "learn_basins",
    "load_regions",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "Ball": "regions",
        "Box": "regions",
        "Event": "tracker",
        "OutOfDomain": "regions",
        "Polygon": "regions",
        "RegionTracker": "tracker",
        "learn_basins": "basins",
        "load_regions": "regions",
    },
)
