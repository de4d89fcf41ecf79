"""Landmark diffusion maps.

Learn the low-dimensional manifold in N points, then embed new points at a cost
that depends only on M landmarks. The names below load on first use, so that
``import ldmaps`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldmaps._version import __version__

if TYPE_CHECKING:
    from ldmaps.diffusion_map import DiffusionMap
    from ldmaps.landmark_diffusion_map import LandmarkDiffusionMap
    from ldmaps.model_file import load
    from ldmaps.planning import plan

__all__ = ["DiffusionMap", "LandmarkDiffusionMap", "__version__", "load", "plan"]

_HOMES = {
    "DiffusionMap": "ldmaps.diffusion_map",
    "LandmarkDiffusionMap": "ldmaps.landmark_diffusion_map",
    "load": "ldmaps.model_file",
    "plan": "ldmaps.planning",
}


_MODULES = ("trajectory",)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
