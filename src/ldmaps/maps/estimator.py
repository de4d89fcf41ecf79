"""What the exact and the landmark estimator share: checking input, embedding new points, saving."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ldmaps.cluster import is_blocked, is_dask_array
from ldmaps.diffusion.bandwidth import (
    Bandwidth,
    leave_out_outliers,
)
from ldmaps.diffusion.pairwise import Extended
from ldmaps.diffusion.spectrum import (
    MAX_GAP_COMPONENTS,
    check_extensible,
    check_time,
    spectral_gap,
    warn_of_standstill,
)
from ldmaps.embedded_rows import coordinate_names
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Coverage
from ldmaps.inputs.objects import as_source
from ldmaps.inputs.prefetch import prefetch
from ldmaps.inputs.source import FrameSource, PointSource, Reading, check_frames_finite
from ldmaps.maps.fitted_map import FittedMap, LearnedAttributes
from ldmaps.maps.model_file import Description, write_model
from ldmaps.maps.solved_map import SolvedMap
from ldmaps.maps.training import Training, array_shape, check_frames_taken, prepare_training
from ldmaps.metrics import METRICS, Metric, resolve_metric
from ldmaps.metrics.base import Points
from ldmaps.metrics.checked_arrays import check_real
from ldmaps.point_faults import wrong_width
from ldmaps.progress import reporting, stage
from ldmaps.quality.diagnosis import diagnose
from ldmaps.settings import Setting, check_settings

if TYPE_CHECKING:
    from ldmaps.views.plot import MapPlots

__all__ = ["DiffusionEstimator"]


#: Of more values than these, checking takes less time than embedding.
MAX_PLAIN = 3000
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class DiffusionEstimator(LearnedAttributes, TransformerMixin, BaseEstimator):
    """Base of :class:`~ldmaps.DiffusionMap` and :class:`~ldmaps.LandmarkDiffusionMap`."""

    #: What the constructor's arguments may be.
    settings: ClassVar[Mapping[str, Setting]]

    # Constructor arguments that both estimators have.
    n_components: int | str
    epsilon: float | str
    metric: Any
    outliers: float
    alpha: float
    t: float
    random_state: Any
    n_threads: int | None
    verbose: bool

    # -- public -------------------------------------------------------------

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Embed new points.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            With ``metric="precomputed"``, distances to the training points, or to
            the landmarks alone. Trajectories and tables (:func:`ldmaps.inputs.open`,
            mdtraj, MDAnalysis) are read in chunks; their atoms or columns must be those
            of the fit. Of an mdtraj or MDAnalysis object with other atoms, the selection of
            the fit is taken. Of a dask array nothing is read before the result is asked for.

        Returns
        -------
        ndarray of shape (n, n_components_)
            For a dask array one with the same chunks of rows.
        """
        learned = self.__dict__
        if type(X) is np.ndarray and X.ndim and len(X) == 1 and "map_" in learned:
            # scikit-learn would ask for the names of features. Of its other checks a quick point needs none.
            if "feature_names_in_" not in learned:
                coordinates = self.map_.embedder.quick_point(X)
                if coordinates is not None:
                    return coordinates
        elif is_blocked(X):
            from ldmaps.cluster.arrays import lazy_transform

            return lazy_transform(self._new_blocks(X), self.embedder_)  # type: ignore[no-any-return]
        return self._extended(X).coordinates

    def gradient(self, X: ArrayLike) -> NDArray[Any]:
        """Return the derivatives of the coordinates of new points by their features.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            Trajectories as for :meth:`transform`.

        Returns
        -------
        ndarray of shape (n, n_components_, features), or (n, n_components_, atoms, 3)
            In units of one over those of ``X``. For RMSD each coordinate's gradient is
            orthogonal to translations and rotations of the frame.

        Raises
        ------
        GradientError
            The metric has no gradient: only Euclidean, Periodic and RMSD have one.
        """
        return self.transform_with_gradient(X)[1]

    def transform_with_gradient(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Embed new points and return the derivatives of their coordinates as well.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            New points or training points, as for :meth:`transform`.

        Returns
        -------
        coordinates : ndarray of shape (n, n_components_)
            The same as :meth:`transform` gives, bit for bit.
        gradient : ndarray of shape (n, n_components_, features), or (n, n_components_, atoms, 3)
        """
        check_is_fitted(self, "embedder_")
        source = as_source(X)
        if source is None:
            chunks: Iterable[Any] = [X]
        else:
            source = source.matched(self.source_)
            chunks = (chunk.frames for chunk in source)
        coordinates, gradients = [], []
        for chunk in chunks:
            extended, gradient = self.embedder_.extend_with_gradient(self._new_array(chunk), self.n_threads)
            coordinates.append(extended.coordinates)
            gradients.append(gradient)
        return np.concatenate(coordinates), np.concatenate(gradients)

    def fit_transform(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Fit and return the training points' embedding.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        """
        self.fit(X, y, sample_weight=sample_weight)
        return self.embedding_

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map and embed the training points.

        Parameters
        ----------
        X : array-like of shape (N, features), or (N, atoms, 3) for frames
            With ``metric="precomputed"``, the (N, N) distances. Trajectories and tables
            as in :meth:`transform`.
        y : ignored
            Here because scikit-learn's pipelines pass it.
        sample_weight : array-like of shape (N,), optional
            Multiplicity of each point; any non-negative numbers. Points of weight 0
            take no part and are only embedded.
        """
        check_settings(self.settings, self.get_params(deep=False))
        with reporting(bool(self.verbose)):
            return self._fit(X, sample_weight)

    @abstractmethod
    def _fit(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """Learn the map; what :meth:`fit` does inside its progress display."""

    def coverage(self, X: ArrayLike) -> Coverage:
        """Say how far points are from the map's landmarks and whether they are in its domain.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            New points or training points, as for :meth:`transform`.

        Returns
        -------
        Coverage
            ``distance`` to the nearest landmark in units of √ε, ``inside`` the
            domain or not, and which landmark is ``nearest``; dask arrays for a dask array.
        """
        if is_blocked(X):
            from ldmaps.cluster.arrays import lazy_coverage

            return lazy_coverage(self._new_blocks(X), self.embedder_)
        return self.embedder_.coverage_of(self._extended(X))

    def save(self, path: str | os.PathLike[str], *, include_embedding: bool = True) -> None:
        """Write the fitted map to a file that :func:`ldmaps.load` reads.

        The file appears whole or not at all. It holds numbers and text only, so
        that reading it can run nothing.

        Parameters
        ----------
        path : path-like
            Where to write; a file of that name is replaced.
        include_embedding : bool
            Whether the training points' embedding is stored too. Without it the
            file's size depends on M alone.
        """
        check_is_fitted(self, "embedder_")
        fitted = self.map_ if include_embedding else replace(self.map_, embedding=None, training=None)
        names = getattr(self, "feature_names_in_", None)
        description = Description(
            type(self).__name__,
            self.get_params(deep=False),
            self.n_features_in_,
            None if names is None else [str(name) for name in names],
        )
        write_model(path, fitted, description)

    @property
    def plot(self) -> MapPlots:
        """Plots with matplotlib: ``plot.embedding()``, ``spectrum()``, ``free_energy()`` and ``profile()``."""
        from ldmaps.views.plot import MapPlots

        return MapPlots(self)

    # -- scikit-learn -------------------------------------------------------

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the coordinates' names, "psi2", "psi3" and so on, as the command line writes them.

        Parameters
        ----------
        input_features : ignored
            Here because scikit-learn's pipelines pass it.
        """
        check_is_fitted(self, "embedder_")
        return np.asarray(coordinate_names(self.n_components_), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        metric = METRICS.get(self.metric) if isinstance(self.metric, str) else self.metric
        tags.input_tags.pairwise = getattr(metric, "takes_distances", False)
        return tags

    # -- for the subclasses ---------------------------------------------------

    def _training(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """Check and prepare training data."""
        return prepare_training(self, resolve_metric(self.metric), X, sample_weight)

    def _without_outliers(self, training: Training, rng: np.random.Generator) -> Training:
        """Return the training data with the most isolated points at weight 0, if some may be left out."""
        if not self.outliers:
            return training
        with stage("outliers", len(training.members)):
            bandwidth, stay = leave_out_outliers(
                self.epsilon,
                training.metric,
                training.members,
                training.member_weights,
                self.outliers,
                rng,
                self.n_threads,
            )
        return training.without(np.flatnonzero(~stay), bandwidth)

    def _choose_bandwidth(
        self, training: Training, metric: Metric, members: Points, rng: np.random.Generator
    ) -> Bandwidth:
        """Return ε of the points of positive weight, given as such or by their stored distances."""
        return training.choose_bandwidth(self.epsilon, metric, members, rng, self.n_threads)

    def _diagnosed(self, training: Training, fitted: FittedMap) -> Self:
        """Adopt a new fit; warn when a few points decide it."""
        diagnosis = diagnose(
            fitted.landmark_embedding,
            fitted.multiplicities,
            fitted.landmark_indices,
            training.used,
            fitted.bandwidth,
            len(training.points),
        )
        warning = diagnosis.warning(fitted.bandwidth.epsilon, training.place)
        if warning is not None:
            warnings.warn(warning, stacklevel=4)
        return self.adopt(replace(fitted, diagnosis=diagnosis))

    def adopt(self, fitted: FittedMap) -> Self:
        """Become the estimator of a map that was fitted elsewhere, such as read from a file.

        Parameters
        ----------
        fitted : FittedMap
            The map; it replaces what was fitted before.
        """
        self.map_ = fitted
        return self

    def _extended(self, X: Any) -> Extended:
        """Embed new points; a trajectory is read ahead while its last chunk is embedded."""
        fitted: FittedMap | None = vars(self).get("map_")
        if fitted is not None and self._is_plain(X, fitted):
            embedder = fitted.embedder
            with suppress(InvalidInputError):  # which scikit-learn's checks report in their own words, below
                return embedder.extend(embedder.prepare(X), self.n_threads)
        check_is_fitted(self, "embedder_")
        source = as_source(X)
        facts = self.source_ or {}
        if isinstance(source, FrameSource) and source is not X and source.n_atoms != facts.get("n_atoms"):
            source = as_source(X, Reading(select=facts.get("select")))
        if source is None:
            return self.embedder_.extend(self._new_points(X), self.n_threads)
        source = source.matched(self.source_)
        parts = []
        for chunk in prefetch(source) if source.reads_ahead else source:
            check_frames_finite(chunk)
            parts.append(self.embedder_.extend(self._new_points(chunk.frames), self.n_threads))
        return _joined(parts, source)

    def _new_points(self, X: ArrayLike) -> Points:
        """Check new points as scikit-learn does, and prepare them."""
        return self.embedder_.prepare(self._new_array(X))

    def _new_blocks(self, X: Any) -> Any:
        """Return a dask array of new points after the checks that need none of its numbers."""
        from ldmaps.cluster.arrays import rows_in_blocks

        check_is_fitted(self, "embedder_")
        if not is_dask_array(X):
            X.source.matched(self.source_)
            X = X.array
        X = rows_in_blocks(X)
        if X.ndim == 3:
            check_frames_taken(self.metric_, X.shape)
        fault = wrong_width(X.shape[1:], self.n_features_in_, takes_frames=self.metric_.takes_frames)
        if fault is not None and not self.metric_.takes_distances:
            raise InvalidInputError(f"the dask array has {fault}; pass the same features")
        return X

    def _new_array(self, X: ArrayLike) -> Any:
        """Return new points after scikit-learn's checks."""
        check_is_fitted(self, "embedder_")
        shape = array_shape(X)
        if len(shape) == 3 and shape[0]:
            # Frames go straight to the metric, which checks them in one pass.
            check_frames_taken(self.metric_, shape)
            return X
        if self.metric_.takes_distances:
            # Columns are training points or landmarks; the metric decides which and checks the count.
            return X
        check_real(X)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _is_plain(self, X: Any, fitted: FittedMap) -> bool:
        """Say whether X is a small array of points or frames that, if finite, all checks let through as it is.

        scikit-learn's take fifteen times as long as embedding one point.
        """
        return (
            type(X) is np.ndarray
            and (X.ndim == 2 or (X.ndim == 3 and X.shape[2] == 3 and fitted.embedder.metric.takes_frames))
            and 0 < X.size <= MAX_PLAIN
            and X.size == len(X) * self.n_features_in_
            and X.dtype in _FLOATS
            and "feature_names_in_" not in vars(self)
        )

    def _n_eigenvalues(self, n_points: int, extra: int) -> int:
        """Return how many eigenpairs to solve for, or raise when ``n_components`` does not fit."""
        most = n_points - 1
        if self.n_components == "gap":
            return min(most, MAX_GAP_COMPONENTS + 1)
        count = int(self.n_components)
        if count > most:
            raise InvalidInputError(
                Named("n_components", count),
                f" needs at least {count + 1} landmarks (the trivial eigenvector takes one), but there are "
                f"{n_points}; lower ",
                Named("n_components"),
                " or use more points or landmarks",
            )
        return min(most, count + extra)

    def _coordinates_kept(self, solved: SolvedMap) -> SolvedMap:
        """Return the map into as many coordinates as were asked for, or as stand before the gap."""
        values = solved.spectrum.eigenvalues
        leading = solved.leading(
            spectral_gap(values) if self.n_components == "gap" else int(self.n_components)
        )
        warn_of_standstill(solved.spectrum, solved.multiplicities, solved.points.dtype)
        check_extensible(leading.spectrum.eigenvalues, solved.points.dtype)
        check_time(leading.spectrum.eigenvalues, solved.walk.time)
        return leading


def _joined(parts: list[Extended], source: PointSource) -> Extended:
    if not parts:
        raise InvalidInputError(
            f"there are no frames in {source.describe()}; check start, stop and the files"
        )
    first = parts[0].coordinates
    whole = Extended(sum(len(part.nearest) for part in parts), first.shape[1], first.dtype)
    for name in Extended.__slots__:
        setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
    return whole
