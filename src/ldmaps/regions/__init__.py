"""Regions of a map: drawn by hand or learned as basins, kept in files, and followed by a tracker.

from ldmaps.regions import Box, RegionTracker

tracker = RegionTracker({"right": Box({"psi2": (0.5, None)}, margin=0.2)})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.regions.alarm import Alarm as Alarm
    from ldmaps.regions.base import Region as Region
    from ldmaps.regions.basins import Basins as Basins
    from ldmaps.regions.basins import learn_basins as learn_basins
    from ldmaps.regions.basins import representatives as representatives
    from ldmaps.regions.region_file import load_regions as load_regions
    from ldmaps.regions.region_file import save_regions as save_regions
    from ldmaps.regions.shapes import Ball as Ball
    from ldmaps.regions.shapes import Box as Box
    from ldmaps.regions.shapes import OutOfDomain as OutOfDomain
    from ldmaps.regions.shapes import Polygon as Polygon
    from ldmaps.regions.tracker import Event as Event
    from ldmaps.regions.tracker import RegionTracker as RegionTracker
    from ldmaps.regions.transitions import Transitions as Transitions
    from ldmaps.regions.transitions import count_transitions as count_transitions
    from ldmaps.regions.transitions import region_labels as region_labels

load_on_first_use(
    __name__,
    {
        "alarm": "Alarm",
        "base": "Region",
        "basins": "Basins learn_basins representatives",
        "region_file": "load_regions save_regions",
        "shapes": "Ball Box OutOfDomain Polygon",
        "tracker": "Event RegionTracker",
        "transitions": "Transitions count_transitions region_labels",
    },
)
