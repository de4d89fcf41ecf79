"""Compiled loops over blocks of squared distances that no metric owns.

Imported late (numba takes a second to load). Two fastmath sets are used on
purpose: the exponential relies on ``(x + magic) - magic`` and must not be
re-associated; the reductions must be, or they would not vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

EXACT = {"contract", "nnan", "ninf", "nsz"}
REDUCE = {"contract", "nnan", "ninf", "nsz", "reassoc", "arcp"}

#: Landmarks that are passed over together.
BLOCK = 64
#: Exponents beyond which a weight is lost in rounding even if its multiplicity is a million times the nearest's.
NEGLIGIBLE32 = 30.0
NEGLIGIBLE64 = 51.0


@intrinsic
def _float_bits(typingctx: Any, value: Any) -> Any:
    """Reinterpret a float as the integer of its width."""
    pairs = {types.float32: (types.int32, ir.IntType(32)), types.float64: (types.int64, ir.IntType(64))}
    if value not in pairs:
        raise TypingError(f"no bit pattern for {value}")
    integer, llvm_type = pairs[value]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], llvm_type)

    return integer(value), codegen


@intrinsic
def _bits_float(typingctx: Any, value: Any) -> Any:
    """Reinterpret an integer as the float of its width."""
    pairs = {types.int32: (types.float32, ir.FloatType()), types.int64: (types.float64, ir.DoubleType())}
    if value not in pairs:
        raise TypingError(f"no float for {value}")
    floating, llvm_type = pairs[value]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], llvm_type)

    return floating(value), codegen


@njit(inline="always")
def _exp32(x: Any) -> Any:
    """exp(x) for x ≤ 0 to about one unit in the last place of float32; 0 below −87."""
    magic = np.float32(12582912.0)  # 1.5·2²³: adding it rounds to an integer in the low mantissa bits
    y = max(x, np.float32(-87.0))
    shifted = y * np.float32(1.4426950408889634) + magic
    n = shifted - magic
    r = y - n * np.float32(0.693359375) - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * (r * r) + r + np.float32(1.0)
    scale = _bits_float(np.int32((_float_bits(shifted) + np.int32(127)) << np.int32(23)))
    return p * scale if x > np.float32(-87.0) else np.float32(0.0)


@njit(inline="always")
def _exp64(x: Any) -> Any:
    """exp(x) for x ≤ 0 to about one unit in the last place of float64; 0 below −708."""
    magic = 6755399441055744.0  # 1.5·2⁵²
    y = max(x, -708.0)
    shifted = y * 1.4426950408889634 + magic
    n = shifted - magic
    r = y - n * 0.6931471803691238 - n * 1.9082149292705877e-10
    p = 1.6059043836821613e-10  # 1/13!, and so on down: |r| ≤ ln(2)/2 leaves a remainder of 4e-18
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * (r * r) + r + 1.0
    scale = _bits_float((_float_bits(shifted) + np.int64(1023)) << np.int64(52))
    return p * scale if x > -708.0 else 0.0


def _exp(x: Any) -> Any:
    """exp(x) for x ≤ 0, in the precision of x."""
    return np.exp(x)


@overload(_exp, inline="always")
def _exp_of_type(x: Any) -> Any:
    return _exp32.py_func if x == types.float32 else _exp64.py_func


@njit(cache=True, nogil=True, fastmath=EXACT)
def gaussian(squared: Any, rate: Any) -> None:
    """Replace each d² by exp(−rate·d²)."""
    flat = squared.reshape(-1)
    for j in range(flat.shape[0]):
        flat[j] = _exp(-rate * flat[j])


@njit(cache=True, nogil=True, fastmath=EXACT)
def _shifted_weights(row: Any, lowest: Any, rate: Any, weights: Any) -> None:
    for j in range(row.shape[0]):
        row[j] = _exp(rate * (lowest - row[j])) * weights[j]


@njit(cache=True, nogil=True, fastmath=REDUCE)
def lowest_of(row: Any) -> Any:
    low = row[0]
    for j in range(row.shape[0]):
        low = min(low, row[j])
    return low


@njit(cache=True, nogil=True)
def _first_equal(row: Any, value: Any) -> int:
    for j in range(row.shape[0]):
        if row[j] == value:
            return j
    return 0


@njit(cache=True, nogil=True, fastmath=REDUCE)
def _total(row: Any) -> Any:
    total = np.float64(0.0)
    for j in range(row.shape[0]):
        total += row[j]
    return total


@njit(cache=True, nogil=True, fastmath=REDUCE)
def _weighted_total(row: Any, values: Any) -> Any:
    total = np.float64(0.0)
    for j in range(row.shape[0]):
        total += row[j] * values[j]
    return total


@njit(inline="always")
def negligible(values: Any) -> Any:
    """Return the exponent beyond which a weight is lost in rounding, in the precision of an array."""
    return NEGLIGIBLE32 if values.itemsize == 4 else NEGLIGIBLE64


@njit(cache=True, nogil=True)
def extend(
    squared: Any, rate: Any, weights: Any, coefficients: Any, coordinates: Any, nearest: Any, lowest: Any
) -> None:
    """Embed each row of d² to the landmarks: w(x)·B, nearest landmark and its d²; destroys ``squared``.

    The nearest landmark's d² is subtracted inside the exponential: it cancels in
    the normalised weights, and a point far from all landmarks does not become 0/0.
    ``coefficients`` is Bᵀ, (k, M), so that every sum runs over contiguous memory.
    Blocks of landmarks that are all too far to matter are passed over, which pays
    where neighbours among the landmarks stand together.
    """
    n_blocks = (squared.shape[1] + BLOCK - 1) // BLOCK
    lows = np.empty(n_blocks, squared.dtype)
    sums = np.empty(coefficients.shape[0])
    for i in range(squared.shape[0]):
        row = squared[i]
        for block in range(n_blocks):
            lows[block] = lowest_of(row[block * BLOCK : (block + 1) * BLOCK])
        nearest[i], lowest[i] = weigh(row, lows, rate, weights, coefficients, sums, coordinates[i])


@njit(cache=True, nogil=True)
def weigh(
    row: Any, lows: Any, rate: Any, weights: Any, coefficients: Any, sums: Any, coordinates: Any
) -> Any:
    """Embed one point by its d² to the landmarks and the lowest of each block; return the nearest and its d².

    Blocks too far to matter are not read, so nothing need stand there.
    """
    closest = 0
    for block in range(1, lows.size):
        if lows[block] < lows[closest]:
            closest = block
    low = lows[closest]
    nearest = closest * BLOCK + _first_equal(row[closest * BLOCK : (closest + 1) * BLOCK], low)
    total = 0.0
    sums[:] = 0.0
    reach = low + negligible(row) / rate
    for block in range(lows.size):
        if lows[block] > reach:
            continue
        start, stop = block * BLOCK, (block + 1) * BLOCK
        part = row[start:stop]
        _shifted_weights(part, low, rate, weights[start:stop])
        total += _total(part)
        for component in range(sums.size):
            sums[component] += _weighted_total(part, coefficients[component, start:stop])
    for component in range(sums.size):
        coordinates[component] = sums[component] / total
    return nearest, low


@njit(cache=True, nogil=True)
def judge(
    squared: Any, nearest: Any, squared_radii: Any, slack: float, epsilon: float, distance: Any, inside: Any
) -> None:
    """Say how far points are from their nearest landmarks, in √ε, and whether their domains hold them."""
    for i in range(len(squared)):
        value = np.float64(squared[i])
        inside[i] = value <= squared_radii[nearest[i]] * slack
        distance[i] = np.sqrt(value / epsilon)


@njit(cache=True, nogil=True)
def nearest_in_rows(squared: Any, nearest: Any, lowest: Any) -> None:
    """Find the smallest entry of each row and the first place where it stands."""
    n_columns = squared.shape[1]
    for i in range(squared.shape[0]):
        row = squared[i]
        # Only a minimum can be vectorised, not its place; so the place is looked for in one block alone.
        low, closest = lowest_of(row[:BLOCK]), 0
        for start in range(BLOCK, n_columns, BLOCK):
            part = lowest_of(row[start : start + BLOCK])
            if part < low:
                low, closest = part, start
        nearest[i] = closest + _first_equal(row[closest : closest + BLOCK], low)
        lowest[i] = low


@njit(cache=True, nogil=True, fastmath=REDUCE)
def distance_sums(squared: Any, weights: Any, sums: Any) -> None:
    """Σ_j w_j d_ij for each row, from d²."""
    for i in range(squared.shape[0]):
        row = squared[i]
        total = np.float64(0.0)
        for j in range(row.shape[0]):
            total += np.sqrt(row[j]) * weights[j]
        sums[i] = total


@njit(cache=True, nogil=True)
def all_within_hops(squared: Any, cutoff: float, radii: Any) -> bool:
    """Say whether hops lead from the first point to every other; from i to j reach √cutoff + r_i + r_j."""
    n = squared.shape[0]
    hop = np.sqrt(cutoff)
    unseen = np.arange(1, n)
    waiting = np.zeros(n, dtype=np.int64)
    n_unseen, n_waiting = n - 1, 1
    while n_waiting and n_unseen:
        n_waiting -= 1
        here = waiting[n_waiting]
        row = squared[here]
        kept = 0
        for place in range(n_unseen):
            other = unseen[place]
            both = radii[here] + radii[other]
            if row[other] <= cutoff + both * (2.0 * hop + both):
                waiting[n_waiting] = other
                n_waiting += 1
            else:
                unseen[kept] = other
                kept += 1
        n_unseen = kept
    return bool(n_unseen == 0)


@njit(cache=True, nogil=True, fastmath=REDUCE)
def matvec_rows(matrix: Any, vector: Any, out: Any) -> None:
    """Multiply rows of a stored kernel by a float64 vector, accumulating in float64 whatever the storage."""
    n_rows, n_cols = matrix.shape
    quads = n_rows - n_rows % 4
    for i in range(0, quads, 4):
        a, b, c, d = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        s0 = s1 = s2 = s3 = np.float64(0.0)
        for j in range(n_cols):
            v = vector[j]
            s0 += a[j] * v
            s1 += b[j] * v
            s2 += c[j] * v
            s3 += d[j] * v
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
    for i in range(quads, n_rows):
        out[i] = _weighted_total(matrix[i], vector)


@njit(cache=True, nogil=True, fastmath=REDUCE)
def _four_rows_both_ways(a: Any, b: Any, c: Any, d: Any, vector: Any, own: Any, out: Any) -> Any:
    """Return four rows times ``vector``, and add their transpose times the four numbers of ``own`` to ``out``."""
    v0, v1, v2, v3 = own[0], own[1], own[2], own[3]
    s0 = s1 = s2 = s3 = np.float64(0.0)
    for j in range(a.shape[0]):
        v = vector[j]
        x0, x1, x2, x3 = np.float64(a[j]), np.float64(b[j]), np.float64(c[j]), np.float64(d[j])
        s0 += x0 * v
        s1 += x1 * v
        s2 += x2 * v
        s3 += x3 * v
        out[j] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
    return s0, s1, s2, s3


@njit(cache=True, nogil=True)
def symmetric_matvec_band(matrix: Any, first: int, last: int, vector: Any, out: Any) -> None:
    """Write what rows ``first`` to ``last`` of the upper half of a symmetric matrix add to its product.

    Every entry is read once and used for both of its places; reading is what a
    product of a large matrix consists of. ``out`` is zero before ``first``.
    """
    n = matrix.shape[0]
    out[:] = 0.0
    quads = last - (last - first) % 4
    for i in range(first, quads, 4):
        own = vector[i : i + 4]
        for p in range(4):
            for q in range(4):
                out[i + p] += matrix[i + p, i + q] * own[q]
        s0, s1, s2, s3 = _four_rows_both_ways(
            matrix[i, i + 4 :],
            matrix[i + 1, i + 4 :],
            matrix[i + 2, i + 4 :],
            matrix[i + 3, i + 4 :],
            vector[i + 4 :],
            own,
            out[i + 4 :],
        )
        out[i] += s0
        out[i + 1] += s1
        out[i + 2] += s2
        out[i + 3] += s3
    for i in range(quads, last):
        out[i] += matrix[i, i] * vector[i]
        for j in range(i + 1, n):
            out[i] += matrix[i, j] * vector[j]
            out[j] += matrix[i, j] * vector[i]


@njit(cache=True, nogil=True, fastmath=REDUCE)
def sparse_matvec_rows(starts: Any, columns: Any, data: Any, vector: Any, out: Any) -> None:
    """Multiply rows of a stored CSR kernel by a float64 vector, accumulating in float64."""
    for i in range(out.shape[0]):
        row = data[starts[i] : starts[i + 1]]
        place = columns[starts[i] : starts[i + 1]]
        total = np.float64(0.0)
        for j in range(row.shape[0]):
            total += row[j] * vector[place[j]]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=REDUCE)
def kernel_moments(
    squared: Any, rates: Any, row_weights: Any, col_weights: Any, sums: Any, moments: Any
) -> None:
    """Add Σ w_i w_j exp(−r d²) and Σ w_i w_j r d² exp(−r d²) over a block, for every rate r."""
    for i in range(squared.shape[0]):
        row = squared[i]
        for g in range(rates.shape[0]):
            rate = rates[g]
            total = 0.0
            moment = 0.0
            for j in range(row.shape[0]):
                x = rate * row[j]
                if x < 700.0:
                    value = np.exp(-x) * col_weights[j]
                    total += value
                    moment += x * value
            sums[g] += row_weights[i] * total
            moments[g] += row_weights[i] * moment


@njit(cache=True, nogil=True)
def attach_nearest(row: Any, origin: int, best: Any, parent: Any, reached: Any) -> int:
    """One step of Prim: fold a new tree point's d² row into the frontier; return the closest outside point."""
    closest = -1
    lowest = np.inf
    for j in range(row.shape[0]):
        if reached[j]:
            continue
        if row[j] < best[j]:
            best[j] = row[j]
            parent[j] = origin
        if best[j] < lowest:
            lowest = best[j]
            closest = j
    return closest


@njit(cache=True, nogil=True)
def count_edges(row: Any, origin: int, squared_radius: Any, degree: Any, parent: Any, draws: Any) -> None:
    """Count a new tree point as neighbour of each outside point, and keep one neighbour drawn uniformly.

    Reservoir sampling: the n-th neighbour replaces the kept one with probability 1/n.
    """
    for j in range(row.shape[0]):
        if row[j] <= squared_radius:
            degree[j] += 1
            if draws[j] * degree[j] < 1.0:
                parent[j] = origin


@njit(cache=True, nogil=True)
def pick_by_degree(degree: Any, target: int) -> Any:
    """Return the point in which the running total of ``degree`` passes ``target``."""
    total = 0
    for j in range(degree.shape[0]):
        total += degree[j]
        if total > target:
            return j
    return degree.shape[0] - 1
