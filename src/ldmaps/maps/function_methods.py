"""The methods of a fitted map that learn functions on it; :mod:`ldmaps.kinetics` is loaded when one is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ldmaps.maps.estimator import DiffusionEstimator

if TYPE_CHECKING:
    from ldmaps.maps.function_map import FunctionMap


class LearnsFunctions(DiffusionEstimator):
    """A map on which functions can be learned."""

    def slow_modes(
        self,
        X: Any,
        *,
        lag: float,
        n_modes: int | None = None,
        runs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FunctionMap:
        """Learn the slowest functions on this map from frames in the order of time.

        Parameters
        ----------
        X, lag, n_modes, runs, sample_weight
            See :func:`ldmaps.kinetics.slow_modes`.

        Returns
        -------
        FunctionMap
            With coordinates slow1, slow2, ... and their ``timescales_``.
        """
        from ldmaps.kinetics.slow_modes import slow_modes

        return slow_modes(self, X, lag=lag, n_modes=n_modes, runs=runs, sample_weight=sample_weight)

    def committor(
        self,
        X: Any,
        *,
        source: Any,
        target: Any,
        lag: float | None = None,
        name: str = "q",
        runs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FunctionMap:
        """Learn the chance to reach a target before a source from frames in the order of time.

        Parameters
        ----------
        X, source, target, lag, name, runs, sample_weight
            See :func:`ldmaps.kinetics.committor`.

        Returns
        -------
        FunctionMap
            With one coordinate between 0 and 1.
        """
        from ldmaps.kinetics.committor import committor

        return committor(
            self,
            X,
            source=source,
            target=target,
            lag=lag,
            name=name,
            runs=runs,
            sample_weight=sample_weight,
        )

    def passage_time(
        self,
        X: Any,
        *,
        target: Any,
        lag: float,
        source: Any = None,
        name: str = "mfpt",
        runs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FunctionMap:
        """Learn the mean time to reach a target from frames in the order of time.

        Parameters
        ----------
        X, target, lag, source, name, runs, sample_weight
            See :func:`ldmaps.kinetics.passage_time`.

        Returns
        -------
        FunctionMap
            With one coordinate, in the unit of the lag.
        """
        from ldmaps.kinetics.passage_time import passage_time

        return passage_time(
            self,
            X,
            target=target,
            lag=lag,
            source=source,
            name=name,
            runs=runs,
            sample_weight=sample_weight,
        )

    def function(
        self,
        X: Any,
        values: ArrayLike,
        *,
        name: str,
        least_r2: float = 0.3,
        sample_weight: ArrayLike | None = None,
    ) -> FunctionMap:
        """Learn an observable, known at some frames, as a function on this map.

        Parameters
        ----------
        X, values, name, least_r2, sample_weight
            See :func:`ldmaps.kinetics.function`.

        Returns
        -------
        FunctionMap
            With one coordinate, and ``r2_`` on held-out blocks of frames.
        """
        from ldmaps.kinetics.observable import function

        return function(self, X, values, name=name, least_r2=least_r2, sample_weight=sample_weight)
