"""The solved map: kernel → spectrum → coordinates of training points → Nyström's extension.

All N points make the exact map, M landmarks with their cells the landmark map, and R ≫ M medoids a reference for it.
Whether the walk reaches all points is asked before (:mod:`ldmaps.fit.examine`), not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, Spectrum, solve_spectrum, spectral_gap
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.extension.nystrom import nystrom_coefficients
from ldmaps.fit.fitted_map import Solution
from ldmaps.landmarks import Landmarks
from ldmaps.metrics.base import Points, squared_matrix


@dataclass(frozen=True)
class SolvedMap:
    """Eigenpairs of a walk over R of the N training points."""

    walk: Walk  # the N training points and the walk's settings
    indices: NDArray[np.intp]  # (R,): which training points the map is made of
    points: Points  # these R points
    multiplicities: NDArray[np.float64]  # (R,): c
    #: (R,): how far each point's cell reaches; 0 where every point stands for itself
    squared_radii: NDArray[np.float64]
    spectrum: Spectrum
    solution: Solution = field(default_factory=lambda: Solution("stored"))
    all_modes: SolvedMap | None = None  # with all modes that were computed, if these are some of them
    modes: NDArray[np.intp] | None = None  # which of them these are

    @property
    def is_exact(self) -> bool:
        """Whether the map is made of all training points."""
        return len(self.indices) == len(self.walk.points)

    @property
    def own_coordinates(self) -> NDArray[np.float64]:
        """λᵗψ of the R points, of shape (R, k)."""
        return np.asarray(self.spectrum.vectors * self.spectrum.eigenvalues**self.walk.time)

    @property
    def all_eigenvalues(self) -> NDArray[np.float64]:
        """All non-trivial eigenvalues of the walk that were computed, largest first."""
        return (self if self.all_modes is None else self.all_modes).spectrum.eigenvalues

    def taking(self, modes: NDArray[np.intp]) -> SolvedMap:
        """Return the map into some modes alone, as coordinates."""
        return replace(
            self,
            spectrum=self.spectrum.taking(modes),
            solution=self.solution.taking(modes),
            all_modes=self,
            modes=modes,
        )

    def leading(self, count: int) -> SolvedMap:
        """Return the map as if only the first modes had been computed."""
        first = np.arange(min(count, len(self.spectrum.eigenvalues)))
        return replace(self.taking(first), all_modes=None, modes=None)

    def embedder(self) -> Embedder:
        """Return the map's own Nyström extension."""
        step = OnlineStep(
            coefficients=nystrom_coefficients(self.spectrum, self.walk.time),
            source_weights=self.spectrum.source_weights,
            bandwidth=self.walk.epsilon,
        )
        return Embedder.build(self.walk.metric, self.points, self.walk.epsilon, step, self.squared_radii)

    def coordinates(self, wanted: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return λᵗψ at some training points, of shape (len(wanted), k)."""
        places = np.full(len(self.walk.points), -1, dtype=np.intp)
        places[self.indices] = np.arange(len(self.indices))
        places = places[wanted]
        is_own = places >= 0
        out = np.empty((len(wanted), len(self.spectrum.eigenvalues)))
        out[is_own] = self.own_coordinates[places[is_own]]
        if not is_own.all():
            rest = self.walk.points.take(wanted[~is_own])
            out[~is_own] = self.embedder().extend(rest, self.walk.n_threads).coordinates
        return out


def eigenvalues_for(n_components: int | str, n_points: int, extra: int) -> int:
    """Return how many eigenpairs to solve for, ``extra`` beyond the coordinates, or raise where points are too few."""
    most = n_points - 1
    if n_components == "gap":
        return min(most, MAX_GAP_COMPONENTS + 1)
    count = int(n_components)
    if count > most:
        raise InvalidInputError(
            Named("n_components", count),
            f" needs at least {count + 1} landmarks (the trivial eigenvector takes one), but there are "
            f"{n_points}; lower ",
            Named("n_components"),
            " or use more points or landmarks",
        )
    return min(most, count + extra)


def coordinates_for(n_components: int | str) -> int | Callable[[NDArray[np.float64]], int]:
    """Return how many coordinates were asked for, or the rule that finds their number in the eigenvalues."""
    return spectral_gap if n_components == "gap" else int(n_components)


def solve(
    walk: Walk, n_eigenvalues: int, landmarks: Landmarks | None = None, squared: Any = None
) -> SolvedMap:
    """Solve the walk over all points, or over landmarks that stand for their cells.

    ``squared`` are the d² between the points it is solved over, stored or sparse, if they are known; they are
    overwritten.
    """
    if landmarks is None:
        indices, points = np.arange(len(walk.points)), walk.points
        multiplicities, radii = walk.weights, np.zeros(len(points))
    else:
        indices, points = landmarks.indices, walk.points.take(landmarks.indices)
        multiplicities, radii = landmarks.multiplicities, landmarks.squared_radii
    if squared is None:
        squared = squared_matrix(walk.metric, points, n_threads=walk.n_threads)
    gaussian_kernel(squared.data[None] if issparse(squared) else squared, walk.epsilon, walk.n_threads)
    spectrum = solve_spectrum(
        squared, multiplicities, n_eigenvalues, alpha=walk.alpha, n_threads=walk.n_threads
    )
    # A walk over landmarks is another one than that over all points, by an unknown amount.
    solution = Solution("landmarks")
    if landmarks is None:
        solver = "sparse" if issparse(squared) else "stored"
        solution = Solution(solver, error_bound=np.zeros(n_eigenvalues))
    return SolvedMap(walk, indices, points, multiplicities, radii, spectrum, solution)
