"""Diffusion maps: the exact and the landmark estimator, their fitted state and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.maps.absorbing import Absorption, absorb
    from ldmaps.maps.diffusion_map import DiffusionMap
    from ldmaps.maps.landmark_cover import UnreachableError
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
    from ldmaps.maps.loading import load
    from ldmaps.maps.planning import plan
    from ldmaps.maps.tolerance import Certificate

__all__ = [
    "Absorption",
    "Certificate",
    "DiffusionMap",
    "LandmarkDiffusionMap",
    "UnreachableError",
    "absorb",
    "load",
    "plan",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "Absorption": "absorbing",
        "Certificate": "tolerance",
        "DiffusionMap": "diffusion_map",
        "LandmarkDiffusionMap": "landmark_diffusion_map",
        "UnreachableError": "landmark_cover",
        "absorb": "absorbing",
        "load": "loading",
        "plan": "planning",
    },
)
