"""The landmark diffusion map: the paper's method, and the package's headline."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth
from ldmaps.diffusion.connectivity import check_landmarks_connected
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, Spectrum, solve_spectrum
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.extension import EXTENSIONS, Distillation, distil_landmarks, nystrom_coefficients
from ldmaps.extension.embedder import Embedder
from ldmaps.landmarks import Given, Landmarks, LandmarkSelector, resolve_selector
from ldmaps.landmarks.base import assign
from ldmaps.landmarks.given import check_indices
from ldmaps.landmarks.grouping import group_neighbours
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.reference_map import ReferenceMap, reference_size, solve_reference
from ldmaps.maps.tolerance import Attempt, Certificate, check_tolerance, hold_out, meet_tolerance
from ldmaps.metrics.base import Points
from ldmaps.metrics.stored import StoredPoints, StoredSquares
from ldmaps.progress import stage
from ldmaps.quality.error_estimate import (
    ErrorEstimate,
    ErrorEstimator,
    Reference,
    sample_reference,
    stand_in_reference,
)
from ldmaps.quality.fidelity import zeta

__all__ = ["LandmarkDiffusionMap"]

#: Landmarks to take where nobody says how many.
DEFAULT_LANDMARKS = 400
#: Sets of landmarks that a tolerance tries for each number of them, and up to which number.
RESTARTS, RESTARTED_LANDMARKS = 3, 100
#: Eigenvalues of the map to distil from that are computed beyond those asked for, to be looked at.
REFERENCE_EXTRA = 4
#: Most landmarks that a tolerance may ask for: their normal equations take half a gigabyte.
MOST_LANDMARKS = 8000


class _Fitted(NamedTuple):
    """A map that the search for a tolerance has tried."""

    chosen: Landmarks
    embedder: Embedder
    spectrum: Spectrum | None
    found: Distillation | None


class LandmarkDiffusionMap(DiffusionEstimator):
    r"""Diffusion map over M landmarks, each weighted by the points it stands for.

    .. math::
        \tilde D^{-1} \tilde A \tilde C \tilde\psi_l = \tilde\lambda_l \tilde\psi_l, \qquad
        \tilde\psi_l(x) = \frac{1}{\tilde\lambda_l}
        \sum_j \frac{\tilde A(x, z_j) c_j}{\sum_m \tilde A(x, z_m) c_m} \tilde\psi_l(j)

    where

    - :math:`z_j` are the landmarks and :math:`c_j` their multiplicities, the weight of
      the points in their Voronoi cells (eqns clustering, ldmap_mult),
    - :math:`\tilde A` is the Gaussian kernel between landmarks (eqn ldmap_kernel),
      :math:`\tilde D_{ii} = \sum_j \tilde A_{ij} c_j` (eqn ldmap_norm),
    - :math:`\tilde\psi^T \tilde C \tilde\psi = 1`, so that the map equals the exact map of the data set
      in which landmark j stands :math:`c_j` times.

    Embedding a point takes M distances and an M×k product, whatever N was.

    Parameters
    ----------
    n_components : int or "gap"
        Number k of coordinates; "gap" takes those before the largest drop among the
        ten leading non-trivial eigenvalues.
    epsilon : {"connected", "coifman"} or float
        Bandwidth, a squared distance. Larger smooths detail away but needs fewer
        landmarks. "connected" takes N rows of distances, "coifman" a sample; a
        number costs nothing. See :func:`ldmaps.diffusion.bandwidth.choose_bandwidth`.
    metric : str, Metric or callable
        "euclidean", "rmsd", "hamming", "earth_mover", "periodic", "precomputed", an
        instance from :mod:`ldmaps.metrics`, or a function of two points.
    landmarks : {"kmedoids", "pst", "uniform", "farthest"}, selector or array of int
        How landmarks are chosen, see :mod:`ldmaps.landmarks`, or which they are.
    n_landmarks : int or None
        M. More are more accurate and cost more a point. None takes 400 (all points,
        when there are fewer); "pst" finds its own number.
    tolerance : float or None
        Z on unseen points, in percent of the coordinates' ranges, that the map must keep;
        the fewest landmarks that do so are taken in place of ``n_landmarks``. 30 % of the
        points (6,000 at most) are held out for it and only embedded. See
        :mod:`ldmaps.maps.tolerance`.
    extension : {"auto", "nystrom", "distilled"}
        How points between landmarks get coordinates. "auto" is "nystrom" for a given
        number of landmarks and "distilled" for a tolerance. "nystrom" is the paper's
        (eqn nystrom_block): B = ψ/λ of the landmark map. "distilled" fits the numbers of
        the same online step to the exact map of the training points, or where that does
        not fit into memory, to a landmark map with many more landmarks; eight to over a
        hundred times more accurate at the same cost a point. It pays with a slower fit (the N×N
        kernel and its eigenvectors). See :mod:`ldmaps.extension.distilled`.
    alpha : float
        Density normalisation, 0 (the paper's) to 1; see :class:`~ldmaps.DiffusionMap`.
    t : float
        Diffusion time: coordinates are λᵗψ. 0 is the paper's.
    memory_limit : float
        Most bytes for the kernel of the map to distil from. Above it (N > 31,000 in single
        precision by default) that is itself a landmark map.
    random_state : int, RandomState or None
        Seeds the choice of landmarks (and the sample of the "coifman" rule).
    n_threads : int or None
        Threads for distances and products; None uses every core. Results do not
        depend on it.
    verbose : bool
        Whether to show stages, rates and remaining time while fitting.

    Attributes
    ----------
    embedding_ : ndarray of shape (N, n_components_)
        Coordinates of all training points.
    eigenvalues_ : ndarray of shape (n_components_,)
        Non-trivial eigenvalues, largest first; with "distilled" those of the map distilled
        from, which are nearer to the exact ones than the landmark map's.
    spectrum_ : ndarray
        All non-trivial eigenvalues that were computed.
    epsilon_ : float
    n_components_ : int
    bandwidth_ : Bandwidth
        How ε was found.
    certificate_ : Certificate or None
        With ``tolerance``: Z on held-out points and its upper confidence bound.
    distillation_ : Distillation or None
        How the weights' width and the ridge were chosen; None with "nystrom".
    landmark_indices_ : ndarray of shape (M,)
        Which training points are landmarks; neighbours stand together.
    landmark_embedding_ : ndarray of shape (M, n_components_)
    multiplicities_ : ndarray of shape (M,)
        c_j.
    labels_ : ndarray of shape (N,)
        Which landmark each training point belongs to.
    embedder_ : Embedder
        The frozen part that embeds, for lowest overhead.

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

    labels_: NDArray[np.intp]
    distillation_: Distillation | None
    certificate_: Certificate | None

    def __init__(
        self,
        n_components: int | str = "gap",
        epsilon: float | str = "connected",
        metric: Any = "euclidean",
        *,
        landmarks: Any = "kmedoids",
        n_landmarks: int | None = None,
        tolerance: float | None = None,
        extension: str = "auto",
        alpha: float = 0.0,
        t: float = 0.0,
        memory_limit: float = 4e9,
        random_state: Any = 0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.metric = metric
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.tolerance = tolerance
        self.extension = extension
        self.alpha = alpha
        self.t = t
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def _fit(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        method = self._extension_method()
        points, weights, used = self._training_points(X, sample_weight)
        everything = len(used) == len(points)
        members = points if everything else points.take(used)
        member_weights = weights[used]
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))

        if self.tolerance is not None and self.n_landmarks is not None:
            raise InvalidInputError(
                f"tolerance={self.tolerance!r} finds the number of landmarks, so n_landmarks={self.n_landmarks!r} "
                "cannot be set as well; leave one of them out"
            )
        selector = resolve_selector(self.landmarks, self.n_landmarks, min(DEFAULT_LANDMARKS, len(used)))
        if isinstance(selector, Given) and not everything:
            selector = Given(_among(check_indices(selector.indices, len(points)), used))
        self.certificate_ = None
        if self.tolerance is not None:
            chosen = self._fit_tolerance(selector, members, member_weights, rng)
        elif method == "nystrom":
            with stage("bandwidth", len(members)):
                bandwidth = choose_bandwidth(
                    self.epsilon, self.metric_, members, member_weights, rng, self.n_threads
                )
            chosen = self._select(selector, members, member_weights, bandwidth, rng)
            landmarks = members.take(chosen.indices)
            spectrum = self._landmark_spectrum(landmarks, chosen, bandwidth)
            leading = self._keep_spectrum(spectrum, members.dtype)
            self._keep(chosen, bandwidth, self._nystrom_embedder(landmarks, chosen, bandwidth, leading))
            self.landmark_embedding_ = (leading.vectors * leading.eigenvalues**self.t).astype(members.dtype)
        else:
            chosen = self._distil(selector, members, member_weights, rng)
        self.landmark_indices_ = used[chosen.indices]
        with stage("embedding", len(points)):
            extended = self.embedder_.extend(points, self.n_threads)
        self.embedding_ = extended.coordinates
        self.labels_ = extended.nearest
        self.labels_[used] = chosen.assignment
        self._record(weights, self.embedder_.coverage_of(extended))
        self._reference: Reference | None = sample_reference(
            members, member_weights, chosen.assignment, chosen.indices, self.n_features_in_
        )
        self._error_estimator: ErrorEstimator | None = None
        return self

    def _extension_method(self) -> str:
        if self.extension == "auto":
            return "nystrom" if self.tolerance is None else "distilled"
        if self.extension not in EXTENSIONS:
            known = ", ".join(f'"{name}"' for name in EXTENSIONS)
            raise InvalidInputError(f'extension must be "auto" or one of {known}, got {self.extension!r}')
        return self.extension

    def _select(
        self,
        selector: LandmarkSelector,
        members: Points,
        weights: NDArray[np.float64],
        bandwidth: Bandwidth,
        rng: np.random.Generator,
    ) -> Landmarks:
        with stage("landmarks", unit="rows"):
            chosen = selector.select(
                members,
                self.metric_,
                epsilon=bandwidth.epsilon,
                weights=weights,
                rng=rng,
                n_threads=self.n_threads,
            )
            # The user's order is the user's, and all points stay as they came.
            if isinstance(selector, Given) or len(chosen.indices) == len(members):
                return chosen
            return group_neighbours(chosen, members, self.metric_, self.n_threads)

    def _begin_reference(
        self, members: Points, weights: NDArray[np.float64], n_landmarks: int, rng: np.random.Generator
    ) -> tuple[Bandwidth, NDArray[Any] | None, int]:
        """Return ε, the size of the map to distil from, and if that is all points, their d²."""
        size = reference_size(
            self.metric_, len(members), n_landmarks, members.dtype.itemsize, self.memory_limit
        )
        if size < len(members):
            with stage("bandwidth", len(members)):
                bandwidth = choose_bandwidth(
                    self.epsilon, self.metric_, members, weights, rng, self.n_threads
                )
            return bandwidth, None, size
        with stage("distances", len(members)):
            squared = squared_matrix(self.metric_, members, n_threads=self.n_threads)
        with stage("bandwidth", len(members)):
            bandwidth = choose_bandwidth(
                self.epsilon, StoredSquares(), StoredPoints(squared), weights, rng, self.n_threads
            )
        return bandwidth, squared, size

    def _solve_reference(
        self,
        members: Points,
        weights: NDArray[np.float64],
        bandwidth: Bandwidth,
        squared: NDArray[Any] | None,
        size: int,
        rng: np.random.Generator,
    ) -> ReferenceMap:
        """Solve the map to distil from, and keep its spectrum."""
        with stage("reference map", unit="rows"):
            reference = solve_reference(
                self.metric_,
                members,
                weights,
                bandwidth,
                self._n_eigenvalues(size, extra=REFERENCE_EXTRA),
                squared=squared,
                size=size,
                alpha=self.alpha,
                time=self.t,
                rng=rng,
                n_threads=self.n_threads,
            )
        self._keep_spectrum(reference.spectrum, members.dtype)
        return reference.leading(self.n_components_)

    def _distil(
        self,
        selector: LandmarkSelector,
        members: Points,
        weights: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> Landmarks:
        expected = selector.n_landmarks or DEFAULT_LANDMARKS
        bandwidth, squared, size = self._begin_reference(members, weights, expected, rng)
        chosen = self._select(selector, members, weights, bandwidth, rng)
        self._n_eigenvalues(len(chosen.indices), extra=0)  # as many coordinates as landmarks would be no map
        reference = self._solve_reference(members, weights, bandwidth, squared, size, rng)
        del squared
        with stage("distillation", unit="rows"):
            everyone = np.arange(len(members))
            found = distil_landmarks(reference, chosen, weights, everyone, rng, self.n_threads)
        landmarks = members.take(chosen.indices)
        self._keep(chosen, bandwidth, self._distilled_embedder(landmarks, chosen, bandwidth, found), found)
        return chosen

    def _landmark_spectrum(self, landmarks: Points, chosen: Landmarks, bandwidth: Bandwidth) -> Spectrum:
        """Solve the M×M eigenproblem (eqn block_eig)."""
        squared = squared_matrix(self.metric_, landmarks, n_threads=self.n_threads)
        check_landmarks_connected(
            squared, chosen.squared_radii, bandwidth.epsilon, obeys_triangle=self.metric_.is_true_metric
        )
        kernel = gaussian_kernel(squared, bandwidth.epsilon, self.n_threads)
        count = self._n_eigenvalues(len(landmarks), extra=MAX_GAP_COMPONENTS)
        return solve_spectrum(
            kernel, chosen.multiplicities, count, alpha=self.alpha, n_threads=self.n_threads
        )

    def _nystrom_embedder(
        self, landmarks: Points, chosen: Landmarks, bandwidth: Bandwidth, leading: Spectrum
    ) -> Embedder:
        return Embedder.build(
            self.metric_,
            landmarks,
            bandwidth.epsilon,
            leading.source_weights,
            nystrom_coefficients(leading, self.t),
            chosen.squared_radii,
        )

    def _distilled_embedder(
        self, landmarks: Points, chosen: Landmarks, bandwidth: Bandwidth, found: Distillation
    ) -> Embedder:
        return Embedder.build(
            self.metric_,
            landmarks,
            bandwidth.epsilon,
            found.source_weights,
            found.coefficients,
            chosen.squared_radii,
            found.bandwidth,
        )

    def _keep(
        self, chosen: Landmarks, bandwidth: Bandwidth, embedder: Embedder, found: Distillation | None = None
    ) -> None:
        self.bandwidth_ = bandwidth
        self.epsilon_ = bandwidth.epsilon
        self.multiplicities_ = chosen.multiplicities
        self.distillation_ = found
        self.embedder_ = embedder
        self.landmark_embedding_ = embedder.extend(embedder.landmarks, self.n_threads).coordinates

    def _fit_tolerance(
        self,
        selector: LandmarkSelector,
        members: Points,
        weights: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> Landmarks:
        """Find the fewest landmarks that meet the tolerance, and keep their map."""
        tolerance = check_tolerance(self.tolerance)
        if selector.is_automatic or (
            isinstance(self.landmarks, LandmarkSelector) and self.landmarks.n_landmarks
        ):
            raise InvalidInputError(
                f"{selector!r} fixes the number of landmarks, so no tolerance can choose it; "
                'use landmarks="kmedoids" without a number, or leave tolerance out'
            )
        held = hold_out(len(members), rng)
        bandwidth, squared, size = self._begin_reference(members, weights, DEFAULT_LANDMARKS, rng)
        reference = self._solve_reference(members, weights, bandwidth, squared, size, rng)
        del squared
        fitted_points, fitted_weights = members.take(held.fitted), weights[held.fitted]
        span = np.ptp(reference.coordinates(reference.indices, self.n_threads), axis=0)
        unseen = np.concatenate([held.search, held.certify])
        targets = reference.coordinates_as_unseen(unseen, self.n_threads)
        counted = weights[unseen] / weights[unseen].mean()
        unseen_points = members.take(unseen)
        seed = int(rng.integers(2**63))
        is_distilled = self._extension_method() == "distilled"

        def attempt(count: int) -> Attempt[_Fitted]:
            own_rng = np.random.default_rng([seed, count])
            selector.n_landmarks = count
            made: _Fitted | None = None
            # Few landmarks can lie well or badly; the distillation's own held-out points tell.
            for _ in range(RESTARTS if is_distilled and count <= RESTARTED_LANDMARKS else 1):
                among = self._select(selector, fitted_points, fitted_weights, bandwidth, own_rng)
                chosen = assign(members, self.metric_, held.fitted[among.indices], weights, self.n_threads)
                landmarks = members.take(chosen.indices)
                if is_distilled:
                    found = distil_landmarks(reference, chosen, weights, held.fitted, own_rng, self.n_threads)
                    if made is None or made.found is None or found.held_out_z < made.found.held_out_z:
                        embedder = self._distilled_embedder(landmarks, chosen, bandwidth, found)
                        made = _Fitted(chosen, embedder, None, found)
                    continue
                try:
                    spectrum = self._landmark_spectrum(landmarks, chosen, bandwidth)
                except DisconnectedError:
                    break
                leading = spectrum.leading(self.n_components_)
                embedder = self._nystrom_embedder(landmarks, chosen, bandwidth, leading)
                made = _Fitted(chosen, embedder, spectrum, None)
            if made is None:
                nothing = np.full(1, np.inf)
                return Attempt(None, nothing, nothing)
            embedded = made.embedder.extend(unseen_points, self.n_threads).coordinates
            squares = counted * zeta(targets, embedded, ranges=span, aligned=is_distilled) ** 2
            n_search = len(held.search)
            return Attempt(made, squares[:n_search], squares[n_search:])

        most = min(len(held.fitted) // 2, MOST_LANDMARKS)
        fewest = min(most, max(8, 2 * self.n_components_ + 2))
        kind = "exact" if size == len(members) else "landmarks"
        made, self.certificate_ = meet_tolerance(attempt, tolerance, kind, fewest=fewest, most=most)
        if made.spectrum is not None:
            self.spectrum_ = made.spectrum.eigenvalues
            self.eigenvalues_ = made.spectrum.eigenvalues[: self.n_components_]
        self._keep(made.chosen, bandwidth, made.embedder, made.found)
        return made.chosen

    def error_estimate(self, X: ArrayLike, *, reference: ArrayLike | None = None) -> ErrorEstimate:
        """Estimate how far this map's coordinates of points are from the exact map's, without the exact map.

        Parameters
        ----------
        X : array-like of shape (n, features), or (n, atoms, 3) for frames
            New or training points.
        reference : array-like of shape (R, features), or (R, atoms, 3), optional
            Training points to measure against, all or a sample of them. By default
            those that ``fit`` kept: all up to 20,000 or 32 MB, a random sample
            beyond. Fewer are quicker and see less; needed for a map from a file.

        Returns
        -------
        ErrorEstimate
            Per point ``change`` (landmark minus exact, in the coordinates' units), its
            length ``sigma``, ``zeta`` in percent of the coordinates' ranges, and
            ``sampling``, the standard error of ``sigma`` when not all training points
            were at hand.

        Warns
        -----
        AccuracyWarning
            For points farther than √ε from all known ones, for coordinates that the
            landmark map has lost, and when the reference is too small to tell.

        Notes
        -----
        The first call costs 2R² distances, each point R more; see
        :mod:`ldmaps.quality.error_estimate` for what is computed.
        """
        points = self._new_points(X)
        if reference is not None:
            known = self._new_points(reference)
            self.metric_.check_compatible(points, known)
            estimator = ErrorEstimator(self, stand_in_reference(self, known), self.n_threads)
            return estimator.estimate(self, points, self.n_threads)
        kept = getattr(self, "_reference", None)
        if kept is None:
            raise InvalidInputError(
                "this map holds no training points to estimate errors with (model files do not store them); "
                "pass reference=, the training points or a sample of them, or fit again"
            )
        self.metric_.check_compatible(points, kept.points)
        if self._error_estimator is None:
            self._error_estimator = ErrorEstimator(self, kept, self.n_threads)
        return self._error_estimator.estimate(self, points, self.n_threads)


def _among(indices: NDArray[np.intp], used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Translate indices of all points to indices of those with positive weight."""
    places = np.searchsorted(used, indices)
    places[places == len(used)] = 0
    missing = used[places] != indices
    if missing.any():
        raise InvalidInputError(
            f"landmark {int(indices[missing][0])} has sample_weight 0 and takes no part in the fit; "
            "choose landmarks of positive weight"
        )
    return places
