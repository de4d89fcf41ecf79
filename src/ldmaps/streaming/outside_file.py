"""The reservoir as a file: what a stream left outside the map, for ``absorb`` later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.archive import ArchiveError, read_archive, write_archive
from ldmaps.errors import InvalidInputError
from ldmaps.streaming.checkpoint import model_digest
from ldmaps.streaming.reservoir import Reservoir

__all__ = ["Outside", "OutsideFile", "read_outside"]

FORMAT_NAME, FORMAT_VERSION = "ldmaps outside", 1


class Outside(NamedTuple):
    """What :func:`ldmaps.streaming.absorb` takes, as :class:`Reservoir` has it."""

    points: NDArray[Any]
    weights: NDArray[np.float64]
    counts: NDArray[np.int64]


class OutsideFile(Reservoir):
    """A reservoir that is written to a file when the stream ends.

    While it runs the checkpoint keeps the records, so that a killed stream loses none.

    Parameters
    ----------
    path : path-like
        An .npz file, an :mod:`ldmaps.archive` that ``numpy.load`` reads too; it appears whole
        or not at all.
    model : LandmarkDiffusionMap
        The map that the records are outside of. The file remembers which.
    capacity, seed
        As for :class:`Reservoir`.
    overwrite : bool
        Whether a file that is there already may be replaced.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: Any,
        capacity: int = 1000,
        seed: int = 0,
        *,
        overwrite: bool = False,
    ) -> None:
        super().__init__(capacity, seed)
        self.path = Path(path)
        self.name = str(path)
        self._digest = model_digest(model)
        self._overwrite = overwrite
        self._begun = False

    def check(self, mark: Any = None) -> None:
        """Raise if there is no folder for the file, it would replace one that is not ours, or the mark is no state."""
        super().check(mark)
        if not self.path.parent.is_dir():
            raise InvalidInputError(
                f"there is no directory {self.path.parent} for {self.path.name}; create it first"
            )
        if mark is None and not self._overwrite and self.path.exists():
            raise InvalidInputError(
                f"{self.path} exists already; name another file, or overwrite it with --force"
            )

    def flush(self) -> Any:
        """Return the state."""
        if not self._begun:
            self.check()
        self._begun = True
        return super().flush()

    def rewind(self, mark: Any) -> None:
        """Go back to an earlier state; the file of that run is ours."""
        self._begun = True
        super().rewind(mark)

    def close(self) -> None:
        """Write the file, unless the run was refused."""
        if not self._begun:
            return
        header = {"format": FORMAT_NAME, "version": FORMAT_VERSION, "model": self._digest}
        points = self.points if self.points.dtype in (np.float32, np.float64) else self.points.astype(float)
        arrays = {
            "points": points,
            "numbers": self.numbers,
            "weights": self.weights,
            "counts": self.counts,
        }
        write_archive(self.path, header, arrays)


def read_outside(path: str | os.PathLike[str], model: Any) -> Outside:
    """Read what a stream left outside a map, or raise if it was another map."""
    try:
        header, arrays = read_archive(path)
    except ArchiveError as error:
        raise _not_ours(path, str(error)) from error
    if header.get("format") != FORMAT_NAME:
        raise _not_ours(path, "its header does not say so")
    if header.get("version") != FORMAT_VERSION:
        raise InvalidInputError(
            f"{path} has version {header.get('version')!r:.40}, but this ldmaps reads {FORMAT_VERSION}; absorb it with "
            "the ldmaps that wrote it"
        )
    if header.get("model") != model_digest(model):
        raise InvalidInputError(
            f"{path} holds records outside of another map; absorb them into the map that the stream was run with"
        )
    fault = _fault(arrays, len(model.multiplicities_))
    if fault:
        raise _not_ours(path, fault)
    return Outside(arrays["points"], arrays["weights"], arrays["counts"])


def _fault(arrays: Mapping[str, NDArray[Any]], n_landmarks: int) -> str:
    """Return in which way arrays are not what a reservoir holds; nothing where they are."""
    kinds = {"points": ("f4", "f8"), "numbers": ("i8",), "weights": ("f8",), "counts": ("i8",)}
    if set(arrays) != set(kinds):
        return f"it holds {', '.join(sorted(arrays))}, expected {', '.join(kinds)}"
    for name, codes in kinds.items():
        array = arrays[name]
        if array.dtype.str[1:] not in codes:
            return f"{name} holds {array.dtype}"
        if not np.isfinite(array).all():
            return f"{name} holds values that are not finite"
    points, numbers, weights, counts = (arrays[name] for name in kinds)
    if points.ndim not in (2, 3) or not numbers.shape == weights.shape == (len(points),):
        return f"points, numbers and weights have shapes {points.shape}, {numbers.shape} and {weights.shape}"
    if (weights <= 0).any() or (numbers < 0).any() or (counts < 0).any():
        return "it holds weights, numbers or counts that are negative"
    if counts.ndim != 1 or len(counts) > n_landmarks:
        return f"counts have shape {counts.shape}, but the map has {n_landmarks} landmarks"
    return ""


def _not_ours(path: str | os.PathLike[str], why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is not a file that ldmaps stream --outside wrote ({why}); pass one that is"
    )
