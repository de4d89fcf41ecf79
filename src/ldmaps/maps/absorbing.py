"""Absorbing: a landmark map takes in points it did not cover, without its training points.

    points ──► cover: new landmarks ──► change: walk over old, and over all landmarks ──► online step, aligned

The old landmarks keep their places (first, in their order) and the multiplicities they
stand for; nothing else of the training data is needed. See docs/learning_on.md.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.spectrum import check_extensible
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named
from ldmaps.extension import Embedder
from ldmaps.maps.fitted_map import FittedMap
from ldmaps.maps.landmark_cover import UnreachableError, choose_landmarks, grow_cells
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.training import LARGEST_WEIGHT
from ldmaps.maps.walk_change import Change
from ldmaps.metrics.base import Points
from ldmaps.quality.fidelity import SAME_SHARE, in_common
from ldmaps.settings import check_whole

__all__ = ["Absorption", "UnreachableError", "absorb"]

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Absorption:
    """What absorbing did; ``model.absorption_`` of the model that :func:`absorb` returns.

    Attributes
    ----------
    absorbed : ndarray of bool, shape (n,)
        Which of the points were taken in; the others are out of reach.
    n_new_landmarks : int
        Landmarks that were added for them.
    modes : ndarray of int, shape (k,)
        Which mode of the new walk (0 is the slowest) each coordinate goes with.
    in_common : ndarray of shape (k,)
        Share of each old coordinate's variance, over the old landmarks, that the new
        one explains: 1 where only sign, scale or origin had changed; NaN for a further one.
    moved : ndarray of shape (k,)
        Root mean square move of the old points in each old coordinate, in percent of its
        range; old points are represented by their landmarks.
    """

    absorbed: NDArray[np.bool_]
    n_new_landmarks: int
    modes: NDArray[np.intp]
    in_common: _Array
    moved: _Array

    @property
    def z(self) -> float:
        """Z between old and new coordinates of the old points, in percent."""
        return float(np.sqrt((self.moved**2).sum()))


def absorb(
    model: LandmarkDiffusionMap,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    counts: ArrayLike | None = None,
    spacing: float | None = None,
    max_landmarks: int | None = None,
    disconnected: str = "raise",
    new_components: int = 0,
    align: bool = True,
) -> LandmarkDiffusionMap:
    """Return a map that also covers ``points``; the given one is not changed.

    Parameters
    ----------
    model : LandmarkDiffusionMap
        Fitted, or read from a file.
    points : array-like of shape (n, features), or (n, atoms, 3) for frames
        Points to absorb, such as ``reservoir.points``. Points outside the domain are
        covered by new landmarks; points inside add to the multiplicities.
    weights : array-like of shape (n,), optional
        How many points each stands for, such as ``reservoir.weights``; 1 by default.
    counts : array-like of shape (≤ M,), optional
        How many further points inside the domain each landmark was nearest to, such as
        ``reservoir.counts``; they are added to the multiplicities. Without them the
        new places get more than their share of the mass, which distorts the map.
    spacing : float, optional
        Farthest that a new point may be from its landmark, in units of √ε, at most 1.
        Smaller makes more landmarks. By default as dense as the map is: the median
        distance between neighbouring landmarks.
    max_landmarks : int, optional
        Most landmarks that the new map may have. If the cover needs more, it is made
        coarser, and a landmark's domain reaches as far as its points.
    disconnected : {"raise", "leave"}
        What to do about points that the random walk cannot reach in hops of 5√ε:
        raise :class:`UnreachableError`, or leave them out and say so in
        ``absorption_.absorbed``.
    new_components : int
        How many further coordinates to add: the slowest modes of the new map that are
        none of the old coordinates, such as the passage to a newly found basin.
    align : bool
        Whether coordinates are matched to the old ones. False gives the coordinates that
        ``fit`` would (slowest mode first, ψᵀCψ = 1).

    Returns
    -------
    LandmarkDiffusionMap
        Fitted; ``absorption_`` says what was done and how far old points moved. Measured: 0.3 % of a
        coordinate's range where a basin was filled in that the map knew the way to, 5 to 18 % where the
        data have become longer (docs/learning_on.md has the table). Training points' coordinates
        (``embedding_``) and the certificate of a tolerance are not carried over.

    Warns
    -----
    AccuracyWarning
        When a coordinate has less than half in common with its old self, when the
        new map has slower modes than those kept, and when a distilled map has too few
        landmarks to tell what the points change: coordinates then stay as they are.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000)
    >>> known = roll.position < 13
    >>> model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll.points[known])
    >>> new = absorb(model, roll.points[~known])
    >>> bool(model.coverage(roll.points).inside.all()), bool(new.coverage(roll.points).inside.all())
    (False, True)
    """
    _check(model, spacing, max_landmarks, disconnected, new_components)
    given, embedder = np.asarray(points), model.embedder_
    mass = _check_weights(weights, len(given))
    known_mass = model.multiplicities_ + _check_counts(counts, embedder.n_landmarks)
    if not len(given):
        return _unchanged(model, 0)
    prepared = embedder.prepare(given)
    chosen, reached = choose_landmarks(model, prepared, spacing, max_landmarks, disconnected)
    if not reached.any():
        return _unchanged(model, len(given))
    taken, landmarks = prepared.take(np.flatnonzero(reached)), embedder.landmarks
    if len(chosen):
        landmarks = model.metric_.joined(landmarks, prepared.take(chosen))
    radii, multiplicities = grow_cells(model, landmarks, taken, mass[reached], known_mass)
    change = Change.of(model, landmarks, multiplicities, int(new_components), align=align)
    step = change.step(model, taken, mass[reached])
    grown = Embedder.build(model.metric_, landmarks, model.epsilon_, step, radii)
    # With more landmarks the held-out points are nearer than they were, so that no p is too small.
    grown = replace(grown, calibration=embedder.calibration)
    return _assembled(model, change, grown, prepared, chosen, reached)


# -- checking ------------------------------------------------------------------


def _check(
    model: Any, spacing: float | None, max_landmarks: int | None, disconnected: str, new_components: int
) -> None:
    if not isinstance(model, LandmarkDiffusionMap):
        raise InvalidInputError(
            f"absorb takes a LandmarkDiffusionMap, got {type(model).__name__}; "
            "fit one (with n_landmarks as many as you can afford a point)"
        )
    check_is_fitted(model, "embedder_")
    if model.metric_.takes_distances:
        raise InvalidInputError(
            "a map of precomputed distances cannot absorb points: their distances from each other are not known; "
            "fit again to the distances of all points"
        )
    if spacing is not None and not 0.0 < spacing <= 1.0:
        raise InvalidInputError(
            f"spacing must be above 0 and at most 1 (units of sqrt(epsilon), which is how far a landmark's domain "
            f"reaches), got {spacing!r}"
        )
    if max_landmarks is not None:
        check_whole("max_landmarks", max_landmarks, 2)
    if disconnected not in ("raise", "leave"):
        raise InvalidInputError(f'disconnected must be "raise" or "leave", got {disconnected!r}')
    check_whole("new_components", new_components, 0)


def _check_weights(weights: ArrayLike | None, n_points: int) -> _Array:
    mass = np.ones(n_points) if weights is None else np.asarray(weights, dtype=np.float64)
    least, most = 1 / LARGEST_WEIGHT, LARGEST_WEIGHT
    if mass.shape != (n_points,) or not ((mass >= least) & (mass <= most)).all():
        raise InvalidInputError(
            f"weights must be {n_points} numbers between {least:g} and {most:g}, one per point: how many points it "
            f"stands for; got shape {mass.shape}"
            + (f", {mass.min():g} to {mass.max():g}" if mass.size else "")
        )
    return mass


def _check_counts(counts: ArrayLike | None, n_landmarks: int) -> _Array:
    """Return the counts of all landmarks; those behind the last that was counted have none."""
    given = np.asarray([] if counts is None else counts, dtype=np.float64)
    if given.ndim != 1 or len(given) > n_landmarks or not (np.isfinite(given) & (given >= 0)).all():
        raise InvalidInputError(
            f"counts must be finite numbers of at least 0, one for each of up to {n_landmarks} landmarks, "
            f"got shape {given.shape}; a reservoir's counts belong to the map that its records were held against"
        )
    return np.pad(given, (0, n_landmarks - len(given)))


# -- the result ----------------------------------------------------------------


def _assembled(
    model: LandmarkDiffusionMap,
    change: Change,
    embedder: Embedder,
    points: Points,
    chosen: NDArray[np.intp],
    reached: NDArray[np.bool_],
) -> LandmarkDiffusionMap:
    old, k, after = model.map_, model.n_components_, change.after
    representatives, coordinates = old.representatives, after.coordinates()
    if representatives is not None and len(chosen):
        representatives = model.metric_.joined(representatives, points.take(chosen))
    if change.before is not None:
        shown = embedder.landmarks if representatives is None else representatives
        coordinates = embedder.extend(shown, model.n_threads).coordinates.astype(np.float64)
    eigenvalues, spectrum = change.spectrum(old.eigenvalues)
    check_extensible(np.sort(eigenvalues)[::-1], embedder.landmarks.dtype)
    was, weights = np.asarray(old.landmark_embedding, dtype=np.float64), old.multiplicities
    now = coordinates[: len(was), :k]
    absorption = Absorption(
        reached,
        len(chosen),
        np.abs(after.turn.mixture).argmax(axis=0),
        np.append(in_common(was, now, weights), np.full(len(eigenvalues) - k, np.nan)),
        100.0 * np.sqrt(weights @ (now - was) ** 2 / weights.sum()) / np.ptp(was, axis=0),
    )
    _warn(absorption, spectrum, k, is_resolved=change.is_resolved)
    result = cast(LandmarkDiffusionMap, clone(model))
    if result.n_components != "gap":
        result.n_components = len(eigenvalues)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(result, name, getattr(model, name))
    # Numbered on behind the training points, which are numbered from 0.
    first = int(old.landmark_indices.max()) + 1 if old.embedding is None else len(old.embedding)
    return result.adopt(
        FittedMap(
            embedder=embedder,
            bandwidth=old.bandwidth,
            eigenvalues=eigenvalues,
            spectrum=spectrum,
            landmark_indices=np.concatenate([old.landmark_indices, first + chosen]),
            landmark_embedding=coordinates.astype(embedder.landmarks.dtype),
            multiplicities=after.walk.weights,
            representatives=representatives,
            units=old.units,
            source=old.source,
            absorption=absorption,
            diagnosis=old.diagnosis,
            solution=old.solution,
        )
    )


def _warn(absorption: Absorption, spectrum: _Array, n_old: int, *, is_resolved: bool) -> None:
    reasons = []
    common, modes = absorption.in_common[:n_old], absorption.modes
    different = np.flatnonzero(common < SAME_SHARE)
    if len(different):
        shown = ", ".join(f"{index + 1} ({common[index]:.0%})" for index in different)
        reasons.append(f"coordinate {shown} has less than half in common with what it was before")
    if not is_resolved:
        reasons.append(
            "the map has too few landmarks to tell what the points change, so its coordinates stay as they are and "
            "hardly distinguish the new points; fit again to old and new data, or with more landmarks"
        )
    slower = np.setdiff1d(np.arange(modes.max(initial=0)), modes)
    remedy: tuple[Any, ...] = ()
    if len(slower) and is_resolved:
        shown = ", ".join(f"{spectrum[mode]:.4g}" for mode in slower)
        reasons.append(
            f"{len(slower)} of the new map's slowest modes (eigenvalue {shown}) are none of the coordinates"
        )
        remedy = "; ", Named("new_components", len(slower)), " adds what is missing"
    if reasons:
        warnings.warn(
            AccuracyWarning("absorbing changed what the map distinguishes: ", "; ".join(reasons), *remedy),
            stacklevel=4,
        )


def _unchanged(model: LandmarkDiffusionMap, n_points: int) -> LandmarkDiffusionMap:
    k = model.n_components_
    nobody = np.zeros(n_points, dtype=bool)
    absorption = Absorption(nobody, 0, np.arange(k), np.ones(k), np.zeros(k))
    return copy.copy(model).adopt(replace(model.map_, absorption=absorption))
