"""Functions that were learned on a map, as a map of their own."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Embedder
from ldmaps.fit.certify import Certificate
from ldmaps.fit.fitted_map import FittedMap
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.fit.settings import FitSettings
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.learned_attributes import Learned


class Fact:
    """A fact of the record under scikit-learn's name: ``slow.timescales_`` is ``record_.facts["timescales"]``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: FunctionMap | None, owner: type) -> Any:
        if model is None:
            return self
        facts = {} if "map_" not in vars(model) else model.record_.facts
        if self._name.removesuffix("_") not in facts:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self._name!r}")
        value = facts[self._name.removesuffix("_")]
        if isinstance(value, list):
            return np.array(value, dtype=np.float64)  # None becomes NaN
        return np.nan if value is None else value


class FunctionMap(DiffusionEstimator):
    """Functions of a point as the coordinates of a map: slow modes, a committor, a passage time or an observable.

    ``model.slow_modes``, ``model.committor``, ``model.passage_time`` and ``model.function`` make one, and
    :func:`ldmaps.load` reads one. It embeds by the landmarks of the map that it was learned on, so it has the same
    ``coverage``, can be differentiated, streamed and exported, and costs the same per point. It has no training points
    of its own.

    Parameters
    ----------
    n_threads : int or None
        Threads for distances and products; None uses every core. Results do not depend on it.
    verbose : bool
        Here because all maps have it.

    Attributes
    ----------
    record_ : FunctionRecord
        ``kind``, ``names`` of the coordinates, ``facts`` (all numbers that were found) and ``lines`` (in words).
    certificate_ : Certificate or None
        What :meth:`distil` promises about new points, compared with the map it was given.
    timescales_, timescale_errors_, timescale_intervals_ : ndarray
        Of slow modes: implied time scales, their standard errors and 95 % intervals, in the unit of the lag.
    eigenvalues_ : ndarray
        Of slow modes: autocorrelations at the lag.
    mean_time_, mean_time_interval_, rate_, rate_interval_ : float, ndarray
        Of a passage time with a source: its mean there and one over it, with 95 % intervals. Of a committor, ``rate_``
        is how often the target is reached while the source was the last set.
    flux_, flux_interval_ : float, ndarray
        Of a committor: transitions from source to target per unit of time.
    r2_ : float
        Of an observable: the share of its variance that is explained on held-out blocks of frames.
    """

    record_ = Learned[FunctionRecord]()
    certificate_ = Learned[Certificate | None](may_be_none=True)
    timescales_ = Fact()
    timescale_errors_ = Fact()
    timescale_intervals_ = Fact()
    mean_time_ = Fact()
    mean_time_interval_ = Fact()
    rate_ = Fact()
    rate_interval_ = Fact()
    flux_ = Fact()
    flux_interval_ = Fact()
    r2_ = Fact()

    settings = MappingProxyType({})

    def __init__(self, *, n_threads: int | None = None, verbose: bool = False) -> None:
        self.n_threads = n_threads
        self.verbose = verbose

    @classmethod
    def learned(
        cls,
        model: DiffusionEstimator,
        coefficients: NDArray[np.float64],
        record: FunctionRecord,
        eigenvalues: NDArray[np.float64] | None = None,
        spectrum: NDArray[np.float64] | None = None,
        bandwidth: float | None = None,
    ) -> Self:
        """Return the map with coefficients B, (M, k), over the landmarks of a fitted map ``model``.

        Parameters
        ----------
        model : DiffusionEstimator
            The map that the functions were learned on.
        coefficients : ndarray of shape (M, k)
            B.
        record : FunctionRecord
            What is known of them.
        eigenvalues, spectrum : ndarray, optional
            Of slow modes: their autocorrelations at the lag, and those of all modes that were found.
        bandwidth : float, optional
            Squared width of the weights w(x), if not that of the map.
        """
        base = model.map_
        embedder: Embedder = replace(
            base.embedder,
            coefficients=np.ascontiguousarray(coefficients.T, dtype=base.embedder.coefficients.dtype),
            bandwidth=base.embedder.bandwidth if bandwidth is None else bandwidth,
        )
        fitted = FittedMap(
            embedder=embedder,
            bandwidth=base.bandwidth,
            eigenvalues=eigenvalues,
            spectrum=spectrum,
            landmark_indices=base.landmark_indices,
            landmark_embedding=embedder.extend(base.landmark_points, model.n_threads).coordinates,
            multiplicities=base.multiplicities,
            representatives=base.representatives,
            units=base.units,
            source=base.source,
            record=record,
        )
        found = cls(n_threads=model.n_threads)
        found.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            found.feature_names_in_ = model.feature_names_in_
        return found.adopt(fitted)

    def adopt(self, fitted: FittedMap) -> Self:
        """Become the map of functions that were ``fitted`` elsewhere, such as read from a file."""
        self.metric = fitted.embedder.metric  # which scikit-learn's tags ask for
        return super().adopt(fitted)

    def distil(
        self, X: Any, *, tolerance: float | None = None, n_landmarks: int | None = None, random_state: int = 0
    ) -> FunctionMap:
        """Return the same functions as a map with fewer landmarks, certified to a tolerance.

        Parameters
        ----------
        X, tolerance, n_landmarks, random_state
            See :func:`ldmaps.kinetics.distil`.

        Returns
        -------
        FunctionMap
            With ``certificate_`` where a tolerance was given.
        """
        settings: dict[str, Any] = {"tolerance": tolerance, "n_landmarks": n_landmarks}
        # By name: what learns functions is above them, and makes such maps itself.
        kinetics = import_module("ldmaps.kinetics")
        distilled: FunctionMap = kinetics.distil(self, X, random_state=random_state, **settings)
        return distilled

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> NoReturn:
        """Raise: functions are learned on a map, by its ``slow_modes`` and the like.

        Parameters
        ----------
        X, y, sample_weight : ignored
            Here because scikit-learn's pipelines pass them.
        """
        raise InvalidInputError(
            "a FunctionMap is not fitted: call slow_modes, committor, passage_time or function of a fitted map"
        )

    def _fit_settings(self) -> FitSettings:
        return self.fit(None)
