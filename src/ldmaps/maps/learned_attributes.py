"""A fitted map under scikit-learn's names: ``model.embedding_`` is ``model.map_.embedding``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.embedded_rows import coordinate_names
from ldmaps.extension import Embedder
from ldmaps.fit.fitted_map import FittedMap, Solution, TrainingRecord
from ldmaps.metrics.base import Metric
from ldmaps.validation.diagnosis import Diagnosis

if TYPE_CHECKING:
    from ldmaps.validation.sampling import Sampling

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
    groups_ = Learned[NDArray[np.intp] | None](may_be_none=True)
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

    @property
    def coordinate_names_(self) -> list[str]:
        """What the coordinates are called: psi2, psi3, ..., or the names of functions that were learned on a map."""
        record = self.map_.record
        return coordinate_names(self.n_components_) if record is None else list(record.names)
