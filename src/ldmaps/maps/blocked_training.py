"""Training data in blocks: what needs all of them is done by workers, the rest here as ever."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from ldmaps.cluster.arrays import array_of, rows_in_blocks
from ldmaps.cluster.blocks import TrainingPart, embed_training_block
from ldmaps.cluster.bracket import connected_bracket
from ldmaps.cluster.engine import computed, keep, shared, task
from ldmaps.cluster.points import BlockedLandmarks, BlockedPoints, Blocks
from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth
from ldmaps.diffusion.pairwise import Extended
from ldmaps.diffusion.walk import REACH
from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.opening import is_dask_array
from ldmaps.landmarks.base import LandmarkSelector
from ldmaps.maps.fitted_map import MAX_RECORDED, TrainingRecord, thinned_rows
from ldmaps.maps.solved_map import LandmarkFit
from ldmaps.maps.training import Training, check_frames_taken, check_sample_weight
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points
from ldmaps.quality.error_estimate import MAX_REFERENCE_POINTS, Reference, sample_reference

#: Most points that are brought here for what cannot be done in blocks: spanning trees, and searches for a tolerance.
GATHERED = 50_000


@dataclass(frozen=True, kw_only=True)
class BlockedTraining(Training):
    """Training data in blocks: ``points`` are all N rows, and only weights that were given are as many numbers."""

    points: BlockedPoints
    are_weighed: bool  # otherwise all weights are one number in memory

    @property
    def uses_all(self) -> bool:
        """Whether every point has a positive weight."""
        return not self.are_weighed or super().uses_all

    @cached_property
    def members(self) -> BlockedPoints:
        """The points of positive weight, which count by their weights."""
        if not self.are_weighed:
            return self.points
        return BlockedPoints(self.metric, self.points.blocks, self.weights, self.points.recorded)

    @property
    def member_weights(self) -> NDArray[np.float64]:
        """Their weights."""
        return self.weights if self.uses_all else self.weights[self.used]

    def place(self, point: int) -> str:
        """Return where a training point is from, for messages."""
        blocks = self.points.blocks
        rows = np.array([point])
        here = replace(self, frames=blocks.numbers(rows), files=blocks.files(rows))
        return super(BlockedTraining, here).place(0) if blocks.pieces else f"point {point}"

    def without(
        self, left_out: NDArray[np.intp], bandwidth: Bandwidth, landmarks: NDArray[np.intp] | None = None
    ) -> Training:
        """Return the data with some points at weight 0."""
        there = replace(self, weights=np.array(self.weights), are_weighed=True)
        return super(BlockedTraining, there).without(left_out, bandwidth, landmarks)

    def gathered(self) -> Training:
        """Bring all data here."""
        return self._brought(np.arange(len(self.weights)))

    def gathered_for(self, selector: LandmarkSelector, outliers: float) -> Training:
        """Bring all data here if the settings need that, and raise where they are too many."""
        if not (selector.needs_all_points or outliers):
            return self
        if len(self.weights) <= GATHERED:
            return self.gathered()
        if outliers:
            raise InvalidInputError(
                Named("outliers", outliers),
                f" needs a spanning tree of all points, which is made for up to {GATHERED:,} "
                f"points in blocks, got {len(self.weights):,}; find the outliers with a map of some of them: "
                "few = LandmarkDiffusionMap(outliers=...).fit(X[::100]), then fit all with "
                f"sample_weight=few.coverage(X).distance <= {REACH:g}",
            )
        if not selector.covers_from_sample:
            raise InvalidInputError(
                f"landmarks={selector!r} must see all points at once, which is done for up to {GATHERED:,} points in "
                f"blocks, got {len(self.weights):,}; use ",
                Named("landmarks", "kmedoids"),
                ', "pst", "farthest" or "uniform"',
            )
        return self

    def sampled(self, rng: np.random.Generator) -> Training:
        """Return a uniform sample of the points of positive weight, brought here."""
        if len(self.members) <= GATHERED:
            return self.gathered()
        drawn = np.sort(rng.choice(len(self.members), GATHERED, replace=False))
        return self._brought(self.members.rows(drawn))

    def _brought(self, rows: NDArray[np.intp]) -> Training:
        blocks, here, weights = self.points.blocks, self.points.take(rows), np.array(self.weights[rows])
        known = blocks.numbers(rows), None, blocks.files(rows), self.units, self.source
        return Training(self.metric, here, weights, *known, rows=rows)

    def places(self, indices: NDArray[np.intp], sample: Training) -> NDArray[np.intp]:
        """Return which ``members`` some of those of :meth:`sampled` data are."""
        rows = cast(NDArray[np.intp], sample.rows)
        return self.members.places(rows[sample.used[indices]])

    def adopted(self, fit: LandmarkFit, sample: Training) -> LandmarkFit:
        """Return a fit to a sample with the cells of all points."""
        indices = self.places(fit.landmarks.indices, sample)
        places = None if fit.step.moved is None else fit.embedder.landmarks
        landmarks = self.members.assigned(indices, places)
        radii = np.maximum(landmarks.squared_radii, fit.embedder.epsilon)
        return replace(fit, landmarks=landmarks, embedder=replace(fit.embedder, squared_radii=radii))

    def choose_bandwidth(
        self, settings: Any, rng: np.random.Generator, squared: NDArray[Any] | None = None
    ) -> Bandwidth:
        """Return ε; beyond :data:`GATHERED` points "connected" is a proven bracket."""
        rule, members = settings.epsilon, self.members
        if self.bandwidth is not None or squared is not None or not isinstance(rule, str):
            return super().choose_bandwidth(settings, rng, squared)
        if len(members) > GATHERED and rule == "connected":
            return connected_bracket(members)
        here: Points = members if len(members) > GATHERED else members.take(slice(None))
        return choose_bandwidth(rule, self.metric, here, self.member_weights, rng, settings.n_threads)

    def embedded(
        self, fit: LandmarkFit, n_features: int, n_threads: int | None
    ) -> tuple[dict[str, Any], Reference]:
        """Embed all rows where they are."""
        blocks, embedder, landmarks = self.points.blocks, fit.embedder, cast(BlockedLandmarks, fit.landmarks)
        landmark_rows = self.members.rows(landmarks.indices)
        rows = thinned_rows(len(blocks), landmark_rows)
        travelling = shared("map", embedder)
        sources, _ = landmarks.points.blocks_to_pass()
        results = [
            task("embed", embed_training_block, block, start, travelling, remembered)
            for block, start, remembered in zip(
                sources, blocks.starts.tolist(), blocks.split(rows), strict=False
            )
        ]
        coordinates = [task("embedding", itemgetter(0), result) for result in results]
        kept = keep(
            [*coordinates, *(task("record", itemgetter(1), result) for result in results)], blocks.sizes
        )
        k, dtype = embedder.n_components, embedder.landmarks.dtype
        embedding = array_of("embedding", kept[: len(results)], blocks.sizes, dtype, (k,))
        labels = landmarks.assignment.astype(np.intp)
        record = self._record(fit, rows, computed(kept[len(results) :]))
        if len(blocks) <= MAX_RECORDED:
            embedding, labels = computed([embedding, labels])
        members: Points = self.members
        if len(members) <= MAX_REFERENCE_POINTS:
            members = members.take(slice(None))
        shown = self.members.take(landmarks.indices)
        parts = {
            "embedding": embedding,
            "labels": labels,
            "landmark_indices": landmark_rows,
            "landmark_embedding": fit.landmark_embedding(embedder.extend(shown, n_threads).coordinates),
            "representatives": None if fit.step.moved is None else shown,
            "training": record,
            "embedder": embedder,
        }
        return parts, sample_reference(members, self.member_weights, landmarks, n_features)

    def _record(self, fit: LandmarkFit, rows: NDArray[np.int64], parts: list[TrainingPart]) -> TrainingRecord:
        """Return what the map remembers of some rows."""
        blocks, embedder = self.points.blocks, fit.embedder
        extended = Extended(len(rows), 0, embedder.landmarks.dtype)
        extended.squared_distance = np.concatenate([part.squared_distance for part in parts])
        extended.nearest = cast(BlockedLandmarks, fit.landmarks).cells_of_rows(rows)
        coverage = embedder.coverage_of(extended)
        times = [part.times for part in parts if part.times is not None]
        has_weights = self.are_weighed and not (self.weights == 1.0).all()
        return TrainingRecord(
            rows,
            coverage.distance.astype(np.float32),
            coverage.nearest.astype(np.int32),
            self.weights[rows].astype(np.float32) if has_weights else None,
            blocks.numbers(rows),
            np.concatenate(times) if len(times) == len(parts) else None,
            blocks.files(rows),
        )


def prepare_blocked_training(
    estimator: BaseEstimator, metric: Metric, X: Any, sample_weight: ArrayLike | None
) -> BlockedTraining:
    """Check training data in blocks as far as that needs none of their numbers; workers do the rest."""
    units = source = None
    if is_dask_array(X):
        blocks = Blocks.of_array(rows_in_blocks(X))
    else:
        blocks, units, source = X.blocks, X.units, {**X.facts(), "n_points": len(X.blocks)}
        sample_weight = X.weights() if sample_weight is None else sample_weight
    if len(blocks) < 2:
        raise InvalidInputError(
            f"got {len(blocks)} samples: a diffusion map needs at least two different points; pass more data"
        )
    if len(blocks.shape) == 2:
        check_frames_taken(metric, blocks.shape)
    estimator.n_features_in_ = math.prod(blocks.shape)
    estimator.__dict__.pop("feature_names_in_", None)
    points = BlockedPoints(metric, blocks, recorded=partial(thinned_rows, len(blocks)))
    weights = np.broadcast_to(1.0, (len(blocks),))  # one number in memory
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, len(blocks))
    is_given = sample_weight is not None
    return BlockedTraining(
        metric=metric, points=points, weights=weights, units=units, source=source, are_weighed=is_given
    )
