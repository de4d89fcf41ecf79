"""Where processes begin and end: sets of frames, given as an array or as a region of the map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Coverage

_Mask = NDArray[np.bool_]


class FrameSet:
    """A set of frames.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    given : array-like of bool, shape (n,), or Region
        Which of all frames are in the set, or what part of the map it is.
    model : DiffusionMap or LandmarkDiffusionMap
        The map that a region is part of.
    """

    def __init__(self, name: str, given: Any, model: Any) -> None:
        self.name = name
        self._region = given if hasattr(given, "masks") else None
        self._mask: _Mask = np.empty(0, dtype=bool)
        if self._region is not None:
            self._region.check_model(model)
            return
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.ndim != 1:
            raise InvalidInputError(
                Named(name),
                f" must be an array of bool with one entry per frame, or a region of the map, got {given!r:.80}",
            )
        self._mask = mask

    @property
    def is_region(self) -> bool:
        """Whether it is a region of the map, and not a list of frames."""
        return self._region is not None

    def holds(
        self, rows: slice, coordinates: NDArray[Any] | None = None, coverage: Coverage | None = None
    ) -> _Mask:
        """Return which of consecutive frames are in the set; a region has to know where they are on the map."""
        if self._region is not None:
            return np.asarray(self._region.masks(coordinates, coverage)[0])
        if rows.stop > len(self._mask):
            raise InvalidInputError(
                Named(self.name),
                f" has {len(self._mask)} entries, fewer than there are frames; give one per frame",
            )
        return self._mask[rows]

    def check_length(self, n_frames: int) -> None:
        """Raise where an array was given for another number of frames."""
        if self._region is None and len(self._mask) != n_frames:
            raise InvalidInputError(
                Named(self.name), f" has {len(self._mask)} entries for {n_frames} frames; give one per frame"
            )


def check_apart(source: _Mask, target: _Mask, item: str = "frames") -> None:
    """Raise where a frame is in both sets."""
    if (source & target).any():
        raise InvalidInputError(
            f"source and target share {int((source & target).sum())} of {len(source)} {item}; choose sets that do not "
            "overlap"
        )
