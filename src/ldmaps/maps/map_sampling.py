"""The training points of a fitted map as resampling takes them: landmarks, cells, weights, order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import KMedoids
from ldmaps.landmarks.base import DEFAULT_LANDMARKS, PointsElsewhere
from ldmaps.maps.training import Training
from ldmaps.metrics.squared_matrix import squared_matrix
from ldmaps.quality.resampling import fitted_modes
from ldmaps.quality.sampling import Order, Sampling, judge_sampling

#: Of more landmarks than this a few stand for all (errors are those of data, and change little with M), which settle
#: well enough in so many iterations.
MOST_LANDMARKS, ITERATIONS = 1000, 3


@dataclass(frozen=True)
class SampledMap:
    """A map and the points it was made of, to be resampled."""

    walk: Walk  # over the M landmarks (all points, of an exact map) with their multiplicities
    cells: NDArray[np.intp]  # (n,): the landmark of each training point of positive weight
    weights: NDArray[np.float64]
    order: Order
    landmarks: NDArray[np.intp] | None = None  # points of the walk that errors are told of, if not all

    @classmethod
    def of(cls, training: Training, walk: Walk, cells: NDArray[np.intp]) -> SampledMap | None:
        """Take what resampling needs of training data; None where they are elsewhere."""
        if isinstance(training.points, PointsElsewhere):
            return None
        return cls(walk, cells, training.member_weights, order_of(training))

    @classmethod
    def of_all(cls, training: Training, walk: Walk) -> SampledMap | None:
        """Take the walk over all points, as of an exact map and of one that learned from it."""
        return cls.of(training, walk, np.arange(len(walk.points)))

    def told_of(self, landmarks: NDArray[np.intp]) -> SampledMap:
        """Return the same with errors told of some of the walk's points."""
        told = replace(self, landmarks=landmarks)
        if "judged" in vars(self):  # which takes time, and was needed to choose coordinates
            errors = self.judged.landmark_errors[landmarks]
            vars(told)["judged"] = replace(self.judged, landmark_errors=errors)
        return told

    @cached_property
    def judged(self) -> Sampling:
        """What a fit says of its sampling."""
        return self.judge()

    def judge(self, **options: Any) -> Sampling:
        """Resample; options as for :func:`~ldmaps.quality.sampling.judge_sampling`."""
        walk, places = few_landmarks(self.walk)
        cells = self.cells if places is None else places[self.cells]
        squared = squared_matrix(walk.metric, walk.points, n_threads=walk.n_threads)
        kernel = np.exp(squared.astype(np.float64) / (-2.0 * walk.epsilon))
        fitted = fitted_modes(kernel, walk.weights, walk.alpha)
        found = judge_sampling(fitted, cells, self.weights, self.order, n_threads=walk.n_threads, **options)
        for rows in (places, self.landmarks):
            if rows is not None:
                found = replace(found, landmark_errors=found.landmark_errors[rows])
        return found


def few_landmarks(walk: Walk) -> tuple[Walk, NDArray[np.intp] | None]:
    """Return a walk over at most a thousand landmarks, and which of them stands for each, None if it is itself."""
    if len(walk.points) <= MOST_LANDMARKS:
        return walk, None
    selector = KMedoids(min(DEFAULT_LANDMARKS, MOST_LANDMARKS), max_iter=ITERATIONS)
    few = selector.select(walk, np.random.default_rng(0))
    return replace(walk.take(few.indices), weights=few.multiplicities), few.assignment


def order_of(training: Training) -> Order:
    """Return in which order points of positive weight are: that of time where they have times, or are frames."""
    used = training.used
    files = None if training.files is None else training.files[used].astype(np.int32)
    is_frames = training.metric.takes_frames
    if training.times is None:
        return Order(is_frames, files, unit="frames" if is_frames else "rows")
    times = np.asarray(training.times, dtype=np.float64)[used]
    steps = np.diff(times)
    if files is not None:
        steps = steps[np.diff(files) == 0]
    if not len(steps) or not np.isfinite(steps).all() or (steps < 0).any():
        return Order(is_frames, files, unit="frames" if is_frames else "rows")
    spacing = float(np.median(steps))
    if is_frames and spacing > 0:
        return Order(True, files, spacing, "ps")
    return Order(True, files, unit="frames" if is_frames else "rows")
