r"""Absorbing: a landmark map takes in points it did not cover, without its training points.

    old landmarks z, c ─┐
                        ├─► landmarks z', c' ──► M'×M' eigenproblem ──► modes ──► aligned to the old map
    new points, weights ┘   (greedy cover)                             ψ'        y = Ψ'Λ'ᵗT·a + b

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

from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, Spectrum, check_extensible
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named
from ldmaps.extension import EXTENSIONS, Embedder, OnlineStep
from ldmaps.maps.fitted_map import FittedMap
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.mode_matching import SAME_SHARE, ModeMatch, as_solved, match_modes
from ldmaps.maps.new_landmarks import (
    Added,
    Grown,
    UnreachableError,
    choose_landmarks,
    grow,
    squared_spacing,
)
from ldmaps.maps.solved_map import solve
from ldmaps.maps.training import LARGEST_WEIGHT
from ldmaps.settings import check_whole

__all__ = ["Absorption", "UnreachableError", "absorb"]


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
        Which mode of the new map (0 is the slowest) each coordinate goes with.
    in_common : ndarray of shape (k,)
        Share of each old coordinate's variance, over the old landmarks, that the new
        one explains: 1 where only sign, scale or origin had changed.
    moved : ndarray of shape (k,)
        Root mean square move of the old points in each coordinate, in percent of its
        range; old points are represented by their landmarks.
    """

    absorbed: NDArray[np.bool_]
    n_new_landmarks: int
    modes: NDArray[np.intp]
    in_common: NDArray[np.float64]
    moved: NDArray[np.float64]

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
        Fitted, or read from a file, with ``extension="nystrom"``.
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
        Fitted; ``absorption_`` says what was done. Training points' coordinates
        (``embedding_``) and the certificate of a tolerance are not carried over.

    Warns
    -----
    AccuracyWarning
        When a coordinate has less than half in common with its old self, or when the
        new map has slower modes than those kept.

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
    _check_model(model)
    _check_options(spacing, max_landmarks, disconnected, new_components)
    given = np.asarray(points)
    mass = _check_weights(weights, len(given))
    known_mass = model.multiplicities_ + _check_counts(counts, model.embedder_.n_landmarks)
    if not len(given):
        return _unchanged(model, 0)
    prepared = model.embedder_.prepare(given)
    added = choose_landmarks(model, prepared, squared_spacing(model, spacing), max_landmarks, disconnected)
    if not added.reached.any():
        return _unchanged(model, len(given))
    grown = grow(model, prepared, added, mass, known_mass)
    # A few modes more than asked for: an old coordinate may stand behind new ones now.
    count = min(len(grown.landmarks) - 1, model.n_components_ + int(new_components) + MAX_GAP_COMPONENTS)
    walk = Walk(
        model.metric_,
        grown.landmarks,
        grown.multiplicities,
        model.epsilon_,
        model.alpha,
        model.t,
        model.n_threads,
    )
    spectrum = solve(walk, count, is_known_connected=True).spectrum
    old, old_mass = np.asarray(model.landmark_embedding_, dtype=np.float64), model.multiplicities_
    if align:
        match = match_modes(old, old_mass, spectrum, grown.multiplicities, model.t)
    else:
        match = as_solved(old, old_mass, spectrum, model.t)
    if new_components:
        scale = np.sqrt(grown.multiplicities.sum() / old_mass.sum()) if align else 1.0
        match = match.with_further(int(new_components), float(scale))
    _warn(match, spectrum, model.n_components_)
    return _assembled(model, grown, spectrum, match, added)


# -- checking ------------------------------------------------------------------


def _check_model(model: Any) -> None:
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
    if EXTENSIONS[model.extension_].learns_from_reference:
        raise InvalidInputError(
            "a distilled map cannot absorb points: its coefficients were fitted to training points that it does not "
            "keep; fit with ",
            Named("extension", "nystrom"),
            " for a map that learns on, or fit again to old and new points",
        )


def _check_options(
    spacing: float | None, max_landmarks: int | None, disconnected: str, new_components: int
) -> None:
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


def _check_weights(weights: ArrayLike | None, n_points: int) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(n_points)
    mass = np.asarray(weights, dtype=np.float64)
    if mass.shape != (n_points,) or not (np.isfinite(mass) & (mass > 0)).all():
        raise InvalidInputError(
            f"weights must be {n_points} finite numbers above 0, one per point, got shape {mass.shape}"
            + (f" with lowest {mass.min():g}" if mass.size else "")
        )
    if mass.size and not (mass.min() >= 1 / LARGEST_WEIGHT and mass.max() <= LARGEST_WEIGHT):
        raise InvalidInputError(
            f"weights must be between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, or products of them overflow or "
            f"vanish; got {mass.min():g} to {mass.max():g}. A weight says how many points one stands for"
        )
    return mass


def _check_counts(counts: ArrayLike | None, n_landmarks: int) -> NDArray[np.float64]:
    """Return the counts of all landmarks; those behind the last that was counted have none."""
    padded = np.zeros(n_landmarks)
    if counts is None:
        return padded
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 1 or len(given) > n_landmarks or not (np.isfinite(given) & (given >= 0)).all():
        raise InvalidInputError(
            f"counts must be finite numbers of at least 0, one for each of up to {n_landmarks} landmarks, "
            f"got shape {given.shape}; a reservoir's counts belong to the map that its records were held against"
        )
    padded[: len(given)] = given
    return padded


# -- the result ----------------------------------------------------------------


def _warn(match: ModeMatch, spectrum: Spectrum, n_old: int) -> None:
    reasons: list[Any] = []
    different = np.flatnonzero(match.in_common[:n_old] < SAME_SHARE)
    if len(different):
        shown = ", ".join(f"{index + 1} ({match.in_common[index]:.0%})" for index in different)
        reasons.append(f"coordinate {shown} has less than half in common with what it was before")
    slower = match.slower_modes()
    if len(slower):
        shown = ", ".join(f"{spectrum.eigenvalues[mode]:.4g}" for mode in slower)
        reasons += [
            f"{'; ' if reasons else ''}{len(slower)} of the new map's slowest modes (eigenvalue {shown}) are none of "
            "the coordinates; ",
            Named("new_components", len(slower)),
            " adds what is missing",
        ]
    if reasons:
        warnings.warn(
            AccuracyWarning("absorbing changed what the map distinguishes: ", *reasons),
            stacklevel=3,
        )


def _assembled(
    model: LandmarkDiffusionMap, grown: Grown, spectrum: Spectrum, match: ModeMatch, added: Added
) -> LandmarkDiffusionMap:
    dtype = grown.landmarks.dtype
    eigenvalues = match.eigenvalues(spectrum)
    check_extensible(np.sort(eigenvalues)[::-1], dtype)
    coordinates = match.coordinates(spectrum, model.t)
    step = OnlineStep(
        coefficients=match.coordinates(spectrum, model.t - 1.0),
        source_weights=spectrum.source_weights,
        bandwidth=model.epsilon_,
    )
    # Numbered on behind the training points, which are numbered from 0.
    old, embedding = model.map_, model.map_.embedding
    first = int(old.landmark_indices.max()) + 1 if embedding is None else len(embedding)
    new = cast(LandmarkDiffusionMap, clone(model))
    if new.n_components != "gap":
        new.n_components = len(eigenvalues)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(new, name, getattr(model, name))
    return new.adopt(
        replace(
            old,
            embedder=Embedder.build(
                model.metric_, grown.landmarks, model.epsilon_, step, grown.squared_radii
            ),
            eigenvalues=eigenvalues,
            spectrum=spectrum.eigenvalues,
            landmark_indices=np.concatenate([old.landmark_indices, first + added.landmarks]),
            landmark_embedding=coordinates.astype(dtype),
            multiplicities=grown.multiplicities,
            training=None,
            embedding=None,
            labels=None,
            distillation=None,
            certificate=None,
            absorption=Absorption(
                added.reached, len(added.landmarks), match.modes, match.in_common, _moved(old, coordinates)
            ),
        )
    )


def _moved(old: FittedMap, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the root mean square move of the old landmarks in each coordinate, in percent of its range."""
    before = np.asarray(old.landmark_embedding, dtype=np.float64)
    n_old, k = before.shape
    squares = old.multiplicities @ (coordinates[:n_old, :k] - before) ** 2 / old.multiplicities.sum()
    return np.asarray(100.0 * np.sqrt(squares) / np.ptp(before, axis=0))


def _unchanged(model: LandmarkDiffusionMap, n_points: int) -> LandmarkDiffusionMap:
    k = model.n_components_
    nobody = np.zeros(n_points, dtype=bool)
    absorption = Absorption(nobody, 0, np.arange(k), np.ones(k), np.zeros(k))
    return copy.copy(model).adopt(replace(model.map_, absorption=absorption))
