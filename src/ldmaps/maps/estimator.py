"""What the exact and the landmark estimator share: checking input, embedding new points, saving."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ldmaps.errors import AccuracyWarning, InvalidInputError, OutsideDomainWarning
from ldmaps.extension.embedder import Coverage, Projected
from ldmaps.fit.assemble import Fit
from ldmaps.fit.data import Data, array_shape, check_frames_taken, prepare_data
from ldmaps.fit.fit_map import fit_map
from ldmaps.fit.fitted_map import FittedMap
from ldmaps.fit.settings import FitSettings, seed_of
from ldmaps.inputs.opening import as_source, is_blocked, is_dask_array
from ldmaps.inputs.source import FrameSource, PointSource, Reading
from ldmaps.maps.embed_chunks import embed_chunks
from ldmaps.maps.learned_attributes import LearnedAttributes
from ldmaps.maps.model_file import StoredMap, write_model
from ldmaps.maps.summary import summary_html, summary_lines
from ldmaps.metrics import METRICS, resolve_metric
from ldmaps.point_faults import check_real, wrong_width
from ldmaps.progress import reporting
from ldmaps.settings import Limits, Setting, check_settings, check_whole
from ldmaps.user_warnings import warn
from ldmaps.validation.outside_reasons import OutsideSample, are_mostly_outside, outside_warning
from ldmaps.validation.sampling import MANY_RESAMPLES, Sampling

if TYPE_CHECKING:
    from ldmaps.analysis.plot import MapPlots

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
    diffusion_time: float
    limits: Limits | None
    random_state: Any
    n_threads: int | None
    verbose: bool
    calibration: float = 0.2

    #: What later questions need of the training data; None for a map that was read from a file.
    _fit_result: Fit | None = None

    # -- public -------------------------------------------------------------

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the settings and, once fitted, what was found."""
        settings = str(super().__repr__(N_CHAR_MAX))
        return "\n  ".join([settings, *summary_lines(self)]) if "map_" in self.__dict__ else settings

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        """Return what a notebook shows."""
        shown: dict[str, str] = super()._repr_mimebundle_(**settings)
        if "map_" in self.__dict__ and "text/html" in shown:
            shown["text/html"] = summary_html(self) + shown["text/html"]
        return shown

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Embed new points.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            With ``metric="precomputed"`` or "affinity", those to the training points, or to the landmarks alone.
            Trajectories and tables (:func:`ldmaps.inputs.open_files`, mdtraj, MDAnalysis) are read in chunks; their
            atoms or columns must be those of the fit, or of an mdtraj or MDAnalysis object the selection of the fit is
            taken.

        Returns
        -------
        ndarray of shape (n, n_components_)
            For a dask array one with the same chunks of rows, of which nothing is read before it is asked for.

        Warns
        -----
        OutsideDomainWarning
            If fewer than 1 % of at least ten points are inside the map: another unit, other atoms, or another system.
            :meth:`coverage` tells it of each point.
        """
        learned = self.__dict__
        if type(X) is np.ndarray and "map_" in learned:
            # scikit-learn would ask for the names of features. Of its other checks such an array needs none.
            if X.ndim and len(X) == 1 and "feature_names_in_" not in learned:
                coordinates = self.map_.embedder.quick_point(X)
                if coordinates is not None:
                    return coordinates[None]
        elif is_blocked(X):
            from ldmaps.cluster.arrays import lazy_transform

            return lazy_transform(self._new_blocks(X), self.embedder_)  # type: ignore[no-any-return]
        return self._projected(X, warns=True).coordinates

    def gradient(self, X: ArrayLike) -> NDArray[Any]:
        """Return the derivatives of the coordinates of new points ``X`` by their features.

        Of shape (n, n_components_, features), or (n, n_components_, atoms, 3), in units of one over those of ``X``. For
        RMSD they are orthogonal to translations and rotations of the frame. Euclidean, StandardizedEuclidean, Periodic,
        RMSD and Features have gradients; other metrics raise :class:`~ldmaps.errors.GradientError`.
        """
        return self.transform_with_gradient(X)[1]

    def transform_with_gradient(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what :meth:`transform` of new points ``X`` gives, bit for bit, and their :meth:`gradient`."""
        source = self._source_of(X)
        chunks = [self._new_array(X)] if source is None else (chunk.frames for chunk in source)
        coordinates, gradients = [], []
        for chunk in chunks:
            extended, gradient = self.embedder_.extend_with_gradient(chunk, self.n_threads)
            coordinates.append(extended.coordinates)
            gradients.append(gradient)
        if len(gradients) == 1:
            return coordinates[0], gradients[0]
        return np.concatenate(coordinates), np.concatenate(gradients)

    def inverse_transform(
        self, Y: ArrayLike, *, X: Any = None, return_spread: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Return points at coordinates: what points there look like on average, such that they embed there.

        The mean over the landmarks near these coordinates, corrected along their covariance until the map takes it
        where it was asked for. It is checked first that this works: 95 % of the landmarks, each found from the others,
        must come back within 1 % of the coordinates' ranges.

        Parameters
        ----------
        Y : array-like of shape (n, n_components_)
            Coordinates.
        X : array-like of shape (m, features), or (m, atoms, 3) for frames, optional
            Points to take means over instead of the landmarks, for maps of few landmarks.
        return_spread : bool
            Whether to return the spread, too.

        Returns
        -------
        points : ndarray of shape (n, features)
            For a map of internal coordinates these, as :meth:`ldmaps.metrics.Features.values` gives them. NaN where no
            point comes back within 1 %, and for columns that the map leaves out.
        spread : ndarray of shape (n, features)
            Standard deviation of each feature among points at these coordinates, if asked for.

        Raises
        ------
        InvalidInputError
            For maps of RMSD and other metrics whose points have no mean, and where less than 95 % come back.

        Warns
        -----
        AccuracyWarning
            If some rows have no point.
        """
        from ldmaps.maps.inverse import inverse_of

        check_is_fitted(self, "embedder_")
        wanted = np.asarray(Y, dtype=np.float64)
        if wanted.ndim != 2 or wanted.shape[1] != self.n_components_ or not np.isfinite(wanted).all():
            raise InvalidInputError(
                f"Y must have {self.n_components_} finite coordinates per row ({', '.join(self.coordinate_names_)}), "
                f"got shape {wanted.shape}"
            )
        inverse, scales = inverse_of(self, X)
        found = inverse.find(wanted)
        n_lost = int(np.isnan(found.points[:, 0]).sum())
        if n_lost:
            warn(
                AccuracyWarning(
                    f"for {n_lost} of {len(wanted)} rows of coordinates no point was found that the map projects to "
                    "within 1 % of the range of them; these are NaN. They probably lie outside of the embedded points"
                )
            )
        points, spread = found.points / scales, found.spread / scales
        return (points, spread) if return_spread else points

    def fit_transform(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the training points' embedding after :meth:`fit` with ``X``, ``y`` and ``sample_weight``."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.embedding_

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map and embed the training points.

        Parameters
        ----------
        X : array-like of shape (N, features), or (N, atoms, 3) for frames
            With ``metric="precomputed"`` or "affinity", the (N, N) matrix. Trajectories and tables as in
            :meth:`transform`.
        y : ignored
            Here because scikit-learn's pipelines pass it.
        sample_weight : array-like of shape (N,), optional
            Multiplicity of each point; any non-negative numbers. Points of weight 0 take no part and are only
            embedded.
        """
        check_settings(self.settings, self.get_params(deep=False))
        with reporting(bool(self.verbose)):
            return self._fitted(fit_map(self._prepared(X, sample_weight), self._fit_settings()))

    @abstractmethod
    def _fit_settings(self) -> FitSettings:
        """Return what the estimator was constructed with, as the fit takes it."""

    def _shared_settings(self) -> dict[str, Any]:
        """Return those settings that both estimators have."""
        return {
            "n_components": self.n_components,
            "epsilon": self.epsilon,
            "outliers": self.outliers,
            "alpha": self.alpha,
            "time": self.diffusion_time,
            "n_threads": self.n_threads,
            "seed": seed_of(self.random_state),
            "limits": self.limits or Limits(),
            "calibration": self.calibration,
        }

    def _prepared(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Data:
        """Check and prepare training data."""
        return prepare_data(self, resolve_metric(self.metric), X, sample_weight)

    def _fitted(self, fit: Fit) -> Self:
        """Hold the result of a fit."""
        self.adopt(fit.map)
        self._fit_result = fit
        return self

    def resample(
        self, n_resamples: int = MANY_RESAMPLES, *, blocks: str = "auto", lag: float | None = None
    ) -> Sampling:
        """Resample the training points: errors of eigenvalues and coordinates, verdicts and time scales.

        ``sampling_`` is then this result, which ``save`` stores. A fit with ``n_components="gap"`` has one of 50
        resamples.

        Parameters
        ----------
        n_resamples : int
            How often blocks of points are drawn; 200 give standard errors to 5 %.
        blocks : {"auto", "time", "files", "rows"}
            What is drawn: stretches of several correlation times, whole files, or single points. "auto" takes
            stretches of time for frames and for tables with a time, and single rows elsewhere: say "time" for rows
            that follow each other, or their errors are far too small.
        lag : float, optional
            For autocorrelations: in ps for trajectories with times, in frames or rows elsewhere. By default the
            longest correlation time of a coordinate.
        """
        check_is_fitted(self, "embedder_")
        check_whole("n_resamples", n_resamples, 10)
        if blocks not in ("auto", "time", "files", "rows"):
            raise InvalidInputError(f'blocks must be "auto", "time", "files" or "rows", got {blocks!r}')
        if lag is not None and not (isinstance(lag, (int, float)) and lag > 0):
            raise InvalidInputError(
                f"lag must be a positive number, got {lag!r}; leave it out to use the longest correlation time"
            )
        resampled = None if self._fit_result is None else self._fit_result.resampled
        if resampled is None:
            raise InvalidInputError(
                "resample() needs the training data of the fit, which this map does not have: it is not available for "
                "maps loaded from a file, or above 10 million points in blocks; fit again in memory"
            )
        judged = resampled.judge(n_resamples=int(n_resamples), blocks=blocks, lag=lag)
        self.sampling_ = found = judged.of_map(self.eigenvalues_, self.spectrum_)
        return found

    def coverage(self, X: ArrayLike) -> Coverage:
        """Say how far points ``X``, as for :meth:`transform`, are from the landmarks and whether the map covers them.

        Returns
        -------
        Coverage
            ``distance`` to the nearest landmark in units of √ε, ``inside`` the domain or not, which landmark is
            ``nearest``, and ``p_value``, which is NaN if the map is not calibrated (``ldmaps info`` says so); dask
            arrays for a dask array.
        """
        if is_blocked(X):
            from ldmaps.cluster.arrays import lazy_coverage

            return lazy_coverage(self._new_blocks(X), self.embedder_)
        return self._projected(X, has_coordinates=False).coverage

    def save(self, path: str | os.PathLike[str], *, include_embedding: bool = True) -> None:
        """Write the fitted map to a file that :func:`ldmaps.load` reads, whole or not at all.

        It holds numbers and text only, so that reading it can run nothing.

        Parameters
        ----------
        path : path-like
            Where to write; a file of that name is replaced.
        include_embedding : bool
            Whether the training points' embedding is stored too. Without it the file's size depends on M alone.
        """
        check_is_fitted(self, "embedder_")
        fitted = self.map_ if include_embedding else replace(self.map_, embedding=None, training=None)
        names = getattr(self, "feature_names_in_", None)
        settings = self.get_params(deep=False)
        write_model(path, StoredMap(fitted, type(self).__name__, settings, self.n_features_in_, names))

    def export(self, folder: str | os.PathLike[str], to: str, **settings: Any) -> Path:
        """Write the map as input of PLUMED or Colvars, or for torch; see :func:`ldmaps.export.export_map`.

        Parameters
        ----------
        folder : path-like
            Where to write; for torch a file, such as "map.pt2".
        to : {"plumed", "colvars", "torch"}
            Which library computes the coordinates.
        **settings
            The atoms in the engine's system (``top``, ``select`` or ``atoms``), ``units``, and of a map of a table
            what the engine calls its columns (``names``, ``define_columns``).
        """
        from ldmaps.export.folder import export_map

        check_is_fitted(self, "embedder_")
        return export_map(self, folder, to, **settings)

    @property
    def plot(self) -> MapPlots:
        """Plots with matplotlib: ``plot.embedding()``, ``spectrum()``, ``free_energy()`` and ``profile()``."""
        from ldmaps.analysis.plot import MapPlots

        return MapPlots(self)

    # -- scikit-learn -------------------------------------------------------

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the coordinates' names, "psi2", "psi3" and so on; ``input_features`` of pipelines is ignored."""
        check_is_fitted(self, "embedder_")
        return np.asarray(self.coordinate_names_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        metric = METRICS.get(self.metric) if isinstance(self.metric, str) else self.metric
        tags.input_tags.pairwise = getattr(metric, "takes_distances", False)
        return tags

    # -- for the subclasses ---------------------------------------------------

    def adopt(self, fitted: FittedMap) -> Self:
        """Become the estimator of a map that was ``fitted`` elsewhere, such as read from a file."""
        self.map_ = fitted
        self._fit_result = None
        return self

    def _projected(self, X: Any, *, has_coordinates: bool = True, warns: bool = False) -> Projected:
        """Embed new points, or only find their nearest landmarks: an array at once, else in chunks, read ahead."""
        learned, sample = self.__dict__, OutsideSample()
        if type(X) is np.ndarray and "map_" in learned and "feature_names_in_" not in learned:
            embedder = self.map_.embedder if has_coordinates else self.map_.embedder.without_coordinates
            directly: Projected | None = embedder.project_directly(X, self.n_threads)
            if directly is not None:
                if warns and are_mostly_outside(directly):
                    sample.add(X, directly.coverage.inside)
                    self._warn_of_outside(sample)
                return directly
        source = self._source_of(X)
        embedder = self.embedder_ if has_coordinates else self.embedder_.without_coordinates
        if source is None:
            points = self._new_array(X)
            projected = embedder.project(points, self.n_threads)
            if warns and are_mostly_outside(projected):
                sample.add(np.asarray(points), projected.coverage.inside)
                self._warn_of_outside(sample)
            return projected
        parts = []
        for chunk, projected in embed_chunks(embedder, source, self.n_threads):
            parts.append(projected)
            if warns:
                sample.add(chunk.frames, projected.coverage.inside)
        if warns:
            atoms = source.atoms if isinstance(source, FrameSource) else None
            self._warn_of_outside(sample, source.item, None if atoms is None else atoms.labels)
        if not parts:
            raise InvalidInputError(
                f"there are no frames in {source.describe()}; check start, stop and the files"
            )
        return Projected.joined(parts)

    def checked_points(self, X: Any) -> PointSource | NDArray[Any]:
        """Return new points ``X`` after the checks of :meth:`transform`: a source of chunks, or an array."""
        source = self._source_of(X)
        return np.asarray(self._new_array(X)) if source is None else source

    def _warn_of_outside(
        self, sample: OutsideSample, item: str = "points", labels: Sequence[str] | None = None
    ) -> None:
        """Warn if new points hardly lie on the map."""
        warning = outside_warning(self, sample, item, labels)
        if warning is not None:
            warn(OutsideDomainWarning(warning))

    def _source_of(self, X: Any) -> PointSource | None:
        """Return new points that come in chunks as the map needs them; None for an array."""
        if "map_" not in vars(self):
            check_is_fitted(self, "embedder_")
        if type(X) is np.ndarray:
            return None
        source = as_source(X)
        facts = self.source_ or {}
        if isinstance(source, FrameSource) and source is not X and source.n_atoms != facts.get("n_atoms"):
            source = as_source(X, Reading(select=facts.get("select")))
        if source is not None:
            source = source.matched(self.source_)
            self._check_width(source.shape, source.describe())
        return source

    def _check_width(self, shape: tuple[int, ...], what: str) -> None:
        """Raise unless points of this shape are as many numbers as the map's are."""
        metric = self.metric_
        if len(shape) == 2:
            check_frames_taken(metric, shape)
        fault = wrong_width(shape, self.n_features_in_, takes_frames=metric.takes_frames)
        if fault is not None and not metric.takes_distances:
            raise InvalidInputError(f"{what} has {fault}; pass the same features")

    def _new_blocks(self, X: Any) -> Any:
        """Return a dask array of new points after the checks that need none of its numbers."""
        from ldmaps.cluster.arrays import rows_in_blocks

        check_is_fitted(self, "embedder_")
        if not is_dask_array(X):
            X.source.matched(self.source_)
            X = X.array
        X = rows_in_blocks(X)
        self._check_width(X.shape[1:], "the dask array")
        return X

    def _new_array(self, X: ArrayLike) -> Any:
        """Return new points after scikit-learn's checks, unless all of these would let them through."""
        if self._is_plain(X):
            return X
        shape = array_shape(X)
        if len(shape) == 3 and shape[0]:
            # Frames go straight to the metric, which checks them in one pass.
            check_frames_taken(self.metric_, shape[1:])
            return X
        if self.metric_.takes_distances:  # of which the metric itself checks the number
            return X
        check_real(X)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _is_plain(self, X: Any) -> bool:
        """Say whether X is a small array of finite numbers that needs no checks, which take longer than a point."""
        is_array = type(X) is np.ndarray and X.ndim == 2 and 0 < X.size <= MAX_PLAIN and X.dtype in _FLOATS
        is_ours = is_array and X.shape[1] == self.n_features_in_ and "feature_names_in_" not in vars(self)
        return bool(is_ours and np.isfinite(X).all())
