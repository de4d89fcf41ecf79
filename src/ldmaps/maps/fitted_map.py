"""What fitting gives: one object that estimators hold, model files store, and streams and engines use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.extension import Distillation, Embedder
from ldmaps.maps.tolerance import Certificate
from ldmaps.metrics.base import Metric, Points
from ldmaps.quality.diagnosis import Diagnosis

if TYPE_CHECKING:
    from ldmaps.quality.sampling import Sampling

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

    def leading(self, n_components: int) -> Solution:
        """Return the same of the first coordinates alone; there is a bound only if all of them have one."""
        if self.error_bound is None:
            return self
        bound = self.error_bound[:n_components]
        return replace(self, error_bound=bound if np.isfinite(bound).all() else None)


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


@dataclass(frozen=True, kw_only=True)
class FittedMap:
    """A fitted map: numbers only, no settings."""

    embedder: Embedder  # the frozen part that embeds
    bandwidth: Bandwidth  # how ε was found
    eigenvalues: NDArray[np.float64]  # (k,): those of the coordinates
    spectrum: NDArray[np.float64]  # all non-trivial eigenvalues that were computed
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
    distillation: Distillation | None = None  # how the online step was chosen; not kept in files
    certificate: Certificate | None = None  # what a tolerance promises
    absorption: Any = None  # what absorbing did; not kept in files
    #: how many points carry each coordinate and decide ε; not kept in files
    diagnosis: Diagnosis | None = None
    #: how the exact map, or the one distilled from, was solved; None with Nyström over landmarks
    solution: Solution | None = None
    sampling: Sampling | None = None  # what resampling the training points says; None until asked for

    @property
    def landmark_points(self) -> Points:
        """The training points that are landmarks or stand for them, prepared: what to show of a landmark."""
        return self.embedder.landmarks if self.representatives is None else self.representatives


_Value = TypeVar("_Value")


class Learned(Generic[_Value]):
    """A part of the fitted map under scikit-learn's name for it: ``model.embedding_`` is ``model.map_.embedding``."""

    def __init__(self, *, may_be_none: bool = False) -> None:
        self._may_be_none = may_be_none

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._part = name, name.removesuffix("_")

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...
    @overload
    def __get__(self, model: object, owner: type) -> _Value: ...
    def __get__(self, model: object | None, owner: type) -> Self | _Value:
        if model is None:
            return self
        fitted = vars(model).get("map_")
        value: Any = getattr(fitted, self._part, None)
        if fitted is None or (value is None and not self._may_be_none):
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self._name!r}")
        learned: _Value = value
        return learned

    def __set__(self, model: Any, value: _Value) -> None:
        model.map_ = replace(model.map_, **{self._part: value})


class LearnedAttributes:
    """A fitted map under scikit-learn's names, whoever holds it: an estimator, or what was read from a file."""

    n_features_in_: int
    #: All that fit learned. The attributes below are its parts, under scikit-learn's names.
    map_: FittedMap
    embedder_ = Learned[Embedder]()
    bandwidth_ = Learned[Bandwidth]()
    eigenvalues_ = Learned[NDArray[np.float64]]()
    spectrum_ = Learned[NDArray[np.float64]]()
    embedding_ = Learned[NDArray[Any]]()
    landmark_indices_ = Learned[NDArray[np.intp]]()
    landmark_embedding_ = Learned[NDArray[Any]]()
    multiplicities_ = Learned[NDArray[np.float64]]()
    #: Unit of the distances (``epsilon_`` is its square); kept in model files. Trajectories bring theirs,
    #: for other data set it after fitting.
    units_ = Learned[str | None](may_be_none=True)
    source_ = Learned[dict[str, Any] | None](may_be_none=True)
    training_ = Learned[TrainingRecord | None](may_be_none=True)
    diagnosis_ = Learned[Diagnosis | None](may_be_none=True)
    solution_ = Learned[Solution | None](may_be_none=True)
    sampling_: Learned[Sampling | None] = Learned(may_be_none=True)

    @property
    def metric_(self) -> Metric:
        """The metric that ``metric`` stands for."""
        return self.embedder_.metric

    @property
    def epsilon_(self) -> float:
        """The bandwidth ε."""
        return self.embedder_.epsilon

    @property
    def n_components_(self) -> int:
        """Number k of coordinates."""
        return self.embedder_.n_components


#: Coordinates whose numbers are listed.
_LISTED = 6


def summary_lines(model: Any) -> list[str]:
    """Return lines about a fitted map: size, bandwidth, spectrum, why so many coordinates, what is promised."""
    from ldmaps.quality.sampling_words import sampling_lines, why_kept

    k, more = model.n_components_, model.n_components_ > _LISTED
    count = f"{len(model.embedding_):,}" if hasattr(model, "embedding_") else "unsaved"
    unit, features = model.metric_.distance_unit(model.units_), model.metric_.describe()
    squared = f" {unit}²" if unit else ""
    leading = " ".join(f"{value:.4f}" for value in model.eigenvalues_[:_LISTED]) + " ..." * more
    following = " ".join(f"{value:.4f}" for value in model.spectrum_[k:][:3])
    lines = [
        f"{k} coordinate{'s' * (k > 1)} of {count} points from {model.embedder_.n_landmarks:,} landmarks",
        *([f"compared by {features}"] if features else []),
        f"epsilon {model.epsilon_:.6g}{squared} ({model.bandwidth_.rule}); eigenvalues {leading} | {following}",
        f"kept {why_kept(model.spectrum_, k, model.n_components, model.sampling_)}",
    ]
    if model.sampling_ is not None:
        lines += sampling_lines(model.sampling_, k, (model.source_ or {}).get("files"))
    diagnosis = model.diagnosis_
    if diagnosis is not None:
        carried = ", ".join(f"{number:.0f}" for number in diagnosis.participation[:_LISTED]) + ", ..." * more
        left_out = len(diagnosis.left_out)
        lines.append(
            f"effective number of points that carry each coordinate: {carried} of {diagnosis.n_points:,}"
            + (f"; {left_out:,} points left out as outliers" if left_out else "")
        )
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        lines.append(
            f"Z = {certificate.held_out_z:.3g} % on {certificate.n_held_out:,} held-out points; "
            f"below {certificate.upper_bound:.3g} % with {100 * certificate.confidence:.0f} % confidence"
        )
    if model.embedder_.calibration is not None:
        lines.append(str(model.embedder_.calibration))
    return lines


def summary_html(model: Any) -> str:
    """Return the same as a small block for notebooks."""
    lines = "<br>".join(escape(line) for line in summary_lines(model))
    return f"<div><b>{escape(type(model).__name__)}</b>, fitted<br>{lines}</div>"
