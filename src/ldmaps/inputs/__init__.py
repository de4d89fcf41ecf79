"""Points to learn from and to embed, read in chunks: memory does not depend on their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use
from ldmaps.inputs.prefetch import prefetch as prefetch  # at once: its module has the same name

if TYPE_CHECKING:
    from ldmaps.inputs.opening import as_source as as_source
    from ldmaps.inputs.opening import open as open
    from ldmaps.inputs.source import FrameChunk as FrameChunk
    from ldmaps.inputs.source import FrameSource as FrameSource
    from ldmaps.inputs.source import PointSource as PointSource
    from ldmaps.inputs.source import check_frames_finite as check_frames_finite
    from ldmaps.inputs.topology import Atoms as Atoms
    from ldmaps.inputs.windows import Windows as Windows

load_on_first_use(
    __name__,
    {
        "": "prefetch",
        "opening": "as_source open",
        "source": "FrameChunk FrameSource PointSource check_frames_finite",
        "topology": "Atoms",
        "windows": "Windows",
    },
)
