"""A bounded, uniform sample of the records that the map does not cover, and a count of those it does; as a file too.

kept = { records with u < threshold }, u drawn from [0, 1), threshold = the smallest u that was turned away
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import door
from ldmaps.archive import ArchiveError, read_archive, write_archive
from ldmaps.errors import InvalidInputError
from ldmaps.maps.model_digest import model_digest
from ldmaps.settings import check_whole
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink

FORMAT_NAME, FORMAT_VERSION = "ldmaps outside", 1


class Reservoir(Sink):
    """Keeps a uniform sample of the records outside a map's domain; a sink of a stream, or filled by hand.

    Parameters
    ----------
    capacity : int
        Most records that are kept. A larger sample shows more of rare places and makes absorbing
        slower: its choice of landmarks takes up to capacity² distances.
    seed : int
        Which sample.

    Attributes
    ----------
    points : ndarray of shape (n, ...)
        The records kept, in the order they came, n ≤ capacity.
    numbers : ndarray of shape (n,)
        Their places in the stream.
    seen : float
        How many records the sample stands for. A whole number until records were
        taken out of a sample that had overflowed; then it is an estimate.
    counts : ndarray of int
        How many records inside the domain had landmark 0, 1, … nearest, as far as any had.

    Examples
    --------
    >>> reservoir = Reservoir(capacity=3)
    >>> reservoir.offer(np.arange(10.0).reshape(5, 2))
    >>> len(reservoir), reservoir.seen, float(reservoir.weights.sum())
    (3, 5.0, 5.0)
    """

    # Which records are kept depends on the seed and their order, never on how they were cut into batches. That stays
    # true when some are taken out (absorbed by a map): the rest are still all those with u below the threshold, and
    # records to come must pass it too. Those inside the domain are counted, since without them a map that absorbs the
    # others would take the new places for more than their share of the stream.

    name = "reservoir"
    durable = True

    def __init__(self, capacity: int = 1000, seed: int = 0) -> None:
        self.capacity = check_whole("capacity", capacity, 1)
        self.seed = check_whole("seed", seed, 0)
        self._start()

    def _start(self) -> None:
        self.points: NDArray[Any] = np.empty((0, 0))
        self.numbers: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.seen = 0.0
        self.counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._keys: NDArray[np.float64] = np.empty(0)
        self._threshold = 1.0
        self._drawn = 0
        self._rng = np.random.Generator(np.random.PCG64(self.seed))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How many records each one kept stands for; they sum to ``seen``."""
        return np.full(len(self), self.seen / max(1, len(self)))

    def offer(self, points: ArrayLike, numbers: ArrayLike | None = None) -> None:
        """Add records outside the domain, ``points``, to the draw; ``numbers`` are their places in the stream."""
        given = np.asarray(points)
        if given.ndim < 2:
            raise InvalidInputError(f"points must have shape (n, features), got {given.shape}; pass x[None]")
        places = np.arange(len(given)) + self._drawn if numbers is None else np.asarray(numbers, np.int64)
        if places.shape != (len(given),):
            raise InvalidInputError(f"numbers must have shape ({len(given)},), got {places.shape}")
        if len(self) and given.shape[1:] != self.points.shape[1:]:
            raise InvalidInputError(
                f"the reservoir holds points of shape {self.points.shape[1:]}, got {given.shape[1:]}"
            )
        # One draw per record, also where there is room: the state is then the number of draws.
        keys = self._rng.random(len(given))
        self._drawn += len(given)
        self.seen += len(given)
        new = keys < self._threshold
        if not new.any():
            return
        # Copied, so that a batch is not kept alive by the few records of it that stay.
        self.points = np.concatenate([self.points, given[new]]) if len(self) else given[new]
        self.numbers = np.concatenate([self.numbers, places[new]])
        self._keys = np.concatenate([self._keys, keys[new]])
        if len(self) > self.capacity:
            self._threshold = float(np.partition(self._keys, self.capacity)[self.capacity])
            self._keep(self._keys < self._threshold)

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        self.points, self.numbers, self._keys = self.points[rows], self.numbers[rows], self._keys[rows]

    def count(self, nearest: ArrayLike) -> None:
        """Count records inside the domain; ``nearest`` is the landmark nearest to each, as in ``Coverage``."""
        more = np.bincount(np.asarray(nearest, dtype=np.intp), minlength=len(self.counts)).astype(np.int64)
        more[: len(self.counts)] += self.counts
        self.counts = more

    def remove(self, rows: ArrayLike) -> None:
        """Remove the ``rows`` (one bool each) that a map has absorbed, with all they stand for; empty ``counts``."""
        gone = np.asarray(rows)
        if gone.dtype != np.bool_ or gone.shape != (len(self),):
            raise InvalidInputError(
                f"rows must be one bool for each of the {len(self)} records kept, got {gone.dtype}, shape {gone.shape}"
            )
        self.seen *= np.count_nonzero(~gone) / max(1, len(self))
        self._keep(~gone)
        self.counts = np.empty(0, dtype=np.int64)
        if not len(self):
            self._threshold = 1.0

    def write(self, embedded: Embedded) -> None:
        """Offer the records that are outside the map's domain, count the others."""
        inside = embedded.coverage.inside
        if inside.any():
            self.count(embedded.coverage.nearest[inside])
        if not inside.all():
            self.offer(embedded.points[~inside], embedded.numbers[~inside])

    def check(self, mark: Any = None) -> None:
        """Raise unless a mark is a state of a reservoir like this one."""
        if mark is not None:
            self._parsed(mark)

    def rewind(self, mark: Any) -> None:
        """Go back to an earlier state; None empties the reservoir."""
        self._start() if mark is None else self.restore(mark)

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values; the points are base64 of their bytes."""
        if self.points.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"a reservoir saves numbers only, but its points are {self.points.dtype}; convert them to floats"
            )
        return {
            "capacity": self.capacity,
            "seed": self.seed,
            "drawn": self._drawn,
            "seen": self.seen,
            "threshold": self._threshold,
            "shape": list(self.points.shape),
            "dtype": self.points.dtype.str,
            "points": base64.b64encode(self.points.tobytes()).decode("ascii"),
            "numbers": self.numbers.tolist(),
            "keys": self._keys.tolist(),
            "counts": self.counts.tolist(),
        }

    flush = state  # a checkpoint that holds it can lose nothing

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, ``state``, with the same draws as the reservoir it was taken of."""
        try:
            arrays, numbers = self._parsed(state)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(
                f"this is not a reservoir's state ({type(error).__name__}: {error}); pass what state() returned"
            ) from error
        self.points, self.numbers, self._keys, self.counts = arrays
        self.seen, self._threshold, self._drawn = numbers
        self._rng = np.random.Generator(np.random.PCG64(self.seed).advance(self._drawn))

    def _parsed(self, state: Mapping[str, Any]) -> tuple[tuple[NDArray[Any], ...], tuple[float, float, int]]:
        """Return points, numbers, keys and counts, then seen, threshold and drawn; raise where one cannot be."""
        capacity, seed, drawn = int(state["capacity"]), int(state["seed"]), int(state["drawn"])
        if (capacity, seed) != (self.capacity, self.seed):
            raise InvalidInputError(
                f"the state is of a reservoir with capacity {capacity} and seed {seed}, this one has "
                f"{self.capacity} and {self.seed}; make it with those of the checkpoint"
            )
        dtype = np.dtype(state["dtype"])
        if dtype.kind not in "fiub":
            raise ValueError(f"points of type {dtype}")
        points = np.frombuffer(base64.b64decode(state["points"], validate=True), dtype=dtype)
        points = points.reshape(state["shape"]).copy()
        numbers = np.asarray(state["numbers"], dtype=np.int64)
        keys = np.asarray(state["keys"], dtype=np.float64)
        counts = np.asarray(state["counts"], dtype=np.int64)
        seen, threshold = float(state["seen"]), float(state["threshold"])
        if not (len(points) <= capacity and numbers.shape == keys.shape == points.shape[:1]):
            raise ValueError(f"{points.shape} points, {numbers.shape} numbers, {keys.shape} keys")
        if points.ndim < 2 or counts.ndim != 1:
            raise ValueError(f"points of shape {points.shape}, counts of shape {counts.shape}")
        keys_fit = ((keys >= 0) & (keys < threshold)).all() and 0 <= threshold <= 1
        if not (keys_fit and len(points) <= drawn and 0 <= seen <= drawn and (counts >= 0).all()):
            raise ValueError(
                f"a threshold of {threshold}, {drawn} drawn for {seen} seen, or keys or counts beyond"
            )
        return (points, numbers, keys, counts), (seen, threshold, drawn)


class OutsideFile(Reservoir):
    """A reservoir that is written to an .npz file when the stream ends; until then the checkpoint keeps the records."""

    # Unless ``overwrite``, only a file without records of the same map is replaced: what a run leaves that failed
    # before its first record.

    def __init__(
        self, path: str | os.PathLike[str], model: Any, capacity: int = 1000, *, overwrite: bool = False
    ) -> None:
        super().__init__(capacity)
        self.path, self.name = Path(path), str(path)
        self.paths = (str(path),)
        self._model, self._digest = model, model_digest(model)
        self._overwrite = overwrite
        self._begun = False

    def check(self, mark: Any = None) -> None:
        """Raise if there is no folder for the file, it would replace one that is not ours, or the mark is no state."""
        super().check(mark)
        if not door.isdir(self.path.parent):
            raise InvalidInputError(
                f"there is no directory {self.path.parent} for {self.path.name}; create it first"
            )
        if mark is None and not self._overwrite and door.exists(self.path) and not self._is_empty():
            raise InvalidInputError(
                f"{self.path} exists already; name another file, or overwrite it with --force"
            )

    def _is_empty(self) -> bool:
        try:
            there = read_outside(self.path, self._model)
        except (InvalidInputError, OSError):
            return False
        return not len(there["points"]) and not there["counts"].any()

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
        points = self.points if self.points.dtype in (np.float32, np.float64) else self.points.astype(float)
        write_archive(
            self.path,
            {"format": FORMAT_NAME, "version": FORMAT_VERSION, "model": self._digest},
            {"points": points, "numbers": self.numbers, "weights": self.weights, "counts": self.counts},
        )


def read_outside(path: str | os.PathLike[str], model: Any) -> dict[str, NDArray[Any]]:
    """Return the points, numbers, weights and counts that a stream left outside a map; raise if it was another."""
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
    return arrays


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
