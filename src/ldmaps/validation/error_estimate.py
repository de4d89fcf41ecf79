r"""Errors of a landmark map estimated without the exact map.

A map f of any extension is held against the operator P of a reference: the training points, or a sample of them that
stands for the same cells.

    F = [1, f, further modes]                        trial functions on the reference, R×p
    H = Fᵀ W D P F,  G = Fᵀ W D F                    p×p, a tiled pass over R² pairs
    H y = μ G y                                      the best combinations of them (Rayleigh–Ritz)
    F ← [F, PFy − μFy], and the same again           a further pass, until it changes little
    ψ(x) ≈ (1/μ) Σ_j P(x, x_j) (F y)(j)              and one step of Nyström over the reference

The step damps what the trial functions lack by λ_l/λ_i, so the result is nearer to the exact map by an order than f is,
and f(x) − ψ(x) is f's error. To first order it is the expansion of :mod:`ldmaps.validation.perturbation` with the
landmark map as the unperturbed one; the small eigenproblem keeps it right where eigenvalues lie close.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ldmaps.diffusion.pairwise import apply_operator, extend
from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.landmarks.base import Landmarks
from ldmaps.metrics.base import Points
from ldmaps.user_warnings import warn
from ldmaps.validation.fidelity import column_matching, match_columns

#: Most points kept from the training set, and most bytes of features for them.
MAX_REFERENCE_POINTS = 20_000
MAX_REFERENCE_BYTES = 1 << 25
#: Modes of the landmark map beyond the k coordinates that serve as trial functions.
EXTRA_MODES = 100
#: Modes below this fraction of the last coordinate's eigenvalue are damped by Nyström's step anyway.
_LOWEST_MODE = 0.3
#: Trial functions shorter than this, and directions flatter, hold nothing but rounding.
_ZERO = 1e-11
#: Sampling errors above this share of an estimate are warned of. They may be told several times too low, and an
#: estimate that is twice or half of the truth owes 0.87 of itself, or more, to them.
MOST_NOISE = 0.3
#: Passes with residuals end when one changes the estimate by no more than this share of it, and after so many.
SETTLED, MAX_STEPS = 0.1, 6
#: Errors below this share of the coordinates' ranges are roundings, which never settle.
_NO_ERROR = 1e-6

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorEstimate:
    """Estimated differences between a map's coordinates and the exact map's.

    Attributes
    ----------
    change : ndarray of shape (n, k)
        Landmark map minus exact map, estimated. Subtract it from the coordinates for better ones.
    ranges : ndarray of shape (k,)
        max − min of each coordinate over the reference.
    inside : ndarray of bool, shape (n,)
        Whether a landmark or reference point is within √ε. Beyond that the exact map itself extrapolates.
    sampling : ndarray of shape (n,)
        Standard error of ``change``, its length; 0 where the estimate rests on all training points.
    n_reference : int
        How many points the estimate rests on.
    """

    change: NDArray[np.float64]
    ranges: NDArray[np.float64]
    inside: NDArray[np.bool_]
    sampling: NDArray[np.float64]
    n_reference: int

    def __repr__(self) -> str:
        inside = f"{np.count_nonzero(self.inside):,} of {len(self.inside):,} points inside"
        return f"ErrorEstimate(Z of {self.nrmse:.2g} %, {inside}, by {self.n_reference:,} reference points)"

    @property
    def sigma(self) -> NDArray[np.float64]:
        """σ(i) = ‖change‖ of each point, in the coordinates' units, shape (n,)."""
        return np.asarray(np.linalg.norm(self.change, axis=1))

    @property
    def point_errors(self) -> NDArray[np.float64]:
        """ζ(i) of each point in percent of the coordinates' ranges, shape (n,) (eqn zeta_error)."""
        return np.asarray(100.0 * np.linalg.norm(self.change / self.ranges, axis=1))

    @property
    def nrmse(self) -> float:
        """Z of these points in percent (eqn Z_error)."""
        return float(np.sqrt(np.mean(self.point_errors**2)))


@dataclass(frozen=True)
class JudgedMap:
    """What an estimate must know of a landmark map."""

    embedder: Embedder  # the map, of any extension
    walk: Walk  # its landmarks with their multiplicities, and the walk's settings
    eigenvalues: _Array  # (k,)
    #: Eigenpairs of the landmarks' own walk, the k coordinates' and up to EXTRA_MODES more
    landmark_spectrum: Spectrum | None
    n_training: int  # how many points the map was fitted to


@dataclass(frozen=True)
class Reference:
    """Points that stand for the training set: prepared, with weights that keep each cell's multiplicity."""

    points: Points
    weights: _Array
    #: How many points it stands for.
    n_training: int


def reference_rows(n_points: int, point_bytes: int) -> NDArray[np.intp] | None:
    """Return which of the training points stand for all in estimates of errors; None where all are kept."""
    # The draw has a generator of its own, so that keeping a reference changes no other result.
    most = min(MAX_REFERENCE_POINTS, MAX_REFERENCE_BYTES // max(1, point_bytes))
    if n_points <= most:
        return None
    return np.random.default_rng(0).choice(n_points, max(1, int(most)), replace=False)


def sample_reference(points: Points, weights: _Array, landmarks: Landmarks, n_features: int) -> Reference:
    """Keep the training points, or a bounded random sample of them, weighted cell by cell."""
    # Cells that the sample misses are represented by their landmarks.
    chosen = reference_rows(len(points), n_features * points.dtype.itemsize)
    if chosen is None:
        here = points.brought(len(points))
        return Reference(here, weights, len(points))
    count = len(landmarks.indices)
    empty = np.bincount(landmarks.cells_of(chosen), minlength=count) == 0
    chosen = np.unique(np.concatenate([chosen, landmarks.indices[empty]]))
    cells = landmarks.cells_of(chosen)
    kept = np.bincount(cells, weights=weights[chosen], minlength=count)
    scale = landmarks.multiplicities / kept
    return Reference(points.take(chosen), weights[chosen] * scale[cells], len(points))


def stand_in_reference(judged: JudgedMap, points: Points) -> Reference:
    """Weight a user's points so that each cell carries its multiplicity; empty cells are left out."""
    walk = judged.walk
    cells = judged.embedder.extend(points, walk.n_threads).nearest
    counts = np.bincount(cells, minlength=len(walk.weights))
    return Reference(points, walk.weights[cells] / counts[cells], max(judged.n_training, len(points)))


class ErrorEstimator:
    """The exact map's stand-in for one landmark map."""

    # Costs 2R² distances to make, R² more for every further step, and R a point to use; half as much more for a sample.

    def __init__(self, judged: JudgedMap, reference: Reference) -> None:
        self._judged, modes = judged, _further_modes(judged)
        self._full = _StandIn(judged, reference, modes)
        self._missing = max(0.0, 1.0 - len(reference.points) / reference.n_training)
        halves = _halves(judged, reference) if self._missing else ()
        self._halves = [_StandIn(judged, half, modes) for half in halves]

    def estimate(self, points: Points) -> ErrorEstimate:
        """Compare the map with its stand-in at prepared points."""
        full, judged = self._full, self._judged
        n_threads = judged.walk.n_threads
        ours = judged.embedder.extend(points, n_threads)
        better = full.embedder.extend(points, n_threads)
        change = ours.coordinates.astype(np.float64) - better.coordinates
        near = np.minimum(ours.squared_distance, better.squared_distance) <= judged.walk.epsilon
        # A half of a sample is as far from the sample as that is from another like it: of twice the variance, and half
        # of it the sample's own.
        squares = np.zeros((len(points), 1))
        for half in self._halves:
            squares = (
                squares + (half.embedder.extend(points, n_threads).coordinates - better.coordinates) ** 2
            )
        sampling = np.sqrt(self._missing * squares.sum(axis=1) / 2.0)
        result = ErrorEstimate(change, full.ranges, near, sampling, full.n_points)
        _warn(result, full)
        return result


class _StandIn:
    """Rayleigh–Ritz and a Nyström step over one reference."""

    def __init__(self, judged: JudgedMap, reference: Reference, modes: _Modes) -> None:
        self.n_points = len(reference.points)
        walk, eigenvalues = judged.walk, judged.eigenvalues
        metric, epsilon, n_threads = walk.metric, walk.epsilon, walk.n_threads
        points, source = reference.points, reference.weights
        k = len(eigenvalues)
        if walk.alpha:
            density, _ = apply_operator(
                metric, points, points, epsilon, source, np.empty((len(points), 0)), n_threads
            )
            source = source * density**-walk.alpha
        own = judged.embedder.extend(points, n_threads).coordinates / eigenvalues**walk.time
        further = extend(metric, points, judged.embedder.landmarks, epsilon, *modes, n_threads).coordinates
        trial = np.column_stack([np.ones(len(points)), own, further]).astype(np.float64)
        degrees, products = apply_operator(metric, points, points, epsilon, source, trial, n_threads)
        stationary = source * degrees / (source @ degrees)
        all_values, all_mixtures = _rayleigh_ritz(trial, products, stationary)
        #: What the last residuals changed, as a share of the estimate: above SETTLED, more of them would change more.
        self.last_change = np.inf
        coordinates = np.empty(0)
        for step in range(MAX_STEPS + 1):
            values, mixtures = all_values[1 : k + 1], all_mixtures[:, 1 : k + 1]
            before, coordinates = coordinates, products @ mixtures / values
            if step:
                self.last_change = _share_changed(own, before, coordinates)
            if self.last_change <= SETTLED or step == MAX_STEPS:
                break
            # What P makes of these beyond μ times themselves points to the exact map more than any mode does.
            residuals = products @ mixtures - trial @ mixtures * values
            images = apply_operator(metric, points, points, epsilon, source, residuals, n_threads)[1]
            trial, products = np.column_stack([trial, residuals]), np.column_stack([products, images])
            all_values, all_mixtures = _rayleigh_ritz(trial, products, stationary)
        order, signs = column_matching(own, coordinates)
        lengths = np.sqrt(reference.weights @ coordinates**2)
        # ψᵀCψ is 1 for the map's own total weight; the reference carries as much, cell by cell.
        lengths *= np.sqrt(walk.weights.sum() / reference.weights.sum())
        values, scale = values[order], signs / lengths[order]
        powers = values**walk.time
        coordinates = coordinates[:, order] * scale * powers
        self.ranges: _Array = np.ptp(coordinates, axis=0)
        cosines = (own * coordinates).sum(axis=0) / (
            np.linalg.norm(own, axis=0) * np.linalg.norm(coordinates, axis=0)
        )
        self.lost: NDArray[np.intp] = np.flatnonzero(cosines**2 < 0.5)
        online = OnlineStep(
            coefficients=(trial @ mixtures[:, order]) * scale * powers / values,
            source_weights=source,
            bandwidth=epsilon,
        )
        self.embedder = Embedder.build(metric, points, epsilon, online, np.zeros(len(points)))


def _halves(judged: JudgedMap, reference: Reference) -> list[Reference]:
    """Return two halves of a reference, each with the weight of every cell that it has points of."""
    cells = judged.embedder.extend(reference.points, judged.walk.n_threads).nearest
    count = judged.embedder.n_landmarks
    full = np.bincount(cells, weights=reference.weights, minlength=count)
    # By turns within each cell, in a random order.
    order = np.random.default_rng(0).permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    halves = []
    for part in (np.sort(order[::2]), np.sort(order[1::2])):
        here = np.bincount(cells[part], weights=reference.weights[part], minlength=count)
        weights = reference.weights[part] * full[cells[part]] / here[cells[part]]
        halves.append(Reference(reference.points.take(part), weights, reference.n_training))
    return halves


def _warn(result: ErrorEstimate, full: _StandIn) -> None:
    reasons = []
    if len(full.lost):
        shown = ", ".join(f"psi{index + 2}" for index in full.lost)
        reasons.append(
            f"less than half of {shown} overlaps with any coordinate of the exact map, "
            "so errors are as large as the coordinates themselves"
        )
    if full.last_change > SETTLED:
        reasons.append(
            f"its last step changed it by {full.last_change:.0%}, so it has not converged and gives an order of "
            "magnitude only; fit more landmarks"
        )
    far = int((~result.inside).sum())
    if far:
        reasons.append(
            f"{far} of {len(result.inside)} points are farther than sqrt(epsilon) from all training "
            "points, where the exact map extrapolates as well"
        )
    noise, size = (float(np.sqrt(np.mean(values**2))) for values in (result.sampling, result.sigma))
    if noise > MOST_NOISE * size:
        reasons.append(
            f"the {result.n_reference} reference points are too few: their own sampling error is "
            f"{noise / size:.0%} of the estimate, which is an order of magnitude at best; pass more of "
            "the training points as reference="
        )
    if reasons:
        warn(AccuracyWarning(f"the error estimate does not hold everywhere: {'; '.join(reasons)}"))


_Modes = tuple[NDArray[Any], NDArray[Any]]


def _further_modes(judged: JudgedMap) -> _Modes:
    """Return source weights and Nyström coefficients of the landmark map's modes after the k coordinates."""
    landmarks, k = judged.embedder.landmarks, len(judged.eigenvalues)
    spectrum, dtype = judged.landmark_spectrum, landmarks.dtype
    if spectrum is None:
        return np.ones(len(landmarks), dtype=dtype), np.empty((0, len(landmarks)), dtype=dtype)
    keep = spectrum.eigenvalues[k:] > _LOWEST_MODE * spectrum.eigenvalues[k - 1]
    modes = (spectrum.vectors / spectrum.eigenvalues)[:, k:][:, keep]
    weights = (spectrum.source_weights / spectrum.source_weights.max()).astype(dtype)
    return weights, np.ascontiguousarray(modes.T, dtype=dtype)


def can_be_rows(points: Points) -> bool:
    """Say whether distances between these points can be had; precomputed ones from a file have columns only."""
    return getattr(points, "matrix", True) is not None


def _share_changed(own: _Array, before: _Array, after: _Array) -> float:
    """Return how far coordinates moved in one step beside how far they are from the map's own, all of one length."""
    lengths = np.linalg.norm(after, axis=0)
    ranges = np.ptp(after, axis=0) / lengths
    after = after / lengths
    before, own = (match_columns(after, other / np.linalg.norm(other, axis=0)) for other in (before, own))
    last, full = (np.linalg.norm((after - other) / ranges) for other in (before, own))
    return float(last / full) if full > _NO_ERROR * np.sqrt(own.size) else 0.0


def _rayleigh_ritz(trial: _Array, products: _Array, stationary: _Array) -> tuple[_Array, NDArray[Any]]:
    """Solve H y = μ G y, largest first, in the span of trial functions that need not be independent."""
    lengths = np.sqrt(stationary @ trial**2)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > _ZERO * lengths.max())
    left = (trial * scale).T * stationary
    overlaps, axes = eigh(left @ (trial * scale))
    basis = (axes / np.sqrt(np.maximum(overlaps, _ZERO)))[:, overlaps > _ZERO]
    stiffness = basis.T @ left @ (products * scale) @ basis
    values, mixtures = eigh(0.5 * (stiffness + stiffness.T))
    return values[::-1], scale[:, None] * (basis @ mixtures[:, ::-1])
