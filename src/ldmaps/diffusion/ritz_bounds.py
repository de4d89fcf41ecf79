"""How far Ritz pairs can be from the exact eigenpairs, bounded by their residuals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# S is symmetric, Y are its orthonormal Ritz vectors, SY = YΘ + R with YᵀR = 0. Of the p leading ones, μ is the largest
# eigenvalue of S on the rest of the space. An eigenvector of λ > μ, |v| = 1, has parts s along these Y and z across:
#     (λ − S₂) z = R s          ⇒  |z| ≤ |R s| / (λ − μ)
#     (λ − θ_j) s_j = r_jᵀ z    ⇒  |s_j| ≤ m_j |z|,   m_j = r_j / |λ − θ_j|,   j ≠ i
# and with |R s| ≤ r_i + Σ_j r_j |s_j|
#     |z| ≤ r_i / (λ − μ − Σ_j r_j m_j),    sin∠(y_i, v) ≤ |z| √(1 + Σ_j m_j²),    λ − θ_i ≤ r_i |z| / |s_i|.
# How far λ is from θ_i, and μ from eigenvalue p + 1, is bounded by |R| or |R|²/gap, the lesser (C.-K. Li and R.-C. Li,
# Linear Algebra Appl. 395, 183 (2005)). Neighbours among the p are charged with r_i r_j only, and the gap is that to
# what lies beyond them: the textbook's sin∠ ≤ r_i/gap is worse where eigenvalues crowd.
# S y_i is closer to v than y_i. Its part across v is that of S (y_i − s_i v) = λ (y_i − s_i v) − (λ − θ_i) y_i + r_i:
# −λ s_i s_j along y_j, at most max(λ (1 − s_i²), λ − θ_i) along y_i, and across Y what S does to z, and terms of higher
# order. Divided by λ s_i, its part along v, it is the tangent of the angle.

#: The shift of λ_i is bounded roughly first, then by what that bound implies, so many times.
_ROUNDS = 3


def error_bounds(
    values: NDArray[np.float64], residuals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds of |λ_i − θ_i|, and of sin∠(S y_i, v_i), which are 1 where nothing can be said."""
    # Assumed is what no residual can show: that Ritz value i belongs to eigenvalue i, so that none was overlooked,
    # which makes eigenvalue p + 1 at most θ_{p+1} + r_{p+1}; and that S has no eigenvalue below −μ.
    value_errors, angles = residuals.copy(), np.ones(len(values))
    for i in range(len(values) - 1):
        for p in range(i + 1, len(values)):
            cut = residuals[:p] @ residuals[:p]  # |R|²
            following = values[p] + residuals[p]
            gap = values[p - 1] - following
            rest = following + min(np.sqrt(cut), cut / gap if gap > 0 else np.inf)  # μ
            if not 0.0 < rest < values[i]:
                continue
            value_errors[i] = min(value_errors[i], cut / (values[i] - rest))
            others = np.delete(np.arange(p), i)
            distances = np.abs(values[i] - values[others])
            for _ in range(_ROUNDS):
                # λ_i ≥ θ_i, so it can only be closer to those above than θ_i is.
                apart = distances - value_errors[i] * (others < i)
                if (apart <= 0).any():
                    break
                mixing = residuals[others] / apart  # m_j
                coupled = residuals[others] @ mixing
                spread = 1.0 + mixing @ mixing
                across = values[i] - rest - coupled
                if across <= residuals[i] * np.sqrt(spread):
                    break
                length = residuals[i] / across  # |z|
                sine_squared = length**2 * spread
                cosine = np.sqrt(1.0 - sine_squared)
                value_errors[i] = min(value_errors[i], residuals[i] * length / cosine)
                along = max(sine_squared, value_errors[i] / values[i]) / cosine
                shrunk = (sine_squared + (rest + coupled) / values[i]) / cosine**2
                angles[i] = min(angles[i], np.sqrt(length**2 * (mixing @ mixing + shrunk**2) + along**2))
    return value_errors, angles


def in_percent_of_range(
    angle_errors: NDArray[np.float64],
    vectors: NDArray[np.float64],
    defects: NDArray[np.float64],
    weights: NDArray[np.float64],
    degrees: NDArray[np.float64],
    ranges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the root mean square errors of coordinates over the points, in percent of the coordinates' ranges."""
    # Taken for granted is that the error is spread over dense and sparse places as the coordinate is, or as its
    # residual, whichever is worse.

    def squared_lengths(symmetric: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return those of (C D)^-½ u in the measures C and C D."""
        squares = symmetric**2
        return (squares / degrees[:, None]).sum(axis=0), squares.sum(axis=0)

    (own, own_in_walk), (residual, residual_in_walk) = squared_lengths(vectors), squared_lengths(defects)
    has_residual = residual_in_walk > 0
    spread = np.divide(residual, residual_in_walk, where=has_residual, out=np.zeros_like(residual))
    spread = np.maximum(spread, own / own_in_walk)
    percent = 100.0 * angle_errors * np.sqrt(own_in_walk * spread / weights.sum()) / ranges
    return np.asarray(np.where(angle_errors < 1.0, percent, np.inf))
