"""Regions of a map: drawn by hand or learned as basins, kept in files, and followed by a tracker.

from ldmaps.regions import Box, RegionTracker

tracker = RegionTracker({"right": Box({"psi2": (0.5, None)}, margin=0.2)})
"""

from ldmaps.regions.alarm import Alarm
from ldmaps.regions.base import Region
from ldmaps.regions.basins import Basins, find_basins, representatives
from ldmaps.regions.region_file import load_regions, save_regions
from ldmaps.regions.shapes import Ball, Box, OutOfDomain, Polygon
from ldmaps.regions.tracker import Event, RegionTracker
from ldmaps.regions.transitions import Transitions, count_transitions, region_labels

__all__ = [
    "Alarm",
    "Ball",
    "Basins",
    "Box",
    "Event",
    "OutOfDomain",
    "Polygon",
    "Region",
    "RegionTracker",
    "Transitions",
    "count_transitions",
    "find_basins",
    "load_regions",
    "region_labels",
    "representatives",
    "save_regions",
]
