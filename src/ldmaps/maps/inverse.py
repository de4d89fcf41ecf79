"""Back from coordinates to points: what points that lie there look like on average, and how much they differ.

With landmarks x_j at coordinates y_j, of multiplicities c_j, and weights v_j = c_j κ(|y_j − y|/r) of the nearest ones,

    x̂(y) = a,   where  (a, A) = argmin Σ_j v_j |x_j − a − A (y_j − y)|²        the conditional mean, locally linear
    σ²(y) = Σ_j v_j (x_j − a − A (y_j − y))² / Σ_j v_j                         its spread, feature by feature
    x̂ ← x̂ + C Jᵀ (J C Jᵀ)⁻¹ (y − ψ(x̂))                                       until ψ(x̂) = y

J is the gradient of the map and C the covariance of the same landmarks, so that a correction moves a point as the data
move. Distances between coordinates are in units of their ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ldmaps.errors import InvalidInputError

#: How far a point may come back from where it was asked for, in percent of a coordinate's range, and the share of
#: landmarks for which that must be so.
ALLOWED, SHARE = 1.0, 0.95
#: Landmarks that a mean is taken over: so many, and so many more per coordinate.
FEWEST_NEIGHBOURS, NEIGHBOURS_PER_COORDINATE = 8, 4
#: Corrections, and how near is near enough, in percent of the range.
N_CORRECTIONS, NEAR_ENOUGH = 12, 0.05
#: Share of the mean variance that is added to the covariance, and how far one correction goes, in standard deviations.
_RIDGE, _LONGEST = 1e-4, 2.0
#: Landmarks that are judged, and points that are treated at once.
_JUDGED, _BLOCK = 500, 512

_Array = NDArray[np.float64]
_Forward = Callable[[_Array], tuple[_Array, _Array]]


@dataclass(frozen=True)
class Preimages:
    """Points at given coordinates."""

    points: _Array  # (n, features); NaN where none was found
    spread: _Array  # (n, features): standard deviation of points with these coordinates
    errors: _Array  # (n,): how far each comes back from where it was asked for, in percent of the range


class Inverse:
    """Finds points at coordinates of a map, from points and where they are on it.

    Parameters
    ----------
    places, coordinates, weights : ndarray of shape (m, features), (m, k), (m,)
        Points, as the map's metric counts differences, their coordinates, and how much each counts.
    forward : callable
        Returns coordinates and gradients of points.
    period : ndarray of shape (features,)
        Of each feature; infinite where there is none.
    """

    def __init__(
        self, places: _Array, coordinates: _Array, weights: _Array, forward: _Forward, period: _Array
    ) -> None:
        self._places, self._weights, self._forward, self._period = places, weights, forward, period
        self._range = np.ptp(coordinates, axis=0)
        self._range[self._range == 0] = 1.0
        self._scaled = coordinates / self._range
        self._tree = cKDTree(self._scaled)
        k = coordinates.shape[1]
        self._n_near = FEWEST_NEIGHBOURS + NEIGHBOURS_PER_COORDINATE * k

    def check(self, name: str) -> None:
        """Raise unless points come back to where they were asked for: each landmark from the others."""
        n_points = len(self._places)
        if n_points <= self._n_near:
            raise InvalidInputError(
                f"{n_points} {name} are too few to reconstruct points from coordinates: {self._n_near + 1} are "
                "needed; pass points of the map as X, or fit it with more landmarks"
            )
        rows = np.unique(np.linspace(0, n_points - 1, _JUDGED).round().astype(np.intp))
        errors = self._found(self._scaled[rows] * self._range, leave_out=rows).errors
        reached = float(np.quantile(errors, SHARE))
        if not reached <= ALLOWED:
            raise InvalidInputError(
                f"this map cannot be inverted: each of its {name} was reconstructed from the others, and "
                f"{100 * SHARE:g} % of them come back within {reached:.2g} % of the coordinates' range, where "
                f"{ALLOWED:g} % is needed. Its coordinates do not determine its points well enough; fit more "
                "landmarks or other components, pass points of the map as "
                "X, or take real points with ldmaps.analysis.frames_along"
            )

    def find(self, coordinates: _Array) -> Preimages:
        """Return points at coordinates, (n, k)."""
        parts = [
            self._found(coordinates[begin : begin + _BLOCK]) for begin in range(0, len(coordinates), _BLOCK)
        ]
        points, spread, errors = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("points", "spread", "errors")
        )
        lost = errors > ALLOWED
        points[lost] = spread[lost] = np.nan
        return Preimages(points, spread, errors)

    def _found(self, coordinates: _Array, leave_out: NDArray[np.intp] | None = None) -> Preimages:
        wanted = coordinates / self._range
        near = self._tree.query(wanted, k=self._n_near + (leave_out is not None))[1]
        if leave_out is not None:
            # Where others lie at the same coordinates, a landmark may not be among its own nearest.
            is_other = near != leave_out[:, None]
            is_other[is_other.all(axis=1), -1] = False
            near = near[is_other].reshape(len(near), -1)
        offsets = self._scaled[near] - wanted[:, None]
        distances = np.linalg.norm(offsets, axis=2)
        reach = distances.max(axis=1, keepdims=True) * 1.001
        reach[reach == 0] = 1.0
        weights = self._weights[near] * (1.0 - (distances / reach) ** 3) ** 3
        weights /= weights.sum(axis=1, keepdims=True)
        # Differences to the nearest one, the shorter way round where a feature is periodic.
        first = near[np.arange(len(near)), distances.argmin(axis=1)]
        places = self._places[near] - self._places[first][:, None]
        wrap = np.isfinite(self._period)
        places[..., wrap] -= self._period[wrap] * np.rint(places[..., wrap] / self._period[wrap])
        mean, spread = _local_fit(offsets, weights, places)
        deviations = (places - np.einsum("nj,njf->nf", weights, places)[:, None]) * np.sqrt(weights)[
            ..., None
        ]
        points, errors = self._corrected(self._places[first] + mean, wanted, deviations)
        points[:, wrap] -= self._period[wrap] * np.rint(points[:, wrap] / self._period[wrap])
        return Preimages(points, spread, errors)

    def _corrected(self, points: _Array, wanted: _Array, deviations: _Array) -> tuple[_Array, _Array]:
        """Return points moved along their neighbours' covariance until they lie where wanted, and what is left."""
        ridge = _RIDGE * (deviations**2).sum(axis=(1, 2)) / points.shape[1]
        reach = _LONGEST * np.sqrt((deviations**2).sum(axis=(1, 2)))
        share = np.ones(len(points))
        found, gradients = self._at(points)
        left = wanted - found
        for _ in range(N_CORRECTIONS):
            if (_percent(left) <= NEAR_ENOUGH).all():
                break
            moved = np.einsum("nkf,njf->nkj", gradients, deviations)  # J Dᵀ, with C = Dᵀ D + ridge
            across = moved @ moved.transpose(0, 2, 1) + ridge[:, None, None] * (
                gradients @ gradients.transpose(0, 2, 1)
            )
            k = across.shape[1]
            across += (1e-9 * np.trace(across, axis1=1, axis2=2) / k + np.finfo(float).tiny)[
                :, None, None
            ] * np.eye(k)
            along = np.linalg.solve(across, left[..., None])[..., 0]
            step = np.einsum("nj,njf->nf", np.einsum("nkj,nk->nj", moved, along), deviations)
            step += ridge[:, None] * np.einsum("nkf,nk->nf", gradients, along)
            length = np.linalg.norm(step, axis=1)
            step *= (share * np.minimum(1.0, reach / np.maximum(length, 1e-300)))[:, None]
            tried = points + step
            there, their_gradients = self._at(tried)
            is_better = _percent(wanted - there) < _percent(left)
            points = np.where(is_better[:, None], tried, points)
            left = np.where(is_better[:, None], wanted - there, left)
            gradients = np.where(is_better[:, None, None], their_gradients, gradients)
            share = np.where(is_better, np.minimum(1.0, 2 * share), 0.25 * share)
        return points, _percent(left)

    def _at(self, points: _Array) -> tuple[_Array, _Array]:
        """Return where points are, and the gradients, in units of the coordinates' ranges."""
        found, gradients = self._forward(points)
        return found / self._range, gradients / self._range[:, None]


def _percent(left: _Array) -> _Array:
    """Return the largest error of each point, in percent of the range."""
    return np.asarray(100.0 * np.abs(left).max(axis=1))


def _local_fit(offsets: _Array, weights: _Array, places: _Array) -> tuple[_Array, _Array]:
    """Return the values at offset 0 of local linear fits, (n, F), and the standard deviations around these."""
    n, n_near, k = offsets.shape
    design = np.concatenate([np.ones((n, n_near, 1)), offsets], axis=2)
    weighed = design * weights[..., None]
    normal = design.transpose(0, 2, 1) @ weighed
    # Neighbours may lie on a line.
    normal[:, 1:, 1:] += (
        1e-6 * np.einsum("nij->n", offsets**2 * weights[..., None])[:, None, None] * np.eye(k)
    )
    normal += 1e-12 * np.eye(k + 1)
    coefficients = np.linalg.solve(normal, weighed.transpose(0, 2, 1) @ places)
    variance = np.einsum("nj,njf->nf", weights, (places - design @ coefficients) ** 2)
    effective = 1.0 / (weights**2).sum(axis=1)
    variance *= (effective / np.maximum(effective - k - 1, 1.0))[:, None]
    return np.asarray(coefficients[:, 0]), np.sqrt(variance)


def inverse_of(model: Any, X: Any = None) -> tuple[Inverse, _Array]:
    """Return the inverse of a fitted map, checked, and what its points are divided by.

    Parameters
    ----------
    model : DiffusionEstimator
        The map.
    X : array-like, optional
        Points to take means over; by default the landmarks.
    """
    metric, embedder = model.metric_, model.embedder_
    kinds = getattr(metric, "kinds", None)  # of internal coordinates, which are columns that have a mean
    if (metric.has_structures and not kinds) or not metric.is_differentiable:
        raise InvalidInputError(
            f"a map of {metric!r} has no inverse: "
            + (
                "the mean of superposed structures is not a structure"
                if metric.has_structures
                else "its points have no mean that could be moved along a gradient"
            )
            + ". Take real frames in order along a coordinate instead: ldmaps frames MAP TRAJ --along psi2, or "
            "ldmaps.analysis.frames_along"
        )
    if X is None:
        points, coordinates = model.map_.landmark_points, model.landmark_embedding_
        weights, name = model.multiplicities_, "landmarks"
    else:
        given = np.asarray(model.checked_points(X))
        points, name = metric.prepare(given), "points"
        coordinates, weights = model.transform(given), np.ones(len(given))
    values, scales = metric.places(points)
    divided = np.where(scales > 0, 1.0, np.nan)
    period = np.full(values.shape[1], np.inf)
    if getattr(metric, "period", None) is not None:
        period = np.broadcast_to(np.asarray(metric.period, dtype=np.float64), period.shape).copy()
    if kinds:
        divided = np.asarray(metric.parameters()["scales"], dtype=np.float64)
        period[[kind != "dihedral" for kind in kinds]] = np.inf
        embedder = replace(embedder, metric=metric.of_places())

    def forward(places: _Array) -> tuple[_Array, _Array]:
        extended, gradient = embedder.extend_with_gradient(places, model.n_threads)
        found = np.asarray(extended.coordinates, np.float64)
        return found, np.asarray(gradient, np.float64).reshape(len(places), found.shape[1], -1)

    inverse = Inverse(
        values,
        np.array(coordinates, dtype=np.float64),
        np.asarray(weights, dtype=np.float64),
        forward,
        period,
    )
    inverse.check(name)
    return inverse, divided
