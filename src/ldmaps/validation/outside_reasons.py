"""Why points are off a map: which columns or atoms make one far; another unit or order of atoms where most are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.diffusion.pairwise import squared_tile
from ldmaps.extension.embedder import Embedder, Projected

#: Data with a smaller share of points inside the map do not belong to it.
FEW_INSIDE = 0.01
#: Points to look at.
SAMPLE_SIZE = 64
#: Points, of many that are embedded at once, by which to tell whether they belong to the map.
JUDGED = 1000
#: Rescaled points are in the map's unit when so many lie inside.
SHARE_RESCALED = 0.2
#: Atoms are in another order when neighbours in the list are so much farther apart or closer than on the map (median of
#: the relative differences), while the molecule is as large as there, up to this factor.
NEIGHBOUR_CHANGE, SIZE_CHANGE = 0.25, 1.5
#: Rows in the map's unit cover so much of its width, if there are enough of them to judge.
LEAST_SPREAD = 0.2
#: Fewer points say nothing about their spread, or whether they belong to the map.
FEW_POINTS = 10

_FACTORS_OF_FRAMES = {
    0.1: "they seem to be in Å, but the map is in nm",
    10.0: "the map seems to have been fitted in Å, and they are in nm",
}
_FACTORS_OF_ROWS = {
    0.1: "they seem to be in a unit ten times smaller than the map's, such as Å for nm",
    10.0: "they seem to be in a unit ten times larger than the map's, such as nm for Å",
    math.pi / 180: "they seem to be in degrees, but the map is in radians",
    180 / math.pi: "they seem to be in radians, but the map is in degrees",
}
#: Reasons that are given, and the least share of d² that is one.
_MOST, _LEAST_SHARE = 3, 0.05


class OutsideSample:
    """The first points outside a map, and how many were inside."""

    def __init__(self) -> None:
        self.inside = self.total = 0
        self._parts: list[NDArray[Any]] = []
        self._room = SAMPLE_SIZE

    def add(self, points: NDArray[Any], inside: NDArray[np.bool_]) -> None:
        """Take points as they came, and whether the map covers each."""
        count = int(np.count_nonzero(inside))
        self.total += len(inside)
        self.inside += count
        if self._room and count < len(inside):
            self._parts.append(np.asarray(points)[np.flatnonzero(~inside)[: self._room]])
            self._room -= len(self._parts[-1])

    def join(self, other: OutsideSample) -> None:
        """Take in what another sample has seen, after what this one has."""
        self.total += other.total
        self.inside += other.inside
        for part in other._parts:
            if self._room:
                self._parts.append(part[: self._room])
                self._room -= len(self._parts[-1])

    @property
    def is_foreign(self) -> bool:
        """Whether so few points are inside that they hardly belong to the map."""
        return self.total > 0 and self.inside < FEW_INSIDE * self.total

    @property
    def points(self) -> NDArray[Any]:
        """Some of those outside, (n, features) or (n, atoms, 3)."""
        return np.concatenate(self._parts)


def are_mostly_outside(projected: Projected) -> bool:
    """Say whether hardly any of embedded points are inside the map, judging a thousand of many; no for a few points."""
    n_points = len(projected.coordinates)
    if n_points < FEW_POINTS:
        return False
    step = max(1, n_points // JUDGED)
    return projected.count_inside(step) < FEW_INSIDE * -(-n_points // step)


def outside_warning(
    model: Any, sample: OutsideSample, item: str = "points", labels: Sequence[str] | None = None
) -> str | None:
    """Return what to say of points that hardly lie on a map, or None where they do."""
    if not sample.is_foreign:
        return None
    points = sample.points
    reason = _other_order_by_name(model, labels) or _other_unit(model, points) or _other_order(model, points)
    if reason is None:
        if sample.total < FEW_POINTS:
            return None  # a few points may well be outside
        reason = (
            "check that they are of the same system, in the same unit, with the same atoms or columns in the same "
            "order. If they are, they lie in a part of space that the map was not fitted on"
        )
    share = f"{100 * sample.inside / sample.total:.1f} % of {sample.total:,} {item}"
    return f"{share} are inside the map, so their coordinates mean little; {reason}"


def _other_order_by_name(model: Any, labels: Sequence[str] | None) -> str | None:
    known = (model.source_ or {}).get("atom_labels")
    if labels is None or known is None or list(labels) == list(known) or sorted(labels) != sorted(known):
        return None
    place = next(place for place, (old, new) in enumerate(zip(known, labels, strict=True)) if old != new)
    return (
        f"their atoms have the names of the map's atoms, but in another order (atom {place} is {labels[place]}, on the "
        f"map {known[place]}); bring them into the map's order"
    )


def _other_unit(model: Any, points: NDArray[Any]) -> str | None:
    if not model.embedder_.metric.has_units:
        return None
    frames = model.embedder_.metric.has_structures
    if frames:
        own, theirs = _size(_landmark_frames(model)), _size(_counted_atoms(model, points))
    else:
        landmarks = model.map_.landmark_points.values
        own, theirs = _rms(landmarks), _rms(points)
    for factor, reason in (_FACTORS_OF_FRAMES if frames else _FACTORS_OF_ROWS).items():
        # Anything times 0.1 gets near the origin; only what is then as large as the map is the map's.
        if not own / SIZE_CHANGE <= factor * theirs <= own * SIZE_CHANGE:
            continue
        if not frames and factor * _spread(points) < LEAST_SPREAD * _spread(landmarks):
            continue
        share = float(model.embedder_.project(factor * points).coverage.inside.mean())
        if share >= SHARE_RESCALED:
            return f"multiplied by {factor:.4g}, {100 * share:.0f} % of the first would be: {reason}"
    return None


def _other_order(model: Any, points: NDArray[Any]) -> str | None:
    if not model.embedder_.metric.has_structures:
        return None
    own, theirs = _landmark_frames(model), _counted_atoms(model, points)
    if own.shape[1] < 3 or not 1 / SIZE_CHANGE <= _size(theirs) / _size(own) <= SIZE_CHANGE:
        return None
    change = np.abs(_neighbour_distances(theirs) / _neighbour_distances(own) - 1.0)
    if np.median(change) < NEIGHBOUR_CHANGE:
        return None
    return (
        "their size is the map's, but atoms that follow each other are not as far apart as there: the atoms seem to be "
        "in another order; use the topology that the file was written with"
    )


def _landmark_frames(model: Any) -> NDArray[np.float64]:
    metric, points = model.embedder_.metric, model.map_.landmark_points
    return np.asarray(metric.structures(points, model.n_features_in_ // 3))


def _counted_atoms(model: Any, points: NDArray[Any]) -> NDArray[np.float64]:
    """Return frames of the atoms that have a weight, which are all that landmarks have."""
    frames = np.asarray(points, dtype=np.float64).reshape(len(points), -1, 3)
    return np.asarray(frames[:, model.embedder_.metric.weighed_atoms(frames.shape[1]).kept])


def _size(frames: NDArray[np.float64]) -> float:
    """Return the root mean square distance of atoms from the middle of their frame."""
    return _rms(frames - frames.mean(axis=1, keepdims=True)) * math.sqrt(3.0)


def _spread(rows: NDArray[Any]) -> float:
    """Return how far rows are from their mean; a few say nothing about that."""
    return _rms(rows - rows.mean(axis=0)) if len(rows) >= FEW_POINTS else math.inf


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values, dtype=np.float64)))))


def _neighbour_distances(frames: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each atom is from the next in the list, (atoms - 1,), on average."""
    distances = np.linalg.norm(frames[:, 1:] - frames[:, :-1], axis=2).mean(axis=0)
    return np.asarray(np.maximum(distances, np.finfo(np.float64).tiny))


# -- one point ---------------------------------------------------------------------


def contributions(embedder: Embedder, point: ArrayLike, landmark: int) -> NDArray[np.float64] | None:
    """Return the part that each column, atom or feature has in d² of one point to a landmark; None where none has."""
    metric = embedder.metric
    if not metric.is_differentiable:
        return None
    # d² is a sum of squares of what differs, times scales, so each part is (∂d²/∂x)²/(2·scale)²: of frames after
    # superposition, of angles the shorter way round.
    space = metric.of_places()
    here, there = embedder.prepare(np.asarray(point)[None]), embedder.landmarks.take(np.array([landmark]))
    values, scales = metric.places(here)
    squared, gradient = squared_tile(metric, here, slice(0, 1), there), np.empty((1, 1, values.shape[1]))
    sums = space.squares_gradient(space.prepare(metric.places(there).values))
    sums(np.ascontiguousarray(values), squared.astype(np.float64), np.ones((1, 1, 1)), gradient)
    slopes = gradient[0, 0]
    parts = np.square(np.divide(slopes, 2.0 * scales, out=np.zeros_like(slopes), where=scales > 0))
    if not math.isclose(parts.sum(), squared[0, 0], rel_tol=1e-2, abs_tol=1e-8):
        return None  # frames superposed on some of their atoms: moving these turns all the others
    return np.asarray(parts.reshape(-1, 3).sum(axis=1) if space.takes_frames else parts)


def reasons(model: Any, point: ArrayLike, landmark: int) -> tuple[tuple[str, float], ...]:
    """Return what accounts for most of a point's d² to a landmark: names and shares, the largest first."""
    parts = contributions(model.embedder_, point, landmark)
    total = 0.0 if parts is None else float(parts.sum())
    if parts is None or not 0.0 < total < np.inf:
        return ()
    if windows := (model.source_ or {}).get("windows"):  # a column counts with all its lags
        parts = parts.reshape(-1, windows["width"]).sum(axis=0)
    names = _names(model, len(parts))
    first = np.argsort(-parts, kind="stable")[:_MOST]
    return tuple(
        (names[place], round(float(parts[place]) / total, 4))
        for place in first
        if parts[place] >= _LEAST_SHARE * total
    )


def _names(model: Any, count: int) -> list[str]:
    """Return what the model knows its columns, atoms or features by."""
    source, metric = model.source_ or {}, model.embedder_.metric
    known = getattr(model, "feature_names_in_", None)
    for names in (getattr(metric, "names", None), source.get("atom_labels"), source.get("columns"), known):
        if names is not None and len(names) == count:
            return [str(name) for name in names]
    item = "atom" if metric.takes_frames and metric.of_places() is metric else "column"
    return [f"{item} {place}" for place in range(count)]
