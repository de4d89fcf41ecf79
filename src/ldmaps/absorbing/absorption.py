"""Absorbing: a landmark map takes in points it did not cover, without its training points. See docs/guide/extending.md.

points ──► cover: new landmarks ──► walk over all landmarks, its modes turned to the old coordinates ──► coefficients
of the new landmarks; the old ones keep their places (first, in their order), multiplicities and coefficients
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ldmaps.absorbing.landmark_cover import choose_landmarks, grow_cells
from ldmaps.absorbing.old_points import apart_from, choose_old_points
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, check_extensible
from ldmaps.diffusion.walk import REACH, Walk, minimum_spanning_tree
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named
from ldmaps.extension import Embedder, OnlineStep
from ldmaps.fit.data import LARGEST_WEIGHT
from ldmaps.fit.solve import solve
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics.base import Points
from ldmaps.settings import check_whole
from ldmaps.user_warnings import warn
from ldmaps.validation.fidelity import SAME_SHARE, in_common, turn_modes

#: Landmarks that must agree for each mode of the walk that a coordinate may be matched to.
LANDMARKS_PER_MODE = 4
#: Old points move by at most so many percent of a coordinate's range.
STAYS, MOST_HALVINGS = 0.5, 20
#: Coordinates that are farther than this (Z in percent) from those of a fresh walk are worth a fresh fit.
FAR_APART = 10.0
#: Old landmarks that a new one goes on from.
BORDER_LANDMARKS = 3

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
        Share of each old coordinate's variance, over the old landmarks, that its mode of the new walk explains: 1
        where only sign, scale or origin had changed; NaN for a further one.
    moved : ndarray of shape (k,)
        Root mean square move of the old points in each old coordinate, in percent of its range.
    measured_on : {"points", "landmarks"}
        Which old points that was measured on: those given as ``old_points`` or kept by a model since it was fitted, or
        the landmarks alone, between which points can move several times as far.
    apart : float
        How far the coordinates are from those of a fresh walk over all landmarks, as Z in percent after the best linear
        map between them: what a fresh fit would gain.
    """

    absorbed: NDArray[np.bool_]
    n_new_landmarks: int
    modes: NDArray[np.intp]
    in_common: _Array
    moved: _Array
    measured_on: str = "landmarks"
    apart: float = 0.0

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
    keep_coordinates: bool = True,
    old_points: ArrayLike | None = None,
) -> LandmarkDiffusionMap:
    """Return a map that also covers ``points``; the given one is not changed.

    Parameters
    ----------
    model : LandmarkDiffusionMap
        Fitted, or read from a file.
    points : array-like of shape (n, features), or (n, atoms, 3) for frames
        Points to absorb, such as ``reservoir.points``. Points outside the domain are covered by new landmarks; points
        inside add to the multiplicities.
    weights : array-like of shape (n,), optional
        How many points each stands for, such as ``reservoir.weights``; 1 by default.
    counts : array-like of shape (≤ M,), optional
        How many further points inside the domain each landmark was nearest to, such as ``reservoir.counts``; added to
        the multiplicities. Without them new places get more than their share of the mass, which distorts the map.
    spacing : float, optional
        Farthest that a new point may be from its landmark, in units of √ε, at most 1. By default as dense as the map
        is: the median distance between neighbouring landmarks.
    max_landmarks : int, optional
        Most landmarks that the new map may have. If the cover needs more, it is made coarser, and a landmark's domain
        reaches as far as its points.
    disconnected : {"raise", "leave"}
        What to do about points that the random walk cannot reach in hops of 5√ε: raise :class:`UnreachableError`, or
        leave them out and say so in ``absorption_.absorbed``.
    new_components : int
        How many further coordinates to add: the slowest modes of the new map that are none of the old coordinates,
        such as the passage to a newly found basin.
    keep_coordinates : bool
        Whether old coordinates stay. False gives the coordinates that a Nyström fit over all landmarks would (slowest
        mode first, ψᵀCψ = 1).
    old_points : array-like of shape (m, features), or (m, atoms, 3) for frames, optional
        Points that the map was fitted to, or others like them, to measure on how far old points move. A model that was
        fitted in this process has kept its own; a model from a file has only its landmarks, which move least.

    Returns
    -------
    LandmarkDiffusionMap
        Fitted; ``absorption_`` reports what was done and how far old points moved: mostly less than 1 % of a
        coordinate's range (docs/guide/extending.md has a table). Training points' coordinates (``embedding_``) and the
        certificate of a tolerance are not carried over.

    Warns
    -----
    AccuracyWarning
        When no mode of the new walk has half in common with a coordinate, which then hardly tells new points apart;
        when the new map has slower modes than those kept; and when the coordinates are more than 10 % (Z) apart from
        those of a fresh walk, because the points fill a hole or close a ring.

    See Also
    --------
    ldmaps.streaming.Reservoir : collects the points outside a map from a stream.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000)
    >>> known = roll.position < 13
    >>> model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=200).fit(roll.points[known])
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
    changed = _changed(
        model, landmarks, multiplicities, int(new_components), keep_coordinates=keep_coordinates
    )
    step, eigenvalues = changed.step, changed.eigenvalues
    representatives = model.map_.representatives
    if representatives is not None and len(chosen):
        representatives = model.metric_.joined(representatives, prepared.take(chosen))
    shown = landmarks if representatives is None else representatives
    old = choose_old_points(model, old_points)
    for _ in range(MOST_HALVINGS):
        grown = Embedder.build(model.metric_, landmarks, model.epsilon_, step, radii)
        moved = old.moved(grown, model.n_threads)
        if not keep_coordinates or moved.max() <= STAYS:
            break
        # Wide cells reach far: the lighter new landmarks are, the less they change old places around them.
        lighter = np.where(np.arange(len(landmarks)) < embedder.n_landmarks, 1.0, 0.5)
        step = replace(step, source_weights=step.source_weights * lighter)
    coordinates = grown.extend(shown, model.n_threads).coordinates
    n_old = embedder.n_components
    apart = (
        apart_from(changed.psi[:, changed.modes[:n_old]], coordinates, multiplicities)
        if keep_coordinates
        else 0.0
    )
    # With more landmarks the held-out points are nearer than they were, so that no p is too small.
    grown = replace(grown, calibration=embedder.calibration)
    absorption = Absorption(
        reached, len(chosen), changed.modes, changed.in_common, moved, old.measured_on, apart
    )
    check_extensible(np.sort(eigenvalues)[::-1], landmarks.dtype)
    _warn(absorption, changed.walk_eigenvalues, n_old)
    fitted = model.map_
    # Numbered on behind the training points, which are numbered from 0.
    first = int(fitted.landmark_indices.max()) + 1 if fitted.embedding is None else len(fitted.embedding)
    # What is said of the training points, or was by other landmarks.
    gone: dict[str, Any] = dict.fromkeys(
        ("training", "embedding", "labels", "distillation", "certificate", "sampling")
    )
    return _like(model, len(eigenvalues)).adopt(
        replace(
            fitted,
            embedder=grown,
            eigenvalues=eigenvalues,
            spectrum=changed.spectrum,
            landmark_indices=np.concatenate([fitted.landmark_indices, first + chosen]),
            landmark_embedding=coordinates,
            multiplicities=multiplicities,
            representatives=representatives,
            absorption=absorption,
            **gone,
        )
    )


# -- checking ------------------------------------------------------------------


def _check(
    model: Any, spacing: float | None, max_landmarks: int | None, disconnected: str, new_components: int
) -> None:
    if not isinstance(model, LandmarkDiffusionMap):
        raise InvalidInputError(
            f"absorb takes a LandmarkDiffusionMap, got {type(model).__name__}; fit one, with n_landmarks"
        )
    check_is_fitted(model, "embedder_")
    if model.metric_.takes_distances:
        raise InvalidInputError(
            "a map of precomputed distances cannot absorb points: the distances between new points are not known; "
            "fit again to the distances of all points"
        )
    if model.metric_.has_local_scales:
        raise InvalidInputError(
            "a map that has a bandwidth for each point cannot absorb points, because new points change the bandwidths "
            "of their neighbours; fit again to all points"
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
            f"got shape {given.shape}; they must come from a reservoir that was filled with this map"
        )
    return np.pad(given, (0, n_landmarks - len(given)))


# -- the walk over old and new landmarks ------------------------------------------


@dataclass(frozen=True)
class _Changed:
    """The walk over all landmarks, and how its modes continue the old coordinates."""

    step: OnlineStep
    eigenvalues: _Array  # of the coordinates
    spectrum: _Array
    walk_eigenvalues: _Array  # of the walk's own modes, the slowest first
    psi: _Array  # these modes at all landmarks
    modes: NDArray[np.intp]  # which of them each coordinate goes with
    in_common: _Array


def _changed(
    model: LandmarkDiffusionMap, landmarks: Points, weights: _Array, n_further: int, *, keep_coordinates: bool
) -> _Changed:
    """Solve the walk over all landmarks, and give the new ones coefficients that go with the old coordinates."""
    embedder, k, n_old = model.embedder_, model.n_components_, model.embedder_.n_landmarks
    # A distilled map may have its landmarks too far apart for its ε.
    joining = minimum_spanning_tree(model.metric_, landmarks).connecting_epsilon
    epsilon = max(model.epsilon_, joining / REACH**2)
    walk = Walk(
        metric=model.metric_,
        points=landmarks,
        weights=weights,
        epsilon=epsilon,
        alpha=model.alpha,
        time=model.diffusion_time,
        n_threads=model.n_threads,
    )
    # A few modes more than asked for, as an old coordinate may stand behind new ones now; but a few landmarks agree
    # with one of many modes by chance.
    count = max(k + n_further, min(k + n_further + MAX_GAP_COMPONENTS, n_old // LANDMARKS_PER_MODE))
    solved = solve(walk, min(count, len(landmarks) - 1)).spectrum
    # Modes beyond those asked for may have eigenvalues of zero, which no power but 0 bears.
    tiny = np.finfo(np.float64).tiny
    psi, values = solved.vectors * (solved.eigenvalues > 0), np.abs(solved.eigenvalues) + tiny
    said = embedder.extend(landmarks, model.n_threads).coordinates.astype(np.float64)
    known, growth = model.multiplicities_, float(np.sqrt(weights.sum() / model.multiplicities_.sum()))
    powers = values**walk.time
    turn = turn_modes(said[:n_old], psi[:n_old] * powers, values, known, powers, growth)
    mixture, shift = turn.mixture, turn.shift
    turned = (psi * powers) @ mixture + shift
    common = in_common(said[:n_old], turned[:n_old], known)
    eigenvalues, spectrum, scale = model.eigenvalues_, model.spectrum_, growth
    if not keep_coordinates:
        mixture, shift, scale = np.eye(len(values), k), np.zeros(k), 1.0
        eigenvalues, spectrum = solved.eigenvalues[:k], solved.eigenvalues
    modes = np.abs(mixture).argmax(axis=0)
    free = np.setdiff1d(np.arange(len(values)), modes)[:n_further]
    nystrom = psi * values ** (walk.time - 1.0)
    coefficients = np.column_stack([nystrom @ mixture + shift, scale * nystrom[:, free]])
    sources, width = solved.source_weights, epsilon
    if keep_coordinates:
        # Old landmarks stay as they are, and new ones go on from the border. Where that is, the walk knows: the old
        # landmark nearest in space may be on another sheet.
        at = (psi * powers)[:, : modes.max() + 1]
        away, border = KDTree(at[:n_old]).query(at[n_old:], k=range(1, min(BORDER_LANDMARKS, n_old) + 1))
        near = 1.0 / (away + tiny)
        near = (near / near.sum(axis=1, keepdims=True))[:, :, None]
        coefficients[n_old:, :k] += (near * (said - turned)[border]).sum(axis=1)
        coefficients[:n_old, :k] = embedder.coefficients.T
        lost = np.flatnonzero(common < SAME_SHARE)
        coefficients[n_old:, lost] = (near * said[border]).sum(axis=1)[:, lost]
        share = np.median(embedder.source_weights / sources[:n_old])
        sources = np.concatenate([embedder.source_weights, share * sources[n_old:]])
        width = embedder.bandwidth
    further = solved.eigenvalues[free]
    step = OnlineStep(coefficients=coefficients, source_weights=sources, bandwidth=width)
    spectrum = np.sort(np.append(spectrum, further))[::-1] if keep_coordinates else spectrum
    modes, common = np.append(modes, free), np.append(common, np.full(len(free), np.nan))
    return _Changed(
        step=step,
        eigenvalues=np.append(eigenvalues, further),
        spectrum=spectrum,
        walk_eigenvalues=solved.eigenvalues,
        psi=psi,
        modes=modes,
        in_common=common,
    )


def _like(model: LandmarkDiffusionMap, n_components: int) -> LandmarkDiffusionMap:
    """Return an estimator with the same settings and features."""
    result = cast(LandmarkDiffusionMap, clone(model))
    if result.n_components != "gap":
        result.n_components = n_components
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(result, name, getattr(model, name))
    return result


def _warn(absorption: Absorption, slow: _Array, n_old: int) -> None:
    reasons = []
    common, modes = absorption.in_common[:n_old], absorption.modes
    different = np.flatnonzero(common < SAME_SHARE)
    if len(different):
        shown = ", ".join(f"{index + 1} ({common[index]:.0%})" for index in different)
        reasons.append(
            f"coordinate {shown} overlaps by less than half with every eigenvector of the extended map, so it does not "
            "resolve the new points; fit again to old and new data, or with more landmarks"
        )
    slower = np.setdiff1d(np.arange(modes.max(initial=0)), modes)
    remedy: tuple[Any, ...] = ()
    if len(slower) and not len(different):
        shown = ", ".join(f"{slow[mode]:.4g}" for mode in slower)
        reasons.append(
            f"{len(slower)} of the slowest modes of the extended map (eigenvalue {shown}) are not among its "
            "coordinates"
        )
        remedy = "; ", Named("new_components", len(slower)), " adds the missing ones"
    if not reasons and absorption.apart > FAR_APART:
        reasons.append(
            f"the old coordinates, which were kept, differ by Z = {absorption.apart:.2g} % from those that a fresh fit "
            "to old and new data would have, as happens when the new points fill a hole or close a ring; fit again"
        )
    if reasons:
        warn(
            AccuracyWarning(
                "the absorbed points change which motions are slow: ", "; ".join(reasons), *remedy
            )
        )


def _unchanged(model: LandmarkDiffusionMap, n_points: int) -> LandmarkDiffusionMap:
    k, nobody = model.n_components_, np.zeros(n_points, dtype=bool)
    absorption = Absorption(nobody, 0, np.arange(k), np.ones(k), np.zeros(k))
    return copy.copy(model).adopt(replace(model.map_, absorption=absorption))
