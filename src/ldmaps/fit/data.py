"""Training data as a fit takes them: checked, prepared, weighted, and knowing where each point is from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.opening import as_source
from ldmaps.landmarks import Landmarks
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points
from ldmaps.metrics.local_scales import LocalPoints, LocalScales
from ldmaps.metrics.standardized import least_range
from ldmaps.point_faults import check_real
from ldmaps.time_units import time_unit
from ldmaps.validation.sampling import Order

#: Bounds of the largest weight, and of the smallest relative to it: products of weights and coordinates must be
#: numbers, in single precision too.
LARGEST_WEIGHT, _WIDEST_SPREAD = 1e30, 1e-100


@dataclass(frozen=True)
class KnownTimes:
    """Rows whose times are known, in order."""

    rows: NDArray[np.intp]
    times: NDArray[np.float64]

    @property
    def steps(self) -> NDArray[np.float64]:
        """The time from one row to the next."""
        return np.asarray(np.diff(self.times) / np.diff(self.rows))

    def at(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the times of some of these rows."""
        return self.times[np.searchsorted(self.rows, rows)]


@dataclass(frozen=True)
class Origin:
    """Where training points are from."""

    #: number and time of each frame in its file, and which file that is; for blocks, looked up when asked for
    frames: Any = None
    times: NDArray[Any] | None = None
    files: Any = None
    rows: NDArray[np.intp] | None = None  # which points of larger data these are
    units: str | None = None  # unit of the features, as in :class:`~ldmaps.fit.fitted_map.FittedMap`
    facts: dict[str, Any] | None = None  # what a source knows of itself: atoms, columns, files

    def name(self, point: int) -> str:
        """Return where a training point is from, for messages: "frame 51 of run.xtc"."""
        facts = self.facts or {}
        files = facts.get("files") or []
        file = files[0 if self.files is None else int(self.files[point])] if files else ""
        item = "point" if self.frames is None else "frame" if "n_atoms" in facts else "row"
        row = point if self.rows is None else int(self.rows[point])
        number = row if self.frames is None else int(self.frames[point])
        return f"{item} {number}" + (f" of {file}" if file else "")


@dataclass(frozen=True)
class Data:
    """Training data, checked and prepared.

    All N points are *rows*; those of positive weight, which the walk is over, are *members*. Points of weight 0 are
    only embedded.
    """

    metric: Metric
    points: Points  # all N of them
    weights: NDArray[np.float64]  # (N,)
    n_features: int  # numbers per point
    origin: Origin = field(default_factory=Origin)
    #: for a sample of larger data: which rows of these it holds
    sampled_rows: NDArray[np.intp] | None = None
    stride: int = 0  # where these are every so many of the members, in this process; 0 elsewhere

    @cached_property
    def used(self) -> NDArray[np.intp]:
        """The rows that are members."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def uses_all(self) -> bool:
        """Whether every row is a member."""
        return bool(self.weights.min() > 0)

    @cached_property
    def members(self) -> Points:
        """The points of positive weight."""
        return self.points.weighed(self.weights)

    @cached_property
    def member_weights(self) -> NDArray[np.float64]:
        """The weights of the members."""
        return self.weights if self.uses_all else self.weights[self.used]

    def rows_of(self, members: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which rows some members are."""
        return members if self.uses_all else self.used[members]

    def members_at(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which members some rows of positive weight are."""
        return rows if self.uses_all else np.searchsorted(self.used, rows)

    def without(self, members: NDArray[np.intp]) -> Data:
        """Return the data with some members at weight 0."""
        weights = np.array(self.weights)
        weights[self.rows_of(members)] = 0.0
        return replace(self, weights=weights)

    def with_local_scales(self, factors: NDArray[np.float64]) -> Data:
        """Return the data with distances in local units, given the factor of each row."""
        points = LocalPoints(self.points, factors)
        return replace(self, metric=LocalScales(self.metric), points=points)

    def some(self, rows: NDArray[np.intp]) -> Data:
        """Return some of the rows, brought to this process where they are elsewhere."""
        origin = self.origin
        points, times = self.points.take_with_times(rows)
        if times is None and origin.times is not None:
            times = origin.times[rows]
        frames = None if origin.frames is None else origin.frames[rows]
        files = None if origin.files is None else origin.files[rows]
        known = Origin(frames, times, files, rows, origin.units, origin.facts)
        return Data(
            metric=self.metric,
            points=points,
            weights=np.array(self.weights[rows]),
            n_features=self.n_features,
            origin=known,
            sampled_rows=rows,
        )

    def thinned(self, most: int) -> Data:
        """Return at most so many of the members, evenly spread, so that what follows in time still does."""
        stride = math.ceil(len(self.members) / most)
        return replace(self.some(self.rows_of(np.arange(0, len(self.members), stride))), stride=stride)

    def known_times(self, landmarks: Landmarks | None) -> KnownTimes | None:
        """Return the times that are known: those of all rows, or of the rows that landmarks of blocks noted."""
        if self.origin.times is not None:
            return KnownTimes(np.arange(len(self.points)), np.asarray(self.origin.times, dtype=np.float64))
        noted = None if landmarks is None else landmarks.known_times
        return None if noted is None else KnownTimes(rows=noted[0], times=noted[1])

    def order(self, known: KnownTimes | None) -> Order:
        """Return in which order the members are: that of time if they have times, or are frames."""
        is_frames = self.metric.takes_frames
        files = None if self.origin.files is None else self.origin.files[self.used].astype(np.int32)
        steps = np.empty(0)
        if known is not None:
            is_member = self.weights[known.rows] > 0
            places = np.searchsorted(self.used, known.rows[is_member])
            steps = KnownTimes(places, known.times[is_member]).steps
            steps = steps if files is None else steps[np.diff(files[places]) == 0]
        has_times = len(steps) > 0 and bool(np.isfinite(steps).all() and (steps >= 0).all())
        if has_times and np.median(steps) > 0:
            return Order(True, files, float(np.median(steps)), time_unit(of_frames=is_frames))
        return Order(
            has_times or is_frames, files, float(max(1, self.stride)), "frames" if is_frames else "rows"
        )


def prepare_data(
    estimator: BaseEstimator, metric: Metric, X: ArrayLike, sample_weight: ArrayLike | None
) -> Data:
    """Check and prepare training data; the estimator remembers their features, as scikit-learn wants it."""
    source = as_source(X)
    frames = times = files = None
    facts: dict[str, Any] | None = None
    if source is not None:
        read = source.read()
        X, frames, times, files = read.frames, read.numbers, read.times, read.files
        sample_weight = read.weights if sample_weight is None else sample_weight
        facts = {**source.facts(), "n_points": len(read)}
    shape = array_shape(X)
    if shape[:1] == (1,):
        raise InvalidInputError(
            "got 1 sample (n_samples=1): a diffusion map needs at least two different points; pass more data"
        )
    if len(shape) == 3 and shape[0]:
        check_frames_taken(metric, shape[1:])
        points = metric.prepare(X)
        estimator.n_features_in_ = shape[1] * shape[2]
        estimator.__dict__.pop("feature_names_in_", None)
    else:
        # Reading has looked for NaN, and can say in which file it is.
        unread = source is None
        check_real(X)
        rows = validate_data(estimator, X, dtype=[np.float64, np.float32], ensure_all_finite=unread)
        lags = 1 if facts is None or facts.get("windows") is None else facts["windows"]["length"]
        metric = metric.learned(rows, check_sample_weight(sample_weight, len(rows)), lags)
        if facts is not None:
            still = (np.ptp(rows, axis=0) <= least_range(rows)).reshape(lags, -1).all(axis=0)
            names = facts.get("columns") or [f"column {place + 1}" for place in range(len(still))]
            facts["constant"] = [names[place] for place in np.flatnonzero(still)]
        points = metric.prepare(rows)
    metric.check_training(points)
    weights = check_sample_weight(sample_weight, len(points))
    units = None if source is None else source.units
    origin = Origin(frames, times, files, units=units, facts=facts)
    return Data(metric, points, weights, estimator.n_features_in_, origin)


def check_frames_taken(metric: Metric, shape: tuple[int, ...]) -> None:
    """Raise unless a metric takes frames, each of this shape."""
    if not metric.takes_frames:
        raise InvalidInputError(
            f"metric {metric!r} takes points of shape (n, features), got frames of shape {shape}; "
            "for molecular frames use ",
            Named("metric", "rmsd"),
            ", or reshape to two dimensions",
        )
    if shape[1] != 3:
        raise InvalidInputError(f"molecular frames have shape (n, atoms, 3), got frames of shape {shape}")


def array_shape(X: ArrayLike) -> tuple[int, ...]:
    """Return the shape of anything array-like; what is none is left for validation to explain."""
    try:
        return tuple(X.shape if hasattr(X, "shape") else np.asarray(X).shape)
    except ValueError:
        return ()


def check_sample_weight(sample_weight: ArrayLike | None, n_points: int) -> NDArray[np.float64]:
    """Return weights as float64, ones by default, or raise."""
    if sample_weight is None:
        return np.ones(n_points)
    check_real(sample_weight, "sample_weight")
    try:
        weights = np.array(sample_weight, dtype=np.float64)  # a copy: it is kept
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight must be numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_points, float(weights))
    if weights.shape != (n_points,):
        raise InvalidInputError(
            f"sample_weight must have one value per point, ({n_points},), got shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InvalidInputError(
            f"sample_weight must be finite and not negative, got {weights[bad]} at index {bad}; "
            "a weight of 0 leaves a point out"
        )
    if np.count_nonzero(weights) < 2:
        raise InvalidInputError(
            "sample_weight must be above zero for at least two points, "
            f"but is above zero for {np.count_nonzero(weights)} of {n_points}; check the weights"
        )
    least, most = weights[weights > 0].min(), weights.max()
    if not 1 / LARGEST_WEIGHT <= most <= LARGEST_WEIGHT or least < _WIDEST_SPREAD * most:
        raise InvalidInputError(
            f"the largest sample_weight must be between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g} and all "
            f"others 0 or at least {_WIDEST_SPREAD:g} of it, or products of them overflow or vanish; got {least:g} to "
            f"{most:g}. Divide all by their mean, and set negligible ones to 0"
        )
    return weights
