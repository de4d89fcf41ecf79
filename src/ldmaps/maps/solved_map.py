"""The solved map: connectivity check → kernel → spectrum → embedder, in one place.

    all N points           ──► the exact map
    M landmarks, cells c   ──► the landmark map
    R ≫ M medoids, cells c ──► a reference for landmark maps where N×N is too much

All three are eigenpairs of a walk over some of the training points, and all give
coordinates of any point.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ldmaps.diffusion.connectivity import (
    REACH,
    check_connected,
    check_landmarks_connected,
    is_connected,
    minimum_spanning_tree,
)
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.spectrum import Spectrum, solve_spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.extension.nystrom import nystrom_coefficients
from ldmaps.landmarks import Landmarks
from ldmaps.maps.solution import Solution
from ldmaps.metrics.base import Points
from ldmaps.metrics.stored import StoredPoints, StoredSquares

__all__ = ["SolvedMap", "solve"]


@dataclass(frozen=True)
class SolvedMap:
    """Eigenpairs of a walk over R of the N training points.

    Attributes
    ----------
    walk : Walk
        The N training points and the walk's settings.
    indices : ndarray of shape (R,)
        Which training points the map is made of.
    points : Points
        These R points.
    multiplicities : ndarray of shape (R,)
        c.
    squared_radii : ndarray of shape (R,)
        How far each point's cell reaches; 0 where every point stands for itself.
    spectrum : Spectrum
    solution : Solution
    """

    walk: Walk
    indices: NDArray[np.intp]
    points: Points
    multiplicities: NDArray[np.float64]
    squared_radii: NDArray[np.float64]
    spectrum: Spectrum
    solution: Solution = field(default_factory=lambda: Solution("stored"))

    @property
    def error_bound(self) -> NDArray[np.float64] | None:
        """Bound on each coordinate's error in percent of its range, as :class:`Solution` has it."""
        return self.solution.error_bound

    @property
    def is_exact(self) -> bool:
        """Whether the map is made of all training points."""
        return len(self.indices) == len(self.walk.points)

    @property
    def own_coordinates(self) -> NDArray[np.float64]:
        """λᵗψ of the R points, of shape (R, k)."""
        return np.asarray(self.spectrum.vectors * self.spectrum.eigenvalues**self.walk.time)

    def leading(self, n_components: int) -> SolvedMap:
        """Return the map into the first ``n_components`` coordinates alone."""
        return replace(
            self, spectrum=self.spectrum.leading(n_components), solution=self.solution.leading(n_components)
        )

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
        places, is_own = self._places(wanted)
        out = np.empty((len(wanted), len(self.spectrum.eigenvalues)))
        out[is_own] = self.own_coordinates[places[is_own]]
        if not is_own.all():
            rest = self.walk.points.take(wanted[~is_own])
            out[~is_own] = self.embedder().extend(rest, self.walk.n_threads).coordinates
        return out

    def _places(self, wanted: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return where in the map training points stand, and whether they do."""
        order = np.argsort(self.indices, kind="stable")
        places = np.searchsorted(self.indices, wanted, sorter=order)
        places[places == len(self.indices)] = 0
        places = order[places]
        return places, self.indices[places] == wanted


def solve(
    walk: Walk,
    n_eigenvalues: int,
    landmarks: Landmarks | None = None,
    *,
    squared: Any = None,
    is_known_connected: bool = False,
) -> SolvedMap:
    """Solve the walk over all points, or over landmarks that stand for their cells.

    Parameters
    ----------
    walk : Walk
    n_eigenvalues : int
        How many pairs, fewer than there are points.
    landmarks : Landmarks, optional
        With indices into the walk's points; all points by default.
    squared : ndarray or CSR array of shape (R, R), optional
        d² between them (of a sparse one, those that matter), which becomes the kernel;
        computed by default.
    is_known_connected : bool
        Whether ε was found to hold the walk together, so that it need not be checked again.
    """
    if landmarks is None:
        indices, points = np.arange(len(walk.points)), walk.points
        multiplicities, radii = walk.weights, np.zeros(len(points))
    else:
        indices, points = landmarks.indices, walk.points.take(landmarks.indices)
        multiplicities, radii = landmarks.multiplicities, landmarks.squared_radii
    if squared is None:
        squared = squared_matrix(walk.metric, points, n_threads=walk.n_threads)
    if not is_known_connected:
        if landmarks is None:
            _check_points_connected(walk, squared)
        else:
            check_landmarks_connected(squared, radii, walk.epsilon, obeys_triangle=walk.metric.is_true_metric)
    gaussian_kernel(squared.data[None] if issparse(squared) else squared, walk.epsilon, walk.n_threads)
    spectrum = solve_spectrum(
        squared, multiplicities, n_eigenvalues, alpha=walk.alpha, n_threads=walk.n_threads
    )
    if landmarks is None:
        solver = "sparse" if issparse(squared) else "stored"
        solution = Solution(solver, error_bound=np.zeros(n_eigenvalues))
    else:
        # A walk over landmarks is another one than that over all points, by an unknown amount.
        solution = Solution("landmarks")
    return SolvedMap(walk, indices, points, multiplicities, radii, spectrum, solution)


def _check_points_connected(walk: Walk, squared: Any) -> None:
    """Raise when hops of REACH·√ε leave the points in pieces; the tree that shows the pieces is built only then."""
    if is_connected(squared, REACH**2 * walk.epsilon):
        return
    if issparse(squared):
        tree = minimum_spanning_tree(walk.metric, walk.points)
    else:
        tree = minimum_spanning_tree(StoredSquares(), StoredPoints(squared))
    check_connected(tree, walk.epsilon)
