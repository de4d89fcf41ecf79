"""Landmark diffusion maps: learn the manifold in N points, then embed new ones by M landmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use
from ldmaps._version import __version__

if TYPE_CHECKING:
    from ldmaps.maps.diffusion_map import DiffusionMap
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
    from ldmaps.maps.loading import load
    from ldmaps.maps.planning import plan

__all__ = [
    "DiffusionMap",
    "LandmarkDiffusionMap",
    "__version__",
    "load",
    "plan",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "DiffusionMap": "maps.diffusion_map",
        "LandmarkDiffusionMap": "maps.landmark_diffusion_map",
        "load": "maps.loading",
        "plan": "maps.planning",
    },
)
