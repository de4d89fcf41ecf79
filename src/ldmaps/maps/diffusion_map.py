"""The exact diffusion map over all N points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from ldmaps.errors import InvalidInputError
from ldmaps.fit.fit_map import fit_map
from ldmaps.fit.settings import FitSettings
from ldmaps.maps.function_methods import LearnsFunctions
from ldmaps.progress import reporting
from ldmaps.settings import EXACT_FIT, Limits


class DiffusionMap(LearnsFunctions):
    r"""Exact diffusion map, extended to new points by Nyström over all N points.

    .. math::
        A_{ij} = e^{-d_{ij}^2/2\epsilon}, \quad M = D^{-1} A, \quad M \psi_l = \lambda_l \psi_l

    .. math::
        \psi_l(x) = \frac{1}{\lambda_l} \frac{\sum_j A(x, x_j) \psi_l(j)}{\sum_j A(x, x_j)}

    where

    - :math:`d_{ij}` is the distance between points (eqn dmap_pair),
    - :math:`\epsilon` the bandwidth (eqn dmap_kernel) and :math:`D` the row sums (eqn dmap_norm),
    - :math:`\psi_l, \lambda_l` the right eigenvectors and eigenvalues in falling order without the trivial pair (eqn
      dmap_dmap), normalised to :math:`\psi^T\psi = 1`, the entry of largest magnitude positive.

    Parameters
    ----------
    n_components, epsilon, metric, outliers, random_state, n_threads, verbose
        See :class:`~ldmaps.LandmarkDiffusionMap`; an ε too small to connect the points is an error.
    alpha : float
        Density normalisation, 0 to 1. 0 keeps the density's influence (the paper's), ½ approximates the Fokker–Planck
        operator of the sampled density, 1 removes the density and leaves the manifold's geometry.
    diffusion_time : float
        Diffusion time: coordinates are λᵗψ. 0 is the paper's; larger shrinks the fast coordinates.
    keep_distances : bool
        Keep the N×N squared distances so that :meth:`refit` at another ε computes none again. Doubles the memory.
    solver : {"auto", "stored", "sparse", "streamed"}
        How the kernel is held. "stored" keeps all N×N entries. "sparse" keeps those above rounding, which are few
        where points fill a space much wider than √ε (never for molecules). "streamed" keeps none: a few passes
        compute all entries, multiply them by a block of vectors, and discard them. "auto" takes the quickest that
        keeps the memory of ``limits``; it measures on random rows how many entries are above rounding.
    limits : Limits or None
        Memory that solving may take, and for "streamed" the number of passes and a file to resume them from: see
        :class:`~ldmaps.Limits`. None is ``Limits()``, 4 GB and 50 passes. A :class:`~ldmaps.errors.ConvergenceWarning`
        reports that the coordinates are not accurate to 0.1 % after the last pass.

    Attributes
    ----------
    embedding_ : ndarray of shape (N, n_components_)
        λᵗψ of the training points.
    eigenvalues_, spectrum_, epsilon_, n_components_, bandwidth_, diagnosis_, embedder_
        See :class:`~ldmaps.LandmarkDiffusionMap`.
    landmark_indices_, multiplicities_
        All points (of positive weight) and their weights, for symmetry with :class:`~ldmaps.LandmarkDiffusionMap`.
    solution_ : Solution
        Which solver it was, in how many passes, and a bound on each coordinate's error.

    See Also
    --------
    LandmarkDiffusionMap : the map over M landmarks, for many points and quick projection.

    Notes
    -----
    With ``sample_weight`` c the walk is that of the data set in which point i stands c_i times, for any positive real
    c_i, and ψᵀCψ = 1. Points of weight 0 take no part in the fit and are embedded by Nyström.

    References
    ----------
    R. R. Coifman and S. Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21, 5-30 (2006).

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
        diffusion_time: float = 0.0,
        keep_distances: bool = False,
        solver: str = "auto",
        limits: Limits | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.metric = metric
        self.outliers = outliers
        self.alpha = alpha
        self.diffusion_time = diffusion_time
        self.keep_distances = keep_distances
        self.solver = solver
        self.limits = limits
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def refit(self, epsilon: float | str) -> Self:
        """Fit again at another bandwidth ``epsilon``, a rule or a number, from the distances that were kept.

        The result is that of a new fit with this ``epsilon``; the constructor's argument stays what it was.
        """
        check_is_fitted(self, "embedder_")
        kept = None if self._fit_result is None else self._fit_result.kept_distances
        if kept is None:
            raise InvalidInputError(
                "refit() needs the distances of the first fit, which were not kept; construct the map with "
                "keep_distances=True (stored kernel only), or set epsilon and fit again"
            )
        EXACT_FIT["epsilon"].check(epsilon)
        # Points that ``outliers`` left out stay so.
        settings = replace(self._fit_settings(), epsilon=epsilon, outliers=0.0)
        with reporting(bool(self.verbose)):
            return self._fitted(fit_map(kept[0], settings, squared=kept[1]))

    def _fit_settings(self) -> FitSettings:
        return FitSettings(
            is_exact=True,
            solver=self.solver,
            keep_distances=self.keep_distances,
            **self._shared_settings(),
        )
