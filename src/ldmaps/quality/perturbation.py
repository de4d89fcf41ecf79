r"""What collapsing points onto landmarks does to the eigenpairs (section meth_err).

The landmark map is the exact map of displaced data: point i stands where its
landmark γ(i) is, so d_ij becomes d′_ij = d(z_γ(i), z_γ(j)). With weights w the
operator P = D⁻¹AW becomes P′ = P + δP, and this module expands ψ′ and λ′ in the
eigenpairs of P.

    P ψ_l = λ_l ψ_l,  φ_l = W D ψ_l / (ψ_lᵀ W D ψ_l)    right and left eigenvectors, φ_mᵀψ_l = δ_ml
    Π = Σ_{l<p} ψ_l φ_lᵀ                                 the p leading modes, the trivial one among them
    v_i = δP ψ_i,  r_i = (1 − Π) v_i                     beyond them λ_l ≈ 0 beside λ_i (the closure)

First order:   δψ_i = Σ_{l<p, l≠i} ψ_l φ_lᵀv_i/(λ_i − λ_l) + r_i/λ_i,   δλ_i = φ_iᵀv_i

Second order:  H(E) = Λ + ΦᵀδPΨ + ΦᵀP′R/E, a p×p matrix; H(μ) y = μ y;   ψ′_i ∝ Ψy + Ry/μ,  λ′_i = μ

Displacements within a cell cancel on average, so what mixes the leading modes is of
second order in the distance to the landmark, in v_i as in ΦᵀP′R: first order
keeps one of two terms of the same size.

P′ acts through the landmarks alone, (P′f)(i) = Σ_m A(z_γ(i), z_m) F_m / Σ_m A(z_γ(i), z_m) c_m
with F_m the weighted sum of f over cell m: products of size M×M, and no pass over
pairs of points but the one for D.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import compiled
from ldmaps.diffusion.pairwise import extend
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.metrics.base import Metric, Points
from ldmaps.settings import is_whole_number
from ldmaps.threads import resolve_threads, tile_rows, walk

if TYPE_CHECKING:
    from ldmaps.maps.diffusion_map import DiffusionMap
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

__all__ = ["Perturbation", "apply_operator", "perturb", "predict_errors"]

#: Rounds of the fixed point μ in H(μ) y = μ y; three settle it to far below the expansion's own error.
_ROUNDS = 4


@dataclass(frozen=True)
class Perturbation:
    """Predicted differences between the landmark map and the exact map.

    Attributes
    ----------
    method : {"biorthogonal", "paper"}
    order : {1, 2}
    eigenvalues : ndarray of shape (k,)
        λ of the exact map.
    eigenvalue_changes : ndarray of shape (k,)
        δλ, landmark minus exact.
    at_landmarks : ndarray of shape (N, k)
        δψ of the perturbed N-point problem: ψ′(z_γ(i)) − ψ(x_i), the coordinates of
        a point's landmark minus its own exact ones. The paper's δψ.
    at_points : ndarray of shape (N, k)
        ψ′(x_i) − ψ(x_i): the landmark map extended by Nyström to the point itself
        (what ``transform`` and ``embedding_`` give) minus the exact coordinates.
        ``method="paper"`` does not tell the two apart.
    ranges : ndarray of shape (k,)
        max − min of the exact coordinates, for ζ.
    distance : ndarray of shape (N,)
        Distance of each point to its landmark in units of √ε.
    square_sums : ndarray of shape (k,)
        Squared length of the change across ψ_i; in the paper's method the sum under
        the square root of eqn alpha_ii. Above 1 the expansion means nothing.
    """

    method: str
    order: int
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
    def zeta(self) -> NDArray[np.float64]:
        """Predicted ζ(i) in percent, shape (N,) (eqn zeta_error)."""
        return np.asarray(100.0 * np.linalg.norm(self.at_points / self.ranges, axis=1))

    @property
    def rms_zeta(self) -> float:
        """Predicted Z in percent (eqn Z_error)."""
        return float(np.sqrt(np.mean(self.zeta**2)))

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
    order: int = 2,
    linearise: bool = False,
    n_threads: int | None = None,
) -> Perturbation:
    """Predict a landmark map's errors from the exact map's eigenpairs.

    Parameters
    ----------
    exact : DiffusionMap
        Fitted to ``X``. All its coordinates serve as modes p of the expansion; have 20
        or more of them, on slow spectra as many as it takes to come down to an
        eigenvalue of about 0.3 (300 on the Swiss roll).
    model : LandmarkDiffusionMap
        Fitted to ``X`` at the same ε. Its landmarks, cells and number of coordinates
        k are used; its eigenvectors are not. What is predicted is the Nyström extension,
        whatever the model's own is.
    X : array-like of shape (N, features), or (N, atoms, 3) for frames
        The training data of both.
    method : {"biorthogonal", "paper"}
        "biorthogonal" uses left and right eigenvectors and closes the expansion
        beyond the p modes; "paper" is the published formula, to the letter.
    order : {1, 2}
        Order of the expansion in δP. "paper" is of first order.
    linearise : bool
        Expand δP too, to first order in the changes of the distances (eqns Mijerror,
        err3), by a pass over all pairs; only for ``order=1``. "paper" always does.
    n_threads : int or None

    Returns
    -------
    Perturbation
        One row for each point of positive weight, in order.

    Warns
    -----
    AccuracyWarning
        Where the expansion does not hold: a change as long as the eigenvector itself,
        or points farther than √ε from their landmark.

    Notes
    -----
    For a user who has no exact map, see :meth:`ldmaps.LandmarkDiffusionMap.error_estimate`.

    Examples
    --------
    >>> from ldmaps import DiffusionMap, LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> from ldmaps.quality import rms_error
    >>> roll = swiss_roll(600).points
    >>> exact = DiffusionMap(40, epsilon=16.0).fit(roll)
    >>> model = LandmarkDiffusionMap(2, epsilon=16.0, n_landmarks=200, extension="nystrom").fit(roll)
    >>> predicted = predict_errors(exact, model, roll).rms_zeta
    >>> bool(0.8 < predicted / rms_error(exact.embedding_[:, :2], model.embedding_) < 1.25)
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
    return perturb(
        exact.metric_,
        members,
        points.take(model.landmark_indices_),
        model.labels_[used],
        exact.multiplicities_,
        exact.epsilon_,
        exact.eigenvalues_,
        exact.landmark_embedding_ / exact.eigenvalues_**exact.t,
        model.n_components_,
        method=method,
        order=order,
        linearise=linearise,
        n_threads=n_threads,
    )


def perturb(
    metric: Metric,
    points: Points,
    landmarks: Points,
    assignment: NDArray[np.intp],
    weights: NDArray[np.float64],
    epsilon: float,
    eigenvalues: NDArray[np.float64],
    vectors: NDArray[Any],
    n_components: int,
    *,
    method: str = "biorthogonal",
    order: int = 2,
    linearise: bool = False,
    n_threads: int | None = None,
) -> Perturbation:
    """Expand the perturbed eigenpairs; as :func:`predict_errors`, from the parts themselves.

    Parameters
    ----------
    points, landmarks : Points
        N prepared points and the M places they are moved to.
    assignment : ndarray of shape (N,)
        γ(i), which landmark each point is moved to; every landmark has a point.
    weights : ndarray of shape (N,)
        Multiplicities w, all positive.
    eigenvalues, vectors : ndarray of shape (p,), (N, p)
        Leading non-trivial eigenpairs of the exact operator, ψᵀWψ = 1.
    n_components : int
        How many of them to perturb, k.
    """
    if method not in ("biorthogonal", "paper"):
        raise InvalidInputError(f'method must be "biorthogonal" or "paper", got {method!r}')
    if isinstance(order, bool) or order not in (1, 2):
        raise InvalidInputError(f"order must be 1 or 2, got {order!r}")
    if linearise and order == 2 and method != "paper":
        raise InvalidInputError(
            "linearise=True keeps the first order of the kernel's change, which order=2 needs whole; "
            "set order=1"
        )
    if not is_whole_number(n_components) or not 1 <= n_components <= len(eigenvalues):
        raise InvalidInputError(
            f"n_components must be between 1 and the {len(eigenvalues)} modes given, got {n_components!r}"
        )
    problem = _Problem(
        metric, points, landmarks, assignment, weights, float(epsilon), resolve_threads(n_threads)
    )
    lam = np.asarray(eigenvalues, dtype=np.float64)
    psi = np.asarray(vectors, dtype=np.float64)
    k = int(n_components)
    if method == "paper":
        order = 1
        parts = _paper(problem, lam[:k], psi[:, :k])
    else:
        # The trivial pair is a mode as any other: ψ′ is not free of it.
        lam_all = np.concatenate([[1.0], lam])
        psi_all = np.column_stack([np.full(len(psi), 1.0 / np.sqrt(weights.sum())), psi])
        if order == 2:
            parts = _second_order(problem, lam_all, psi_all, k)
        else:
            parts = _first_order(problem, lam_all, psi_all, k, linearise)
    changes, at_landmarks, at_points, square_sums = parts
    own = _own_distances(problem)
    result = Perturbation(
        method,
        order,
        lam[:k].copy(),
        changes,
        at_landmarks,
        at_points,
        np.ptp(psi[:, :k], axis=0),
        np.sqrt(own / problem.epsilon),
        square_sums,
    )
    _warn_where_it_fails(result)
    return result


def apply_operator(
    metric: Metric,
    rows: Points,
    columns: Points,
    epsilon: float,
    weights: NDArray[np.float64],
    vectors: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return D_i = Σ_j A_ij s_j and (Pf)_i = Σ_j A_ij s_j f_j / D_i in one tiled pass.

    Parameters
    ----------
    rows, columns : Points
        i and j.
    weights : ndarray of shape (columns,)
        s.
    vectors : ndarray of shape (columns, p)
        f; p may be 0.
    """
    degrees = np.empty(len(rows))
    products = np.empty((len(rows), vectors.shape[1]))
    fill = compiled.perturbation.kernel_rows
    everything = slice(0, len(columns))

    def work(tile: slice) -> None:
        block = np.empty((tile.stop - tile.start, len(columns)), dtype=rows.dtype)
        metric.squared_block(rows, tile, columns, everything, block)
        kernel = np.empty(block.shape)
        fill(block, 0.5 / epsilon, weights, kernel, degrees[tile])
        np.matmul(kernel, vectors, out=products[tile])

    # Wider than the cache would like: a product of few rows is slow.
    tile = max(16, tile_rows(len(columns), rows.dtype.itemsize))
    walk(len(rows), tile, work, resolve_threads(n_threads))
    products /= degrees[:, None]
    return degrees, products


# -- the operators -------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    metric: Metric
    points: Points
    landmarks: Points
    assignment: NDArray[np.intp]
    weights: NDArray[np.float64]
    epsilon: float
    n_threads: int

    def degrees(self) -> NDArray[np.float64]:
        """D of the exact operator."""
        nothing = np.empty((len(self.points), 0))
        return apply_operator(
            self.metric, self.points, self.points, self.epsilon, self.weights, nothing, self.n_threads
        )[0]

    def collapsed(self, values: NDArray[np.float64], rows: Points) -> NDArray[np.float64]:
        """Apply the operator whose columns stand at their landmarks to f (N, p), at any points."""
        count = len(self.landmarks)
        cells = np.bincount(self.assignment, weights=self.weights, minlength=count)
        means = [
            np.bincount(self.assignment, weights=self.weights * column, minlength=count) / cells
            for column in values.T
        ]
        dtype = rows.dtype
        weights, coefficients = cells.astype(dtype), np.array(means, dtype=dtype)
        found = extend(self.metric, rows, self.landmarks, self.epsilon, weights, coefficients, self.n_threads)
        return found.coordinates.astype(np.float64)

    def displaced(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply P′, rows and columns at their landmarks."""
        return self.collapsed(values, self.landmarks)[self.assignment]


def _linear_change(
    problem: _Problem, lam: NDArray[np.float64], psi: NDArray[np.float64], *, rows_move: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return D and δPψ to first order in δ_ij, one pass over all pairs (eqns Mijerror, err3).

    Without ``rows_move`` only the columns stand at their landmarks, as for Nyström.
    """
    n, points, landmarks = len(problem.points), problem.points, problem.landmarks
    degrees, degree_changes, sums = np.empty(n), np.empty(n), np.empty((n, psi.shape[1]))
    transposed = np.ascontiguousarray(psi.T)
    reduce = compiled.perturbation.first_order_rows

    def work(tile: slice) -> None:
        height = tile.stop - tile.start
        block = np.empty((height, n), dtype=points.dtype)
        problem.metric.squared_block(points, tile, points, slice(0, n), block)
        moved = np.empty((height, len(landmarks)), dtype=points.dtype)
        own = landmarks.take(problem.assignment[tile]) if rows_move else points
        inside = slice(0, height) if rows_move else tile
        problem.metric.squared_block(own, inside, landmarks, slice(0, len(landmarks)), moved)
        reduce(
            block,
            moved,
            problem.assignment,
            0.5 / problem.epsilon,
            problem.weights,
            transposed,
            degrees[tile],
            degree_changes[tile],
            sums[tile],
        )

    walk(n, tile_rows(n, points.dtype.itemsize), work, problem.n_threads)
    # δM = δA/D − (δD/D²) A, and (A/D)ψ = λψ
    change = sums / degrees[:, None] - (degree_changes / degrees)[:, None] * (psi * lam)
    return degrees, change


def _own_distances(problem: _Problem) -> NDArray[np.float64]:
    """Return each point's squared distance to its landmark, cell by cell."""
    squared = np.empty(len(problem.points))
    order = np.argsort(problem.assignment, kind="stable")
    bounds = np.searchsorted(problem.assignment[order], np.arange(len(problem.landmarks) + 1))
    for landmark in range(len(problem.landmarks)):
        members = order[bounds[landmark] : bounds[landmark + 1]]
        if len(members) == 0:
            continue
        out = np.empty((len(members), 1), dtype=problem.points.dtype)
        cell = problem.points.take(members)
        problem.metric.squared_block(
            cell, slice(0, len(members)), problem.landmarks, slice(landmark, landmark + 1), out
        )
        squared[members] = out[:, 0]
    return squared


# -- the expansions --------------------------------------------------------------

_Parts = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _paper(problem: _Problem, lam: NDArray[np.float64], psi: NDArray[np.float64]) -> _Parts:
    """Section meth_err to the letter: ψ as if orthonormal, within the top-k subspace."""
    change = _linear_change(problem, lam, psi, rows_move=True)[1]
    elements = psi.T @ change  # ψ_lᵀ δM ψ_i
    gaps = lam[None, :] - lam[:, None]
    np.fill_diagonal(gaps, np.inf)
    alpha = elements / gaps  # eqn alpha_il
    square_sums = (alpha**2).sum(axis=0)
    np.fill_diagonal(alpha, -1.0 + np.sqrt(np.maximum(0.0, 1.0 - square_sums)))  # eqn alpha_ii
    delta = psi @ alpha  # eqn err7
    return elements.diagonal().copy(), delta, delta, square_sums  # eqn del_lambda


def _left(
    weights: NDArray[np.float64], degrees: NDArray[np.float64], psi: NDArray[np.float64]
) -> NDArray[Any]:
    """Return φ = WDψ scaled to φᵀψ = 1."""
    phi = (weights * degrees)[:, None] * psi
    return np.asarray(phi / (phi * psi).sum(axis=0))


def _first_order(
    problem: _Problem, lam: NDArray[np.float64], psi: NDArray[np.float64], k: int, linearise: bool
) -> _Parts:
    chosen = slice(1, k + 1)
    own, own_lam = psi[:, chosen], lam[chosen]
    if linearise:
        degrees, change = _linear_change(problem, own_lam, own, rows_move=True)
        columns_change = _linear_change(problem, own_lam, own, rows_move=False)[1]
    else:
        degrees = problem.degrees()
        change = problem.displaced(own) - own * own_lam
        columns_change = problem.collapsed(own, problem.points) - own * own_lam
    elements = _left(problem.weights, degrees, psi).T @ change  # φ_lᵀ δM ψ_i, (p + 1, k)
    places = np.arange(k) + 1, np.arange(k)
    gaps = own_lam[None, :] - lam[:, None]
    gaps[places] = np.inf
    alpha = elements / gaps
    across = psi @ alpha + (change - psi @ elements) / own_lam
    lengths = np.sqrt(problem.weights @ (own + across) ** 2)
    shift = elements[places]
    # ψ′(x) = P_c(ψ + δψ)/(λ + δλ) with P_c = P + columns_change, and Pδψ by the modes
    smooth = (psi @ (alpha * lam[:, None]) + columns_change - own * shift) / own_lam
    return (
        shift,
        (own + across) / lengths - own,
        (own + smooth) / lengths - own,
        _square_sums(problem, own, across),
    )


def _second_order(problem: _Problem, lam: NDArray[np.float64], psi: NDArray[np.float64], k: int) -> _Parts:
    phi = _left(problem.weights, problem.degrees(), psi)
    change = problem.displaced(psi) - psi * lam
    first = phi.T @ change
    rest = change - psi @ first  # R
    second = phi.T @ problem.displaced(rest)  # ΦᵀP′R
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
    square_sums = _square_sums(problem, own, moved - own)
    lengths = np.sqrt(problem.weights @ moved**2)
    extended = problem.collapsed(moved, problem.points) / values
    return values - lam[1 : k + 1], moved / lengths - own, extended / lengths - own, square_sums


def _square_sums(
    problem: _Problem, own: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.float64]:
    along = problem.weights @ (own * across)
    return np.asarray(problem.weights @ (across - own * along) ** 2)


def _warn_where_it_fails(result: Perturbation) -> None:
    reasons = []
    if (result.square_sums > 1.0).any():
        bad = np.flatnonzero(result.square_sums > 1.0)
        shown = ", ".join(f"{index + 1} ({result.square_sums[index]:.2g})" for index in bad)
        reasons.append(f"the squared change of coordinate {shown} is above 1, that of the eigenvector itself")
    far = int((result.distance > 1.0).sum())
    if far:
        reasons.append(
            f"{far} of {len(result.distance)} points are farther than sqrt(epsilon) from their landmark "
            f"(rms distance {result.rms_distance:.2f} sqrt(epsilon))"
        )
    if reasons:
        warnings.warn(
            f"the expansion does not hold everywhere: {'; '.join(reasons)}. "
            "Use more landmarks or a larger epsilon",
            AccuracyWarning,
            stacklevel=4,
        )
