"""Points to learn from and to embed, read in chunks: memory does not depend on their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use
from ldmaps.inputs.prefetch import prefetch  # at once: it costs nothing, and its module has the same name

if TYPE_CHECKING:
    from ldmaps.inputs.atom_order import Atoms
    from ldmaps.inputs.objects import as_source
    from ldmaps.inputs.opening import open
    from ldmaps.inputs.source import FrameChunk, FrameSource, PointSource, check_frames_finite
    from ldmaps.inputs.windows import Windows

__all__ = [
    "Atoms",
    "FrameChunk",
    "FrameSource",
    "PointSource",
    "Windows",
    "as_source",
    "check_frames_finite",
    "open",
    "prefetch",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "Atoms": "atom_order",
        "FrameChunk": "source",
        "FrameSource": "source",
        "PointSource": "source",
        "Windows": "windows",
        "as_source": "objects",
        "check_frames_finite": "source",
        "open": "opening",
    },
)
