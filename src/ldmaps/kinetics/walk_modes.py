"""The functions that everything here is a combination of: the leading modes of the walk over a map's landmarks.

    f_0(x) = 1,    f_i(x) = w(x)·ψ_i,    i = 1 … p

ψ_i being the i-th non-trivial eigenvector of the walk over the landmarks, scaled to a mean square of 1 over the points
that these stand for. As w(x) sums to 1, a combination f(x)·b is w(x)·B with B = b_0 + Ψ b: it is embedded, exported
and differentiated like any other map over these landmarks. f_i is about λ_i as large as ψ_i, so that a ridge on b
holds back the rough modes most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import squared_tile
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Embedder
from ldmaps.fit.solve import solve
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.metrics.base import Points
from ldmaps.threads import resolve_threads, run_tiles, tile_rows
from ldmaps.validation.error_estimate import can_be_rows

#: Most modes, as a pass over the frames costs with the square of their number, and the least eigenvalue of one.
MOST_MODES = 75
LEAST_EIGENVALUE = 0.01
#: Most landmarks whose walk is solved: the time grows with their cube.
MOST_LANDMARKS = 5000


@dataclass(frozen=True)
class WalkModes:
    """The leading modes of a map's walk, as functions of a point."""

    vectors: NDArray[np.float64]  # (M, p): Ψ
    embedder: Embedder  # of these p functions

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


def walk_modes(model: DiffusionEstimator, most: int = MOST_MODES, narrowing: float = 1.0) -> WalkModes:
    """Return the leading modes of a fitted map's walk over its landmarks, so many at most.

    Kernels are ``narrowing`` times as wide as the map's, in squared distance.
    """
    embedder = model.embedder_
    n_landmarks = embedder.n_landmarks
    check_landmarks(embedder)
    walk = Walk(
        metric=embedder.metric,
        points=embedder.landmarks,
        weights=model.multiplicities_,
        epsilon=narrowing * embedder.epsilon,
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
    rows = np.ascontiguousarray(vectors.T, dtype=embedder.coefficients.dtype)
    bandwidth = narrowing * embedder.bandwidth
    return WalkModes(vectors, replace(embedder, coefficients=rows, bandwidth=bandwidth))


def evaluate(modes: WalkModes, points: NDArray[Any], n_threads: int | None) -> NDArray[np.float64]:
    """Return the functions at points as they come, (n, 1 + p), the constant first."""
    embedder = modes.embedder
    ready = embedder.prepare(points)
    functions = np.empty((len(ready), modes.n_functions))
    functions[:, 0] = 1.0
    if embedder.metric.extension_scan(embedder.landmarks, _rate(embedder)) is not None:
        # Which leaves out most of many landmarks.
        functions[:, 1:] = embedder.extend(ready, n_threads).coordinates
        return functions
    # Of many functions the product is most of the work, and BLAS is quicker at it than the kernel that embeds, whose
    # bits do not depend on how many points come together.
    weights = embedder.source_weights[:, None]
    weighted = np.concatenate([weights, embedder.coefficients.T * weights], axis=1)

    def work(rows: slice, shares: NDArray[Any]) -> None:
        sums = shares @ weighted
        np.divide(sums[:, 1:], sums[:, :1], out=functions[rows, 1:])

    _for_shares(embedder, ready, n_threads, work)
    return functions


def landmark_weights(
    embedder: Embedder, points: Any, n_threads: int | None, *, prepared: bool = False
) -> NDArray[np.float64]:
    """Return w(x), (n, M): what coefficients of a function are multiplied with."""
    ready = points if prepared else embedder.prepare(points)
    found = np.empty((len(ready), embedder.n_landmarks))

    def work(rows: slice, shares: NDArray[Any]) -> None:
        weighted = np.multiply(shares, embedder.source_weights, out=found[rows])
        weighted /= weighted.sum(axis=1, keepdims=True)

    _for_shares(embedder, ready, n_threads, work)
    return found


def _for_shares(
    embedder: Embedder, points: Points, n_threads: int | None, work: Callable[[slice, NDArray[Any]], None]
) -> None:
    """Call ``work`` with rows of prepared points and exp(−d²/(2h)) to the landmarks, 1 at the nearest."""
    new, rate = embedder.metric.as_new(points), _rate(embedder)

    def on_rows(rows: slice) -> None:
        squared = squared_tile(embedder.metric, new, rows, embedder.landmarks)
        squared -= squared.min(axis=1, keepdims=True)
        kernels.gaussian(squared, rate)
        work(rows, squared)

    tile = tile_rows(embedder.n_landmarks, embedder.landmarks.dtype.itemsize, len(new))
    run_tiles(len(new), tile, on_rows, resolve_threads(n_threads))


def _rate(embedder: Embedder) -> Any:
    """Return 1/(2h), in the precision of the landmarks."""
    return embedder.landmarks.dtype.type(0.5 / embedder.bandwidth)
