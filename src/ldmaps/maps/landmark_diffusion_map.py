"""The landmark diffusion map: the paper's method, and the package's headline. Half of the file is the class's text."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.extension import Distillation, Extension, resolve_extension
from ldmaps.extension.calibration import FEWEST_HELD, held_out_rows, is_worth_it, memory_of
from ldmaps.inputs.opening import is_blocked
from ldmaps.landmarks import Given, LandmarkSelector, resolve_selector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS, PointsElsewhere
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.exact_map import REFERENCE_EXTRA, Limits, reference_passes, reference_size, solve_reference
from ldmaps.maps.fitted_map import FittedMap, Learned
from ldmaps.maps.solved_map import (
    LandmarkFit,
    SolvedMap,
    coordinates_for,
    eigenvalues_for,
    select_landmarks,
    solve,
)
from ldmaps.maps.tolerance import Certificate, hold_out
from ldmaps.maps.tolerance_search import ToleranceSearch, check_number_is_free
from ldmaps.maps.training import MOST_ELSEWHERE, SampledMap, Training
from ldmaps.metrics import resolve_metric
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import stage
from ldmaps.quality.error_estimate import (
    EXTRA_MODES,
    ErrorEstimate,
    ErrorEstimator,
    JudgedMap,
    Reference,
    can_be_rows,
    stand_in_reference,
)
from ldmaps.settings import LANDMARK_FIT


class LandmarkDiffusionMap(DiffusionEstimator):
    r"""Diffusion map over M landmarks, each weighted by the points it stands for.

    .. math::
        \tilde D^{-1} \tilde A \tilde C \tilde\psi_l = \tilde\lambda_l \tilde\psi_l, \qquad
        \tilde\psi_l(x) = \frac{1}{\tilde\lambda_l}
        \sum_j \frac{\tilde A(x, z_j) c_j}{\sum_m \tilde A(x, z_m) c_m} \tilde\psi_l(j)

    where :math:`z_j` are the landmarks, :math:`c_j` their multiplicities, the weight of the points in their Voronoi
    cells (eqns clustering, ldmap_mult), :math:`\tilde A` the Gaussian kernel between them (eqn ldmap_kernel) and
    :math:`\tilde D_{ii} = \sum_j \tilde A_{ij} c_j` (eqn ldmap_norm). With :math:`\tilde\psi^T \tilde C \tilde\psi = 1`
    the map equals the exact one of the data set in which landmark j stands :math:`c_j` times. Embedding a point takes
    M distances and an M×k product for any N.

    Parameters
    ----------
    n_components : int or "gap"
        Number k of coordinates; "gap" takes those before the largest drop among the ten leading non-trivial
        eigenvalues, at least two.
    epsilon : {"bulk", "connected", "coifman"} or float
        Bandwidth, a squared distance. Larger smooths detail away but needs fewer landmarks. "bulk" reaches 0.5 % of
        the points from a typical one, the same for any part of the data; points that no hop reaches are left out of
        the walk, with a warning, and embedded. "connected", the paper's, takes N rows of distances, the others a
        sample. See docs/method.md.
    metric : str, Metric or callable
        "euclidean", "rmsd", "hamming", "earth_mover", "periodic", "precomputed", an instance from
        :mod:`ldmaps.metrics`, or a function of two points.
    outliers : float
        Largest share of the points, far from all others, that the walk may leave out; 0 (the paper's) is none.
        "connected" is then the smallest ε that joins the rest. They are embedded, and ``coverage`` says outside.
    landmarks : {"kmedoids", "pst", "uniform", "farthest"}, selector or array of int
        How landmarks are chosen, see :mod:`ldmaps.landmarks`, or which they are.
    n_landmarks : int or None
        M. More are more accurate and cost more per point. None takes 400 (all points, when there are fewer); "pst"
        finds the number from ε.
    tolerance : float or None
        Z on unseen points, in percent of the coordinates' ranges, that the map must keep with the fewest landmarks.
        Half of the points (20,000 at most) are held out for it, in blocks of consecutive ones, and only embedded.
        What cannot be certified is a :class:`~ldmaps.errors.ToleranceError`.
    extension : {"auto", "nystrom", "distilled"}
        How points between landmarks get coordinates; "auto" is "nystrom", or "distilled" for a tolerance. "nystrom" is
        the paper's (eqn nystrom_block): B = ψ/λ of the landmark map. "distilled" fits the same online step to the exact
        map of the training points, or where that takes too long to one of many more landmarks, and moves up to 200
        landmarks off the data where the metric has a gradient and you do not name them: eight to over a hundred times
        more accurate at the same cost per point, for a slower fit.
    calibration : float
        Share of the points that no landmark is chosen from, so that their distances tell how far new points like them
        are: the p-values of :meth:`coverage` and the rate of false alarms. They count in everything else. More
        promise rarer alarms; 0 (the paper's) promises nothing. Only "kmedoids" and "uniform" with Nyström's extension
        can leave points out; a ``tolerance`` holds points out anyway, and where all points are landmarks each is
        compared with the others. Other maps, and those of over 10 million points in blocks, are not calibrated.
    alpha : float
        Density normalisation, 0 (the paper's) to 1; see :class:`~ldmaps.DiffusionMap`.
    t : float
        Diffusion time: coordinates are λᵗψ. 0 is the paper's.
    memory_limit : float
        Most bytes for solving the map to distil from. Above it (N > 31,000 in single precision by default) its kernel
        is not stored: see ``max_passes``.
    max_passes : int or None
        Passes over all N²/2 pairs of points that a map to distil from may then take; molecules take two or three. None
        allows 20, or as many as stay below 10¹¹ pairs (2 for 300,000 points). With 0 it is a map of many more
        landmarks, whose error is bounded by residuals at 2,000 points.
    resume : path or None
        A file in which these passes keep their state, once per minute: an interrupted fit with the same data and
        settings resumes where it stopped.
    random_state : int, RandomState or None
        Seeds the choice of landmarks (and the sample of the "coifman" rule).
    n_threads : int or None
        Threads for distances and products; None uses every core. Results do not depend on it.
    verbose : bool
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
        With ``tolerance``: Z on held-out points and its upper confidence bound. None without, and where the
        reference's own error has no bound (an ``AccuracyWarning`` says so).
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
    diagnosis_ : Diagnosis
        How many points carry each coordinate, and which decide ε.
    embedder_ : Embedder
        The part that embeds new points, for lowest overhead.

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
        t: float = 0.0,
        memory_limit: float = 4e9,
        max_passes: int | None = None,
        resume: str | os.PathLike[str] | None = None,
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
        self.t = t
        self.memory_limit = memory_limit
        self.max_passes = max_passes
        self.resume = resume
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @property
    def extension_(self) -> str:
        """The extension that ``extension`` stands for: "nystrom" or "distilled"."""
        return self._extension().name

    def _extension(self) -> Extension:
        return resolve_extension(self.extension, for_tolerance=self.tolerance is not None)

    def _fit_training(self, training: Training, rng: np.random.Generator) -> Self:
        extension, selector = self._extension(), self._selector(training)
        if self.tolerance is not None:
            few = training.sampled(rng)
            try:
                found = self._meet_tolerance(float(self.tolerance), extension, selector, few, rng)
            except DisconnectedError as error:
                if error.outside is not None:
                    error.outside = training.places(error.outside, few)
                raise
            fit, bandwidth, solved, certificate, held, sampled = found
            rows = None
            if few is training and training.held is not None:
                # These have chosen nothing but the number of landmarks.
                rows = np.zeros(len(training.points), dtype=bool)
                rows[training.used[held]] = True
            training = replace(training, held=rows)
            fit = training.adopted(fit, few)
            walk = training.walk(bandwidth, self)
            if fit.solved is not None:
                sampled = SampledMap.of(training, walk, fit.landmarks)
            else:
                sampled = sampled if few is training else SampledMap.of(training, walk)
                sampled = sampled and sampled.told_of(fit.landmarks.indices)
        else:
            training = self._held_out(training, selector, extension)
            fit, bandwidth, solved, sampled = self._fit_once(extension, selector, training, rng)
            certificate = None
        n_components, spectrum = fit.embedder.n_components, solved.spectrum.eigenvalues
        with stage("embedding", len(training.points)):
            parts, reference = training.embedded(fit, self.n_features_in_, self.n_threads)
        known = parts["embedder"].calibration
        if certificate is None and training.held is not None and not is_worth_it(known):
            return self._fit_training(replace(training, held=None), rng)
        self._reference: Reference | None = reference
        self._error_estimator: ErrorEstimator | None = None
        return self._diagnosed(
            training,
            FittedMap(
                **parts,
                bandwidth=bandwidth,
                eigenvalues=spectrum[:n_components],
                spectrum=spectrum,
                multiplicities=fit.landmarks.multiplicities,
                units=training.units,
                source=training.source,
                distillation=fit.step if isinstance(fit.step, Distillation) else None,
                certificate=certificate,
                solution=solved.leading(n_components).solution if extension.learns_from_reference else None,
            ),
            sampled,
        )

    def _training(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """Check and prepare training data; those in blocks stay there unless the settings need them all here."""
        metric = resolve_metric(self.metric)
        if not is_blocked(X) or metric.takes_distances:
            return self._holding_out(super()._training(X, sample_weight))
        from ldmaps.maps.blocked_training import GATHERED, prepare_blocked_training

        training = prepare_blocked_training(self, metric, X, sample_weight)
        selector = resolve_selector(self.landmarks, self.n_landmarks, DEFAULT_LANDMARKS)
        few = (
            selector.n_landmarks or DEFAULT_LANDMARKS
        )  # where all points are landmarks, they come here anyway
        if self.tolerance is not None or self._extension().learns_from_reference:
            few = max(few, self._reference_size(training, few), GATHERED)
        return self._holding_out(training.gathered_for(selector, self.outliers, few))

    def _selector(self, training: Training) -> LandmarkSelector:
        if self.tolerance is not None:
            check_number_is_free(self.landmarks, self.n_landmarks, self.tolerance)
        if training.landmarks is not None:
            return Given(training.landmarks).among(training.used, len(training.points))
        n_points = len(training.members)
        most = min(DEFAULT_LANDMARKS, training.n_free) if n_points > DEFAULT_LANDMARKS else n_points
        selector = resolve_selector(self.landmarks, self.n_landmarks, most)
        if isinstance(selector, Given) and not training.uses_all:
            return selector.among(training.used, len(training.points))
        return selector

    def _holding_out(self, training: Training) -> Training:
        """Return the data with some points marked that no landmark may be chosen from."""
        n_points = len(training.points)
        if self.tolerance is None:
            selector = resolve_selector(self.landmarks, self.n_landmarks, DEFAULT_LANDMARKS)
            if selector.is_automatic:  # which knows by itself what to choose
                return training
        is_beyond = isinstance(training.points, PointsElsewhere) and n_points > MOST_ELSEWHERE
        if is_beyond or self.calibration * n_points < FEWEST_HELD:
            return training
        # A generator of its own: what else is drawn does not depend on it.
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        memory = memory_of(training.metric, training.points, training.files, rng, self.n_threads)
        held = held_out_rows(n_points, self.calibration, memory, rng) & (training.weights > 0)
        return replace(training, held=held, memory=memory)

    def _held_out(self, training: Training, selector: LandmarkSelector, extension: Extension) -> Training:
        """Return the data without marks where holding points out would change what the settings ask for."""
        if training.landmarks is not None:  # chosen as the settings say, before what lies apart was left out
            selector = resolve_selector(self.landmarks, self.n_landmarks, len(training.landmarks))
        if training.held is None or selector.n_landmarks is None:
            return replace(training, held=None)
        # A cover is to reach every point, and a map is distilled from as many as there are.
        is_free = not (selector.needs_all_points or extension.learns_from_reference)
        return (
            training if is_free and training.n_free >= selector.n_landmarks else replace(training, held=None)
        )

    # -- a given number of landmarks ------------------------------------------------

    def _fit_once(
        self, extension: Extension, selector: LandmarkSelector, training: Training, rng: np.random.Generator
    ) -> tuple[LandmarkFit, Bandwidth, SolvedMap, SampledMap | None]:
        """Choose landmarks and fit them; return the fit, ε, the map it has its coordinates from, and its cells."""
        is_taught, every = extension.learns_from_reference, np.arange(len(training.members))
        size = self._reference_size(training, selector.n_landmarks or DEFAULT_LANDMARKS) if is_taught else 0
        bandwidth, all_squared = self._reference_bandwidth(training, size, rng)
        walk = training.walk(bandwidth, self)
        landmarks, squared = select_landmarks(selector, walk, rng, training.held_members)
        n_landmarks = len(landmarks.indices)
        if is_taught:
            eigenvalues_for(
                self.n_components, n_landmarks, extra=0
            )  # as many coordinates as landmarks make no map
            solved = self._solve_reference(walk, size, all_squared, rng)
        else:
            count = eigenvalues_for(self.n_components, n_landmarks, extra=MAX_GAP_COMPONENTS)
            with stage("eigenproblem", unit=""):
                solved = solve(walk, count, landmarks, squared=squared)
        del all_squared
        # Few landmarks cannot tell how sure their teacher is: at its ε they hardly see each other.
        sampled = SampledMap.of(training, walk, None if is_taught else landmarks)
        teacher = solved.kept(self.n_components, sampled)
        may_move = not isinstance(selector, Given)  # those that the user names stay
        with stage("distillation", unit="") if is_taught else nullcontext():
            step = extension.fit(teacher, landmarks, every, rng, may_move=may_move)
        fit = LandmarkFit.of(walk, landmarks, step, None if is_taught else teacher)
        if is_taught and sampled is not None:
            sampled = sampled.told_of(fit.landmarks.indices)
        return fit, bandwidth, solved, sampled

    # -- the map to learn from ------------------------------------------------------

    def _reference_size(self, training: Training, n_landmarks: int) -> int:
        members = training.members
        return reference_size(
            training.metric, len(members), n_landmarks, members.dtype.itemsize, self.memory_limit
        )

    def _reference_bandwidth(
        self, training: Training, size: int, rng: np.random.Generator
    ) -> tuple[Bandwidth, NDArray[Any] | None]:
        """Return ε and, where the reference is made of all points, their d²."""
        n_points = len(training.members)
        if size < n_points:
            with stage("bandwidth", n_points):
                return training.choose_bandwidth(self, rng), None
        with stage("distances", n_points):
            squared = squared_matrix(training.metric, training.members, n_threads=self.n_threads)
        with stage("bandwidth", n_points):
            return training.choose_bandwidth(self, rng, squared), squared

    def _solve_reference(
        self, walk: Walk, size: int, squared: NDArray[Any] | None, rng: np.random.Generator
    ) -> SolvedMap:
        n_passes = 0  # of points in blocks: every worker would need all of them
        if not isinstance(walk.points, PointsElsewhere):
            n_passes = reference_passes(walk.metric, len(walk.points), walk.alpha, self.max_passes)
        limits = Limits(self.memory_limit, n_passes, self.resume, coordinates_for(self.n_components))
        with stage("reference map", unit=""):
            count = eigenvalues_for(self.n_components, size, extra=REFERENCE_EXTRA)
            return solve_reference(walk, count, size, limits, rng, squared)

    # -- a tolerance ----------------------------------------------------------------

    def _meet_tolerance(
        self,
        tolerance: float,
        extension: Extension,
        selector: LandmarkSelector,
        training: Training,
        rng: np.random.Generator,
    ) -> tuple[LandmarkFit, Bandwidth, SolvedMap, Certificate | None, NDArray[np.intp], SampledMap | None]:
        """Find the fewest landmarks that meet the tolerance; return points they were not chosen from, too."""
        held = hold_out(len(training.members), rng)
        size = self._reference_size(training, DEFAULT_LANDMARKS)
        bandwidth, squared = self._reference_bandwidth(training, size, rng)
        walk = training.walk(bandwidth, self)
        solved = self._solve_reference(walk, size, squared, rng)
        del squared
        every = SampledMap.of(training, walk)
        reference = solved.kept(self.n_components, every)
        search = ToleranceSearch(
            extension=extension,
            reference=reference,
            held=held,
            select=lambda count, walk, rng: select_landmarks(selector.of_size(count), walk, rng),
            n_eigenvalues=lambda count: eigenvalues_for(self.n_components, count, extra=MAX_GAP_COMPONENTS),
            seed=int(rng.integers(2**63)),
        )
        with stage("search", unit=""):
            fit, certificate = search.run(tolerance, training.n_tried)
        unseen = np.concatenate([held.search, held.certify])
        return fit, bandwidth, solved if fit.solved is None else fit.solved, certificate, unseen, every

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
            Per point ``change`` (landmark minus exact), its length ``sigma``, ``zeta`` in percent of the coordinates'
            ranges, and ``sampling``, the standard error of ``sigma`` from a sample of training points. It costs 2R²
            distances the first time and R² for every further step until it settles, each point R more.

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
        kept = getattr(self, "_reference", None)
        if kept is None:
            raise InvalidInputError(
                "this map holds no training points to estimate errors with (model files do not store them); "
                "pass reference=, the training points or a sample of them, or fit again"
            )
        self.metric_.check_compatible(points, kept.points)
        if self._error_estimator is None:
            self._error_estimator = ErrorEstimator(self._judged(), kept)
        return self._error_estimator.estimate(points)

    def _judged(self) -> JudgedMap:
        """Return what an error estimate must know of this map."""
        embedder = self.embedder_
        known = embedder.metric, embedder.landmarks, self.multiplicities_, embedder.epsilon
        walk = Walk(*known, self.alpha, self.t, self.n_threads, is_connected=True)
        count = min(embedder.n_components + EXTRA_MODES, embedder.n_landmarks - 1)
        further = None
        if count > embedder.n_components and can_be_rows(embedder.landmarks):
            further = solve(walk, count).spectrum
        # A map whose file holds no embedding does not know N; then weights are taken for counts.
        embedding = self.map_.embedding
        n_training = round(float(self.multiplicities_.sum())) if embedding is None else len(embedding)
        return JudgedMap(embedder, walk, self.eigenvalues_, further, n_training)
