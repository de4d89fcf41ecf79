"""Points to learn from and to embed, read in chunks: memory does not depend on their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.inputs.opening import as_source as as_source
    from ldmaps.inputs.opening import open_files as open_files
    from ldmaps.inputs.source import FrameChunk as FrameChunk
    from ldmaps.inputs.source import FrameSource as FrameSource
    from ldmaps.inputs.source import PointSource as PointSource
    from ldmaps.inputs.topology import Atoms as Atoms
    from ldmaps.inputs.windows import Windows as Windows

load_on_first_use(
    __name__,
    {
        "opening": "as_source open_files",
        "source": "FrameChunk FrameSource PointSource",
        "topology": "Atoms",
        "windows": "Windows",
    },
)
