"""Σ_j g_cj ∂d²(x, z_j)/∂x under RMSD, for a few sets c of shares g over the landmarks z_j.

With x ≈ R z the superposition of a landmark z on the frame x, R need not be
differentiated (it minimises d²), and for atoms weighed by w_a with Σ w_a = 1

    ∂d²/∂x_a = 2 w_a (x_a − R z_a),      x and z centred.

R is the proper rotation nearest to M = Σ_a w_a x_a z_aᵀ. With signed singular values s of M
and their elementary symmetric functions λ, y, det M, every s_i satisfies
s³ − λs² + ys − det M = 0, and so (compare both sides on each singular vector)

    R = [(λ² − y) M + λ cof M − M Mᵀ M] / q,      q = yλ − det M = (s1+s2)(s2+s3)(s1+s3).

M Rᵀ is symmetric whatever λ is, so the gradient exerts no torque even where λ is
rounded. Where q is small beside s1³ (mirror-like pairs, atoms on a line) R comes from
singular vectors instead; where R is not unique, any of the best gives a subgradient.

Landmarks are stored in blocks of GRADIENT_BLOCK, one coordinate of all of a block contiguous. Every
row of a block or of the scratch starts at a constant offset: then the compiler can tell
that rows do not overlap, and the loops run in SIMD over landmarks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldmaps.compiled.jit import EXACT, REDUCE, compiled
from ldmaps.compiled.layout import GRADIENT_BLOCK as BLOCK
from ldmaps.compiled.superposition import best_rotation, write_centre

__all__ = ["SMALLEST_Q", "add_products", "rmsd_gradients", "write_roots", "write_rotations"]

#: Below this share of ‖M‖³, q determines R to fewer than about twelve digits.
SMALLEST_Q = 1e-3
#: Largest error of R that may come from λ: after a step t that of λ is t²(λ² + y)/(2q), and R's ‖M‖²/q times as large.
LARGEST_ERROR = 1e-8


@compiled(fastmath=REDUCE)
def _total(values: Any) -> Any:
    total = np.float64(0.0)
    for j in range(values.size):
        total += values[j]
    return total


@compiled(fastmath=EXACT)
def add_products(x: Any, z: Any, m: Any, count: int) -> None:
    """Add x_a z_aᵀ of four atoms to the 3×3 matrices of up to BLOCK landmarks."""
    x0, x1, x2, x3, x4, x5 = x[0], x[1], x[2], x[3], x[4], x[5]
    x6, x7, x8, x9, x10, x11 = x[6], x[7], x[8], x[9], x[10], x[11]
    for j in range(min(count, BLOCK)):
        a, b, c = z[j], z[BLOCK + j], z[2 * BLOCK + j]
        d, e, f = z[3 * BLOCK + j], z[4 * BLOCK + j], z[5 * BLOCK + j]
        g, h, i = z[6 * BLOCK + j], z[7 * BLOCK + j], z[8 * BLOCK + j]
        p, q, r = z[9 * BLOCK + j], z[10 * BLOCK + j], z[11 * BLOCK + j]
        m[j] += x0 * a + x3 * d + x6 * g + x9 * p
        m[BLOCK + j] += x0 * b + x3 * e + x6 * h + x9 * q
        m[2 * BLOCK + j] += x0 * c + x3 * f + x6 * i + x9 * r
        m[3 * BLOCK + j] += x1 * a + x4 * d + x7 * g + x10 * p
        m[4 * BLOCK + j] += x1 * b + x4 * e + x7 * h + x10 * q
        m[5 * BLOCK + j] += x1 * c + x4 * f + x7 * i + x10 * r
        m[6 * BLOCK + j] += x2 * a + x5 * d + x8 * g + x11 * p
        m[7 * BLOCK + j] += x2 * b + x5 * e + x8 * h + x11 * q
        m[8 * BLOCK + j] += x2 * c + x5 * f + x8 * i + x11 * r


@compiled(error_model="numpy")
def write_roots(norm: float, size: float, norms: Any, scales: Any, squared: Any, root: Any) -> None:
    """Write λ of frames of norm 1, from d² = G_x + G_z − 2 s_x s_z λ."""
    for j in range(squared.size):
        root[j] = 0.5 * (norm + norms[j] - squared[j]) / (size * scales[j])


@compiled(fastmath={"contract", "nsz"}, error_model="numpy")
def write_rotations(m: Any, root: Any, certain: Any, count: int) -> None:
    """Replace the matrices by their rotations; ``certain`` is not positive where one must be found another way.

    ``root`` is λ as the distances have it.
    """
    for j in range(min(count, BLOCK)):
        a, b, c = np.float64(m[j]), np.float64(m[BLOCK + j]), np.float64(m[2 * BLOCK + j])
        d, e, f = (
            np.float64(m[3 * BLOCK + j]),
            np.float64(m[4 * BLOCK + j]),
            np.float64(m[5 * BLOCK + j]),
        )
        g, h, i = (
            np.float64(m[6 * BLOCK + j]),
            np.float64(m[7 * BLOCK + j]),
            np.float64(m[8 * BLOCK + j]),
        )
        c00, c01, c02 = e * i - f * h, f * g - d * i, d * h - e * g
        c10, c11, c12 = c * h - b * i, a * i - c * g, b * g - a * h
        c20, c21, c22 = b * f - c * e, c * d - a * f, a * e - b * d
        det = a * c00 + b * c01 + c * c02
        # MᵀM, whose trace is ‖M‖²
        aa, bb, cc = a * a + d * d + g * g, b * b + e * e + h * h, c * c + f * f + i * i
        ab, ac, bc = a * b + d * e + g * h, a * c + d * f + g * i, b * c + e * f + h * i
        square = aa + bb + cc
        cofactors = (
            (c00 * c00 + c01 * c01 + c02 * c02)
            + (c10 * c10 + c11 * c11 + c12 * c12)
            + (c20 * c20 + c21 * c21 + c22 * c22)
        )
        # One step of Newton on y² − ‖cof M‖² − 2λ det M with λ² = ‖M‖² + 2y, which a step t keeps exactly.
        lam = root[j]
        y = 0.5 * (lam * lam - square)
        t = 0.5 * (y * y - cofactors - 2.0 * det * lam) / (y * lam - det)
        y -= t * (lam - 0.5 * t)
        lam -= t
        q = y * lam - det
        r = 1.0 / q
        u, v = (square + y) * r, lam * r
        m[j] = u * a + v * c00 - r * (a * aa + b * ab + c * ac)
        m[BLOCK + j] = u * b + v * c01 - r * (a * ab + b * bb + c * bc)
        m[2 * BLOCK + j] = u * c + v * c02 - r * (a * ac + b * bc + c * cc)
        m[3 * BLOCK + j] = u * d + v * c10 - r * (d * aa + e * ab + f * ac)
        m[4 * BLOCK + j] = u * e + v * c11 - r * (d * ab + e * bb + f * bc)
        m[5 * BLOCK + j] = u * f + v * c12 - r * (d * ac + e * bc + f * cc)
        m[6 * BLOCK + j] = u * g + v * c20 - r * (g * aa + h * ab + i * ac)
        m[7 * BLOCK + j] = u * h + v * c21 - r * (g * ab + h * bb + i * bc)
        m[8 * BLOCK + j] = u * i + v * c22 - r * (g * ac + h * bc + i * cc)
        # Comparisons that NaN fails; the last is strict, because infinity (a step divided by zero) must fail it too.
        large = q * q > SMALLEST_Q * SMALLEST_Q * square * square * square and q > 0.0
        certain[j] = 1.0 if large and t * t * (lam * lam + y) * square < LARGEST_ERROR * q * q else 0.0


@compiled(fastmath=REDUCE)
def _add_turned(m: Any, z: Any, sums: Any, count: int) -> None:
    """Add Σ_j m_j z_j of four atoms, m_j the scaled rotations."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = s10 = s11 = m[0] * m.dtype.type(0)
    for j in range(min(count, BLOCK)):
        a, b, c = m[j], m[BLOCK + j], m[2 * BLOCK + j]
        d, e, f = m[3 * BLOCK + j], m[4 * BLOCK + j], m[5 * BLOCK + j]
        g, h, i = m[6 * BLOCK + j], m[7 * BLOCK + j], m[8 * BLOCK + j]
        x, y, w = z[j], z[BLOCK + j], z[2 * BLOCK + j]
        s0 += a * x + b * y + c * w
        s1 += d * x + e * y + f * w
        s2 += g * x + h * y + i * w
        x, y, w = z[3 * BLOCK + j], z[4 * BLOCK + j], z[5 * BLOCK + j]
        s3 += a * x + b * y + c * w
        s4 += d * x + e * y + f * w
        s5 += g * x + h * y + i * w
        x, y, w = z[6 * BLOCK + j], z[7 * BLOCK + j], z[8 * BLOCK + j]
        s6 += a * x + b * y + c * w
        s7 += d * x + e * y + f * w
        s8 += g * x + h * y + i * w
        x, y, w = z[9 * BLOCK + j], z[10 * BLOCK + j], z[11 * BLOCK + j]
        s9 += a * x + b * y + c * w
        s10 += d * x + e * y + f * w
        s11 += g * x + h * y + i * w
    for p, value in enumerate((s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11)):
        sums[p] += value


@compiled(error_model="numpy")
def rmsd_gradients(
    frames: Any,
    kept: Any,
    weights: Any,
    blocks: Any,
    norms: Any,
    scales: Any,
    squared: Any,
    shares: Any,
    gradient: Any,
) -> None:
    """Write Σ_j g_cj ∂d²(x, z_j)/∂x of frames superposed on landmarks.

    Parameters
    ----------
    frames : ndarray of shape (n, atoms, 3), float64
    kept : ndarray of int, shape (a,)
        Atoms with a weight.
    weights : ndarray of shape (a,), float64
        Their weights; they sum to 1.
    blocks : ndarray of shape (⌈M/BLOCK⌉, 3·a⁺·BLOCK)
        Landmarks, centred, times √w, of norm 1; a⁺ is a rounded up to a multiple of four.
    norms, scales : ndarray of shape (M,)
        Squared norm and norm that the landmarks had.
    squared : ndarray of shape (n, M)
        Squared distances.
    shares : ndarray of shape (n, k, M)
    gradient : ndarray of shape (n, k, atoms, 3)
        Zero for atoms without a weight, which are not written.
    """
    n_landmarks, n_sets = shares.shape[2], shares.shape[1]
    depth = blocks.shape[1] // BLOCK
    real = blocks.dtype.type
    centre = np.empty(3)
    x = np.zeros(depth)
    unit = np.zeros(depth, blocks.dtype)
    matrices, scaled = np.empty(9 * BLOCK, blocks.dtype), np.empty(9 * BLOCK, blocks.dtype)
    factors = np.empty(BLOCK, blocks.dtype)
    root, certain = np.empty(BLOCK), np.empty(BLOCK)
    sums = np.empty((n_sets, depth))
    totals = np.empty(n_sets)
    m, rotation, v = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for i in range(frames.shape[0]):
        write_centre(frames[i], kept, weights, centre)
        norm = 0.0
        for a in range(kept.size):
            for axis in range(3):
                x[3 * a + axis] = math.sqrt(weights[a]) * (frames[i, kept[a], axis] - centre[axis])
                norm += x[3 * a + axis] * x[3 * a + axis]
        size = math.sqrt(norm) if norm > 0.0 else 1.0
        for p in range(depth):
            unit[p] = x[p] / size
        for c in range(n_sets):
            totals[c] = 0.0
            for p in range(depth):
                sums[c, p] = 0.0
        for block in range(blocks.shape[0]):
            z = blocks[block]
            start = block * BLOCK
            count = min(n_landmarks - start, BLOCK)
            for p in range(9 * BLOCK):
                matrices[p] = 0.0
            for p in range(0, depth, 12):
                add_products(unit[p : p + 12], z[p * BLOCK :], matrices, count)
            stop = start + count
            write_roots(norm, size, norms[start:stop], scales[start:stop], squared[i, start:stop], root)
            write_rotations(matrices, root, certain, count)
            for j in range(count):
                if certain[j] > 0.0:
                    continue
                for left in range(3):
                    for right in range(3):
                        m[left, right] = 0.0
                        for p in range(0, depth, 3):
                            m[left, right] += x[p + left] / size * z[(p + right) * BLOCK + j]
                best_rotation(m, v, rotation)
                for left in range(3):
                    for right in range(3):
                        matrices[(3 * left + right) * BLOCK + j] = rotation[left, right]
            for c in range(n_sets):
                part = shares[i, c, start:stop]
                totals[c] += _total(part)
                for j in range(count):
                    factors[j] = scales[start + j] * part[j]
                for p in range(0, 9 * BLOCK, BLOCK):
                    for j in range(count):
                        scaled[p + j] = factors[j] * matrices[p + j]
                for p in range(0, depth, 12):
                    _add_turned(scaled, z[p * BLOCK :], sums[c, p : p + 12], count)
        for c in range(n_sets):
            for a in range(kept.size):
                factor = 2.0 * math.sqrt(weights[a])
                for axis in range(3):
                    p = 3 * a + axis
                    gradient[i, c, kept[a], axis] = real(factor * (totals[c] * x[p] - sums[c, p]))
