"""The exact diffusion map over all N points."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth
from ldmaps.diffusion.connectivity import REACH, check_connected, is_connected, minimum_spanning_tree
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.sparse_kernel import near_fraction, sparse_squares
from ldmaps.diffusion.spatial_tree import raw_values
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.errors import InvalidInputError
from ldmaps.extension import nystrom_coefficients
from ldmaps.extension.embedder import Embedder
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.stored import StoredPoints, StoredSquares
from ldmaps.progress import stage

__all__ = ["DiffusionMap"]

#: Sparse kernels pay from this many points on, and while no more than this share of the pairs is near.
MIN_SPARSE_POINTS = 4096
MAX_SPARSE_FRACTION = 0.2


class DiffusionMap(DiffusionEstimator):
    r"""Exact diffusion map, extended to new points by Nyström over all N points.

    .. math::
        A_{ij} = e^{-d_{ij}^2/2\epsilon}, \quad M = D^{-1} A, \quad M \psi_l = \lambda_l \psi_l, \quad
        \psi_l(x) = \frac{1}{\lambda_l} \sum_j \frac{A(x, x_j)}{\sum_m A(x, x_m)} \psi_l(j)

    where

    - :math:`d_{ij}` is the distance between points (eqn dmap_pair),
    - :math:`\epsilon` the bandwidth (eqn dmap_kernel) and :math:`D` the row sums (eqn dmap_norm),
    - :math:`\psi_l, \lambda_l` the right eigenvectors and eigenvalues in falling
      order without the trivial pair (eqn dmap_dmap), normalised to :math:`\psi^T\psi = 1`,
      the entry of largest magnitude positive.

    Parameters
    ----------
    n_components : int or "gap"
        Number k of coordinates; "gap" takes those before the largest drop among the
        ten leading non-trivial eigenvalues.
    epsilon : {"connected", "coifman"} or float
        Bandwidth, a squared distance. Larger smooths detail away; too small and the
        walk falls apart, which is an error. See :func:`ldmaps.diffusion.bandwidth.choose_bandwidth`.
    metric : str, Metric or callable
        "euclidean", "rmsd", "hamming", "earth_mover", "periodic", "precomputed", an
        instance from :mod:`ldmaps.metrics`, or a function of two points.
    alpha : float
        Density normalisation, 0 to 1. 0 keeps the density's influence (the paper's),
        ½ approximates the Fokker–Planck operator of the sampled density, 1 removes
        the density and leaves the manifold's geometry.
    t : float
        Diffusion time: coordinates are λᵗψ. 0 is the paper's; larger shrinks the
        fast coordinates.
    keep_distances : bool
        Keep the N×N squared distances so that :meth:`refit` at another ε computes
        none again. Doubles the memory.
    sparse : bool or "auto"
        Whether kernel entries below rounding are dropped. "auto" does so when the
        dense kernel would need more than ``memory_limit``, or when there are many
        points and most of the entries are that small.
    memory_limit : float
        Most bytes for the kernel before "auto" turns sparse.
    random_state : int, RandomState or None
        Only the "coifman" rule on more than 4,000 points draws at random.
    n_threads : int or None
        Threads for distances and products; None uses every core. Results do not
        depend on it.
    verbose : bool
        Whether to show stages, rates and remaining time while fitting.

    Attributes
    ----------
    embedding_ : ndarray of shape (N, n_components_)
        λᵗψ of the training points.
    eigenvalues_ : ndarray of shape (n_components_,)
        Non-trivial eigenvalues, largest first.
    spectrum_ : ndarray
        All non-trivial eigenvalues that were computed.
    epsilon_ : float
    n_components_ : int
    bandwidth_ : Bandwidth
        How ε was found.
    landmark_indices_, multiplicities_
        All points (of positive weight) and their weights, for symmetry with
        :class:`~ldmaps.LandmarkDiffusionMap`.
    embedder_ : Embedder
        The frozen part that embeds, for lowest overhead.

    Notes
    -----
    With ``sample_weight`` c the walk is that of the data set in which point i stands
    c_i times, for any positive real c_i, and ψᵀCψ = 1. Points of weight 0 take no
    part and are embedded by Nyström.

    Examples
    --------
    >>> from ldmaps import DiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> model = DiffusionMap(n_components=2, epsilon=4.0).fit(swiss_roll(1000).points)
    >>> model.embedding_.shape
    (1000, 2)
    """

    def __init__(
        self,
        n_components: int | str = "gap",
        epsilon: float | str = "connected",
        metric: Any = "euclidean",
        *,
        alpha: float = 0.0,
        t: float = 0.0,
        keep_distances: bool = False,
        sparse: bool | str = "auto",
        memory_limit: float = 4e9,
        random_state: Any = 0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.metric = metric
        self.alpha = alpha
        self.t = t
        self.keep_distances = keep_distances
        self.sparse = sparse
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def _fit(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        points, weights, used = self._training_points(X, sample_weight)
        self._squared: NDArray[Any] | None = None
        self._points, self._weights, self._used = points, weights, used
        members = points if len(used) == len(points) else points.take(used)
        bandwidth = self._early_bandwidth(members)
        if self._is_sparse(members, bandwidth):
            with stage("near pairs and eigenvectors", unit="rows"):
                self._solve_sparse(members, bandwidth)
        else:
            with stage("distances", len(members), "rows"):
                squared = squared_matrix(self.metric_, members, n_threads=self.n_threads)
            with stage("eigenvectors", unit="rows"):
                self._solve_dense(members, squared, bandwidth)
        if not self.keep_distances:
            del self._points
        return self

    def refit(self, epsilon: float | str) -> Self:
        """Solve again at another bandwidth, from the kept distances.

        Parameters
        ----------
        epsilon : {"connected", "coifman"} or float
        """
        check_is_fitted(self, "embedder_")
        if getattr(self, "_squared", None) is None:
            raise InvalidInputError(
                "there are no kept distances to refit from; construct with keep_distances=True (dense kernel only), "
                "or set epsilon and fit again"
            )
        self.epsilon = epsilon
        squared = self._squared
        assert squared is not None
        points = self._points
        members = points if len(self._used) == len(points) else points.take(self._used)
        self._solve_dense(members, squared, None)
        return self

    def _early_bandwidth(self, members: Points) -> Bandwidth | None:
        """Return ε where it takes few distances to find; else it is left for when all are there."""
        if self.epsilon == "connected" and raw_values(self.metric_, members) is None:
            return None
        return self._bandwidth(self.metric_, members)

    def _is_sparse(self, members: Points, bandwidth: Bandwidth | None) -> bool:
        if self.sparse != "auto":
            if not isinstance(self.sparse, (bool, np.bool_)):
                raise InvalidInputError(f'sparse must be True, False or "auto", got {self.sparse!r}')
            return bool(self.sparse)
        if self.keep_distances:
            return False
        n = len(members)
        if n * n * members.dtype.itemsize > self.memory_limit:
            return True
        if bandwidth is None or n < MIN_SPARSE_POINTS:
            return False
        return near_fraction(self.metric_, members, bandwidth.epsilon) < MAX_SPARSE_FRACTION

    def _bandwidth(self, metric: Metric, members: Points) -> Bandwidth:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return choose_bandwidth(self.epsilon, metric, members, self._weights[self._used], rng, self.n_threads)

    def _solve_dense(self, members: Points, squared: NDArray[Any], bandwidth: Bandwidth | None) -> None:
        stored = StoredPoints(squared)
        if bandwidth is None:
            bandwidth = self._bandwidth(StoredSquares(), stored)
        if bandwidth.tree is None and not is_connected(squared, REACH**2 * bandwidth.epsilon):
            check_connected(minimum_spanning_tree(StoredSquares(), stored), bandwidth.epsilon)
        if self.keep_distances:
            self._squared = squared
            squared = squared.copy()
        self._solve(members, gaussian_kernel(squared, bandwidth.epsilon, self.n_threads), bandwidth)

    def _solve_sparse(self, members: Points, bandwidth: Bandwidth | None) -> None:
        if self.keep_distances:
            raise InvalidInputError(
                "keep_distances=True needs the dense kernel; set sparse=False or leave it out"
            )
        if bandwidth is None:
            bandwidth = self._bandwidth(self.metric_, members)
        squares = sparse_squares(self.metric_, members, bandwidth.epsilon, self.n_threads)
        if bandwidth.tree is None and not is_connected(squares, REACH**2 * bandwidth.epsilon):
            check_connected(minimum_spanning_tree(self.metric_, members), bandwidth.epsilon)
        gaussian_kernel(squares.data[None], bandwidth.epsilon, self.n_threads)
        self._solve(members, squares, bandwidth)

    def _solve(self, members: Points, kernel: Any, bandwidth: Bandwidth) -> None:
        weights = self._weights[self._used]
        count = self._n_eigenvalues(len(members), extra=1)
        spectrum = solve_spectrum(kernel, weights, count, alpha=self.alpha, n_threads=self.n_threads)
        del kernel
        leading = self._keep_spectrum(spectrum, members.dtype)
        self.bandwidth_ = bandwidth
        self.epsilon_ = bandwidth.epsilon
        self.landmark_indices_ = self._used
        self.multiplicities_ = weights
        self.embedder_ = Embedder.build(
            self.metric_,
            members,
            bandwidth.epsilon,
            leading.source_weights,
            nystrom_coefficients(leading, self.t),
            np.zeros(len(members)),
        )
        self._record(self._weights)
        own = (leading.vectors * leading.eigenvalues**self.t).astype(members.dtype)
        self.landmark_embedding_ = own
        if len(self._used) == len(self._weights):
            self.embedding_ = own
        else:
            self.embedding_ = np.empty((len(self._weights), self.n_components_), dtype=members.dtype)
            self.embedding_[self._used] = own
            rest = np.setdiff1d(np.arange(len(self._weights)), self._used)
            self.embedding_[rest] = self.embedder_.extend(self._points.take(rest), self.n_threads).coordinates
