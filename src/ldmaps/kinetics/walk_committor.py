"""The committor of the walk over the landmarks, for points without time.

Normalised with α = ½, the walk's limit is the diffusion dx = −∇V/kT dt + √2 dW in the metric's coordinates (Coifman,
Kevrekidis, Lafon, Maggioni & Nadler 2008): it knows the free energy, not how fast each coordinate moves. With
P the walk's matrix over the M landmarks,

    q = 0 in A,    q = 1 in B,    q_i = Σ_j P_ij q_j elsewhere
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.bounded_fit import bounded_fit
from ldmaps.kinetics.sets import FrameSet, check_apart
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.kinetics.walk_modes import check_landmarks, landmark_weights
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap
from ldmaps.metrics.base import squared_matrix

#: Density normalisation at which the walk's limit is a diffusion in the free energy.
ALPHA = 0.5
#: Share of a landmark's points that must be in a set for the landmark to be.
MOSTLY = 0.5

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]


def walk_committor(model: DiffusionEstimator, X: Any, source: Any, target: Any, name: str) -> FunctionMap:
    """Return the committor between two sets by the walk alone; see :func:`ldmaps.kinetics.committor`."""
    check_landmarks(model.embedder_)
    sets = FrameSet("source", source, model), FrameSet("target", target, model)
    in_source, in_target = _landmarks_in(model, X, sets)
    check_apart(in_source, in_target, "landmarks")
    chance = chain_committor(walk_matrix(model), in_source, in_target)
    weights = landmark_weights(model.embedder_, model.map_.landmark_points, model.n_threads, prepared=True)
    counts = np.asarray(model.multiplicities_, dtype=np.float64)
    coefficients = bounded_fit(weights, chance, counts, chance, 0.0, 1.0)
    misfit = float(np.sqrt(np.average((weights @ coefficients - chance) ** 2, weights=counts)))
    shares = [float(counts[mask].sum() / counts.sum()) for mask in (in_source, in_target)]
    facts = {
        "lag": None,
        "alpha": ALPHA,
        "misfit": misfit,
        "source_share": shares[0],
        "target_share": shares[1],
    }
    lines = [
        f"committor {name} from source ({100 * shares[0]:.3g} % of the map) to target ({100 * shares[1]:.3g} %)",
        "of the walk over the landmarks alone (alpha = 1/2), without times: correct only if diffusion is equally fast "
        "in "
        "all directions of the metric; neither its error nor a rate is known",
    ]
    return FunctionMap.learned(
        model, coefficients[:, None], FunctionRecord.of("committor", [name], facts, lines)
    )


def walk_matrix(model: DiffusionEstimator) -> _Array:
    """Return P, (M, M), of the walk over the landmarks with α = ½."""
    embedder = model.embedder_
    squared = squared_matrix(embedder.metric, embedder.landmarks, n_threads=model.n_threads)
    kernel = np.asarray(gaussian_kernel(squared, embedder.epsilon, model.n_threads), dtype=np.float64)
    counts = np.asarray(model.multiplicities_, dtype=np.float64)
    density = kernel @ counts
    kernel *= counts / density**ALPHA  # the row's own density cancels
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def chain_committor(matrix: _Array, in_source: _Mask, in_target: _Mask) -> _Array:
    """Return the chance to reach the target before the source from each state of a Markov chain."""
    between = ~(in_source | in_target)
    chance = in_target.astype(np.float64)
    inner = np.eye(int(between.sum())) - matrix[np.ix_(between, between)]
    chance[between] = scipy.linalg.solve(inner, matrix[np.ix_(between, in_target)].sum(axis=1))
    return np.clip(chance, 0.0, 1.0)


def _landmarks_in(model: DiffusionEstimator, X: Any, sets: tuple[FrameSet, FrameSet]) -> tuple[_Mask, _Mask]:
    """Return which landmarks are in each set: by the region, or if most of the points nearest to one are."""
    n_landmarks = model.embedder_.n_landmarks
    here = np.asarray(model.landmark_embedding_)
    at_home = Coverage(np.zeros(n_landmarks), np.ones(n_landmarks, dtype=bool), np.arange(n_landmarks))
    found = [one.holds(slice(0, n_landmarks), here, at_home) if one.is_region else None for one in sets]
    given = [one for one in sets if not one.is_region]
    if given:
        counts, inside = np.zeros(n_landmarks), np.zeros((len(given), n_landmarks))
        n_frames = 0
        for stretch in TimeSeries(model, X, in_time=False):
            coverage = model.coverage(stretch.points)
            counts += np.bincount(coverage.nearest, minlength=n_landmarks)
            for row, one in zip(inside, given, strict=True):
                mask = one.holds(stretch.rows)
                row += np.bincount(coverage.nearest[mask], minlength=n_landmarks)
            n_frames += len(stretch.points)
        for one in given:
            one.check_length(n_frames)
        shares = iter(inside / np.maximum(counts, 1.0) > MOSTLY)
        found = [next(shares) if mask is None else mask for mask in found]
    masks = [np.asarray(mask) for mask in found]
    for one, mask in zip(sets, masks, strict=True):
        if not mask.any():
            raise InvalidInputError(f"no landmarks are in {one.name}; choose a larger set, or more landmarks")
    return masks[0], masks[1]
