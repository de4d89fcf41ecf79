"""The frozen, small thing that embeds: landmarks, weights and coefficients, and nothing of the training data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import SCANNED_LANDMARKS, Extended, extend, squared_tile
from ldmaps.extension.calibration import Calibration
from ldmaps.metrics.base import Metric, OneRow, Points, SquaresGradient
from ldmaps.point_faults import check_unmasked
from ldmaps.threads import resolve_threads, run_tiles, tile_rows

#: Rounding room in "inside the domain", so that a training point is inside however it is batched.
_DOMAIN_SLACK = 1.0 + 1e-4
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
        :class:`~ldmaps.extension.calibration.Calibration`. None where the map is not calibrated.
    """

    distance: NDArray[Any]
    inside: NDArray[np.bool_]
    nearest: NDArray[np.intp]
    p_value: NDArray[np.float64] | None = None


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
        """Embed ``points`` that :meth:`prepare` returned on ``n_threads``, by default as many as cores."""
        return extend(
            self.metric,
            points,
            self.landmarks,
            self.bandwidth,
            self.source_weights,
            self.coefficients,
            n_threads,
        )

    def place(self, X: ArrayLike, n_threads: int | None = None) -> Placed:
        """Validate and embed new points ``X`` on ``n_threads``, and judge them when that is asked for."""
        return Placed(self, self.extend(self.prepare(X), n_threads))

    def embed_one(self, x: ArrayLike) -> NDArray[Any]:
        """Embed a single point ``x``, (features,) or (atoms, 3), with the least overhead; returns (k,)."""
        if type(x) is not np.ndarray:
            check_unmasked(x)
            x = np.asarray(x)
        X = x[None]
        row = self.quick_point(X)
        return self.extend(self.prepare(X), 1).coordinates[0] if row is None else row

    @cached_property
    def quick_point(self) -> QuickPoint:
        """Embeds one point, (1, ...), to (k,), with the bits of :meth:`extend`; None where it must be prepared."""
        # Python around the kernels takes longer than they do, so all that does not depend on the point is looked up
        # here. Any number of threads may call the function at once.
        dtype, n_landmarks, project = self.landmarks.dtype, self.n_landmarks, kernels.extend

        def new_calls() -> tuple[OneRow, tuple[Any, ...], Callable[[], NDArray[Any]]] | None:
            """Return how to measure a point, to embed what was measured and to copy that, with memory of their own."""
            squared, coordinates = np.empty((1, n_landmarks), dtype), np.empty((1, self.n_components), dtype)
            fill_row = self.metric.one_row(self.landmarks, squared)
            if fill_row is None:
                return None
            step = float(dtype.type(0.5 / self.bandwidth)), self.source_weights, self.coefficients
            nearest, lowest = np.empty(1, np.intp), np.empty(1, dtype)
            return fill_row, (squared, *step, coordinates, nearest, lowest), coordinates[0].copy

        first = new_calls() if n_landmarks < SCANNED_LANDMARKS else None
        if first is None:
            return lambda X: None
        # What no call is using. A call takes one or makes one, and puts it back; both are atomic.
        idle: list[Any] = [first]

        def embed(X: NDArray[Any]) -> NDArray[Any] | None:
            try:
                calls = idle.pop()
            except IndexError:
                calls = new_calls()
            if calls is None:
                return None
            fill_row, measured, copied = calls
            row: NDArray[Any] | None = None
            if fill_row(X):
                project(*measured)
                row = copied()
            idle.append(calls)
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
        points, landmarks, k = self.prepare(X), self.landmarks, self.n_components
        values = np.asarray(X, dtype=np.float64)
        flat = np.require(values.reshape(len(values), -1), requirements=("C", "A"))
        dtype, rate = points.dtype, points.dtype.type(0.5 / self.bandwidth)
        result = Extended(len(points), k, dtype)
        gradient = np.empty((*flat.shape[:1], k, flat.shape[1]), dtype)

        def work(rows: slice) -> None:
            height = rows.stop - rows.start
            squared = squared_tile(self.metric, points, rows, landmarks)
            step = rate, self.source_weights, self.coefficients
            coordinates, lowest = result.coordinates[rows], result.squared_distance[rows]
            kernels.extend(squared.copy(), *step, coordinates, result.nearest[rows], lowest)
            shares = np.empty((height, k, len(landmarks)), dtype)
            kernels.fill_shares(squared, lowest, *step, coordinates, shares)
            slopes = gradient[rows]
            squares_gradient(flat[rows], squared, shares, slopes)
            slopes[~np.isfinite(slopes).all(axis=2)] = 0.0

        tile = tile_rows((k + 2) * len(landmarks), dtype.itemsize)
        run_tiles(len(points), tile, work, resolve_threads(n_threads))
        return result, gradient.reshape(*gradient.shape[:2], *values.shape[1:])

    @cached_property
    def squares_gradient(self) -> SquaresGradient:
        """What sums up gradients of d² to the landmarks."""
        return self.metric.squares_gradient(self.landmarks)

    def __getstate__(self) -> dict[str, Any]:
        # Made again where they are needed: as large as the landmarks, and a function.
        made = "squares_gradient", "quick_point"
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def coverage_of(self, extended: Extended) -> Coverage:
        """Judge what :meth:`extend` returned, ``extended``, by distances to the nearest landmark."""
        squared = extended.squared_distance
        distance, inside = np.empty_like(squared), np.empty(len(squared), dtype=np.bool_)
        radii = self.squared_radii
        kernels.judge(squared, extended.nearest, radii, _DOMAIN_SLACK, self.epsilon, distance, inside)
        known = self.calibration
        return Coverage(
            distance, inside, extended.nearest, None if known is None else known.p_values(distance)
        )


class Placed:
    """Embedded points."""

    def __init__(self, embedder: Embedder, extended: Extended) -> None:
        self._embedder, self._extended = embedder, extended
        self.coordinates: NDArray[Any] = extended.coordinates

    @cached_property
    def coverage(self) -> Coverage:
        """Distance to the nearest landmark, inside the domain or not, and which landmark that is."""
        return self._embedder.coverage_of(self._extended)

    @classmethod
    def joined(cls, parts: Sequence[Placed]) -> Placed:
        """Return the points of several parts, at least one, as one."""
        if len(parts) == 1:
            return parts[0]
        embedder, dtype = parts[0]._embedder, parts[0].coordinates.dtype
        whole = Extended(sum(len(part.coordinates) for part in parts), embedder.n_components, dtype)
        for name in Extended.__slots__:
            np.concatenate([getattr(part._extended, name) for part in parts], out=getattr(whole, name))
        return cls(embedder, whole)
