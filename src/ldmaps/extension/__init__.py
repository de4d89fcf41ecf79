"""Extending a map to new points: one file a method, and one online step w(x)·B for all of them."""

from __future__ import annotations

from ldmaps.extension.base import Extension as Extension
from ldmaps.extension.distilled import Distillation
from ldmaps.extension.distilled import Distilled as Distilled
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.extension.embedder import MovedLandmarks as MovedLandmarks
from ldmaps.extension.embedder import OnlineStep as OnlineStep
from ldmaps.extension.nystrom import Nystrom as Nystrom
from ldmaps.settings import LANDMARK_FIT

__all__ = [
    "Coverage",
    "Distillation",
    "Embedder",
]

#: What ``LandmarkDiffusionMap(extension=...)`` may be.
EXTENSIONS: dict[str, type[Extension]] = {extension.name: extension for extension in (Distilled, Nystrom)}


def resolve_extension(name: str, *, for_tolerance: bool) -> Extension:
    """Return the extension that a ``name`` means; "auto" is distilled ``for_tolerance`` and Nyström otherwise."""
    if name == "auto":
        return Distilled() if for_tolerance else Nystrom()
    return EXTENSIONS[LANDMARK_FIT["extension"].check(name)]()
