"""Products of a stored kernel with a vector, in float64 whatever the kernel is stored in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import REDUCE, compiled
from ldmaps.compiled.rows import weighted_total

__all__ = ["matvec_rows", "sparse_matvec_rows", "symmetric_matvec_band"]


@compiled(fastmath=REDUCE)
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
        out[i] = weighted_total(matrix[i], vector)


@compiled(fastmath=REDUCE)
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


@compiled
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


@compiled(fastmath=REDUCE)
def sparse_matvec_rows(starts: Any, columns: Any, data: Any, vector: Any, out: Any) -> None:
    """Multiply rows of a stored CSR kernel by a float64 vector, accumulating in float64."""
    for i in range(out.shape[0]):
        row = data[starts[i] : starts[i + 1]]
        place = columns[starts[i] : starts[i + 1]]
        total = np.float64(0.0)
        for j in range(row.shape[0]):
            total += row[j] * vector[place[j]]
        out[i] = total
