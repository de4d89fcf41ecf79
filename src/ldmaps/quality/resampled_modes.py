r"""Eigenpairs of a landmark map for many sets of multiplicities, from those of one.

With multiplicities c' the walk is P' f = A(s'f) / A s', s' = c'(A c')^-α, symmetric in the inner
product ⟨f, g⟩ = Σ_j μ_j f_j g_j, μ = s'·A s'. A landmark that no resampled point belongs to has μ = 0, and P'
gives its value as it does for a new point. The modes V of the fitted walk span a first
guess (Rayleigh–Ritz), which is improved by one step of Davidson's method: the residuals
r_i = P'f_i − λ_i f_i are divided by λ_i − λ_l mode by mode, as first-order perturbation theory has it,

    z_i = Σ_{l ≥ q} ψ_l ⟨ψ_l, r_i⟩/(λ_i − λ_l) + (1/λ_i)(1 − Σ_l ψ_l⟨ψ_l, ·⟩) r_i

and the guess is solved again with them. All resamples share products with one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.threads import resolve_threads, run_tiles, single_threaded_blas

#: Modes of the fitted walk that residuals are divided by one by one.
N_MODES = 80
#: Modes beyond those asked for in the first guess.
FURTHER = 8
#: Steps of Davidson's method.
STEPS = 1
#: Values per tile of resamples.
TILE_VALUES = 200_000


@dataclass(frozen=True)
class FittedModes:
    """The fitted walk and its modes.

    Attributes
    ----------
    kernel : ndarray of shape (M, M)
        A.
    alpha : float
        Density normalisation.
    measure : ndarray of shape (M,)
        μ of the fitted multiplicities.
    eigenvalues : ndarray of shape (p,)
        The trivial one first.
    vectors : ndarray of shape (M, p)
        ψ, orthonormal by μ.
    """

    kernel: NDArray[np.float64]
    alpha: float
    measure: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    vectors: NDArray[np.float64]


def fitted_modes(
    kernel: NDArray[np.float64], multiplicities: NDArray[np.float64], alpha: float = 0.0
) -> FittedModes:
    """Solve the fitted walk for as many modes as resamples make use of."""
    source, row_sums = _walk(kernel, multiplicities[None], alpha)
    measure = (source * row_sums)[0]
    scale, last = np.sqrt(source / row_sums)[0], len(kernel) - 1
    with single_threaded_blas():
        values, vectors = scipy.linalg.eigh(
            scale[:, None] * kernel * scale, subset_by_index=[max(0, last - N_MODES), last]
        )
    values, vectors = values[::-1], vectors[:, ::-1] / np.sqrt(measure)[:, None]
    vectors = vectors / np.sqrt(measure @ vectors**2)
    return FittedModes(kernel, alpha, measure, values, vectors)


def _walk(
    kernel: NDArray[np.float64], multiplicities: NDArray[np.float64], alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return s' and A s' of each set of multiplicities, both of shape (n, M)."""
    source = multiplicities
    if alpha:
        source = source * (multiplicities @ kernel) ** -alpha
    return source, source @ kernel


def resampled_modes(
    fitted: FittedModes, multiplicities: NDArray[np.float64], n_modes: int, n_threads: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading non-trivial eigenpairs of every set of multiplicities.

    Parameters
    ----------
    fitted : FittedModes
    multiplicities : ndarray of shape (n, M)
        Not negative; 0 where no point is left.
    n_modes : int
        How many pairs, fewer than the fitted modes.
    n_threads : int, optional
        Threads to use; by default all cores.

    Returns
    -------
    eigenvalues : ndarray of shape (n, n_modes)
        Largest first.
    vectors : ndarray of shape (n, M, n_modes)
        ψ' with Σ_j c'_j ψ'_j² = 1, of any sign.
    """
    n, n_landmarks = multiplicities.shape
    values, vectors = np.empty((n, n_modes)), np.empty((n, n_landmarks, n_modes))
    most = min(len(fitted.eigenvalues), n_modes + 1 + FURTHER)
    tile = max(1, TILE_VALUES // (most * n_landmarks))

    def work(rows: slice) -> None:
        _solve(fitted, multiplicities[rows], most, values[rows], vectors[rows])

    with single_threaded_blas():
        run_tiles(n, tile, work, resolve_threads(n_threads))
    return values, vectors


def _solve(
    fitted: FittedModes,
    multiplicities: NDArray[np.float64],
    n_guess: int,
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
) -> None:
    """Fill ``values`` and ``vectors`` for some resamples."""
    source, row_sums = _walk(fitted.kernel, multiplicities, fitted.alpha)
    measure = source * row_sums
    n, n_landmarks = multiplicities.shape
    n_wanted = values.shape[1] + 1

    def apply(functions: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = (source[:, :, None] * functions).transpose(1, 0, 2).reshape(n_landmarks, -1)
        products = (fitted.kernel @ columns).reshape(n_landmarks, n, -1)
        return np.asarray(products.transpose(1, 0, 2) / row_sums[:, :, None])

    guess = np.broadcast_to(fitted.vectors[:, :n_guess], (n, n_landmarks, n_guess))
    ritz = _rayleigh_ritz(measure, guess, apply(guess), n_guess)
    for _ in range(STEPS):
        lam, guess, images = ritz
        if n_guess >= min(n_landmarks, len(fitted.eigenvalues)):
            break  # the guess spans all there is
        residuals = (images - guess * lam[:, None])[:, :, :n_wanted]
        further = _divided_by_gaps(fitted, lam[:, :n_wanted], residuals, n_guess)
        ritz = _rayleigh_ritz(
            measure, np.concatenate([guess, further], 2), np.concatenate([images, apply(further)], 2), n_guess
        )
    lam, _, images = ritz
    values[:] = lam[:, 1:n_wanted]
    vectors[:] = images[:, :, 1:n_wanted]  # P'ψ' = λ'ψ' where c' is 0 as well
    # Fewer landmarks with points than modes: the last have no length.
    lengths = np.sqrt(np.einsum("nm,nmi->ni", multiplicities, vectors**2))
    vectors /= np.where(lengths > 0, lengths, 1.0)[:, None]


def _divided_by_gaps(
    fitted: FittedModes, lam: NDArray[np.float64], residuals: NDArray[np.float64], first: int
) -> NDArray[np.float64]:
    """Return z of every residual; modes before ``first`` are left to Rayleigh–Ritz."""
    shares = (fitted.vectors.T * fitted.measure) @ residuals  # (n, p, wanted)
    gaps = lam[:, None] - fitted.eigenvalues[None, :, None]
    gaps[:, :first] = np.inf
    gaps = np.where(np.abs(gaps) < 1e-9, 1e-9, gaps)
    inverse = 1.0 / np.maximum(lam, 1e-9)[:, None]
    further = fitted.vectors @ (shares * (1.0 / gaps - inverse)) + residuals * inverse
    lengths = np.sqrt(np.einsum("m,nmi->ni", fitted.measure, further**2))[:, None]
    return np.asarray(further / np.maximum(lengths, 1e-300))


def _rayleigh_ritz(
    measure: NDArray[np.float64], basis: NDArray[np.float64], images: NDArray[np.float64], keep: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading Ritz values of P', their vectors of length 1 by μ, and P' of these."""
    weighted = (measure[:, :, None] * basis).transpose(0, 2, 1)
    gram, form = weighted @ basis, weighted @ images
    # Directions of the basis that are in it already, to rounding, are left out: their length is set to 0.
    lengths, turns = np.linalg.eigh(gram)
    is_new = lengths > 1e-11 * lengths[:, -1:]
    turns = turns * np.where(is_new, 1.0 / np.sqrt(np.where(is_new, lengths, 1.0)), 0.0)[:, None]
    form = turns.transpose(0, 2, 1) @ (0.5 * (form + form.transpose(0, 2, 1))) @ turns
    values, mixed = np.linalg.eigh(form)
    mixed = turns @ mixed[:, :, ::-1][:, :, :keep]
    return values[:, ::-1][:, :keep], basis @ mixed, images @ mixed
