"""What a fitted map remembers of each training point besides its coordinates: enough to look at the map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError

__all__ = ["MAX_RECORDED", "TrainingRecord"]

#: Most training points that are remembered; of more, every so-many-th and the landmarks.
MAX_RECORDED = 100_000


@dataclass(frozen=True)
class TrainingRecord:
    """Where training points came from and how far landmarks are from them.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
        Which training points, in order: all of them up to 100,000.
    distance : ndarray of shape (n,) or None
        To the nearest landmark, in units of √ε.
    nearest : ndarray of int, shape (n,) or None
        Landmark that each point belongs to.
    weights : ndarray of shape (n,) or None
        Sample weights, unless all are 1.
    frames, times : ndarray of shape (n,) or None
        Number of the frame in its file and its simulated time in ps.
    files : ndarray of int, shape (n,) or None
        Which of several files, by its place in ``source_["files"]``, a frame is from.
    """

    rows: NDArray[np.int64]
    distance: NDArray[np.float32] | None = None
    nearest: NDArray[np.int32] | None = None
    weights: NDArray[np.float32] | None = None
    frames: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
    files: NDArray[np.int32] | None = None

    @classmethod
    def of(
        cls,
        n_points: int,
        landmark_indices: NDArray[np.intp],
        weights: NDArray[np.float64],
        distance: NDArray[Any] | None = None,
        nearest: NDArray[Any] | None = None,
    ) -> Self:
        """Make the record of ``n_points`` training points, thinned if they are too many."""
        rows = thinned_rows(n_points, landmark_indices)
        return cls(
            rows,
            None if distance is None else distance[rows].astype(np.float32),
            None if nearest is None else nearest[rows].astype(np.int32),
            None if (weights == 1.0).all() else weights[rows].astype(np.float32),
        )

    def with_frames(
        self, frames: ArrayLike | None, times: ArrayLike | None, files: ArrayLike | None = None
    ) -> TrainingRecord:
        """Return the record with the frames' numbers, times and files, given for all training points."""

        def recorded(values: ArrayLike | None, dtype: type) -> NDArray[Any] | None:
            if values is None:
                return None
            array: NDArray[Any] = np.asarray(values, dtype=dtype)
            if len(array) and len(array) <= int(self.rows.max()):
                raise InvalidInputError(
                    f"frames, times and files need one value per training point, got {len(array)} for at least "
                    f"{int(self.rows.max()) + 1} points"
                )
            return array[self.rows]

        return replace(
            self,
            frames=recorded(frames, np.int64),
            times=recorded(times, np.float64),
            files=recorded(files, np.int32),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a model file stores."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Rebuild the record from :meth:`arrays`; None when there are none."""
        if "rows" not in arrays:
            return None
        known = {name: arrays[name] for name in cls.__dataclass_fields__ if name in arrays}
        return cls(**known)


def thinned_rows(n_points: int, keep: NDArray[np.intp], most: int = MAX_RECORDED) -> NDArray[np.int64]:
    """Return at most ``most`` rows, evenly spread, with those to keep among them as far as half of it allows.

    >>> thinned_rows(10, np.array([3]), most=4)
    array([0, 3, 4, 9])
    """
    if n_points <= most:
        return np.arange(n_points, dtype=np.int64)
    kept = np.unique(keep)[: most // 2]
    spread = np.linspace(0, n_points - 1, most - len(kept)).round().astype(np.int64)
    return np.union1d(spread, kept).astype(np.int64)
