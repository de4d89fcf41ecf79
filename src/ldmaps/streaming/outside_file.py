"""The reservoir as a file: what a stream left outside the map, for ``absorb`` later."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.files import written_whole
from ldmaps.streaming.checkpoint import model_digest
from ldmaps.streaming.reservoir import Reservoir

__all__ = ["Outside", "OutsideFile", "read_outside"]


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
        An .npz file; it appears whole or not at all.
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
        """Raise if there is no folder for the file, or it would replace one that is not ours."""
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
        with written_whole(self.path) as stream:
            np.savez(
                stream,
                points=self.points,
                numbers=self.numbers,
                weights=self.weights,
                counts=self.counts,
                model=np.array(self._digest),
            )


def read_outside(path: str | os.PathLike[str], model: Any) -> Outside:
    """Read what a stream left outside a map, or raise if it was another map."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in ("points", "weights", "counts", "model")}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            f"{path} is not a file that ldmaps stream --outside wrote ({error}); pass one that is"
        ) from error
    if str(content["model"]) != model_digest(model):
        raise InvalidInputError(
            f"{path} holds records outside of another map; absorb them into the map that the stream was run with"
        )
    return Outside(content["points"], content["weights"], content["counts"])
