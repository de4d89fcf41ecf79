"""The landmark diffusion map: the paper's method, and the package's headline. Half of the file is the class's text."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Distillation, resolve_extension
from ldmaps.fit.assemble import Fit
from ldmaps.fit.certify import Certificate
from ldmaps.fit.data import Data
from ldmaps.fit.settings import FitSettings
from ldmaps.fit.solve import solve
from ldmaps.inputs.opening import is_blocked
from ldmaps.maps.function_methods import LearnsFunctions
from ldmaps.maps.learned_attributes import Learned
from ldmaps.metrics import resolve_metric
from ldmaps.settings import LANDMARK_FIT, Limits
from ldmaps.validation.error_estimate import (
    EXTRA_MODES,
    ErrorEstimate,
    ErrorEstimator,
    JudgedMap,
    Reference,
    can_be_rows,
    stand_in_reference,
)


class LandmarkDiffusionMap(LearnsFunctions):
    r"""Diffusion map over M landmarks, each weighted by the points it stands for.

    .. math::
        \tilde D^{-1} \tilde A \tilde C \tilde\psi_l = \tilde\lambda_l \tilde\psi_l

    .. math::
        \tilde\psi_l(x) = \frac{1}{\tilde\lambda_l}
        \frac{\sum_j \tilde A(x, z_j) c_j \tilde\psi_l(j)}{\sum_j \tilde A(x, z_j) c_j}

    where :math:`z_j` are the landmarks, :math:`c_j` their multiplicities (the weight of the points in their Voronoi
    cells; eqns clustering, ldmap_mult), :math:`\tilde A` the Gaussian kernel between them (eqn ldmap_kernel) and
    :math:`\tilde D_{ii} = \sum_j \tilde A_{ij} c_j` (eqn ldmap_norm). With :math:`\tilde\psi^T \tilde C \tilde\psi = 1`
    the map equals the exact map of the data set in which landmark j occurs :math:`c_j` times. Projecting a point takes
    M distances and an M×k product, whatever N is.

    Parameters
    ----------
    n_components : int or "gap", default "gap"
        Number k of coordinates. "gap" takes those before the largest drop among the ten leading non-trivial
        eigenvalues, without noise and harmonics.
    epsilon : {"bulk", "local", "connected", "coifman"} or float, default "bulk"
        Bandwidth, a squared distance. A larger one smooths out detail but needs fewer landmarks. "bulk": √ε reaches
        0.5 % of the points from a typical one; isolated points are excluded from the fit (with a warning) but still
        receive coordinates, and disconnected states are kept as groups. "local": a bandwidth for each point, from the
        distance to its neighbours. "connected", the paper's: the smallest ε that connects all points. "coifman": where
        ln Σ A rises most steeply. See docs/background/theory.md.
    metric : str, Metric or callable, default "euclidean"
        "euclidean", "rmsd", "hamming", "earth_mover", "periodic", "precomputed", "affinity", an instance from
        :mod:`ldmaps.metrics`, or a function of two points.
    outliers : float, default 0
        Largest share of the points, far from all others, that may be excluded from the fit; 0 (the paper's) excludes
        none. "connected" is then the smallest ε that connects the rest. Excluded points still receive coordinates, and
        ``coverage`` reports them as outside.
    landmarks : {"kmedoids", "pst", "uniform", "farthest"}, selector or array of int, default "kmedoids"
        How landmarks are chosen (:mod:`ldmaps.landmarks`), or their indices.
    n_landmarks : int or None, default None
        M. More landmarks are more accurate and cost more per point. None takes 400 (all points, if there are fewer);
        "pst" finds the number from ε.
    tolerance : float or None, default None
        Find the fewest landmarks that keep Z of 99 % of new points below this, in percent of the coordinates' ranges:
        the root mean square of their errors, without the worst 1 %. Half of the points (at most 20,000), in blocks of
        consecutive ones, are held out to choose M and to certify the result. If none can be certified, a
        :class:`~ldmaps.errors.ToleranceError` is raised.
    extension : {"auto", "nystrom", "distilled"}, default "auto"
        How new points are projected. "nystrom" is the paper's (eqn nystrom_block): B = ψ/λ of the landmark map.
        "distilled" fits the same online step to the exact map of the training points (or, if that takes too long, to
        a map of many more landmarks), and optimises the positions of up to 200 landmarks if the metric has a gradient
        and you do not choose the landmarks: eight to over a hundred times more accurate at the same cost per point,
        for a slower fit. "auto" is "distilled" with a tolerance, else "nystrom".
    calibration : float, default 0.2
        Share of the points that are not used to choose landmarks. Their distances calibrate the p-values of
        :meth:`coverage` and the rate of false alarms; they count in everything else. A larger share supports rarer
        alarms; 0 (the paper's) calibrates nothing. Needs "kmedoids" or "uniform" with the Nyström extension; with a
        ``tolerance`` the held-out points are used, and if all points are landmarks each is compared with the others.
        Other maps, and those of over 10 million points in blocks, are not calibrated.
    alpha : float, default 0
        Density normalisation, 0 (the paper's) to 1; see :class:`~ldmaps.DiffusionMap`.
    diffusion_time : float, default 0
        Diffusion time t: coordinates are λᵗψ. 0 is the paper's.
    limits : Limits or None, default None
        Memory and passes over all pairs of points that solving the reference map may take, and a file to resume them
        from: see :class:`~ldmaps.Limits`. None is ``Limits()``, 4 GB.
    random_state : int, RandomState or None, default 0
        Seeds the choice of landmarks (and the sample of the "coifman" rule).
    n_threads : int or None, default None
        Threads for distances and products; None uses every core. Results do not depend on it.
    verbose : bool, default False
        Whether to show stages, rates and remaining time while fitting.

    Attributes
    ----------
    embedding_ : ndarray of shape (N, n_components_)
        Coordinates of all training points.
    eigenvalues_, spectrum_ : ndarray
        Non-trivial eigenvalues, largest first, of the coordinates, and all that were computed; with "distilled" those
        of the map distilled from, which are nearer to the exact ones than the landmark map's.
    epsilon_, n_components_ : float, int
        ε and k, given or found.
    bandwidth_ : Bandwidth
        How ε was found.
    certificate_ : Certificate or None
        With ``tolerance``: upper confidence bounds of Z and ζ of 99 % of new points, and Z of held-out points. None
        without, and where the reference's own error has no bound (an ``AccuracyWarning`` says so).
    distillation_, solution_ : Distillation, Solution or None
        How the weights' width and the ridge were chosen; how the map distilled from was solved, and a bound on its own
        error. None with "nystrom".
    landmark_indices_ : ndarray of shape (M,)
        Which training points are landmarks, or stand for those that a distilled map has moved between the data
        (``embedder_.landmarks``): the nearest training points of their cells. Neighbours have neighbouring indices.
    landmark_embedding_ : ndarray of shape (M, n_components_)
        Coordinates of these training points.
    multiplicities_ : ndarray of shape (M,)
        c_j.
    labels_ : ndarray of shape (N,)
        Which landmark each training point belongs to.
    groups_ : ndarray of shape (N,), or None
        Which group each training point is in, the largest being 0, where the data fall into groups without a
        transition between them; -1 for points that are left out. None where all are one group.
    diagnosis_ : Diagnosis
        How many points support each coordinate, and which decide ε.
    embedder_ : Embedder
        The part that projects new points, for lowest overhead.

    See Also
    --------
    DiffusionMap : the exact map, in which every point is a landmark.
    ldmaps.load : read a saved map.
    ldmaps.regions.find_basins : metastable states of a map.
    ldmaps.plan : predict time and memory of a fit.

    References
    ----------
    A. W. Long and A. L. Ferguson, "Landmark diffusion maps (L-dMaps)", Applied and Computational Harmonic Analysis 47,
    190-211 (2019).

    R. R. Coifman and S. Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21, 5-30 (2006).

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(2000).points
    >>> model = LandmarkDiffusionMap(n_components=2, epsilon=4.0, n_landmarks=200).fit(roll)
    >>> model.transform(roll[:5]).shape
    (5, 2)
    >>> model.coverage([[0.0, 0.0, 100.0]]).inside
    array([False])
    """

    settings = LANDMARK_FIT

    labels_ = Learned[NDArray[np.intp]]()
    distillation_ = Learned[Distillation | None](may_be_none=True)
    certificate_ = Learned[Certificate | None](may_be_none=True)
    absorption_ = Learned[Any]()

    def __init__(
        self,
        n_components: int | str = "gap",
        epsilon: float | str = "bulk",
        metric: Any = "euclidean",
        *,
        outliers: float = 0.0,
        landmarks: Any = "kmedoids",
        n_landmarks: int | None = None,
        tolerance: float | None = None,
        extension: str = "auto",
        calibration: float = 0.2,
        alpha: float = 0.0,
        diffusion_time: float = 0.0,
        limits: Limits | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.metric = metric
        self.outliers = outliers
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.tolerance = tolerance
        self.extension = extension
        self.calibration = calibration
        self.alpha = alpha
        self.diffusion_time = diffusion_time
        self.limits = limits
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @property
    def extension_(self) -> str:
        """The extension that ``extension`` stands for: "nystrom" or "distilled"."""
        return resolve_extension(self.extension, for_tolerance=self.tolerance is not None).name

    def _fit_settings(self) -> FitSettings:
        return FitSettings(
            is_exact=False,
            landmarks=self.landmarks,
            n_landmarks=self.n_landmarks,
            tolerance=self.tolerance,
            extension=self.extension,
            **self._shared_settings(),
        )

    def _prepared(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Data:
        """Check and prepare training data; those in blocks stay there until the fit needs them here."""
        metric = resolve_metric(self.metric)
        if not is_blocked(X) or metric.takes_distances:
            return super()._prepared(X, sample_weight)
        from ldmaps.fit.blocks import prepare_blocked_data

        return prepare_blocked_data(self, metric, X, sample_weight)

    def _fitted(self, fit: Fit) -> Self:
        self._error_estimator: ErrorEstimator | None = None
        return super()._fitted(fit)

    # -- errors ---------------------------------------------------------------------

    def error_estimate(self, X: ArrayLike, *, reference: ArrayLike | None = None) -> ErrorEstimate:
        """Estimate how far this map's coordinates of points are from the exact map's, without the exact map.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            New or training points.
        reference : array-like of shape (R, features), or (R, atoms, 3), optional
            Training points to measure against, all or a sample of them. By default those that ``fit`` kept: all up to
            20,000 or 32 MB, a random sample beyond. Fewer are quicker and see less; needed for a map from a file.

        Returns
        -------
        ErrorEstimate
            Per point ``change`` (landmark minus exact), its length ``sigma``, ``point_errors`` in percent of the
            coordinates' ranges, and ``sampling``, the standard error of ``sigma`` from a sample of training points. It
            costs 2R² distances the first time and R² for every further step until it settles, each point R more.

        Warns
        -----
        AccuracyWarning
            For points farther than √ε from all known ones, for coordinates that the landmark map has lost, and when
            the estimate has not settled or the reference is too small to judge.
        """
        check_is_fitted(self, "embedder_")
        points = self.embedder_.prepare(self._new_array(X))
        if reference is not None:
            given = self.embedder_.prepare(self._new_array(reference))
            self.metric_.check_compatible(points, given)
            judged = self._judged()
            return ErrorEstimator(judged, stand_in_reference(judged, given)).estimate(points)
        kept = self.kept_training_points()
        if kept is None:
            raise InvalidInputError(
                "error_estimate() needs training points, which model files do not store; pass them or a sample of them "
                "as reference=, or fit again"
            )
        self.metric_.check_compatible(points, kept.points)
        if self._error_estimator is None:
            self._error_estimator = ErrorEstimator(self._judged(), kept)
        return self._error_estimator.estimate(points)

    def kept_training_points(self) -> Reference | None:
        """Return the training points, or a sample of them, that were kept when this model was fitted; None otherwise.

        A model from a file has none, and one that absorbed points has none either.
        """
        return None if self._fit_result is None else self._fit_result.reference

    def _judged(self) -> JudgedMap:
        """Return what an error estimate must know of this map."""
        embedder = self.embedder_
        walk = Walk(
            metric=embedder.metric,
            points=embedder.landmarks,
            weights=self.multiplicities_,
            epsilon=embedder.epsilon,
            alpha=self.alpha,
            time=self.diffusion_time,
            n_threads=self.n_threads,
        )
        count = min(embedder.n_components + EXTRA_MODES, embedder.n_landmarks - 1)
        further = None
        if count > embedder.n_components and can_be_rows(embedder.landmarks):
            further = solve(walk, count).spectrum
        # A map whose file holds no embedding does not know N; then weights are taken for counts.
        embedding = self.map_.embedding
        n_training = round(float(self.multiplicities_.sum())) if embedding is None else len(embedding)
        return JudgedMap(embedder, walk, self.eigenvalues_, further, n_training)
