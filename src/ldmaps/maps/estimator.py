"""What the exact and the landmark estimator share: checking input, embedding new points, saving."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.pairwise import Extended
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, Spectrum, check_extensible, spectral_gap
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.inputs.objects import as_source
from ldmaps.inputs.prefetch import prefetch
from ldmaps.inputs.source import FrameSource, check_frames_finite, check_same_atoms
from ldmaps.maps.training_record import TrainingRecord
from ldmaps.metrics import Metric, Precomputed, resolve_metric
from ldmaps.metrics.base import Points
from ldmaps.progress import reporting
from ldmaps.settings import is_whole_number

if TYPE_CHECKING:
    from ldmaps.views.plot import MapPlots

__all__ = ["DiffusionEstimator", "check_sample_weight"]


class DiffusionEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of :class:`~ldmaps.DiffusionMap` and :class:`~ldmaps.LandmarkDiffusionMap`."""

    # Constructor arguments that both estimators have.
    n_components: int | str
    epsilon: float | str
    metric: Any
    alpha: float
    t: float
    random_state: Any
    n_threads: int | None
    verbose: bool

    # Learned by fit.
    embedder_: Embedder
    metric_: Metric
    bandwidth_: Bandwidth
    epsilon_: float
    eigenvalues_: NDArray[np.float64]
    spectrum_: NDArray[np.float64]
    n_components_: int
    embedding_: NDArray[Any]
    landmark_indices_: NDArray[np.intp]
    landmark_embedding_: NDArray[Any]
    multiplicities_: NDArray[np.float64]
    n_features_in_: int
    #: Unit of the distances (``epsilon_`` is its square); kept in model files. Trajectories bring theirs,
    #: for other data set it after fitting.
    units_: str | None
    #: What was known of the training data beyond numbers (atom names, selection, files); kept in model files.
    source_: dict[str, Any] | None
    #: Frame, time and distance to the nearest landmark of each training point; kept in model files.
    training_: TrainingRecord | None

    # -- public -------------------------------------------------------------

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Embed new points.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            With ``metric="precomputed"``, distances to the training points, or to
            the landmarks alone. Trajectories (:func:`ldmaps.inputs.open`, mdtraj,
            MDAnalysis) are read in chunks; their atoms must be those of the fit.

        Returns
        -------
        ndarray of shape (n, n_components_)
        """
        return self._extended(X).coordinates

    def fit_transform(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Fit and return the training points' embedding."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.embedding_

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map and embed the training points.

        Parameters
        ----------
        X : array-like of shape (N, features), or (N, atoms, 3) for frames
            With ``metric="precomputed"``, the (N, N) distances.
        y : ignored
        sample_weight : array-like of shape (N,), optional
            Multiplicity of each point; any non-negative numbers. Points of weight 0
            take no part and are only embedded.
        """
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

        Returns
        -------
        Coverage
            ``distance`` to the nearest landmark in units of √ε, ``inside`` the
            domain or not, and which landmark is ``nearest``.
        """
        return self.embedder_.coverage_of(self._extended(X))

    def save(self, path: str | os.PathLike[str], *, include_embedding: bool = True) -> None:
        """Write the fitted map to a file that :func:`ldmaps.load` reads.

        The file appears whole or not at all. It holds numbers and text only, so
        that reading it can run nothing.

        Parameters
        ----------
        path : path-like
        include_embedding : bool
            Whether the training points' embedding is stored too. Without it the
            file's size depends on M alone.
        """
        from ldmaps.maps.model_file import save_model

        check_is_fitted(self, "embedder_")
        save_model(self, path, include_embedding=include_embedding)

    @property
    def plot(self) -> MapPlots:
        """Plots with matplotlib: ``plot.embedding()``, ``plot.spectrum()`` and ``plot.free_energy()``."""
        from ldmaps.views.plot import MapPlots

        return MapPlots(self)

    # -- scikit-learn -------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self.metric == "precomputed" or isinstance(self.metric, Precomputed)
        return tags

    # -- for the subclasses ---------------------------------------------------

    def _training_points(
        self, X: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Points, NDArray[np.float64], NDArray[np.intp]]:
        """Check training data; return all points, their weights, and the indices of those with weight above 0."""
        _check_settings(self.alpha, self.t)
        self.metric_ = resolve_metric(self.metric)
        source = as_source(X)
        self._origin: tuple[NDArray[Any] | None, NDArray[Any] | None] = (None, None)
        if source is not None:
            read = source.read()
            X = read.frames
            self._origin = (read.numbers, read.times)
        if _shape(X)[:1] == (1,):
            raise InvalidInputError(
                "got 1 sample (n_samples=1): a diffusion map needs at least two different points; pass more data"
            )
        array = validate_data(self, self._flat(X), dtype=[np.float64, np.float32], reset=True)
        points = self.metric_.prepare(array)
        if isinstance(self.metric_, Precomputed):
            self.metric_.check_square(points)
        weights = check_sample_weight(sample_weight, len(points))
        self.units_ = None if source is None else source.units
        self.source_ = None if source is None else source.facts()
        return points, weights, np.flatnonzero(weights > 0)

    def _record(self, weights: NDArray[np.float64], coverage: Coverage | None = None) -> None:
        """Remember where the training points are from and how far landmarks are, for looking at the map."""
        distance, nearest = (None, None) if coverage is None else (coverage.distance, coverage.nearest)
        record = TrainingRecord.of(len(weights), self.landmark_indices_, weights, distance, nearest)
        self.training_ = record.with_frames(*self._origin)

    def _extended(self, X: Any) -> Extended:
        """Embed new points; a trajectory is read ahead while its last chunk is embedded."""
        check_is_fitted(self, "embedder_")
        source = as_source(X)
        if source is None:
            return self.embedder_.extend(self._new_points(X), self.n_threads)
        check_same_atoms(self.source_, source)
        parts = []
        for chunk in prefetch(source) if source.reads_ahead else source:
            check_frames_finite(chunk)
            parts.append(self.embedder_.extend(self._new_points(chunk.frames), self.n_threads))
        return _joined(parts, source)

    def _new_points(self, X: ArrayLike) -> Points:
        check_is_fitted(self, "embedder_")
        flat = self._flat(X)
        if isinstance(self.metric_, Precomputed):
            # Columns are training points or landmarks; the metric tells which and checks the count.
            return self.embedder_.prepare(flat)
        array = validate_data(self, flat, dtype=[np.float64, np.float32], reset=False)
        return self.embedder_.prepare(array)

    def _flat(self, X: ArrayLike) -> Any:
        """Lay (n, atoms, 3) frames out as (n, 3·atoms); leave everything else to validation."""
        shape = _shape(X)
        if len(shape) != 3:
            return X
        if not self.metric_.takes_frames:
            raise InvalidInputError(
                f"metric {self.metric_!r} takes points of shape (n, features), got an array with shape {shape}; "
                'for molecular frames use metric="rmsd", or reshape to two dimensions'
            )
        if shape[2] != 3:
            raise InvalidInputError(f"molecular frames have shape (n, atoms, 3), got {shape}")
        return np.asarray(X).reshape(shape[0], -1)

    def _n_eigenvalues(self, n_points: int, extra: int) -> int:
        """Return how many eigenpairs to solve for, or raise when ``n_components`` does not fit."""
        most = n_points - 1
        if isinstance(self.n_components, str):
            if self.n_components != "gap":
                raise InvalidInputError(
                    f'n_components must be "gap" or a whole number, got {self.n_components!r}'
                )
            return min(most, MAX_GAP_COMPONENTS + 1)
        count = self.n_components
        if not is_whole_number(count) or count < 1:
            raise InvalidInputError(
                f'n_components must be "gap" or a whole number of at least 1, got {count!r}'
            )
        if count > most:
            raise InvalidInputError(
                f"n_components={count} needs at least {count + 1} landmarks (the trivial eigenvector takes one), "
                f"but there are {n_points}; lower n_components or use more points or landmarks"
            )
        return min(most, int(count) + extra)

    def _keep_spectrum(self, spectrum: Spectrum, dtype: np.dtype[Any]) -> Spectrum:
        """Store the eigenvalues, choose k, and return the k leading pairs."""
        self.spectrum_ = spectrum.eigenvalues
        if self.n_components == "gap":
            self.n_components_ = spectral_gap(spectrum.eigenvalues)
        else:
            self.n_components_ = int(self.n_components)
        leading = spectrum.leading(self.n_components_)
        check_extensible(leading.eigenvalues, dtype)
        self.eigenvalues_ = leading.eigenvalues
        return leading


def _joined(parts: list[Extended], source: FrameSource) -> Extended:
    if not parts:
        raise InvalidInputError(
            f"there are no frames in {source.describe()}; check start, stop and the files"
        )
    first = parts[0].coordinates
    whole = Extended(sum(len(part.nearest) for part in parts), first.shape[1], first.dtype)
    for name in Extended.__slots__:
        setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
    return whole


def _shape(X: ArrayLike) -> tuple[int, ...]:
    """Return the shape of anything array-like; what is none is left for validation to explain."""
    shape = getattr(X, "shape", None)
    if shape is None:
        try:
            shape = np.asarray(X).shape
        except ValueError:
            return ()
    return tuple(shape)


def _check_settings(alpha: float, t: float) -> None:
    if isinstance(alpha, bool) or not np.isfinite(alpha) or not 0.0 <= alpha <= 1.0:
        raise InvalidInputError(
            f"alpha must be between 0 (density kept, the paper's) and 1 (removed), got {alpha!r}"
        )
    if isinstance(t, bool) or not np.isfinite(t) or t < 0:
        raise InvalidInputError(f"diffusion time t must be 0 (the paper's) or more, got {t!r}")


def check_sample_weight(sample_weight: ArrayLike | None, n_points: int) -> NDArray[np.float64]:
    """Return weights as float64, ones by default, or raise.

    >>> check_sample_weight([1, 2.5], 2)
    array([1. , 2.5])
    """
    if sample_weight is None:
        return np.ones(n_points)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight must be numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_points, float(weights))
    if weights.shape != (n_points,):
        raise InvalidInputError(
            f"sample_weight must have one value a point, ({n_points},), got shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InvalidInputError(
            f"sample_weight must be finite and not negative, got {weights[bad]} at index {bad}; "
            "a weight of 0 leaves a point out"
        )
    if np.count_nonzero(weights) < 2:
        raise InvalidInputError(
            "sample_weight must be above zero for at least two points, "
            f"got {np.count_nonzero(weights)} of {n_points} that are"
        )
    return weights
