"""Landmark diffusion maps: learn the manifold in N points, then embed new ones by M landmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use
from ldmaps._version import __version__ as __version__

if TYPE_CHECKING:
    from ldmaps.maps.diffusion_map import DiffusionMap as DiffusionMap
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap as LandmarkDiffusionMap
    from ldmaps.maps.loading import load as load
    from ldmaps.novelty_detector import NoveltyDetector as NoveltyDetector
    from ldmaps.planning.plan import plan as plan
    from ldmaps.settings import Limits as Limits

load_on_first_use(
    __name__,
    {
        "": "__version__",
        "maps.diffusion_map": "DiffusionMap",
        "maps.landmark_diffusion_map": "LandmarkDiffusionMap",
        "maps.loading": "load",
        "novelty_detector": "NoveltyDetector",
        "planning.plan": "plan",
        "settings": "Limits",
    },
)
