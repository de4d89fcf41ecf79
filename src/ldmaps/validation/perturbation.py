r"""What collapsing points onto landmarks does to the eigenpairs (section meth_err).

The landmark map is the exact map of displaced data: point i stands where its landmark γ(i) is, so d_ij becomes d′_ij =
d(z_γ(i), z_γ(j)), and P = D⁻¹AW becomes P′ = P + δP. Its eigenpairs are expanded in those of P:

    P ψ_l = λ_l ψ_l,  φ_l = W D ψ_l / (ψ_lᵀ W D ψ_l)    right and left eigenvectors, φ_mᵀψ_l = δ_ml
    Π = Σ_{l<p} ψ_l φ_lᵀ                                 the p leading modes, the trivial one among them
    R = (1 − Π) δP Ψ                                     beyond them λ_l ≈ 0 beside λ_i (the closure)
    H(E) = Λ + ΦᵀδPΨ + ΦᵀP′R/E,   H(μ) y = μ y           a p×p problem
    ψ′_i ∝ Ψy + Ry/μ,  λ′_i = μ

Displacements within a cell cancel on average, so what mixes the leading modes is of second order in the distance to
the landmark, in ΦᵀδPΨ as in ΦᵀP′R: first order, as the paper's, keeps one of two terms of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import apply_operator, extend, squared_tile
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.settings import is_whole_number
from ldmaps.threads import resolve_threads, run_tiles, tile_rows
from ldmaps.user_warnings import warn

if TYPE_CHECKING:
    from ldmaps.maps.diffusion_map import DiffusionMap
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

#: Rounds of the fixed point μ in H(μ) y = μ y; three settle it to far below the expansion's own error.
_ROUNDS = 4

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class CollapsedWalk:
    """A walk P over N points, and P′ over the M places they are moved to."""

    # P′ acts through the landmarks alone, (P′f)(i) = Σ_m A(z_γ(i), z_m) F_m / Σ_m A(z_γ(i), z_m) c_m with F_m the
    # weighted sum of f over cell m: products of size M×M, and no loop over pairs of points.

    walk: Walk  # the N points with their weights, all positive; α is 0
    landmarks: Points  # the M places, prepared
    assignment: NDArray[np.intp]  # (N,): γ(i); every landmark has a point

    def degrees(self) -> _Array:
        """Return D of the walk over the points where they are."""
        walk, nothing = self.walk, np.empty((len(self.walk.points), 0))
        return apply_operator(
            walk.metric, walk.points, walk.points, walk.epsilon, walk.weights, nothing, walk.n_threads
        )[0]

    def extended(self, values: _Array, rows: Points) -> _Array:
        """Return P′f at any points, by Nyström's extension, for functions f, (N, p) values at the training points."""
        walk, count = self.walk, len(self.landmarks)
        cells = np.bincount(self.assignment, weights=walk.weights, minlength=count)
        means = [
            np.bincount(self.assignment, weights=walk.weights * column, minlength=count) / cells
            for column in values.T
        ]
        products = extend(
            walk.metric,
            rows,
            self.landmarks,
            walk.epsilon,
            weights=cells.astype(rows.dtype),
            coefficients=np.array(means, dtype=rows.dtype),
            n_threads=walk.n_threads,
        )
        return products.coordinates.astype(np.float64)

    def displaced(self, values: _Array) -> _Array:
        """Apply P′ to functions."""
        return self.extended(values, self.landmarks)[self.assignment]

    def linear_change(self, lam: _Array, psi: _Array) -> _Array:
        """Return (P′ − P)ψ of eigenpairs to first order in the changes of distances (eqns Mijerror, err3)."""
        walk, points, n = self.walk, self.walk.points, len(self.walk.points)
        degrees, degree_changes, sums = np.empty(n), np.empty(n), np.empty((n, psi.shape[1]))
        between = squared_matrix(walk.metric, self.landmarks, n_threads=walk.n_threads)
        fixed = self.assignment, 0.5 / walk.epsilon, walk.weights, np.ascontiguousarray(psi.T)

        def work(tile: slice) -> None:
            block = squared_tile(walk.metric, points, tile, points)
            own = degrees[tile], degree_changes[tile], sums[tile]
            kernels.first_order_rows(block, between[self.assignment[tile]], *fixed, *own)

        run_tiles(n, tile_rows(n, points.dtype.itemsize), work, resolve_threads(walk.n_threads))
        # δM = δA/D − (δD/D²) A, and (A/D)ψ = λψ
        return np.asarray(sums / degrees[:, None] - (degree_changes / degrees)[:, None] * (psi * lam))

    def squared_distances(self) -> _Array:
        """Return each point's squared distance to its landmark."""
        points, squared = self.walk.points, np.empty(len(self.walk.points))
        for cell in range(len(self.landmarks)):
            members = np.flatnonzero(self.assignment == cell)
            here = self.landmarks.take(np.array([cell]))
            squared[members] = squared_matrix(self.walk.metric, points.take(members), here)[:, 0]
        return squared


@dataclass(frozen=True)
class Perturbation:
    """Predicted differences between the landmark map and the exact map.

    Attributes
    ----------
    method : {"biorthogonal", "paper"}
        See :func:`predict_errors`.
    eigenvalues : ndarray of shape (k,)
        λ of the exact map.
    eigenvalue_changes : ndarray of shape (k,)
        δλ, landmark minus exact.
    at_landmarks : ndarray of shape (N, k)
        The paper's δψ: ψ′(z_γ(i)) − ψ(x_i), the coordinates of a point's landmark minus its own exact ones.
    at_points : ndarray of shape (N, k)
        ψ′(x_i) − ψ(x_i): what ``transform`` of a Nyström map gives minus the exact coordinates. The same as
        ``at_landmarks`` with ``method="paper"``.
    ranges : ndarray of shape (k,)
        max − min of the exact coordinates, for ζ.
    distance : ndarray of shape (N,)
        Distance of each point to its landmark in units of √ε.
    square_sums : ndarray of shape (k,)
        Squared length of the change across ψ_i (the sum in eqn alpha_ii). Above 1 the expansion means nothing.
    """

    method: str
    eigenvalues: NDArray[np.float64]
    eigenvalue_changes: NDArray[np.float64]
    at_landmarks: NDArray[np.float64]
    at_points: NDArray[np.float64]
    ranges: NDArray[np.float64]
    distance: NDArray[np.float64]
    square_sums: NDArray[np.float64]

    @property
    def sigma_at_landmarks(self) -> NDArray[np.float64]:
        """σ(i) = ‖δψ(i)‖ over the k coordinates, of :attr:`at_landmarks`, shape (N,)."""
        return np.asarray(np.linalg.norm(self.at_landmarks, axis=1))

    @property
    def sigma(self) -> NDArray[np.float64]:
        """σ(i) of :attr:`at_points`, shape (N,)."""
        return np.asarray(np.linalg.norm(self.at_points, axis=1))

    @property
    def point_errors(self) -> NDArray[np.float64]:
        """Predicted ζ(i) in percent, shape (N,) (eqn zeta_error)."""
        return np.asarray(100.0 * np.linalg.norm(self.at_points / self.ranges, axis=1))

    @property
    def nrmse(self) -> float:
        """Predicted Z in percent (eqn Z_error)."""
        return float(np.sqrt(np.mean(self.point_errors**2)))

    @property
    def rms_distance(self) -> float:
        """Root mean square of :attr:`distance`; predictions are good below 0.7."""
        return float(np.sqrt(np.mean(self.distance**2)))


def predict_errors(
    exact: DiffusionMap,
    model: LandmarkDiffusionMap,
    X: ArrayLike,
    *,
    method: str = "biorthogonal",
    n_threads: int | None = None,
) -> Perturbation:
    """Predict a landmark map's errors from the exact map's eigenpairs.

    Parameters
    ----------
    exact : DiffusionMap
        Fitted to ``X``. All its coordinates serve as modes p of the expansion; have 20 or more of them, on slow spectra
        as many as it takes to come down to an eigenvalue of about 0.3 (300 on the Swiss roll).
    model : LandmarkDiffusionMap
        Fitted to ``X`` at the same ε. Its landmarks, cells and number of coordinates k are used, not its eigenvectors:
        what is predicted is the Nyström extension, whatever the model's own is.
    X : array-like of shape (N, features), or (N, atoms, 3) for frames
        The training data of both.
    method : {"biorthogonal", "paper"}
        "biorthogonal" uses left and right eigenvectors, goes to second order in δP and closes the expansion beyond the
        p modes; "paper" is the published formula, to the letter.
    n_threads : int or None
        Threads to use; None takes all cores.

    Returns
    -------
    Perturbation
        One row for each point of positive weight, in order.

    Warns
    -----
    AccuracyWarning
        A change is as long as the eigenvector itself, or points are farther than √ε from their landmark.

    Notes
    -----
    For a user who has no exact map, see :meth:`ldmaps.LandmarkDiffusionMap.error_estimate`.

    Examples
    --------
    >>> from ldmaps import DiffusionMap, LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> from ldmaps.validation import nrmse
    >>> roll = swiss_roll(600).points
    >>> exact = DiffusionMap(40, epsilon=16.0).fit(roll)
    >>> model = LandmarkDiffusionMap(2, epsilon=16.0, n_landmarks=200, extension="nystrom").fit(roll)
    >>> predicted = predict_errors(exact, model, roll).nrmse
    >>> bool(0.8 < predicted / nrmse(exact.embedding_[:, :2], model.embedding_) < 1.25)
    True
    """
    for name, value in (("exact", exact.alpha), ("model", model.alpha)):
        if value != 0:
            raise InvalidInputError(
                f"the expansion is derived for alpha = 0 (section meth_err), but {name} has "
                f"alpha = {value!r}; error_estimate takes any alpha"
            )
    if not np.isclose(exact.epsilon_, model.epsilon_, rtol=1e-6):
        raise InvalidInputError(
            f"both maps must have the same epsilon, got {exact.epsilon_:.6g} and {model.epsilon_:.6g}; "
            "fit the landmark map with epsilon=exact.epsilon_"
        )
    if exact.n_components_ < model.n_components_:
        raise InvalidInputError(
            f"the exact map has {exact.n_components_} coordinates, fewer than the landmark map's "
            f"{model.n_components_}; fit it with n_components=20 or more, they are the modes of the expansion"
        )
    points = exact.embedder_.prepare(X)
    if len(points) != len(model.labels_) or len(points) != len(exact.embedding_):
        raise InvalidInputError(
            f"X must be the {len(model.labels_)} training points of both maps, got {len(points)} points"
        )
    used = exact.landmark_indices_
    members = points if len(used) == len(points) else points.take(used)
    walk = Walk(exact.metric_, members, exact.multiplicities_, exact.epsilon_, n_threads=n_threads)
    return perturb(
        CollapsedWalk(walk, points.take(model.landmark_indices_), model.labels_[used]),
        exact.eigenvalues_,
        exact.landmark_embedding_ / exact.eigenvalues_**exact.diffusion_time,
        model.n_components_,
        method=method,
    )


def perturb(
    collapsed: CollapsedWalk,
    eigenvalues: _Array,
    vectors: NDArray[Any],
    n_components: int,
    *,
    method: str = "biorthogonal",
) -> Perturbation:
    """Expand k of the p leading eigenpairs, ψᵀWψ = 1; as :func:`predict_errors`, from the parts themselves."""
    if method not in ("biorthogonal", "paper"):
        raise InvalidInputError(f'method must be "biorthogonal" or "paper", got {method!r}')
    if not is_whole_number(n_components) or not 1 <= n_components <= len(eigenvalues):
        raise InvalidInputError(
            f"n_components must be between 1 and the {len(eigenvalues)} modes given, got {n_components!r}"
        )
    lam = np.asarray(eigenvalues, dtype=np.float64)
    psi = np.asarray(vectors, dtype=np.float64)
    k = int(n_components)
    if method == "paper":
        expansion = _as_published(collapsed, lam[:k], psi[:, :k])
    else:
        # The trivial pair is a mode as any other: ψ′ is not free of it.
        lam_all = np.concatenate([[1.0], lam])
        psi_all = np.column_stack([np.full(len(psi), 1.0 / np.sqrt(collapsed.walk.weights.sum())), psi])
        expansion = _to_second_order(collapsed, lam_all, psi_all, k)
    changes, at_landmarks, at_points, square_sums = expansion
    ranges = np.ptp(psi[:, :k], axis=0)
    distance = np.sqrt(collapsed.squared_distances() / collapsed.walk.epsilon)
    result = Perturbation(
        method, lam[:k].copy(), changes, at_landmarks, at_points, ranges, distance, square_sums
    )
    _warn_where_it_fails(result)
    return result


def _warn_where_it_fails(result: Perturbation) -> None:
    reasons = []
    if (result.square_sums > 1.0).any():
        bad = np.flatnonzero(result.square_sums > 1.0)
        coordinates = ", ".join(f"{index + 1} ({result.square_sums[index]:.2g})" for index in bad)
        reasons.append(
            f"the squared change of coordinate {coordinates} is above 1, that of the eigenvector itself"
        )
    far = int((result.distance > 1.0).sum())
    if far:
        reasons.append(
            f"{far} of {len(result.distance)} points are farther than sqrt(epsilon) from their landmark "
            f"(rms distance {result.rms_distance:.2f} sqrt(epsilon))"
        )
    if reasons:
        warn(
            AccuracyWarning(
                f"the expansion does not hold everywhere: {'; '.join(reasons)}. "
                "Use more landmarks or a larger epsilon"
            )
        )


#: Changes of eigenvalues, (k,), at landmarks and at points, (N, k), and squared lengths of changes across ψ_i, (k,).
_Expansion = tuple[_Array, _Array, _Array, _Array]


def _as_published(collapsed: CollapsedWalk, lam: _Array, psi: _Array) -> _Expansion:
    """Follow section meth_err to the letter: ψ as if orthonormal, within the top-k subspace."""
    change = collapsed.linear_change(lam, psi)
    elements = psi.T @ change  # ψ_lᵀ δM ψ_i
    gaps = lam[None, :] - lam[:, None]
    np.fill_diagonal(gaps, np.inf)
    alpha = elements / gaps  # eqn alpha_il
    square_sums = (alpha**2).sum(axis=0)
    np.fill_diagonal(alpha, -1.0 + np.sqrt(np.maximum(0.0, 1.0 - square_sums)))  # eqn alpha_ii
    delta = psi @ alpha  # eqn err7
    return elements.diagonal().copy(), delta, delta, square_sums  # eqn del_lambda


def _to_second_order(collapsed: CollapsedWalk, lam: _Array, psi: _Array, k: int) -> _Expansion:
    """Expand k pairs through the p×p problem; ``lam`` and ``psi`` begin with the trivial pair."""
    phi = (collapsed.walk.weights * collapsed.degrees())[:, None] * psi
    phi /= (phi * psi).sum(axis=0)
    change = collapsed.displaced(psi) - psi * lam
    first = phi.T @ change
    rest = change - psi @ first  # R
    second = phi.T @ collapsed.displaced(rest)  # ΦᵀP′R
    own = psi[:, 1 : k + 1]
    moved, values = np.empty_like(own), np.empty(k)
    for i in range(k):
        value = lam[i + 1]
        for _ in range(_ROUNDS):
            energies, modes = np.linalg.eig(np.diag(lam) + first + second / value)
            modes = np.real(modes)
            place = int(np.argmax(np.abs(modes[i + 1]) / np.linalg.norm(modes, axis=0)))
            value = float(np.real(energies[place]))
        mixture = modes[:, place] / modes[i + 1, place]
        moved[:, i] = psi @ mixture + rest @ mixture / value
        values[i] = value
    weights, across = collapsed.walk.weights, moved - own
    square_sums = np.asarray(weights @ (across - own * (weights @ (own * across))) ** 2)
    lengths = np.sqrt(weights @ moved**2)
    extended = collapsed.extended(moved, collapsed.walk.points) / values
    return values - lam[1 : k + 1], moved / lengths - own, extended / lengths - own, square_sums
