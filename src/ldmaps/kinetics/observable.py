"""An observable as a function on a map: least squares, y(x) ≈ w(x)·B, with a ridge that held-out blocks of time choose.

Sums over the frames of a fold, G = Σ v w wᵀ, h = Σ v w y and Σ v y², are all that it needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.least_squares import solve_ridge
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.kinetics.walk_modes import landmark_weights
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap

#: Ridges that are tried, in units of the mean diagonal of G.
RIDGES = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
#: Blocks of consecutive frames, which take turns in so many folds.
N_BLOCKS, N_FOLDS = 40, 5
#: Least R² on held-out blocks: below it the map does not determine the observable.
LEAST_R2 = 0.3
#: Fewest frames.
FEWEST_FRAMES = 100

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Sums over some frames."""

    gram: _Array  # (M, M): G
    product: _Array  # (M,): h
    square: float  # Σ v y²
    value: float  # Σ v y
    weight: float  # Σ v

    def plus(self, other: Moments) -> Moments:
        """Return the sums over the frames of both."""
        return Moments(
            self.gram + other.gram,
            self.product + other.product,
            self.square + other.square,
            self.value + other.value,
            self.weight + other.weight,
        )

    def squared_error(self, coefficients: _Array) -> float:
        """Return Σ v (y − w·B)²."""
        return float(
            self.square - 2.0 * coefficients @ self.product + coefficients @ self.gram @ coefficients
        )

    def squared_deviation(self, mean: float) -> float:
        """Return Σ v (y − mean)²."""
        return self.square - 2.0 * mean * self.value + mean**2 * self.weight


def function(
    model: DiffusionEstimator,
    X: Any,
    values: ArrayLike,
    *,
    name: str,
    least_r2: float = LEAST_R2,
    sample_weight: ArrayLike | None = None,
) -> FunctionMap:
    """Learn an observable, known at some frames, as a function on a map.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        The map, fitted.
    X : array-like of shape (n, features), or (n, atoms, 3) for frames
        Frames at which the observable is known; trajectories and tables as for ``model.transform``.
    values : array-like of shape (n,)
        The observable: a distance, an energy, 0 and 1 of a label. Frames where it is NaN are left out.
    name : str
        What the coordinate is called.
    least_r2 : float
        R² on held-out blocks of frames below which an error is raised, because the map does not determine the
        observable.
    sample_weight : array-like of shape (n,), optional
        How much each frame counts.

    Returns
    -------
    FunctionMap
        With one coordinate, and ``r2_``, the share of the observable's variance that it explains on held-out blocks.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(2000).points
    >>> model = LandmarkDiffusionMap(n_components=2, epsilon=4.0, n_landmarks=200).fit(roll)
    >>> height = model.function(roll, roll[:, 1], name="height")
    >>> bool(height.r2_ > 0.95)
    True
    """
    known = np.asarray(values, dtype=np.float64)
    if known.ndim != 1 or np.isinf(known).any():
        raise InvalidInputError(
            f"values must be one finite number per frame, or NaN where it is unknown, got shape {known.shape}"
        )
    folds = _folds(model, TimeSeries(model, X, None, sample_weight, in_time=False), known)
    ridge, r2 = _choose(folds)
    if r2 < least_r2:
        raise InvalidInputError(
            f"the map does not determine {name}: it explains R² = {r2:.2f} of its variance on held-out frames, and "
            f"{least_r2:g} is needed. Fit a map whose metric or coordinates depend on it, or lower least_r2"
        )
    every = _sum(list(folds.values()))
    mean = every.value / every.weight
    coefficients = mean + solve_ridge(every.gram, every.product - mean * every.gram.sum(axis=1), ridge)
    facts = {"r2": r2, "ridge": ridge, "n_frames": int(np.isfinite(known).sum())}
    lines = [f"{name}: R² = {r2:.3f} on held-out blocks of {facts['n_frames']:,} frames (ridge {ridge:g})"]
    record = FunctionRecord.of("observable", [name], facts, lines)
    return FunctionMap.learned(model, coefficients[:, None], record)


def _folds(model: DiffusionEstimator, series: TimeSeries, known: _Array) -> dict[int, Moments]:
    """Return sums over the frames of each fold; folds are made of blocks of consecutive frames."""
    n_known = int(np.isfinite(known).sum())
    if n_known < FEWEST_FRAMES:
        raise InvalidInputError(
            f"the observable is known at {n_known} frames, and {FEWEST_FRAMES} are needed; give more"
        )
    length, found, n_frames = math.ceil(len(known) / N_BLOCKS), dict[int, Moments](), 0
    for stretch in series:
        rows = np.arange(stretch.rows.start, stretch.rows.stop)
        n_frames = stretch.rows.stop
        if n_frames > len(known):
            break
        weights = landmark_weights(model.embedder_, stretch.points, model.n_threads)
        counts = np.ones(len(rows)) if stretch.weights is None else stretch.weights
        fold_of = (rows // length) % N_FOLDS
        for fold in np.unique(fold_of).tolist():
            chosen = (fold_of == fold) & np.isfinite(known[rows])
            w, y, v = weights[chosen], known[rows][chosen], counts[chosen]
            scaled = w * v[:, None]
            moments = Moments(scaled.T @ w, scaled.T @ y, float(v @ y**2), float(v @ y), float(v.sum()))
            found[fold] = found[fold].plus(moments) if fold in found else moments
    if n_frames != len(known):
        more = "more frames" if n_frames > len(known) else f"{n_frames} frames"
        raise InvalidInputError(f"values has {len(known)} numbers for {more}; give one per frame")
    return {fold: moments for fold, moments in found.items() if moments.weight > 0}


def _choose(folds: dict[int, Moments]) -> tuple[float, float]:
    """Return the ridge with the least error on held-out folds, and R² there."""
    errors, deviation = np.zeros(len(RIDGES)), 0.0
    for held in folds:
        fitted = _sum([moments for fold, moments in folds.items() if fold != held])
        mean = fitted.value / fitted.weight
        deviation += folds[held].squared_deviation(mean)
        centred = fitted.product - mean * fitted.gram.sum(axis=1)  # w sums to 1, so that G·1 = Σ v w
        for place, ridge in enumerate(RIDGES):
            errors[place] += folds[held].squared_error(mean + solve_ridge(fitted.gram, centred, ridge))
    if not deviation > 0:
        raise InvalidInputError("values are all the same, so there is nothing to learn; give one that varies")
    best = int(np.argmin(errors))
    return RIDGES[best], float(1.0 - errors[best] / deviation)


def _sum(moments: list[Moments]) -> Moments:
    added = moments[0]
    for one in moments[1:]:
        added = added.plus(one)
    return added
