"""The functions that everything here is a combination of: the leading modes of the walk over a map's landmarks.

    f_0(x) = 1,    f_i(x) = w(x)·ψ_i,    i = 1 … p

ψ_i being the i-th non-trivial eigenvector of the walk over the landmarks, scaled to a mean square of 1 over the points
that these stand for. As w(x) sums to 1, a combination f(x)·b is w(x)·B with B = b_0 + Ψ b: it is embedded, exported
and differentiated like any other map over these landmarks. f_i is about λ_i as large as ψ_i, so that a ridge on b
holds back the rough modes most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.fit.solve import solve
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.validation.error_estimate import can_be_rows

#: Most modes, and the least eigenvalue of one.
MOST_MODES = 100
LEAST_EIGENVALUE = 0.01
#: Most landmarks whose walk is solved: the time grows with their cube.
MOST_LANDMARKS = 5000


@dataclass(frozen=True)
class WalkModes:
    """The leading modes of a map's walk, as functions of a point."""

    vectors: NDArray[np.float64]  # (M, p): Ψ
    embedder: Embedder  # of p functions and then of the map's own k coordinates

    @property
    def n_functions(self) -> int:
        """Number of functions, 1 + p."""
        return int(self.vectors.shape[1]) + 1

    def coefficients(self, combination: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return B, (M, c), of combinations b, (n, c), of the first n functions."""
        used = len(combination)
        return np.asarray(combination[0] + self.vectors[:, : used - 1] @ combination[1:])


def check_landmarks(embedder: Embedder) -> None:
    """Raise where the walk over the landmarks cannot be solved."""
    n_landmarks = embedder.n_landmarks
    if n_landmarks > MOST_LANDMARKS:
        raise InvalidInputError(
            f"the map has {n_landmarks:,} landmarks, more than the {MOST_LANDMARKS:,} whose random walk is solved "
            "here; fit a LandmarkDiffusionMap with fewer landmarks (400 are usual)"
        )
    if not can_be_rows(embedder.landmarks):
        raise InvalidInputError(
            "the distances between the landmarks are not known (a map of precomputed distances, loaded from a file); "
            "fit the map again"
        )


def walk_modes(model: DiffusionEstimator, most: int = MOST_MODES) -> WalkModes:
    """Return the leading modes of a fitted map's walk over its landmarks, so many at most."""
    embedder = model.embedder_
    n_landmarks = embedder.n_landmarks
    check_landmarks(embedder)
    walk = Walk(
        metric=embedder.metric,
        points=embedder.landmarks,
        weights=model.multiplicities_,
        epsilon=embedder.epsilon,
        alpha=model.alpha,
        n_threads=model.n_threads,
    )
    spectrum = solve(walk, min(most, n_landmarks - 1)).spectrum
    kept = spectrum.eigenvalues > LEAST_EIGENVALUE
    if not kept.any():
        raise InvalidInputError(
            "the walk over the landmarks has no slow mode; fit the map with a smaller epsilon"
        )
    vectors = spectrum.vectors[:, kept] * np.sqrt(model.multiplicities_.sum())
    both = np.concatenate([vectors.T, np.asarray(embedder.coefficients, dtype=np.float64)])
    dtype = embedder.coefficients.dtype
    return WalkModes(vectors, replace(embedder, coefficients=np.ascontiguousarray(both, dtype=dtype)))


@dataclass(frozen=True)
class Evaluated:
    """Functions at some points, and where these are."""

    functions: NDArray[np.float64]  # (n, 1 + p), the constant first
    coordinates: NDArray[Any]  # (n, k): on the map
    coverage: Coverage


def evaluate(modes: WalkModes, points: NDArray[Any], n_threads: int | None) -> Evaluated:
    """Return the functions and the map's coordinates at points as they come."""
    extended = modes.embedder.extend(modes.embedder.prepare(points), n_threads)
    found, n_modes = extended.coordinates, modes.vectors.shape[1]
    functions = np.empty((len(found), n_modes + 1))
    functions[:, 0] = 1.0
    functions[:, 1:] = found[:, :n_modes]
    return Evaluated(functions, found[:, n_modes:], modes.embedder.coverage_of(extended))


def landmark_weights(
    embedder: Embedder, points: Any, n_threads: int | None, *, prepared: bool = False
) -> NDArray[np.float64]:
    """Return w(x), (n, M): what coefficients of a function are multiplied with."""
    identity = np.eye(embedder.n_landmarks, dtype=embedder.coefficients.dtype)
    own = replace(embedder, coefficients=identity)
    ready = points if prepared else own.prepare(points)
    return np.asarray(own.extend(ready, n_threads).coordinates, dtype=np.float64)
