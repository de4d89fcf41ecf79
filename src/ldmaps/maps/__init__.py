"""Diffusion maps: the exact and the landmark estimator, their fitted state and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.maps.diffusion_map import DiffusionMap as DiffusionMap
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap as LandmarkDiffusionMap
    from ldmaps.maps.loading import load as load
    from ldmaps.maps.tolerance import Certificate as Certificate

load_on_first_use(
    __name__,
    {
        "diffusion_map": "DiffusionMap",
        "landmark_diffusion_map": "LandmarkDiffusionMap",
        "loading": "load",
        "tolerance": "Certificate",
    },
)
