"""The Metric seam: prepare points once, then fill blocks of squared distances, which the Gaussian kernel takes.

    X ──prepare──► Points ──squared_block(a, rows, b, cols, out)──► d²

Only :func:`squared_matrix`, which keeps what it computes, and :mod:`ldmaps.diffusion.pairwise`, which does not, loop
over blocks.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import GradientError, InvalidInputError
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array
from ldmaps.threads import resolve_threads, run_tiles, tile_rows

#: Largest period or distance between bins: squares of a few hundred of them are numbers in single precision.
LARGEST = 1e15

Array = NDArray[Any]
#: Fills, for the rows of a slice, which point is nearest and its d².
NearestScan = Callable[[slice, NDArray[np.intp], Array], None]
#: Takes points, rows of them, weights s and coefficients Bᵀ; fills their coordinates, nearest landmarks and d².
ExtensionScan = Callable[["Points", slice, Array, Array, Array, NDArray[np.intp], Array], None]
#: Takes points x_i as they came, (n, features) in float64, their d² to landmarks z_j, (n, M), and shares g, (n, k, M);
#: writes Σ_j g_cj ∂d²(x_i, z_j)/∂x_i to (n, k, features). All C-contiguous; trusted; safe on several threads.
SquaresGradient = Callable[[NDArray[np.float64], Array, Array, Array], None]


class DirectStep(NamedTuple):
    """The online step of points as they come: measured and embedded in one pass, without being prepared.

    All functions take a C-contiguous array of float32 or float64 numbers whose rows have the ``shape`` of a point, and
    arrays to fill. They return False, having filled some of these or none, where a value is not finite or too large, or
    where a setting of the metric has changed: :meth:`Metric.prepare` then gives the reason. Numbers do not depend on
    how many points come together, nor on their precision but for its rounding; safe to call from several threads.
    """

    #: Of one point.
    shape: tuple[int, ...]
    #: Takes points, and fills their coordinates, nearest landmarks and d² to these.
    embed: Callable[[Array, Array, NDArray[np.intp], Array], bool]
    #: Takes points, and fills the rows of d² by which they are embedded.
    measure: Callable[[Array, Array], bool]
    #: As ``embed``, and fills the derivatives of the coordinates by the points, (n, k, *shape), last. None where d² and
    #: its gradient are asked for one after the other.
    differentiate: Callable[[Array, Array, NDArray[np.intp], Array, Array], bool] | None = None


class Places(NamedTuple):
    """Where points are, for those who move them along a gradient."""

    #: (n, features): what :meth:`~ldmaps.metrics.Metric.prepare` makes the same points of, to rounding
    values: NDArray[np.float64]
    #: (features,): A small move δ is a distance of √Σ (scale·δ)² at most, unless few atoms turn a whole
    #: frame; 0 where a feature does not count
    scales: NDArray[np.float64]


class Points(ABC):
    """Points in the form a metric computes with; immutable once made."""

    dtype: np.dtype[Any]
    #: Whether all of them are in this process; otherwise workers hold them, and :meth:`take` fetches some.
    are_here: ClassVar[bool] = True

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: NDArray[np.intp] | slice) -> Points:
        """Return the points at ``indices``, which may repeat, in that order, as a copy."""

    def brought(self, most: int) -> Points:
        """Return the points in this process, if they are at most ``most`` or here already."""
        return self

    def weighed(self, weights: NDArray[np.float64]) -> Points:
        """Return the points of positive weight, given the ``weights`` of all, (n,)."""
        return self if weights.min() > 0 else self.take(np.flatnonzero(weights > 0))

    def take_with_times(self, rows: NDArray[np.intp]) -> tuple[Points, NDArray[np.float64] | None]:
        """Return the points at ``rows`` and the times that were found while fetching them, if any were."""
        return self.take(rows), None


class Metric(ABC):
    """A distance between points.

    A new metric is one file that subclasses this and one line in the table of :mod:`ldmaps.metrics`;
    ``tests/metrics/contract.py`` is the suite it must pass.
    """

    #: Key in the metric table and in model files.
    name: ClassVar[str]
    #: Whether points are molecular frames, so that (n, atoms, 3) is accepted.
    takes_frames: ClassVar[bool] = False
    #: Whether d is the Euclidean distance of the raw features, so that spatial trees may be used.
    is_euclidean: ClassVar[bool] = False
    #: Whether points are rows of distances from other points, looked up and not computed, and so without features.
    takes_distances: ClassVar[bool] = False
    #: Whether features have a unit, so that points in another unit would be far away.
    has_units: ClassVar[bool] = False
    #: Whether points keep the frames they came from: ``structures`` and ``weighed_atoms`` are then as in RMSD.
    has_structures: ClassVar[bool] = False
    #: How much each atom of a frame counts; None where all count alike, or points have no atoms.
    weights: ArrayLike | None = None
    #: Whether d obeys the triangle inequality, so that distances may be bounded instead of computed.
    is_true_metric: ClassVar[bool] = True
    #: Whether one distance takes microseconds instead of nanoseconds, so that fewer should be measured.
    is_slow: ClassVar[bool] = False
    #: Whether a model file can describe it; a Python function is named there and must be passed again.
    fits_into_file: ClassVar[bool] = True
    #: Whether distances are in units of how far apart points lie locally (:mod:`ldmaps.metrics.local_scales`).
    has_local_scales: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> Points:
        """Validate points, and compute once what can be: centred, normalised, sorted, as ``squared_block`` reads them.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            The points. Raise :class:`~ldmaps.errors.InvalidInputError` for those that have no distance.
        dtype : float32 or float64, optional
            Precision to compute in. By default float32 stays float32 and everything else becomes float64.
        """

    def learned(self, X: NDArray[Any], weights: NDArray[np.float64], lags: int = 1) -> Metric:
        """Return the metric with what it takes from training points ``X`` of ``weights``; most take nothing.

        These are no frames. Where points are windows of ``lags`` rows, features are the same columns over and over.
        """
        return self

    def as_new(self, points: Points) -> Points:
        """Return training ``points`` as new ones come: without what a fit has found out about each of them."""
        return points

    @abstractmethod
    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``, finite and not negative; trusts its input.

        Points ``a`` and ``b`` are prepared, slices have start, stop and step 1, and the block is C-contiguous, of the
        points' dtype. Safe to call from several threads.
        """

    def group_distance_sums(
        self, points: Points, bounds: NDArray[np.intp], weights: Array, sums: Array
    ) -> None:
        """Write Σ_j w_j d(x_i, x_j) over each point's own group to ``sums``, by ``weights`` w; trusts its input.

        Entries g and g + 1 of ``bounds`` say where group g of the ``points`` begins and ends. Override it where groups
        are small and distances cheap: one kernel call for many groups saves more than it computes. Safe to call from
        several threads for different groups.
        """
        for first, last in itertools.pairwise(bounds.tolist()):
            group = slice(first, last)
            squared = np.empty((last - first, last - first), dtype=points.dtype)
            self.squared_block(points, group, points, group, squared)
            kernels.distance_sums(squared, weights[group], sums[group])

    def nearest_scan(self, a: Points, b: Points) -> NearestScan | None:
        """Return a search for the nearest of ``b`` that is quicker than scanning blocks of d², or None.

        It is called with rows of ``a`` and two arrays to fill for them: which of b is nearest, the first among equals,
        and its d². Safe to call from several threads.
        """
        return None

    def extension_scan(self, landmarks: Points, rate: Any) -> ExtensionScan | None:
        """Return a way to embed points that skips ``landmarks`` which cannot matter, or None where that does not pay.

        Asked for every batch; weights are exp(−``rate``·d²) s_j. It gives the same bits as embedding by blocks of d²,
        and is safe to call from several threads.
        """
        return None

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed points as they come, without preparing them, or None.

        Asked for once per map, whose ``landmarks``, ``rate`` 1/(2h), ``weights`` s and ``coefficients`` Bᵀ are given.
        """
        return None

    def as_given(self, X: ArrayLike) -> NDArray[Any]:
        """Return points ``X``, of whatever type and layout, as a direct step takes them; not yet known to be finite."""
        return np.require(as_float_array(X, finite=False), requirements=("C", "A"))

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return a function that sums up gradients of d² to ``landmarks``; by default d² has none."""
        raise GradientError(
            f"the metric {self!r} has no gradient, so neither has a map fitted with it; "
            "gradients need Euclidean, StandardizedEuclidean, Periodic, RMSD or Features: fit the map with one of these"
        )

    @property
    def is_differentiable(self) -> bool:
        """Whether d² has a gradient: :meth:`squares_gradient` and :meth:`places` are then overridden."""
        return type(self).squares_gradient is not Metric.squares_gradient

    def places(self, points: Points) -> Places:
        """Return where ``points`` are, for moving them along the gradient of d², if it has one."""
        raise GradientError(f"landmarks cannot be optimised with the metric {self!r}: it has no gradient")

    def of_places(self) -> Metric:
        """Return the metric whose points :meth:`places` are: this one, unless points are moved in another space."""
        return self

    def describe(self) -> str:
        """Return what points are compared by, in words; empty where the metric's name says it."""
        return ""

    def distance_unit(self, units: str | None) -> str | None:
        """Return the unit of d for points in ``units``, as a model knows them: by default the same."""
        return units

    def pairwise(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[Any]:
        """Return distances (not squared) of all points of ``X`` from those of ``Y``, (n, m); float32 where both are.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            Points.
        Y : array-like of shape (m, features), or (m, atoms, 3), optional
            Other points; ``X`` by default.
        """
        a = self.prepare(X)
        b = a if Y is None else self.prepare(Y, a.dtype)
        self.check_compatible(a, b)
        squared = squared_matrix(self, a, None if Y is None else b)
        np.sqrt(squared, out=squared)
        return squared

    def check_compatible(self, a: Points, b: Points) -> None:
        """Raise :class:`~ldmaps.errors.InvalidInputError` where points ``a`` and ``b`` have other features."""
        left, right = (getattr(points, "n_features", None) for points in (a, b))
        if left != right:
            raise InvalidInputError(
                f"points of {left} features cannot be compared with points of {right} features; "
                "pass points with the same features in the same order as those fitted"
            )

    def check_training(self, points: Points) -> None:
        """Raise :class:`~ldmaps.errors.InvalidInputError` when a map cannot be fitted to ``points``."""

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return random points that :meth:`prepare` takes, near a sheet of three dimensions as real ones often are.

        There are ``n_points`` of ``n_features``, three per atom for frames; ``rng`` draws them.
        """
        places = rng.uniform(size=(n_points, 3)) @ rng.uniform(size=(3, n_features))
        return places + rng.uniform(0.1, 0.2, size=places.shape)

    # -- model files ------------------------------------------------------
    def parameters(self) -> dict[str, Any]:
        """Return the settings that a model file stores: JSON values and arrays."""
        return {}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Return a metric with settings that :meth:`parameters` returned as ``parameters``."""
        return cls(**parameters)

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return the arrays of ``points`` that a model file stores; by default rows of features."""
        return {"values": cast(Any, points).values}

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        """Return points from what a file claims :meth:`export_points` returned as ``arrays``, all checked."""
        check_stored_names(arrays, ("values",))
        return self.prepare(stored_array(arrays, "values", (None, None)))

    def joined(self, first: Points, second: Points) -> Points:
        """Return the points of ``first`` and ``second``, for the right-hand side; trusts its input."""
        arrays, more = self.export_points(first), self.export_points(second)
        return self.import_points({name: np.concatenate([arrays[name], more[name]]) for name in arrays})

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{key}=<array of shape {np.shape(value)}>" if np.ndim(value) else f"{key}={value!r}"
            for key, value in self.parameters().items()
            if value is not None
        )
        return f"{type(self).__name__}({settings})"


def squared_matrix(
    metric: Metric, a: Points, b: Points | None = None, n_threads: int | None = None
) -> NDArray[Any]:
    """Return all d²(a_i, b_j), or the exactly symmetric matrix of d²(a_i, a_j) without ``b``."""
    n_threads = resolve_threads(n_threads)
    other = a if b is None else b
    out = np.empty((len(a), len(other)), dtype=a.dtype)
    if b is not None:

        def fill(rows: slice) -> None:
            metric.squared_block(a, rows, b, slice(0, len(b)), out[rows])

        run_tiles(len(a), tile_rows(len(b), out.itemsize, len(a)), fill, n_threads)
        return out

    # Half of the blocks are computed, the rest mirrored: half the work, and symmetric to the last bit.
    n = len(a)
    side = 256

    def work(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, n - rows.start), dtype=a.dtype)
        metric.squared_block(a, rows, a, slice(rows.start, n), block)
        height = rows.stop - rows.start
        corner = block[:, :height]
        np.copyto(corner, np.tril(corner.T, -1) + np.triu(corner, 1))  # the diagonal is exactly zero
        out[rows, rows.start :] = block
        for start in range(rows.stop, n, side):
            stop = min(start + side, n)
            out[start:stop, rows] = block[:, start - rows.start : stop - rows.start].T

    run_tiles(n, min(side, 64 if n < 4096 else side), work, n_threads)
    return out
