"""The frozen, small thing that embeds: landmarks, weights and coefficients, and nothing of the training data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import SCANNED_LANDMARKS, Extended, extend, squared_tile
from ldmaps.extension.calibration import Calibration
from ldmaps.metrics.base import DirectStep, Metric, Points, SquaresGradient
from ldmaps.point_faults import check_unmasked
from ldmaps.threads import resolve_threads, run_tiles, tile_rows

#: Rounding room in "inside the domain", so that a training point is inside however it is batched.
_DOMAIN_SLACK = 1.0 + 1e-4
#: Products of coordinates that one thread computes before another is worth waking.
_TILE_PRODUCTS = 1 << 22
#: Takes one point, an array whose first axis has length 1; returns its coordinates, (1, k), or None.
QuickPoint = Callable[[NDArray[Any]], NDArray[Any] | None]


class Coverage(NamedTuple):
    """Where points lie with respect to the landmarks.

    Attributes
    ----------
    distance : ndarray of shape (n,)
        Distance to the nearest landmark in units of √ε.
    inside : ndarray of bool, shape (n,)
        Whether the point is in the map's domain: no farther from its nearest landmark than √ε, or than the farthest
        training point that this landmark stands for. Beyond it an embedding is an extrapolation.
    nearest : ndarray of int, shape (n,)
        Which landmark (0 … M-1) is nearest.
    p_value : ndarray of shape (n,), or None
        Of data like the training data, at most a share α has p ≤ α; see
        :class:`~ldmaps.extension.calibration.Calibration`. NaN if the map is not calibrated; None only of a coverage
        that no map has computed.
    """

    distance: NDArray[Any]
    inside: NDArray[np.bool_]
    nearest: NDArray[np.intp]
    p_value: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        return f"Coverage({np.count_nonzero(self.inside):,} of {np.size(self.inside):,} points are inside the map)"


class MovedLandmarks(NamedTuple):
    """Landmarks that an extension has moved off the points they were chosen at.

    Attributes
    ----------
    points : Points
        Where the online step measures from.
    representatives : ndarray of int, shape (M,)
        The training point that stands for each: of those nearer to it than to any other landmark, the nearest. All
        different.
    """

    points: Points
    representatives: NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class OnlineStep:
    """The numbers of the online step w(x)·B that an extension chooses.

    Attributes
    ----------
    coefficients : ndarray of shape (M, k)
        B.
    source_weights : ndarray of shape (M,)
        s; only ratios matter.
    bandwidth : float
        h, the squared width of the weights w(x).
    held_out_z : float
        Z in percent on points that took no part in the choice; NaN where nothing was chosen, or by too few points.
    moved : MovedLandmarks or None
        None where landmarks stay the points that they were chosen at.
    """

    coefficients: NDArray[np.float64]
    source_weights: NDArray[np.float64]
    bandwidth: float
    held_out_z: float = math.nan
    moved: MovedLandmarks | None = None


@dataclass(frozen=True)
class Embedder:
    """Embeds points by M distances and one M×k product.

    Attributes
    ----------
    metric : Metric
        Gives the distances to the landmarks.
    landmarks : Points
        The M landmarks, prepared: training points, or places that they were moved to.
    epsilon : float
        ε of the map, a squared distance.
    source_weights : ndarray of shape (M,)
        s_j, scaled so that the largest is 1 (the scale cancels).
    coefficients : ndarray of shape (k, M)
        Bᵀ.
    squared_radii : ndarray of shape (M,)
        Squared distance to which each landmark's domain reaches.
    bandwidth : float
        Bandwidth of the weights w(x): ε for Nyström, the distilled extension's own otherwise. Distances to landmarks
        are reported in units of √ε always.
    calibration : Calibration or None
        Distances of held-out training points, for p-values.
    """

    metric: Metric
    landmarks: Points
    epsilon: float
    source_weights: NDArray[Any]
    coefficients: NDArray[Any]
    squared_radii: NDArray[np.float64]
    bandwidth: float
    calibration: Calibration | None = None

    @classmethod
    def build(
        cls,
        metric: Metric,
        landmarks: Points,
        epsilon: float,
        step: OnlineStep,
        cell_squared_radii: NDArray[np.float64],
    ) -> Embedder:
        """Make an embedder of ``metric``, ``landmarks``, ``epsilon``, an online ``step`` and ``cell_squared_radii``."""
        dtype = landmarks.dtype
        return cls(
            metric,
            landmarks,
            float(epsilon),
            # None is 0: a point whose nearest landmark had no weight, far from all others, would have no coordinates.
            np.maximum(step.source_weights / step.source_weights.max(), np.finfo(dtype).tiny).astype(dtype),
            np.ascontiguousarray(step.coefficients.T, dtype=dtype),
            np.maximum(cell_squared_radii, epsilon),
            float(step.bandwidth),
        )

    @property
    def n_landmarks(self) -> int:
        """M."""
        return len(self.landmarks)

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.coefficients)

    def prepare(self, X: ArrayLike) -> Points:
        """Validate new points ``X``, as they come, and bring them into the landmarks' form."""
        points = self.metric.prepare(X, self.landmarks.dtype)
        self.metric.check_compatible(points, self.landmarks)
        return points

    def extend(self, points: Points, n_threads: int | None = None) -> Extended:
        """Embed ``points`` that :meth:`prepare` returned on ``n_threads``, by default as many as cores.

        Of the same points, :meth:`place` gives the same coordinates to rounding: it does not prepare them.
        """
        # Training points are embedded as they will be when they come again.
        return extend(
            self.metric,
            self.metric.as_new(points),
            self.landmarks,
            self.bandwidth,
            self.source_weights,
            self.coefficients,
            n_threads,
        )

    def project(self, X: ArrayLike, n_threads: int | None = None) -> Projected:
        """Validate and embed new points ``X`` on ``n_threads``, and judge them when that is asked for.

        Coordinates do not depend on how many points come together, nor on threads.
        """
        given = self._as_given(X)
        projected = None if given is None else self.project_directly(given, n_threads)
        return Projected(self, self.extend(self.prepare(X), n_threads)) if projected is None else projected

    def project_directly(self, X: Any, n_threads: int | None = None) -> Projected | None:
        """Embed an array of points ``X`` as it is, in one pass, on ``n_threads``.

        Returns None where points must be prepared, if only to say what is wrong with them.
        """
        step = self.direct_step
        if step is None or not self._is_ready(X):
            return None
        n_points = len(X)
        # Metrics that skip most of many landmarks need prepared points, and give the same bits.
        if n_points > 1 and self.metric.extension_scan(self.landmarks, self._rate) is not None:
            return None
        result = Extended(n_points, self.n_components, self.landmarks.dtype)
        filled = result.coordinates, result.nearest, result.squared_distance
        done = _fill_directly(step.embed, (X, *filled), self._direct_rows, n_threads)
        return Projected(self, result) if done else None

    @cached_property
    def without_coordinates(self) -> Embedder:
        """The same without coordinates, where only distances count: no exponential is computed."""
        return replace(self, coefficients=self.coefficients[:0])

    @cached_property
    def direct_step(self) -> DirectStep | None:
        """How points are embedded as they come; None where they must be prepared."""
        if self.n_landmarks >= SCANNED_LANDMARKS:
            return None
        return self.metric.direct_step(
            self.landmarks, float(self._rate), self.source_weights, self.coefficients
        )

    @cached_property
    def _rate(self) -> Any:
        """1/(2h), in the precision of the landmarks."""
        return self.landmarks.dtype.type(0.5 / self.bandwidth)

    @cached_property
    def _direct_rows(self) -> int:
        """Points that are worth another thread."""
        assert self.direct_step is not None
        return max(256, _TILE_PRODUCTS // (math.prod(self.direct_step.shape) * self.n_landmarks))

    def _is_ready(self, X: Any) -> bool:
        """Say whether a direct step takes X as it is."""
        step = self.direct_step
        return (
            type(X) is np.ndarray
            and step is not None
            and X.shape[1:] == step.shape
            and X.dtype.char in "fd"
            and X.dtype.isnative
            and X.flags.c_contiguous
            and len(X) > 0
        )

    def _as_given(self, X: Any) -> NDArray[Any] | None:
        """Return X as a direct step takes it; None where there is no such step or points have another shape."""
        if self.direct_step is None:
            return None
        given: NDArray[Any] = X if self._is_ready(X) else self.metric.as_given(X)
        return given if given.shape[1:] == self.direct_step.shape else None

    def embed_one(self, x: ArrayLike) -> NDArray[Any]:
        """Embed a single point ``x``, (features,) or (atoms, 3), with the least overhead; returns (k,)."""
        if type(x) is not np.ndarray:
            check_unmasked(x)
            x = np.asarray(x)
        X = x[None]
        row = self.quick_point(X)
        return self.project(X, 1).coordinates[0] if row is None else row

    @cached_property
    def quick_point(self) -> QuickPoint:
        """Embeds one point, (1, ...), to (k,), with the bits of :meth:`place`; None where that must be asked."""
        # Python around the kernel takes longer than it does, so all that does not depend on the point is looked up
        # here. Any number of threads may call the function at once.
        step, dtype, n_components = self.direct_step, self.landmarks.dtype, self.n_components
        if step is None:
            return lambda X: None
        shape, embed_points, ndarray = (1, *step.shape), step.embed, np.ndarray

        def new_memory() -> tuple[tuple[NDArray[Any], ...], Callable[[], NDArray[Any]]]:
            """Return what a call fills in, and how to copy the coordinates out of it."""
            coordinates = np.empty((1, n_components), dtype)
            return (coordinates, np.empty(1, np.intp), np.empty(1, dtype)), coordinates[0].copy

        # What no call is using. A call takes one or makes one, and puts it back; both are atomic.
        idle = [new_memory()]

        def embed(X: NDArray[Any]) -> NDArray[Any] | None:
            if type(X) is not ndarray or X.shape != shape:
                return None
            try:
                memory = idle.pop()
            except IndexError:
                memory = new_memory()
            filled, copied = memory
            try:
                row = copied() if embed_points(X, *filled) else None
            except TypeError:
                row = None  # of another type, or not contiguous
            idle.append(memory)
            return row

        return embed

    def gradient(self, X: ArrayLike, n_threads: int | None = None) -> NDArray[Any]:
        """Return ∂y/∂x of new points ``X`` on ``n_threads``; see :meth:`extend_with_gradient`."""
        return self.extend_with_gradient(X, n_threads)[1]

    def extend_with_gradient(
        self, X: ArrayLike, n_threads: int | None = None
    ) -> tuple[Extended, NDArray[Any]]:
        """Embed ``X`` as it comes; return what :meth:`extend` gives, and ∂y/∂x, (n, k, features) or (n, k, atoms, 3).

        What preparing does to a point (a frame is centred and turned) is differentiated, too. The gradient is finite
        everywhere; outside the domain it is that of an extrapolation, and where it does not exist (half a period away
        from a landmark, superpositions that are not unique) that of one of the ways out. Where it overflows (atoms that
        all but coincide, coordinates above 1e100) it is 0. ``n_threads`` is by default all cores; a metric without a
        gradient raises :class:`~ldmaps.errors.GradientError`.
        """
        # ∂y/∂x = Σ_j g_j ∂d_j²/∂x with g_j = −(1/(2h)) w_j (B_j − y), shifted by the nearest landmark's d² as y is, so
        # that a point far from all landmarks has a finite gradient too.
        squares_gradient = self.squares_gradient  # raises first of all where there is none
        directly = self._differentiate_directly(X, n_threads)
        if directly is not None:
            return directly
        squares_of, k, n_landmarks = self._squares(X), self.n_components, self.n_landmarks
        values = np.asarray(X, dtype=np.float64)
        flat = values.reshape(len(values), -1)
        if not flat.flags.carray:
            flat = np.require(flat, requirements=("C", "A"))
        dtype = self.landmarks.dtype
        result = Extended(len(values), k, dtype)
        gradient = np.empty((*flat.shape[:1], k, flat.shape[1]), dtype)
        step = self._rate, self.source_weights, self.coefficients

        def work(rows: slice) -> None:
            squared = squares_of(rows)
            coordinates, lowest = result.coordinates[rows], result.squared_distance[rows]
            kernels.extend(squared, *step, coordinates, result.nearest[rows], lowest)
            shares = np.empty((len(squared), k, n_landmarks), dtype)
            kernels.fill_shares(squared, lowest, *step, coordinates, shares)
            slopes = gradient[rows]
            squares_gradient(flat[rows], squared, shares, slopes)
            kernels.clear_not_finite(slopes)

        tile = tile_rows((k + 2) * n_landmarks, dtype.itemsize)
        if len(values) <= tile:
            work(slice(0, len(values)))  # a simulation's single frame: no threads are asked for
        else:
            run_tiles(len(values), tile, work, resolve_threads(n_threads))
        return result, gradient.reshape(*gradient.shape[:2], *values.shape[1:])

    def _differentiate_directly(
        self, X: ArrayLike, n_threads: int | None
    ) -> tuple[Extended, NDArray[Any]] | None:
        """Return what :meth:`extend_with_gradient` does in one pass, or None where that takes several, or an error."""
        step = self.direct_step
        given = None if step is None or step.differentiate is None else self._as_given(X)
        if step is None or step.differentiate is None or given is None:
            return None
        n_points, k, dtype = len(given), self.n_components, self.landmarks.dtype
        result = Extended(n_points, k, dtype)
        gradient = np.empty((n_points, k, *step.shape), dtype)
        filled = given, result.coordinates, result.nearest, result.squared_distance, gradient
        if not _fill_directly(step.differentiate, filled, self._direct_rows // 8, n_threads):
            return None
        return result, gradient if given is X else gradient.reshape(n_points, k, *np.shape(X)[1:])

    def squares(self, X: ArrayLike) -> NDArray[Any]:
        """Return d² of new points ``X``, as they come, to the landmarks, with the bits of :meth:`place`, (n, M)."""
        return self._squares(X)(slice(0, len(np.asarray(X))))

    def _squares(self, X: ArrayLike) -> Callable[[slice], NDArray[Any]]:
        """Validate points; return a function that measures rows of them, with the bits of :meth:`place`."""
        step, landmarks, given = self.direct_step, self.landmarks, self._as_given(X)
        if step is None or given is None:
            points = self.prepare(X)
            return lambda rows: squared_tile(self.metric, points, rows, landmarks)

        def squares_of(rows: slice) -> NDArray[Any]:
            some = given[rows]
            squared = np.empty((len(some), len(landmarks)), landmarks.dtype)
            if step.measure(some, squared):
                return squared
            return squared_tile(self.metric, self.prepare(X), rows, landmarks)  # says what is wrong with them

        return squares_of

    @cached_property
    def squares_gradient(self) -> SquaresGradient:
        """What sums up gradients of d² to the landmarks."""
        return self.metric.squares_gradient(self.landmarks)

    def __getstate__(self) -> dict[str, Any]:
        # The rest is made again where it is needed: as large as the landmarks, and functions.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def coverage_of(self, extended: Extended) -> Coverage:
        """Judge what :meth:`extend` returned, ``extended``, by distances to the nearest landmark."""
        squared = extended.squared_distance
        distance, inside = np.empty_like(squared), np.empty(len(squared), dtype=np.bool_)
        radii = self.squared_radii
        kernels.judge(squared, extended.nearest, radii, _DOMAIN_SLACK, self.epsilon, distance, inside)
        known = self.calibration
        p_value = np.full(len(distance), np.nan) if known is None else known.p_values(distance)
        return Coverage(distance, inside, extended.nearest, p_value)


def _fill_directly(
    fill: Callable[..., bool], arrays: tuple[NDArray[Any], ...], rows: int, n_threads: int | None
) -> bool:
    """Let a function of a direct step take points, the first of arrays, and fill the others; return whether it could.

    Threads take ``rows`` points at a time.
    """
    n_points = len(arrays[0])
    if n_points <= rows:
        return fill(*arrays)
    refused: list[slice] = []

    def work(part: slice) -> None:
        if not fill(*(array[part] for array in arrays)):
            refused.append(part)

    run_tiles(n_points, rows, work, resolve_threads(n_threads), asks_metric=False)
    return not refused


class Projected:
    """Embedded points."""

    def __init__(self, embedder: Embedder, extended: Extended) -> None:
        self._embedder, self._extended = embedder, extended
        self.coordinates: NDArray[Any] = extended.coordinates

    @cached_property
    def coverage(self) -> Coverage:
        """Distance to the nearest landmark, inside the domain or not, and which landmark that is."""
        return self._embedder.coverage_of(self._extended)

    def count_inside(self, step: int = 1) -> int:
        """Return how many of every ``step``-th points, from the first on, are in the map's domain."""
        extended, radii = self._extended, self._embedder.squared_radii
        count = kernels.count_inside(extended.squared_distance, extended.nearest, radii, _DOMAIN_SLACK, step)
        return int(count)

    @classmethod
    def joined(cls, parts: Sequence[Projected]) -> Projected:
        """Return the points of several parts, at least one, as one."""
        if len(parts) == 1:
            return parts[0]
        embedder, dtype = parts[0]._embedder, parts[0].coordinates.dtype
        joined = Extended(sum(len(part.coordinates) for part in parts), embedder.n_components, dtype)
        for name in Extended.__slots__:
            np.concatenate([getattr(part._extended, name) for part in parts], out=getattr(joined, name))
        return cls(embedder, joined)
