r"""Eigenpairs of the walk over moved points, expanded in those of the walk over the points (section meth_err).

With P′ = P + δP (:mod:`ldmaps.quality.collapsed_walk`):

    P ψ_l = λ_l ψ_l,  φ_l = W D ψ_l / (ψ_lᵀ W D ψ_l)    right and left eigenvectors, φ_mᵀψ_l = δ_ml
    Π = Σ_{l<p} ψ_l φ_lᵀ                                 the p leading modes, the trivial one among them
    v_i = δP ψ_i,  r_i = (1 − Π) v_i                     beyond them λ_l ≈ 0 beside λ_i (the closure)

First order:   δψ_i = Σ_{l<p, l≠i} ψ_l φ_lᵀv_i/(λ_i − λ_l) + r_i/λ_i,   δλ_i = φ_iᵀv_i

Second order:  H(E) = Λ + ΦᵀδPΨ + ΦᵀP′R/E, a p×p matrix; H(μ) y = μ y;   ψ′_i ∝ Ψy + Ry/μ,  λ′_i = μ

Displacements within a cell cancel on average, so what mixes the leading modes is of
second order in the distance to the landmark, in v_i as in ΦᵀP′R: first order
keeps one of two terms of the same size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.quality.collapsed_walk import CollapsedWalk

__all__ = ["Expansion", "expand_as_published", "expand_to_first_order", "expand_to_second_order"]

#: Rounds of the fixed point μ in H(μ) y = μ y; three settle it to far below the expansion's own error.
_ROUNDS = 4

_Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """Changes of k eigenpairs, of length k and of shape (N, k)."""

    eigenvalues: _Array
    at_landmarks: _Array
    at_points: _Array
    #: Squared length of the change across ψ_i.
    square_sums: _Array


def expand_as_published(collapsed: CollapsedWalk, lam: _Array, psi: _Array) -> Expansion:
    """Follow section meth_err to the letter: ψ as if orthonormal, within the top-k subspace."""
    change = collapsed.linear_change(lam, psi, rows_move=True)[1]
    elements = psi.T @ change  # ψ_lᵀ δM ψ_i
    gaps = lam[None, :] - lam[:, None]
    np.fill_diagonal(gaps, np.inf)
    alpha = elements / gaps  # eqn alpha_il
    square_sums = (alpha**2).sum(axis=0)
    np.fill_diagonal(alpha, -1.0 + np.sqrt(np.maximum(0.0, 1.0 - square_sums)))  # eqn alpha_ii
    delta = psi @ alpha  # eqn err7
    return Expansion(elements.diagonal().copy(), delta, delta, square_sums)  # eqn del_lambda


def expand_to_first_order(
    collapsed: CollapsedWalk, lam: _Array, psi: _Array, k: int, *, linearise: bool
) -> Expansion:
    """Expand k pairs in p modes and the closure; ``lam`` and ``psi`` begin with the trivial pair."""
    # With ``linearise`` δP itself is taken to first order in the changes of the distances.
    own, own_lam = psi[:, 1 : k + 1], lam[1 : k + 1]
    if linearise:
        degrees, change = collapsed.linear_change(own_lam, own, rows_move=True)
        columns_change = collapsed.linear_change(own_lam, own, rows_move=False)[1]
    else:
        degrees = collapsed.degrees()
        change = collapsed.displaced(own) - own * own_lam
        columns_change = collapsed.extended(own, collapsed.walk.points) - own * own_lam
    elements = _left(collapsed.walk.weights, degrees, psi).T @ change  # φ_lᵀ δM ψ_i, (p + 1, k)
    diagonal = np.arange(k) + 1, np.arange(k)
    gaps = own_lam[None, :] - lam[:, None]
    gaps[diagonal] = np.inf
    alpha = elements / gaps
    across = psi @ alpha + (change - psi @ elements) / own_lam
    lengths = np.sqrt(collapsed.walk.weights @ (own + across) ** 2)
    shift = elements[diagonal]
    # ψ′(x) = P_c(ψ + δψ)/(λ + δλ) with P_c = P + columns_change, and Pδψ by the modes
    smooth = (psi @ (alpha * lam[:, None]) + columns_change - own * shift) / own_lam
    return Expansion(
        shift,
        (own + across) / lengths - own,
        (own + smooth) / lengths - own,
        _square_sums(collapsed.walk.weights, own, across),
    )


def expand_to_second_order(collapsed: CollapsedWalk, lam: _Array, psi: _Array, k: int) -> Expansion:
    """Expand k pairs through the p×p problem; ``lam`` and ``psi`` begin with the trivial pair."""
    phi = _left(collapsed.walk.weights, collapsed.degrees(), psi)
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
    square_sums = _square_sums(collapsed.walk.weights, own, moved - own)
    lengths = np.sqrt(collapsed.walk.weights @ moved**2)
    extended = collapsed.extended(moved, collapsed.walk.points) / values
    return Expansion(values - lam[1 : k + 1], moved / lengths - own, extended / lengths - own, square_sums)


def _left(weights: _Array, degrees: _Array, psi: _Array) -> _Array:
    """Return φ = WDψ scaled to φᵀψ = 1."""
    phi = (weights * degrees)[:, None] * psi
    return np.asarray(phi / (phi * psi).sum(axis=0))


def _square_sums(weights: _Array, own: _Array, across: _Array) -> _Array:
    along = weights @ (own * across)
    return np.asarray(weights @ (across - own * along) ** 2)
