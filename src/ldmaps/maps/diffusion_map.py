"""The exact diffusion map over all N points."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.solver_choice import check_memory, near_fraction, sparse_bytes, stored_bytes
from ldmaps.errors import InvalidInputError
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.exact_map import Limits, solve_exact, solver_for
from ldmaps.maps.fitted_map import FittedMap, thinned_rows
from ldmaps.maps.solved_map import SolvedMap, coordinates_for, eigenvalues_for, solve
from ldmaps.maps.training import SampledMap, Training
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import stage
from ldmaps.settings import EXACT_FIT


class DiffusionMap(DiffusionEstimator):
    r"""Exact diffusion map, extended to new points by Nyström over all N points.

    .. math::
        A_{ij} = e^{-d_{ij}^2/2\epsilon}, \quad M = D^{-1} A, \quad M \psi_l = \lambda_l \psi_l, \quad
        \psi_l(x) = \frac{1}{\lambda_l} \sum_j \frac{A(x, x_j)}{\sum_m A(x, x_m)} \psi_l(j)

    where

    - :math:`d_{ij}` is the distance between points (eqn dmap_pair),
    - :math:`\epsilon` the bandwidth (eqn dmap_kernel) and :math:`D` the row sums (eqn dmap_norm),
    - :math:`\psi_l, \lambda_l` the right eigenvectors and eigenvalues in falling order without the trivial pair (eqn
      dmap_dmap), normalised to :math:`\psi^T\psi = 1`, the entry of largest magnitude positive.

    Parameters
    ----------
    n_components, epsilon, metric, outliers, random_state, n_threads, verbose
        As for :class:`~ldmaps.LandmarkDiffusionMap`; an ε too small to connect the points is an error.
    alpha : float
        Density normalisation, 0 to 1. 0 keeps the density's influence (the paper's), ½ approximates the Fokker–Planck
        operator of the sampled density, 1 removes the density and leaves the manifold's geometry.
    t : float
        Diffusion time: coordinates are λᵗψ. 0 is the paper's; larger shrinks the fast coordinates.
    keep_distances : bool
        Keep the N×N squared distances so that :meth:`refit` at another ε computes none again. Doubles the memory.
    solver : {"auto", "stored", "sparse", "streamed"}
        How the kernel is held. "stored" keeps all N×N entries. "sparse" keeps those above rounding, which are few
        where points fill a space much wider than √ε (never for molecules). "streamed" keeps none: a few passes
        compute all entries, multiply them by a block of vectors, and discard them. "auto" takes the quickest that
        keeps ``memory_limit``; it measures on random rows how many entries are above rounding.
    max_passes : int
        Passes of "streamed" after which it stops with a :class:`~ldmaps.errors.ConvergenceWarning`, if the
        coordinates are not accurate to 0.1 % by then. Molecules take two or three, spectra that crowd below 1 ten or
        more.
    resume : path or None
        A file in which "streamed" keeps its state, once per minute: an interrupted fit with the same data and the
        same file resumes where it stopped.
    memory_limit : float
        Most bytes that solving may take in addition to the points.

    Attributes
    ----------
    embedding_ : ndarray of shape (N, n_components_)
        λᵗψ of the training points.
    eigenvalues_, spectrum_, epsilon_, n_components_, bandwidth_, diagnosis_, embedder_
        As for :class:`~ldmaps.LandmarkDiffusionMap`.
    landmark_indices_, multiplicities_
        All points (of positive weight) and their weights, for symmetry with :class:`~ldmaps.LandmarkDiffusionMap`.
    solution_ : Solution
        Which solver it was, in how many passes, and a bound on each coordinate's error.

    Notes
    -----
    With ``sample_weight`` c the walk is that of the data set in which point i stands c_i times, for any positive real
    c_i, and ψᵀCψ = 1. Points of weight 0 take no part in the fit and are embedded by Nyström.

    Examples
    --------
    >>> from ldmaps import DiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> model = DiffusionMap(n_components=2, epsilon=4.0).fit(swiss_roll(1000).points)
    >>> model.embedding_.shape
    (1000, 2)
    """

    settings = EXACT_FIT

    def __init__(
        self,
        n_components: int | str = "gap",
        epsilon: float | str = "bulk",
        metric: Any = "euclidean",
        *,
        outliers: float = 0.0,
        alpha: float = 0.0,
        t: float = 0.0,
        keep_distances: bool = False,
        solver: str = "auto",
        max_passes: int = 50,
        resume: str | os.PathLike[str] | None = None,
        memory_limit: float = 4e9,
        random_state: Any = 0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.metric = metric
        self.outliers = outliers
        self.alpha = alpha
        self.t = t
        self.keep_distances = keep_distances
        self.solver = solver
        self.max_passes = max_passes
        self.resume = resume
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def _fit_training(self, training: Training, rng: np.random.Generator) -> Self:
        limits = self._limits()
        self._kept: tuple[Training, NDArray[Any]] | None = None
        members = training.members
        count = eigenvalues_for(self.n_components, len(members), extra=1)
        needed = stored_bytes(len(members), members.dtype.itemsize, count)
        bandwidth, solver = self._early_bandwidth(training), self.solver
        # Where ε takes all distances to find, they are kept if they fit.
        if self.keep_distances or (solver == "auto" and bandwidth is None and needed <= self.memory_limit):
            solver = "stored"
        if solver != "stored":
            if bandwidth is None:
                with stage("bandwidth", len(members)):
                    bandwidth = training.choose_bandwidth(self, self._generator())
            walk = training.walk(bandwidth, self)
            if solver == "auto":
                solver = solver_for(walk, count, self.memory_limit, self._generator())
            elif solver == "sparse":
                near = near_fraction(walk.metric, walk.points, walk.epsilon, self._generator())
                sparse = sparse_bytes(len(members), members.dtype.itemsize, near)
                check_memory("sparse", sparse, self.memory_limit)
            if solver != "stored":
                solved = solve_exact(walk, count, solver, limits, self._generator())
                return self._adopted(training, solved, bandwidth)
        if self.keep_distances:
            needed += float(len(members)) ** 2 * members.dtype.itemsize
        check_memory("stored", needed, self.memory_limit)
        with stage("distances", len(members), "rows"):
            squared = squared_matrix(training.metric, members, n_threads=self.n_threads)
        with stage("eigenvectors", unit=""):
            return self._solve_stored(training, squared, bandwidth)

    def refit(self, epsilon: float | str) -> Self:
        """Solve again at another bandwidth ``epsilon``, a rule or a number, from the kept distances."""
        check_is_fitted(self, "embedder_")
        kept = getattr(self, "_kept", None)
        if kept is None:
            raise InvalidInputError(
                "there are no kept distances to refit from; construct with keep_distances=True (stored kernel only), "
                "or set epsilon and fit again"
            )
        self.epsilon = epsilon
        return self._solve_stored(kept[0], kept[1], None)

    def _early_bandwidth(self, training: Training) -> Bandwidth | None:
        """Return ε where it takes few distances to find; else it is left for when all are there."""
        needs_all = self.epsilon == "connected" and not training.metric.is_euclidean
        if needs_all or (self.epsilon == "bulk" and training.metric.is_slow and training.bandwidth is None):
            return None
        return training.choose_bandwidth(self, self._generator())

    def _limits(self) -> Limits:
        """Return what solving may take, or raise where settings contradict each other."""
        if self.keep_distances and self.solver not in ("auto", "stored"):
            raise InvalidInputError(
                f'keep_distances=True needs the stored kernel; leave it or solver="{self.solver}" out'
            )
        return Limits(
            self.memory_limit, int(self.max_passes), self.resume, coordinates_for(self.n_components)
        )

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))

    def _solve_stored(self, training: Training, squared: NDArray[Any], bandwidth: Bandwidth | None) -> Self:
        if bandwidth is None:
            bandwidth = training.choose_bandwidth(self, self._generator(), squared)
        if self.keep_distances:
            self._kept = training, squared
            squared = squared.copy()
        walk = training.walk(bandwidth, self)
        solved = solve(walk, eigenvalues_for(self.n_components, len(walk.points), extra=1), squared=squared)
        return self._adopted(training, solved, bandwidth)

    def _adopted(self, training: Training, solved: SolvedMap, bandwidth: Bandwidth) -> Self:
        """Become a solved map, and embed the points of weight 0."""
        walk = solved.walk
        sampled = SampledMap.of(training, walk)
        kept = solved.kept(self.n_components, sampled)
        embedder = kept.embedder()
        own = kept.own_coordinates.astype(walk.points.dtype)
        embedding = own
        if not training.uses_all:
            embedding = np.empty((len(training.points), embedder.n_components), dtype=own.dtype)
            embedding[training.used] = own
            rest = np.setdiff1d(np.arange(len(training.points)), training.used)
            embedding[rest] = embedder.extend(training.points.take(rest), self.n_threads).coordinates
        return self._diagnosed(
            training,
            FittedMap(
                embedder=embedder,
                bandwidth=bandwidth,
                eigenvalues=kept.spectrum.eigenvalues,
                spectrum=solved.spectrum.eigenvalues,
                landmark_indices=training.used,
                landmark_embedding=own,
                multiplicities=walk.weights,
                units=training.units,
                source=training.source,
                training=training.record(thinned_rows(len(embedding), training.used), training.timed(None)),
                embedding=embedding,
                solution=kept.solution,
            ),
            sampled,
        )
