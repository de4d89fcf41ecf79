"""The formats whose frames are known as bytes."""

from __future__ import annotations

from collections.abc import Callable

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.dcd_frames import DcdFrames
from ldmaps.inputs.formats import FORMATS, format_of
from ldmaps.inputs.frame_bytes import FrameFormat
from ldmaps.inputs.trr_frames import TrrFrames
from ldmaps.inputs.xtc_frames import XtcFrames

#: By their names among all formats.
FRAME_FORMATS: dict[str, Callable[[], FrameFormat]] = {"XTC": XtcFrames, "TRR": TrrFrames, "DCD": DcdFrames}


def growing_format(path: str) -> FrameFormat:
    """Return the format of a file that is to be followed, by its ending."""
    form = format_of(path)
    if form is not None and form.name in FRAME_FORMATS:
        return FRAME_FORMATS[form.name]()
    able = [one.suffixes[0] for one in FORMATS if one.name in FRAME_FORMATS]
    raise InvalidInputError(
        f"{path} cannot be followed while it grows: only {', '.join(able)} can; write one of those, "
        "or embed the finished file"
    )
