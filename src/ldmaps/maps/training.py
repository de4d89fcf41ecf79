"""Training data as the estimators take them: checked, prepared, and knowing where they are from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.calibration import (
    calibrate,
    calibrate_by_others,
    held_out_rows,
    memory_of,
    scored_rows,
)
from ldmaps.extension.embedder import Embedder
from ldmaps.inputs.opening import as_source
from ldmaps.landmarks import Landmarks
from ldmaps.landmarks.base import PointsElsewhere
from ldmaps.maps.fitted_map import TrainingRecord, thinned_rows
from ldmaps.maps.solved_map import LandmarkFit, SampledMap
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.metrics.scaled import least_range
from ldmaps.point_faults import check_real
from ldmaps.quality.error_estimate import Reference, sample_reference
from ldmaps.quality.sampling import Order

#: Bounds of the largest weight, and of the smallest relative to it: products of weights and coordinates must be
#: numbers, in single precision too.
LARGEST_WEIGHT, _WIDEST_SPREAD = 1e30, 1e-100
#: Of more points elsewhere there are neither resamples nor held-out rows: for both, numbers of every row are kept here.
MOST_ELSEWHERE = 10_000_000
#: Rows in order, and the time of each.
Timed = tuple[NDArray[np.intp], NDArray[np.float64]]


@dataclass(frozen=True)
class Training:
    """Training data, checked and prepared."""

    metric: Metric
    points: Points  # all N of them
    weights: NDArray[np.float64]  # (N,)
    #: number and time of each frame in its file, and which file that is; of points elsewhere, found when asked for
    frames: Any = None
    times: NDArray[Any] | None = None
    files: Any = None
    units: str | None = None  # as in :class:`~ldmaps.maps.fitted_map.FittedMap`
    source: dict[str, Any] | None = None
    bandwidth: Bandwidth | None = None  # ε, where it is found already
    n_tried: int = 0  # certificates that were tried at another ε
    #: which points are landmarks, where choosing them has shown what lies apart
    landmarks: NDArray[np.intp] | None = None
    #: (N,): which points no landmark is chosen from, and the correlation time of all in rows
    held: NDArray[np.bool_] | None = None
    memory: float = 0.5
    rows: NDArray[np.intp] | None = None  # of data that were brought here from blocks: which rows they are

    def without(
        self, left_out: NDArray[np.intp], bandwidth: Bandwidth, landmarks: NDArray[np.intp] | None = None
    ) -> Training:
        """Return the data with some points at weight 0, ε and perhaps landmarks found; all by places in ``members``."""
        weights = self.weights.copy()
        weights[self.used[left_out]] = 0.0
        kept = None if landmarks is None else self.used[landmarks]
        return replace(self, weights=weights, bandwidth=bandwidth, landmarks=kept)

    def place(self, point: int) -> str:
        """Return where a training point is from, for messages: "frame 51 of run.xtc"."""
        files = (self.source or {}).get("files") or []
        file = files[0 if self.files is None else int(self.files[point])] if files else ""
        item = "point" if self.frames is None else "frame" if "n_atoms" in (self.source or {}) else "row"
        number = point if self.frames is None else int(self.frames[point])
        return f"{item} {number}" + (f" of {file}" if file else "")

    @cached_property
    def used(self) -> NDArray[np.intp]:
        """The points of positive weight, which the walk is over; the others are only embedded."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def uses_all(self) -> bool:
        """Whether every point has a positive weight."""
        return bool(self.weights.min() > 0)

    @cached_property
    def members(self) -> Points:
        """The points of positive weight."""
        if isinstance(self.points, PointsElsewhere):
            return self.points.weighed(self.weights)
        return self.points if self.uses_all else self.points.take(self.used)

    @property
    def member_weights(self) -> NDArray[np.float64]:
        """Their weights."""
        return self.weights if self.uses_all else self.weights[self.used]

    @property
    def held_members(self) -> NDArray[np.bool_] | None:
        """Which of them no landmark is chosen from."""
        return self.held if self.held is None or self.uses_all else self.held[self.used]

    def holding_out(self, share: float, rng: np.random.Generator, n_threads: int | None) -> Training:
        """Return the data with about a share of the rows marked that no landmark may be chosen from."""
        if isinstance(self.points, PointsElsewhere) and len(self.points) > MOST_ELSEWHERE:
            return self
        memory = memory_of(self.metric, self.points, self.files, rng, n_threads)
        held = held_out_rows(len(self.points), share, memory, rng) & (self.weights > 0)
        return replace(self, held=held, memory=memory)

    @property
    def n_free(self) -> int:
        """How many of them landmarks are chosen from."""
        return len(self.members) - (0 if self.held is None else int((self.held & (self.weights > 0)).sum()))

    def timed(self, landmarks: Landmarks | None) -> Timed | None:
        """Return rows whose times are known, in order, and these: all of them, or those that landmarks noted."""
        if self.times is None:
            return None
        return np.arange(len(self.points)), np.asarray(self.times, dtype=np.float64)

    def walk(self, bandwidth: Bandwidth, settings: Any) -> Walk:
        """Return the walk over the points of positive weight, with the settings of an estimator."""
        members = self.metric, self.members, self.member_weights, bandwidth.epsilon
        leaves_out, is_connected = settings.epsilon == "bulk", bandwidth.tree is not None
        return Walk(
            *members, settings.alpha, settings.t, settings.n_threads, leaves_out, is_connected=is_connected
        )

    def choose_bandwidth(
        self, settings: Any, rng: np.random.Generator, squared: NDArray[Any] | None = None
    ) -> Bandwidth:
        """Return ε of the points of positive weight by the rule of an estimator, from their d² if given."""
        if self.bandwidth is not None:
            return self.bandwidth
        metric, members = self.metric, self.members
        if squared is not None:
            metric, members = StoredSquares(), StoredPoints(squared)
        return choose_bandwidth(
            settings.epsilon, metric, members, self.member_weights, rng, settings.n_threads
        )

    def embedded(
        self, fit: LandmarkFit, n_features: int, n_threads: int | None
    ) -> tuple[dict[str, Any], Reference]:
        """Embed all points with a fit to those of positive weight; return parts of a map, and what errors need."""
        landmarks, embedder = fit.landmarks, fit.embedder
        rows = self.rows_of(landmarks.indices)
        recorded = thinned_rows(len(self.points), rows)
        scored = np.arange(0) if self.held is None else scored_rows(self.held, self.memory)
        asked = np.union1d(recorded, scored)
        embedding, labels, distance, nearest = self.extended(fit, asked, recorded, n_threads)
        shown, known = self.members.take(landmarks.indices), self.timed(landmarks)
        if self.held is not None:
            scores = distance[np.searchsorted(asked, scored)].astype(np.float64)
            embedder = replace(
                embedder, calibration=calibrate(scored, scores, self.memory, time_steps(known))
            )
        parts = {
            "embedding": embedding,
            "labels": labels,
            "landmark_indices": rows,
            "landmark_embedding": fit.landmark_embedding(shown, n_threads),
            "representatives": None if fit.step.moved is None else shown,
            "training": self.record(
                recorded, known, distance=distance[np.searchsorted(asked, recorded)], nearest=nearest
            ),
            "embedder": embedder,
        }
        return parts, sample_reference(self.members, self.member_weights, landmarks, n_features)

    def compared(self, embedder: Embedder, rng: np.random.Generator, n_threads: int | None) -> Embedder:
        """Return an embedder whose landmarks are all the points, calibrated by how far each is from the others."""
        memory, known = memory_of(self.metric, self.points, self.files, rng, n_threads), self.timed(None)
        compared = self.metric, self.points, embedder.epsilon, memory, time_steps(known), rng, n_threads
        return replace(embedder, calibration=calibrate_by_others(*compared))

    def rows_of(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which of all rows some of the ``members`` are."""
        return indices if self.uses_all else self.used[indices]

    def extended(
        self, fit: LandmarkFit, asked: NDArray[Any], recorded: NDArray[Any], n_threads: int | None
    ) -> tuple[Any, Any, NDArray[Any], NDArray[np.intp]]:
        """Return coordinates and landmarks of all rows, distances of those asked for, landmarks of those recorded."""
        extended = fit.embedder.extend(self.points, n_threads)
        labels, distance = extended.nearest, fit.embedder.coverage_of(extended).distance
        labels[self.used] = fit.landmarks.assignment
        return extended.coordinates, labels, distance[asked], labels[recorded]

    def sampled_map(self, walk: Walk, landmarks: Landmarks | None = None) -> SampledMap | None:
        """Return what resampling needs of a walk over all points or landmarks; None where these are not all here."""
        cells = np.arange(len(walk.points))
        if isinstance(walk.points, PointsElsewhere) and (landmarks is None or len(cells) > MOST_ELSEWHERE):
            return None
        order = self._order(landmarks)
        if landmarks is not None:
            cells = landmarks.cells_of(cells)
            walk = replace(walk.take(landmarks.indices), weights=landmarks.multiplicities)
        return SampledMap(walk, cells, self.member_weights, order)

    def _order(self, landmarks: Landmarks | None) -> Order:
        """Return in which order points of positive weight are: that of time where they have times, or are frames."""
        used, is_frames = self.used, self.metric.takes_frames
        files = None if self.files is None else self.files[used].astype(np.int32)
        steps, known = np.empty(0), self.timed(landmarks)
        if known is not None:
            is_used = self.weights[known[0]] > 0
            places = np.searchsorted(used, known[0][is_used])
            steps = time_steps((places, known[1][is_used]))
            steps = steps if files is None else steps[np.diff(files[places]) == 0]
        has_times = len(steps) > 0 and bool(np.isfinite(steps).all() and (steps >= 0).all())
        if has_times and is_frames and np.median(steps) > 0:
            return Order(True, files, float(np.median(steps)), "ps")
        return Order(has_times or is_frames, files, unit="frames" if is_frames else "rows")

    def sampled(self, rng: np.random.Generator) -> Training:
        """Return as many of the data as a search for the number of landmarks takes: all, if they are here."""
        return self

    def places(self, indices: NDArray[np.intp], sample: Training) -> NDArray[np.intp]:
        """Return which ``members`` some of those of :meth:`sampled` data are."""
        return indices

    def adopted(self, fit: LandmarkFit, sample: Training) -> LandmarkFit:
        """Return a fit to :meth:`sampled` data with the cells of all."""
        return fit

    def record(self, rows: NDArray[np.int64], times: Timed | None, **known: NDArray[Any]) -> TrainingRecord:
        """Return where some points are from and how far landmarks are, for looking at the map."""
        columns = {"frames": self.frames, "files": self.files}
        if not self.weights.min() == self.weights.max() == 1.0:
            columns["weights"] = self.weights
        known |= {name: column[rows] for name, column in columns.items() if column is not None}
        if times is not None:
            known["times"] = times[1][np.searchsorted(times[0], rows)]
        return TrainingRecord.of(rows, **known)


def time_steps(known: Timed | None) -> NDArray[np.float64]:
    """Return the time from one row to the next, by those whose times are known."""
    return np.empty(0) if known is None else np.asarray(np.diff(known[1]) / np.diff(known[0]))


def prepare_training(
    estimator: BaseEstimator, metric: Metric, X: ArrayLike, sample_weight: ArrayLike | None
) -> Training:
    """Check and prepare training data; the estimator remembers their features."""
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
    return Training(metric, points, weights, frames, times, files, units, facts)


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
            f"got {np.count_nonzero(weights)} of {n_points} that are"
        )
    least, most = weights[weights > 0].min(), weights.max()
    if not 1 / LARGEST_WEIGHT <= most <= LARGEST_WEIGHT or least < _WIDEST_SPREAD * most:
        raise InvalidInputError(
            f"the largest sample_weight must be between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g} and all "
            f"others 0 or at least {_WIDEST_SPREAD:g} of it, or products of them overflow or vanish; got {least:g} to "
            f"{most:g}. Divide all by their mean, and set to 0 what does not count"
        )
    return weights
