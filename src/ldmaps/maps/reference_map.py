"""The finer map that landmarks are distilled from and certified against.

N² kernel fits ──► exact map of all N points
otherwise     ──► landmark map with many more landmarks
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.connectivity import (
    REACH,
    check_connected,
    check_landmarks_connected,
    is_connected,
    minimum_spanning_tree,
)
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.spectrum import Spectrum, solve_spectrum
from ldmaps.extension.embedder import Embedder
from ldmaps.extension.nystrom import nystrom_coefficients
from ldmaps.landmarks import KMedoids
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.stored import StoredPoints, StoredSquares

__all__ = ["ReferenceMap", "reference_size", "solve_reference"]

#: Landmarks of a reference that cannot have all points: for each landmark distilled, and at least.
REFERENCE_PER_LANDMARK, MIN_REFERENCE = 10, 5000
#: Medoids of a reference settle well enough in so many iterations.
REFERENCE_ITERATIONS = 3
#: Most points of an exact reference for metrics that take microseconds a pair.
SLOW_METRIC_POINTS = 2000


@dataclass(frozen=True)
class ReferenceMap:
    """A solved map over R of the N training points, ready to give coordinates of any of them.

    Attributes
    ----------
    metric : Metric
    members : Points
        The N training points.
    indices : ndarray of shape (R,)
        Which of them the map is made of, in rising order.
    points : Points
        These R points.
    epsilon, alpha, time : float
        Its settings.
    spectrum : Spectrum
        Its eigenpairs.
    multiplicities : ndarray of shape (R,)
        c.
    squared_radii : ndarray of shape (R,)
        How far each point's cell reaches; 0 for the exact map.
    """

    metric: Metric
    members: Points
    indices: NDArray[np.intp]
    points: Points
    epsilon: float
    alpha: float
    time: float
    spectrum: Spectrum
    multiplicities: NDArray[np.float64]
    squared_radii: NDArray[np.float64]

    def leading(self, n_components: int) -> ReferenceMap:
        """Return the map into the first ``n_components`` coordinates alone."""
        return replace(self, spectrum=self.spectrum.leading(n_components))

    def embedder(self) -> Embedder:
        """Return the map's own Nyström extension."""
        return Embedder.build(
            self.metric,
            self.points,
            self.epsilon,
            self.spectrum.source_weights,
            nystrom_coefficients(self.spectrum, self.time),
            self.squared_radii,
        )

    def coordinates(self, wanted: NDArray[np.intp], n_threads: int | None = None) -> NDArray[np.float64]:
        """Return λᵗψ at some training points, of shape (len(wanted), k)."""
        places, known = self._places(wanted)
        out = np.empty((len(wanted), len(self.spectrum.eigenvalues)))
        out[known] = self.spectrum.vectors[places[known]] * self.spectrum.eigenvalues**self.time
        if not known.all():
            rest = self.members.take(wanted[~known])
            out[~known] = self.embedder().extend(rest, n_threads).coordinates
        return out

    def coordinates_as_unseen(
        self, wanted: NDArray[np.intp], n_threads: int | None = None
    ) -> NDArray[np.float64]:
        """Return what Nyström would give at some training points if they were new.

        Row i of the eigenproblem reads λ ψ_i T_i = Σ_j A_ij s_j ψ_j with T_i = Σ_j A_ij s_j.
        Without the term j = i, on both sides, it is the extension to a point that lies
        there but is not counted.
        """
        out = self.coordinates(wanted, n_threads)
        places, known = self._places(wanted)
        places = places[known]
        eigenvalues, source = self.spectrum.eigenvalues, self.spectrum.source_weights[places]
        # D_i = q_i^-α T_i and s_i = c_i q_i^-α.
        total = self.spectrum.degrees[places] * self.multiplicities[places] / source
        others = np.maximum(total - source, 1e-9 * total)
        factor = (eigenvalues * total[:, None] - source[:, None]) / (eigenvalues * others[:, None])
        out[known] *= factor
        return out

    def _places(self, wanted: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        places = np.searchsorted(self.indices, wanted)
        places[places == len(self.indices)] = 0
        return places, self.indices[places] == wanted


def reference_size(
    metric: Metric, n_points: int, n_landmarks: int, itemsize: int, memory_limit: float
) -> int:
    """Return over how many points the reference is solved: all, if their kernel fits the memory limit.

    >>> from ldmaps.metrics import Euclidean
    >>> reference_size(Euclidean(), 20_000, 400, 4, 4e9), reference_size(Euclidean(), 10**6, 400, 4, 4e9)
    (20000, 5000)
    """
    most = max(2, int(math.sqrt(memory_limit / itemsize)))
    if metric.is_slow:
        most = min(most, SLOW_METRIC_POINTS)
    if n_points <= most:
        return n_points
    return min(most, max(MIN_REFERENCE, REFERENCE_PER_LANDMARK * n_landmarks))


def solve_reference(
    metric: Metric,
    members: Points,
    weights: NDArray[np.float64],
    bandwidth: Bandwidth,
    n_eigenvalues: int,
    *,
    squared: NDArray[Any] | None,
    size: int,
    alpha: float,
    time: float,
    rng: np.random.Generator,
    n_threads: int | None,
) -> ReferenceMap:
    """Solve the map over all points, or over ``size`` medoids.

    Parameters
    ----------
    squared : ndarray of shape (N, N) or None
        d² of all points, which is overwritten; None asks for medoids.
    """
    indices, points, multiplicities, radii = np.arange(len(members)), members, weights, np.zeros(len(members))
    epsilon = bandwidth.epsilon
    if squared is not None:
        if bandwidth.tree is None and not is_connected(squared, REACH**2 * epsilon):
            check_connected(minimum_spanning_tree(StoredSquares(), StoredPoints(squared)), epsilon)
    else:
        selector = KMedoids(size, max_iter=REFERENCE_ITERATIONS)
        chosen = selector.select(
            members, metric, epsilon=epsilon, weights=weights, rng=rng, n_threads=n_threads
        )
        indices, multiplicities, radii = chosen.indices, chosen.multiplicities, chosen.squared_radii
        points = members.take(indices)
        squared = squared_matrix(metric, points, n_threads=n_threads)
        check_landmarks_connected(squared, radii, epsilon, obeys_triangle=metric.is_true_metric)
    kernel = gaussian_kernel(squared, epsilon, n_threads)
    spectrum = solve_spectrum(kernel, multiplicities, n_eigenvalues, alpha=alpha, n_threads=n_threads)
    return ReferenceMap(
        metric, members, indices, points, epsilon, alpha, time, spectrum, multiplicities, radii
    )
