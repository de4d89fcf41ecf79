"""Another metric's distances in units of how far apart points lie locally: d'²(x, y) = d²(x, y) f(x) f(y).

f is 1 where points are as dense as usual and smaller where they are sparse, so that one bandwidth ε resolves both. With
ε_i the bandwidth that suits point i alone, f_i = √(ε/ε_i) makes the kernel exp(−d²/(2√(ε_i ε_j))), which is symmetric.

A fit gives a factor to every training point. A new point takes its own from the landmarks around it,

    ln f(x) = Σ_j v_j ln f_j / Σ_j v_j,    v_j = d(x, z_j)^(−2p),

which is smooth, equals f_j at a landmark, and needs no distances but those that embed the point anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Array, Metric, Places, Points, SquaresGradient
from ldmaps.point_faults import stored_array

#: p: how quickly a landmark's factor stops to count with the distance. Large, since far landmarks are many.
POWER = 4
#: What callers ask of a metric, and what is the same as without factors.
_TAKEN_OVER = ("takes_frames", "takes_distances", "has_units", "has_structures", "is_slow", "weights")


class LocalPoints(Points):
    """Points of another metric, and a factor for each; new points have none."""

    def __init__(self, plain: Points, factors: NDArray[np.float64] | None) -> None:
        self.plain = plain
        self.factors = factors
        self.dtype = plain.dtype

    def __len__(self) -> int:
        return len(self.plain)

    def take(self, indices: NDArray[np.intp] | slice) -> LocalPoints:
        """Return the points at ``indices``, in that order, as a copy."""
        factors = None if self.factors is None else np.array(self.factors[indices])
        return LocalPoints(self.plain.take(indices), factors)

    def __getattr__(self, name: str) -> Any:
        # Features, frames: whatever else the points of that metric know. Only called for what is not found here.
        if name == "plain" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain, name)


class LocalScales(Metric):
    """Distances of another metric, times a factor for each of both points.

    Parameters
    ----------
    plain : Metric
        That other metric.
    """

    name = "local_scales"
    is_true_metric = False
    has_local_scales = True

    def __init__(self, plain: Metric) -> None:
        if not isinstance(plain, Metric) or plain.has_local_scales:
            raise InvalidInputError(f"local scales need another metric to scale, got {plain!r}")
        self.plain = plain
        # Constants of a class elsewhere, here those of the other metric.
        vars(self).update({name: getattr(plain, name) for name in _TAKEN_OVER})

    def __getattr__(self, name: str) -> Any:
        # Atoms, names of features: whatever else the other metric knows. Only called for what is not found here.
        if name == "plain" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain, name)

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> LocalPoints:
        """Validate points; they have no factors yet."""
        return LocalPoints(self.plain.prepare(X, dtype), None)

    def as_new(self, points: Points) -> LocalPoints:
        """Return ``points`` without their factors."""
        return LocalPoints(cast(LocalPoints, points).plain, None)

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d'²(a[i], b[j]) to ``out``; points without a factor take it from the points on the other side."""
        a, b = cast(LocalPoints, a), cast(LocalPoints, b)
        self.plain.squared_block(a.plain, rows, b.plain, cols, out)
        all_squares = out if cols.stop - cols.start == len(b) else None
        left = self._factors(a, rows, b, all_squares).astype(out.dtype)
        right = self._factors(b, cols, a, None).astype(out.dtype)
        out *= left[:, None] * right  # their product first, so that d'(x, y) = d'(y, x) to the last bit

    def _factors(
        self, points: LocalPoints, part: slice, others: LocalPoints, squared: NDArray[Any] | None
    ) -> NDArray[np.float64]:
        """Return the factors of some points; ``squared`` are their d² to all others, where these are known."""
        if points.factors is not None:
            return points.factors[part]
        if others.factors is None:
            return _known(points)[part]
        if squared is None:
            squared = np.empty((part.stop - part.start, len(others)), points.dtype)
            self.plain.squared_block(points.plain, part, others.plain, slice(0, len(others)), squared)
        return interpolated(squared, others.factors)

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return a function that sums up gradients of d'² to ``landmarks``, which have factors."""
        landmarks = cast(LocalPoints, landmarks)
        plain, everything = self.plain, slice(0, len(landmarks))
        by_plain = plain.squares_gradient(landmarks.plain)
        logs = np.log(_known(landmarks))

        def add_up(X: Array, squared: Array, shares: Array, gradient: Array) -> None:
            points = plain.prepare(X, landmarks.dtype)
            unscaled = np.empty_like(squared)
            plain.squared_block(points, slice(0, len(points)), landmarks.plain, everything, unscaled)
            shown = _shares_of(unscaled)
            own = shown @ logs
            # d'_j² = d_j² f f_j, so its gradient is f f_j ∂d_j² + d'_j² ∂ln f, and ln f is a function of all d_m²:
            # ∂ln f/∂d_m² = −p v_m (ln f_m − ln f)/d_m². At a landmark, where d is 0, f is flat.
            distinct = np.where(unscaled > 0, unscaled, np.inf).astype(np.float64)
            slopes = -POWER * shown * (logs - own[:, None]) / distinct
            own_slopes = np.einsum("ncj,nj->nc", shares.astype(np.float64), squared.astype(np.float64))
            of_squares = (
                shares * np.exp(own[:, None] + logs)[:, None] + own_slopes[:, :, None] * slopes[:, None]
            )
            by_plain(X, unscaled, np.ascontiguousarray(of_squares, shares.dtype), gradient)

        return add_up

    @property
    def is_differentiable(self) -> bool:
        """No: d'² has a gradient, but landmarks cannot be moved along it, since each has its own factor."""
        return False

    def places(self, points: Points) -> Places:
        """Return where ``points`` are, in the other metric."""
        return self.plain.places(cast(LocalPoints, points).plain)

    def describe(self) -> str:
        """Return what points are compared by, in words."""
        known = self.plain.describe() or self.plain.name.replace("_", " ")
        return f"{known}, in units of the local distance between points"

    def distance_unit(self, units: str | None) -> str | None:
        """Return the unit of d where points are as dense as usual."""
        return self.plain.distance_unit(units)

    def check_compatible(self, a: Points, b: Points) -> None:
        """Raise where points ``a`` and ``b`` cannot be compared by the other metric."""
        self.plain.check_compatible(cast(LocalPoints, a).plain, cast(LocalPoints, b).plain)

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return random points of the other metric."""
        return self.plain.made_up(n_points, n_features, rng)

    def parameters(self) -> dict[str, Any]:
        """Return the other metric."""
        return {"plain": self.plain}

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return the arrays of the other metric's points, and the factors."""
        points = cast(LocalPoints, points)
        return {**self.plain.export_points(points.plain), "factors": _known(points)}

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> LocalPoints:
        """Return points from what a file claims :meth:`export_points` returned as ``arrays``, all checked."""
        factors = stored_array(arrays, "factors", (None,)).astype(np.float64)
        plain = self.plain.import_points({name: array for name, array in arrays.items() if name != "factors"})
        if len(factors) != len(plain) or not (np.isfinite(factors) & (factors > 0)).all():
            raise InvalidInputError(
                f"factors must be {len(plain)} positive numbers, one per point; got {len(factors)}, from "
                f"{factors.min(initial=np.inf):g} to {factors.max(initial=-np.inf):g}"
            )
        return LocalPoints(plain, factors)

    def joined(self, first: Points, second: Points) -> LocalPoints:
        """Return the points of both; those of ``second`` that have no factors take them from ``first``."""
        first, second = cast(LocalPoints, first), cast(LocalPoints, second)
        factors = self._factors(second, slice(0, len(second)), first, None)
        plain = self.plain.joined(first.plain, second.plain)
        return LocalPoints(plain, np.concatenate([_known(first), factors]))


def interpolated(squared: NDArray[Any], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors of n points, given their ``squared`` distances to M others, (n, M), and the others' factors.

    >>> interpolated(np.array([[0.0, 4.0], [1.0, 1.0]]), np.array([0.25, 1.0])).tolist()
    [0.25, 0.5]
    """
    return np.asarray(np.exp(_shares_of(squared) @ np.log(factors)))


def _shares_of(squared: NDArray[Any]) -> NDArray[np.float64]:
    """Return v_j/Σ_m v_m, (n, M): how much each of the others counts."""
    squared = np.asarray(squared, dtype=np.float64)
    lowest = squared.min(axis=1, keepdims=True)
    # d_min²/d², which is 1 for the nearest; where that is at 0, it alone counts.
    shares = np.divide(lowest, squared, out=np.ones_like(squared), where=squared > 0)
    shares **= POWER
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def _known(points: LocalPoints) -> NDArray[np.float64]:
    """Return the factors of points, which are 1 where they have none and there are no others to take them from."""
    return np.ones(len(points)) if points.factors is None else points.factors
