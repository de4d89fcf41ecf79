"""What fitting gives: one object that estimators hold, model files store, and streams and engines use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.extension import Distillation, Embedder
from ldmaps.fit.certify import Certificate
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.metrics.base import Points
from ldmaps.validation.diagnosis import Diagnosis

if TYPE_CHECKING:
    from ldmaps.validation.sampling import Sampling

#: Most training points that are remembered; of more, every so-many-th and the landmarks.
MAX_RECORDED = 100_000
#: As which numbers.
_RECORDED = {"distance": np.float32, "nearest": np.int32, "weights": np.float32, "frames": np.int64}
_RECORDED |= {"times": np.float64, "files": np.int32}


@dataclass(frozen=True)
class Solution:
    """How an eigenproblem was solved, and how far its coordinates can be from the exact map's."""

    #: {"stored", "sparse", "streamed", "landmarks"}: see :mod:`ldmaps.diffusion.solver_choice`; "landmarks"
    #: where the walk is over some of the points
    solver: str
    n_passes: int = 0  # passes over all pairs; 0 unless streamed
    #: (k,): bound on the root mean square error of each coordinate against the exact map of all training points,
    #: in percent of the coordinate's range, the unit of Z. 0 where only rounding is left, None where nothing can
    #: be said
    error_bound: NDArray[np.float64] | None = None

    def taking(self, modes: NDArray[np.intp]) -> Solution:
        """Return the same of some modes alone."""
        if self.error_bound is None:
            return self
        return replace(self, error_bound=self.error_bound[modes])

    def settled(self) -> Solution:
        """Return the same for coordinates that will not change: there is a bound only if all of them have one."""
        if self.error_bound is None or np.isfinite(self.error_bound).all():
            return self
        return replace(self, error_bound=None)


@dataclass(frozen=True)
class TrainingRecord:
    """Where training points came from and how far landmarks are from them."""

    rows: NDArray[np.int64]  # (n,): which training points, in order: all of them up to 100,000
    distance: NDArray[np.float32] | None = None  # (n,): to the nearest landmark, in units of √ε
    nearest: NDArray[np.int32] | None = None  # (n,): landmark that each point belongs to
    weights: NDArray[np.float32] | None = None  # (n,): sample weights, unless all are 1
    #: (n,): number of the frame in its file and its simulated time in ps
    frames: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None  # (n,)
    #: (n,): which of several files, by its place in ``source_["files"]``, a frame is from
    files: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, rows: NDArray[np.int64], **known: NDArray[Any]) -> Self:
        """Keep what is known of some rows, as the numbers that are recorded."""
        return cls(rows, **{name: values.astype(_RECORDED[name]) for name, values in known.items()})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a model file stores."""
        return {name: value for name, value in vars(self).items() if value is not None}


def thinned_rows(n_points: int, keep: NDArray[np.intp], most: int = MAX_RECORDED) -> NDArray[np.int64]:
    """Return at most ``most`` rows, evenly spread, with those to keep among them as far as half of it allows."""
    if n_points <= most:
        return np.arange(n_points, dtype=np.int64)
    kept = np.unique(keep)[: most // 2]
    spread = np.linspace(0, n_points - 1, most - len(kept)).round().astype(np.int64)
    return np.union1d(spread, kept).astype(np.int64)


@dataclass(frozen=True)
class Medoids:
    """Medoids that stand for the points which a map learned from: its own landmarks may be too few for a walk."""

    squared: NDArray[np.float32]  # (m(m-1)/2,): d² between them, a row of the upper triangle after the other
    weights: NDArray[np.float64]  # (m,): how many points each stands for

    def matrix(self) -> NDArray[np.float64]:
        """Return all d² between them, (m, m)."""
        m = len(self.weights)
        upper = np.zeros((m, m))
        upper[np.triu_indices(m, 1)] = self.squared
        return upper + upper.T


@dataclass(frozen=True, kw_only=True)
class FittedMap:
    """A fitted map: numbers only, no settings."""

    embedder: Embedder  # the frozen part that embeds
    bandwidth: Bandwidth  # how ε was found
    eigenvalues: (
        NDArray[np.float64] | None
    )  # (k,): those of the coordinates; None where they are no eigenvectors
    spectrum: NDArray[np.float64] | None  # all non-trivial eigenvalues that were computed
    #: (M,): which training points are landmarks, or stand for those that were moved
    landmark_indices: NDArray[np.intp]
    landmark_embedding: NDArray[Any]  # (M, k): their coordinates
    #: (M,): c, the weight of the points nearest to each of the embedder's landmarks
    multiplicities: NDArray[np.float64]
    #: the training points that stand for landmarks which were moved off the data, prepared; None where the
    #: embedder's landmarks are training points themselves
    representatives: Points | None = None
    units: str | None = None  # unit of the distances; ε is its square
    #: what was known of the training data beyond numbers (atom names, selection, files)
    source: dict[str, Any] | None = None
    #: frame, time and distance to the nearest landmark of each training point
    training: TrainingRecord | None = None
    #: (N, k): coordinates of the training points; None where a file does not hold them
    embedding: NDArray[Any] | None = None
    #: (N,): which landmark each training point belongs to; not kept in files
    labels: NDArray[np.intp] | None = None
    #: (N,): which group each training point is in, the largest being 0, where the data fall into groups without a
    #: transition between them; -1 for points that took no part. None where they are one. Not kept in files
    groups: NDArray[np.intp] | None = None
    distillation: Distillation | None = None  # how the online step was chosen; not kept in files
    certificate: Certificate | None = None  # what a tolerance promises
    absorption: Any = None  # what absorbing did; not kept in files
    #: how many points carry each coordinate and decide ε; not kept in files
    diagnosis: Diagnosis | None = None
    #: how the exact map, or the one distilled from, was solved; None with Nyström over landmarks
    solution: Solution | None = None
    medoids: Medoids | None = None  # to solve the walk at other ε; None where the landmarks can be solved
    sampling: Sampling | None = None  # what resampling the training points says; None until asked for
    record: FunctionRecord | None = (
        None  # what the coordinates are, where they are functions learned on another map
    )

    @property
    def landmark_points(self) -> Points:
        """The training points that are landmarks or stand for them, prepared: what to show of a landmark."""
        return self.embedder.landmarks if self.representatives is None else self.representatives
