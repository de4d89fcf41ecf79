"""What fitting gives: one object that estimators hold, model files store, and streams and engines use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.extension import Distillation, Embedder
from ldmaps.maps.solution import Solution
from ldmaps.maps.tolerance import Certificate
from ldmaps.maps.training_record import TrainingRecord
from ldmaps.metrics.base import Metric, Points
from ldmaps.quality.diagnosis import Diagnosis

__all__ = ["FittedMap", "Learned", "LearnedAttributes"]


@dataclass(frozen=True, kw_only=True)
class FittedMap:
    """A fitted map: numbers only, no settings.

    Attributes
    ----------
    embedder : Embedder
        The frozen part that embeds.
    bandwidth : Bandwidth
        How ε was found.
    eigenvalues : ndarray of shape (k,)
        Those of the coordinates.
    spectrum : ndarray
        All non-trivial eigenvalues that were computed.
    landmark_indices : ndarray of shape (M,)
        Which training points are landmarks, or stand for those that were moved.
    landmark_embedding : ndarray of shape (M, k)
        Their coordinates.
    multiplicities : ndarray of shape (M,)
        c, the weight of the points nearest to each of the embedder's landmarks.
    representatives : Points or None
        The training points that stand for landmarks which were moved off the data, prepared;
        None where the embedder's landmarks are training points themselves.
    units : str or None
        Unit of the distances; ε is its square.
    source : dict or None
        What was known of the training data beyond numbers (atom names, selection, files).
    training : TrainingRecord or None
        Frame, time and distance to the nearest landmark of each training point.
    embedding : ndarray of shape (N, k) or None
        Coordinates of the training points; None where a file does not hold them.
    labels : ndarray of shape (N,) or None
        Which landmark each training point belongs to; not kept in files.
    distillation : Distillation or None
        How the online step was chosen; not kept in files.
    certificate : Certificate or None
        What a tolerance promises.
    absorption : Absorption or None
        What absorbing did; not kept in files.
    diagnosis : Diagnosis or None
        How many points carry each coordinate and decide ε; not kept in files.
    solution : Solution or None
        How the exact map, or the one distilled from, was solved; None with Nyström over landmarks.
    """

    embedder: Embedder
    bandwidth: Bandwidth
    eigenvalues: NDArray[np.float64]
    spectrum: NDArray[np.float64]
    landmark_indices: NDArray[np.intp]
    landmark_embedding: NDArray[Any]
    multiplicities: NDArray[np.float64]
    representatives: Points | None = None
    units: str | None = None
    source: dict[str, Any] | None = None
    training: TrainingRecord | None = None
    embedding: NDArray[Any] | None = None
    labels: NDArray[np.intp] | None = None
    distillation: Distillation | None = None
    certificate: Certificate | None = None
    absorption: Any = None
    diagnosis: Diagnosis | None = None
    solution: Solution | None = None

    @property
    def landmark_points(self) -> Points:
        """The training points that are landmarks or stand for them, prepared: what to show of a landmark."""
        return self.embedder.landmarks if self.representatives is None else self.representatives


_Value = TypeVar("_Value")


class Learned(Generic[_Value]):
    """A part of the fitted map under scikit-learn's name for it: ``model.embedding_`` is ``model.map_.embedding``.

    Parameters
    ----------
    may_be_none : bool
        Whether None is an answer. Otherwise a part that is not there is no attribute of the model.
    """

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
