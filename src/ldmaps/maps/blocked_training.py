"""Training data in blocks: what needs all of them is done by workers, the rest here as ever."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from ldmaps.cluster.arrays import array_of, rows_in_blocks
from ldmaps.cluster.blocks import embed_training_block
from ldmaps.cluster.bracket import connected_bracket
from ldmaps.cluster.engine import computed, keep, shared, task
from ldmaps.cluster.points import BlockedLandmarks, BlockedPoints, Blocks, Column
from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth
from ldmaps.diffusion.pairwise import Extended
from ldmaps.diffusion.walk import REACH
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Embedder
from ldmaps.inputs.opening import is_dask_array
from ldmaps.landmarks.base import Landmarks, LandmarkSelector
from ldmaps.maps.fitted_map import MAX_RECORDED, thinned_rows
from ldmaps.maps.solved_map import LandmarkFit
from ldmaps.maps.training import Timed, Training, check_frames_taken, check_sample_weight
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points

#: What workers return of a block: its coordinates, which they keep, and distances of some rows.
_HALVES = ((0, "embedding"), (1, "record"))
#: Most points that are brought here for what cannot be done in blocks: spanning trees, and searches for a tolerance.
GATHERED = 50_000


@dataclass(frozen=True)
class BlockedTraining(Training):
    """Training data in blocks: ``points`` are all N rows, and only weights that were given are as many numbers."""

    points: BlockedPoints

    @property
    def _there(self) -> BlockedPoints:
        """The points of positive weight."""
        return cast(BlockedPoints, self.members)

    def timed(self, landmarks: Landmarks | None) -> Timed | None:
        """Return the rows that landmarks noted, and their times, if these are known."""
        noted = cast(BlockedLandmarks, landmarks)
        return None if noted.noted_times is None else (noted.noted_rows, noted.noted_times)

    def gathered(self) -> Training:
        """Bring all data here."""
        return self._brought(np.arange(len(self.weights)))

    def gathered_for(self, selector: LandmarkSelector, outliers: float, few: int) -> Training:
        """Bring all data here if they are few, or the settings need that, and raise where they are too many."""
        if len(self.members) <= few:
            return self.gathered()
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
        return self._brought(
            self._there.rows(np.sort(rng.choice(len(self.members), GATHERED, replace=False)))
        )

    def _brought(self, rows: NDArray[np.intp]) -> Training:
        blocks, weights = self.points.blocks, np.array(self.weights[rows])
        values, times = blocks.gather(rows)
        known = blocks.numbers(rows), times, blocks.files(rows), self.units, self.source
        return Training(self.metric, self.metric.prepare(values), weights, *known, rows=rows)

    def compared(self, embedder: Embedder, rng: np.random.Generator, n_threads: int | None) -> Embedder:
        """Return the embedder of all points, which are here as its landmarks, calibrated by the others of each."""
        return self.gathered().compared(embedder, rng, n_threads)

    def places(self, indices: NDArray[np.intp], sample: Training) -> NDArray[np.intp]:
        """Return which ``members`` some of those of :meth:`sampled` data are."""
        rows = cast(NDArray[np.intp], sample.rows)
        return self._there.places(rows[sample.used[indices]])

    def adopted(self, fit: LandmarkFit, sample: Training) -> LandmarkFit:
        """Return a fit to a sample with the cells of all points."""
        indices = self.places(fit.landmarks.indices, sample)
        places = None if fit.step.moved is None else fit.embedder.landmarks
        landmarks = self._there.assigned(indices, places)
        radii = np.maximum(landmarks.squared_radii, fit.embedder.epsilon)
        return replace(fit, landmarks=landmarks, embedder=replace(fit.embedder, squared_radii=radii))

    def choose_bandwidth(
        self, settings: Any, rng: np.random.Generator, squared: NDArray[Any] | None = None
    ) -> Bandwidth:
        """Return ε; beyond :data:`GATHERED` points "connected" is a proven bracket."""
        rule, members = settings.epsilon, self._there
        if self.bandwidth is not None or squared is not None or not isinstance(rule, str):
            return super().choose_bandwidth(settings, rng, squared)
        if len(members) > GATHERED and rule == "connected":
            return connected_bracket(members)
        here: Points = members if len(members) > GATHERED else members.take(slice(None))
        return choose_bandwidth(rule, self.metric, here, self.member_weights, rng, settings.n_threads)

    def extended(
        self, fit: LandmarkFit, asked: NDArray[Any], recorded: NDArray[Any], n_threads: int | None
    ) -> tuple[Any, Any, NDArray[Any], NDArray[np.intp]]:
        """Embed all rows where they are; their coordinates and landmarks stay there if they are many."""
        blocks, embedder, landmarks = self.points.blocks, fit.embedder, cast(BlockedLandmarks, fit.landmarks)
        travelling = shared("map", embedder)
        sources, _ = landmarks.points.blocks_to_pass()
        parts = zip(sources, blocks.starts.tolist(), blocks.split(asked), strict=False)
        results = [
            task("embed", embed_training_block, block, start, travelling, some)
            for block, start, some in parts
        ]
        halves = [task(name, itemgetter(at), result) for at, name in _HALVES for result in results]
        kept = keep(halves, blocks.sizes)
        dtype, count = embedder.landmarks.dtype, len(results)
        embedding = array_of("embedding", kept[:count], blocks.sizes, dtype, (embedder.n_components,))
        labels = landmarks.assignment.astype(np.intp)
        if len(blocks) <= MAX_RECORDED:
            embedding, labels = computed([embedding, labels])
        judged = Extended(len(asked), 0, dtype)
        judged.squared_distance = np.concatenate(computed(kept[count:]))
        judged.nearest[:] = 0  # by which a point is inside or not, which nobody asks here
        return embedding, labels, embedder.coverage_of(judged).distance, landmarks.cells_of_rows(recorded)


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
    frames = None if blocks.pieces is None else Column(blocks.numbers)
    files = None if blocks.pieces is None or blocks.pieces[-1].file == 0 else Column(blocks.files)
    return BlockedTraining(metric, points, weights, frames, None, files, units, source)
