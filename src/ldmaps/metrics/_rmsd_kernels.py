"""Compiled loops behind :class:`ldmaps.metrics.rmsd.RMSD`.

How a block of squared distances is made::

    frames of b, in panels of LANES          one row of a
    panel[p, 3k+c, lane]                     row[i, 3k+c]
              │                                   │
              └──────────► nine sums ◄────────────┘      M = Σ_k a_k b_kᵀ, nine vector registers
                              │
                   work[:9, SLOTS·LANES]                 one slot = one row against one panel
                              │
                  largest root λ of the quartic          every lane the same fixed steps
                              │
                 doubtful lanes ──► float64, then Jacobi (mirror-like pairs, a few in a thousand)
                              │
                   d² = G_a + G_b − 2 s_a s_b λ

Frames are stored centred, times sqrt(w_i/Σw), turned to their own principal
axes, and divided by their norm s. So d² needs no division, nothing overflows
whatever the unit of length, errors are relative to s_a s_b, and the entries of
M are graded, |M_ij| ≤ σ_i(a) σ_j(b) with σ the semi-axes of a frame,
which keeps the *relative* accuracy of small cofactors and determinants.

The root. With signed singular values s1 ≥ s2 ≥ |s3| of M (s3 has the sign of
det M), λ = s1+s2+s3 is the maximum of tr(RM) over proper rotations R. With y
the second elementary symmetric function of the s_i, F = ‖M‖², C = ‖cof M‖²::

    λ² = F + 2y,     f = y² − C − 2 λ det M = 0,     df/dλ = 2q,
    q = yλ − det M = (s1+s2)(s2+s3)(s1+s3),          d²f/dλ² = 2(y + λ²).

As a function of λ, f is the characteristic polynomial of a symmetric 4×4 matrix,
so its four roots are real and Laguerre's steps go to the largest one. A step t
changes λ by −t and y by −t(λ − t/2), which is exact: y is never formed as the
difference (λ²−F)/2, so nothing cancels when all atoms are nearly on one line.
The root is ill-conditioned only where q is small beside the rounding of C and
det, that is for det M < 0 with s2 ≈ |s3|; those lanes are found by an error
estimate and computed again.

Every lane runs the same instructions in the same order, so a distance does not
depend on how the block was cut; and every expression is symmetric under M → Mᵀ,
so d(a, b) and d(b, a) are the same number, bit by bit.

All of this stays in one file because numba's cache of compiled code watches only
the file a kernel is in: vector code kept elsewhere could change unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ldmaps.metrics.rmsd import PANEL_BYTES

#: Slots of one pass: their sums take 12 KB, which leaves most of a 32 KB cache to the frames.
SLOTS = 32
#: Slots that the root finder takes at once, to have independent work while a division is under way.
GROUP = 4
#: Atoms summed in registers before partial sums are added up: bounds rounding and cache footprint.
ATOM_BLOCK = 64
#: Frames that are prepared together, one to a lane; a literal, so that the loops over lanes become vector code.
TOGETHER = 8
#: Sweeps of Jacobi's method that make a frame's covariance diagonal to rounding.
JACOBI_SWEEPS = 4
#: Rows of the work array beyond the nine sums.
BOUND, ROOT, WORK_ROWS = 9, 10, 11
#: Rows of the moments of a frame: G = Σ|a|², its root s, and sqrt(Σ_{i<j} σ_i²σ_j²) after division by s.
SQUARED_NORM, SCALE, AREA, MOMENTS = 0, 1, 2, 3


# -- vector code ----------------------------------------------------------
#
# The innermost steps are written in LLVM's vectors: no loop that the compiler vectorises by
# itself keeps the nine sums in registers over all atoms, and only explicit vectors make it
# certain that no lane ever takes a differently rounded scalar path.

_vector_code: Any = intrinsic
_llvm: Any = cgutils  # neither is typed


class _Vector:
    """An LLVM vector with Python's operators; only the methods named ``f…`` may fuse a rounding away."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _operand(self, other: Any) -> Any:
        if isinstance(other, _Vector):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * self.value.type.count)

    def __add__(self, other: Any) -> _Vector:
        return _Vector(self.builder, self.builder.fadd(self.value, self._operand(other)))

    def __sub__(self, other: Any) -> _Vector:
        return _Vector(self.builder, self.builder.fsub(self.value, self._operand(other)))

    def __mul__(self, other: Any) -> _Vector:
        return _Vector(self.builder, self.builder.fmul(self.value, self._operand(other)))

    def __truediv__(self, other: Any) -> _Vector:
        return _Vector(self.builder, self.builder.fdiv(self.value, self._operand(other)))

    def _product(self, other: Any) -> Any:
        return self.builder.fmul(self.value, self._operand(other), flags=("contract",))

    def fadd(self, factor: Any, addend: Any) -> _Vector:
        """Return self·factor + addend."""
        product = self._product(factor)
        return _Vector(self.builder, self.builder.fadd(product, self._operand(addend), flags=("contract",)))

    def fsub(self, factor: Any, subtrahend: Any) -> _Vector:
        """Return self·factor − subtrahend."""
        product = self._product(factor)
        return _Vector(
            self.builder, self.builder.fsub(product, self._operand(subtrahend), flags=("contract",))
        )

    def fsub_from(self, factor: Any, minuend: Any) -> _Vector:
        """Return minuend − self·factor."""
        product = self._product(factor)
        return _Vector(self.builder, self.builder.fsub(self._operand(minuend), product, flags=("contract",)))

    def positive_part(self) -> _Vector:
        """Return max(self, 0), and 0 for NaN."""
        zero = ir.Constant(self.value.type, None)
        above = self.builder.fcmp_ordered(">", self.value, zero)
        return _Vector(self.builder, self.builder.select(above, self.value, zero))

    def minimum(self, other: _Vector) -> _Vector:
        """Return the lesser of the two."""
        less = self.builder.fcmp_ordered("<", self.value, other.value)
        return _Vector(self.builder, self.builder.select(less, self.value, other.value))

    def absolute(self) -> _Vector:
        """Return |self|."""
        below = self.builder.fcmp_ordered("<", self.value, ir.Constant(self.value.type, None))
        return _Vector(self.builder, self.builder.select(below, self.builder.fneg(self.value), self.value))

    def sqrt(self) -> _Vector:
        """Return the correctly rounded square root."""
        kind = self.value.type
        bits = 32 if isinstance(kind.element, ir.FloatType) else 64
        function = _llvm.get_or_insert_function(
            self.builder.module, ir.FunctionType(kind, [kind]), f"llvm.sqrt.v{kind.count}f{bits}"
        )
        return _Vector(self.builder, self.builder.call(function, [self.value]))

    def rough_sqrt(self) -> _Vector:
        """Return the square root to within 7e-4 of itself, at a quarter of the cost of the exact one.

        The exponent is halved in the bit pattern, then one step of Newton's
        iteration for 1/sqrt with coefficients that balance its error.
        """
        kind = self.value.type
        single = isinstance(kind.element, ir.FloatType)
        integers = ir.VectorType(ir.IntType(32 if single else 64), kind.count)
        magic = 0x5F1FFFF9 if single else 0x5FE3FFFF3FFFFFFF
        halved = self.builder.lshr(
            self.builder.bitcast(self.value, integers), ir.Constant(integers, [1] * kind.count)
        )
        pattern = self.builder.sub(ir.Constant(integers, [magic] * kind.count), halved)
        inverse = _Vector(self.builder, self.builder.bitcast(pattern, kind))
        root = self * inverse
        return (root * 0.703952253) * root.fsub_from(inverse, 2.38924456)


def _largest_root(
    m: Sequence[_Vector], bound: _Vector, epsilon: float, newton_steps: int
) -> tuple[_Vector, ...]:
    """Return, for every lane, λ, the excess of its estimated error over what is allowed, and f''(λ)/2.

    f, f' and f'' all change sign at or below the largest root, and a polynomial with
    real roots only has no root above a λ where none of them is negative: so f' and
    f'' tell whether λ is the largest one. The start, λ ≥ sqrt(F), lies above the
    second largest, s1−s2−s3; only rounding can lead a lane astray.
    """
    a, b, c, d, e, f, g, h, i = m
    # Whatever Mᵀ exchanges is rounded alike here: see the note on symmetry above.
    cg, bd, fh, bf, dh = c * g, b * d, f * h, b * f, d * h
    c00, c11, c22 = e.fsub(i, fh), a.fsub(i, cg), a.fsub(e, bd)
    c01, c10 = f.fsub(g, d * i), h.fsub(c, b * i)
    c02, c20 = g.fsub_from(e, dh), c.fsub_from(e, bf)
    c12, c21 = b.fsub(g, a * h), d.fsub(c, a * f)

    def squares(diagonal: Sequence[_Vector], pairs: Sequence[tuple[_Vector, _Vector]]) -> _Vector:
        x, y, z = diagonal
        (p, pt), (q, qt), (r, rt) = pairs
        off = ((p * p + pt * pt) + (q * q + qt * qt)) + (r * r + rt * rt)
        return x.fadd(x, y.fadd(y, z.fadd(z, off)))

    square = squares((a, e, i), ((b, d), (c, g), (f, h)))
    cofactors = squares((c00, c11, c22), ((c01, c10), (c02, c20), (c12, c21)))
    # Every product below takes one factor of each row and column, so grading carries over to the sum.
    det = a.fadd(c00, i.fsub_from(bd, e.fsub_from(cg, bf * g + dh * c)))

    det2 = det * 2
    root_c = cofactors.rough_sqrt()
    lam = root_c.fadd(2, square).rough_sqrt()
    y = det2.fadd(lam, cofactors).positive_part().rough_sqrt()
    lam = y.fadd(2, square).sqrt()  # exact: from here on λ² = F + 2y is kept by the updates
    tiny = 1e-30  # only frames without extent reach it: 0/tiny is 0
    for step in range(2 + newton_steps):
        value = det2.fsub_from(lam, y.fsub(y, cofactors))
        q = y.fsub(lam, det)
        if step < 2:  # Laguerre, which also copes with the far side of a near-double root
            curvature = lam.fadd(lam, y)
            spread = (value * 6).fsub_from(curvature, (q * 9) * q).positive_part().rough_sqrt()
            t = (value * 2) / ((q.absolute() + spread) + tiny)
        else:
            t = (value * 0.5) / (q + tiny)
        y = t.fsub_from((t * 0.5).fsub_from(1, lam), y)
        lam = lam - t
    q = y.fsub(lam, det)
    # 2q·(error of λ) is t²(y+λ²) for the iteration, plus the rounding of f. Of the latter, 2C stands for
    # the sums (where q is small det is negative and 2λ|det| ≤ C), and the rest for what cancels inside
    # cofactors and determinant: products of entries, no more than AREA_a·AREA_b and than F/2 =: x.
    # Allowed are 4 roundings.
    product = bound.minimum(square * 0.5)
    rounding = cofactors.fadd(2, (product * 0.5) * (root_c + product)) * epsilon
    curvature = lam.fadd(lam, y)
    excess = (t * t).fadd(curvature, rounding) - q * (8 * epsilon)
    return lam, excess, curvature


class _Arrays:
    """Addresses of vectors inside the arrays an intrinsic receives."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.builder = context, builder
        self.scalar = context.get_value_type(dtype)
        self.align = dtype.bitwidth // 8
        self.lanes = PANEL_BYTES // self.align
        self.epsilon = float(np.finfo(np.float32 if self.align == 4 else np.float64).eps)

    def data(self, array_type: Any, value: Any) -> Any:
        return self.context.make_array(array_type)(self.context, self.builder, value).data

    def _pointer(self, data: Any, at: Any, panels: int) -> Any:
        vector = ir.VectorType(self.scalar, self.lanes * panels)
        return self.builder.bitcast(self.builder.gep(data, [at]), vector.as_pointer())

    def load(self, data: Any, at: Any, panels: int = 1) -> _Vector:
        return _Vector(self.builder, self.builder.load(self._pointer(data, at, panels), align=self.align))

    def store(self, vector: _Vector, data: Any, at: Any, panels: int = 1) -> None:
        self.builder.store(vector.value, self._pointer(data, at, panels), align=self.align)

    def spread(self, scalar: Any) -> _Vector:
        vector = ir.VectorType(self.scalar, self.lanes)
        index = ir.IntType(32)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(index, 0))
        lanes = ir.Constant(ir.VectorType(index, self.lanes), None)
        return _Vector(self.builder, self.builder.shuffle_vector(first, first, lanes))

    def offset(self, index: Any, scale: int, shift: int = 0) -> Any:
        scaled = self.builder.mul(index, ir.Constant(index.type, scale))
        return self.builder.add(scaled, ir.Constant(index.type, shift))

    def work(self, row: int, slot: Any) -> Any:
        return self.offset(slot, self.lanes, row * SLOTS * self.lanes)


def _nine_sums(accumulate: bool) -> Any:
    """Make the loop that costs the most: M of one row against one panel, in nine registers."""

    @_vector_code
    def nine_sums(
        typing: Any, row: Any, row_at: Any, panel: Any, panel_at: Any, n_atoms: Any, work: Any, slot: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = _Arrays(context, builder, row.dtype)
            row_data = builder.gep(at.data(row, args[0]), [args[1]])
            panel_data = builder.gep(at.data(panel, args[2]), [args[3]])
            work_data = at.data(work, args[5])
            zero = ir.Constant(ir.VectorType(at.scalar, at.lanes), None)
            sums = [_llvm.alloca_once_value(builder, zero) for _ in range(9)]
            with _llvm.for_range(builder, args[4]) as loop:
                left, right = [], []
                for c in range(3):
                    here = at.offset(loop.index, 3, c)
                    left.append(at.spread(builder.load(builder.gep(row_data, [here]), align=at.align)))
                    right.append(at.load(panel_data, at.offset(here, at.lanes)))
                for entry, total in enumerate(sums):
                    so_far = _Vector(builder, builder.load(total))
                    builder.store(left[entry // 3].fadd(right[entry % 3], so_far).value, total)
            for entry, total in enumerate(sums):
                result = _Vector(builder, builder.load(total))
                if accumulate:
                    result = at.load(work_data, at.work(entry, args[6])) + result
                at.store(result, work_data, at.work(entry, args[6]))
            return context.get_dummy_value()

        return types.void(row, types.intp, panel, types.intp, types.intp, work, types.intp), generate

    return nine_sums


_store_nine_sums = _nine_sums(accumulate=False)
_add_nine_sums = _nine_sums(accumulate=True)


@_vector_code
def _fill_bound(typing: Any, work: Any, slot: Any, area: Any, moments: Any, moments_at: Any) -> Any:
    """Write the product of two frames' AREA, which bounds the cofactors of M."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Arrays(context, builder, work.dtype)
        product = at.spread(args[2]) * at.load(at.data(moments, args[3]), args[4])
        at.store(product, at.data(work, args[0]), at.work(BOUND, args[1]))
        return context.get_dummy_value()

    return types.void(work, types.intp, work.dtype, moments, types.intp), generate


@_vector_code
def _solve_group(typing: Any, work: Any, slot: Any) -> Any:
    """Write λ of GROUP slots; return a bit for every lane that must be computed again."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Arrays(context, builder, work.dtype)
        data = at.data(work, args[0])
        m = [at.load(data, at.work(entry, args[1]), GROUP) for entry in range(9)]
        bound = at.load(data, at.work(BOUND, args[1]), GROUP)
        lam, excess, curvature = _largest_root(m, bound, at.epsilon, newton_steps=1 if at.align == 4 else 2)
        at.store(lam, data, at.work(ROOT, args[1]), GROUP)
        zero = ir.Constant(excess.value.type, None)
        # Unordered comparisons: NaN is doubtful too.
        doubtful = builder.or_(
            builder.fcmp_unordered(">", excess.value, zero),
            builder.fcmp_unordered("<", curvature.value, zero),
        )
        bits = builder.bitcast(doubtful, ir.IntType(at.lanes * GROUP))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(work, types.intp), generate


@_vector_code
def _write_distances(
    typing: Any,
    work: Any,
    slot: Any,
    norm: Any,
    scale: Any,
    moments: Any,
    norm_at: Any,
    scale_at: Any,
    out: Any,
    out_at: Any,
) -> Any:
    """Write d² of one slot to ``out``: G_a + G_b − 2 s_a s_b λ, and no less than 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Arrays(context, builder, work.dtype)
        data = at.data(moments, args[4])
        lam = at.load(at.data(work, args[0]), at.work(ROOT, args[1]))
        norms = at.spread(args[2]) + at.load(data, args[5])
        scales = at.spread(args[3]) * at.load(data, args[6])
        squared = (scales * 2).fsub_from(lam, norms).positive_part()
        at.store(squared, at.data(out, args[7]), args[8])
        return context.get_dummy_value()

    dtype = work.dtype
    return (
        types.void(work, types.intp, dtype, dtype, moments, types.intp, types.intp, out, types.intp),
        generate,
    )


# -- one pair at a time, in float64 ---------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _orthogonal_columns(u: Any, v: Any) -> None:
    """Turn the columns of ``u`` (3×3) to right angles from the right; ``v`` collects the rotations.

    One-sided Jacobi: the column lengths become the singular values, each to
    nearly full relative accuracy, and no case is ill-conditioned.
    """
    for _ in range(30):
        turned = False
        for p in range(2):
            for q in range(p + 1, 3):
                pp = u[0, p] * u[0, p] + u[1, p] * u[1, p] + u[2, p] * u[2, p]
                qq = u[0, q] * u[0, q] + u[1, q] * u[1, q] + u[2, q] * u[2, q]
                pq = u[0, p] * u[0, q] + u[1, p] * u[1, q] + u[2, p] * u[2, q]
                if abs(pq) <= 1e-16 * math.sqrt(pp * qq) or pq == 0.0:
                    continue
                turned = True
                tau = (qq - pp) / (2.0 * pq)
                t = math.copysign(1.0, tau) / (abs(tau) + math.sqrt(1.0 + tau * tau))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for i in range(3):
                    x, y = u[i, p], u[i, q]
                    u[i, p], u[i, q] = cosine * x - sine * y, sine * x + cosine * y
                    x, y = v[i, p], v[i, q]
                    v[i, p], v[i, q] = cosine * x - sine * y, sine * x + cosine * y
        if not turned:
            break


@njit(cache=True, nogil=True, error_model="numpy")
def _load_matrix(work: Any, lane: int, u: Any, v: Any) -> None:
    for i in range(3):
        for j in range(3):
            u[i, j] = work[3 * i + j, lane]
            v[i, j] = 1.0 if i == j else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _jacobi_root(work: Any, lane: int, u: Any, v: Any) -> float:
    _load_matrix(work, lane, u, v)
    # Jacobi treats rows and columns differently: of M and Mᵀ always take the same one.
    b, c, f, d, g, h = u[0, 1], u[0, 2], u[1, 2], u[1, 0], u[2, 0], u[2, 1]
    if b < d or (b == d and (c < g or (c == g and f < h))):
        u[0, 1], u[0, 2], u[1, 2], u[1, 0], u[2, 0], u[2, 1] = d, g, h, b, c, f
    _orthogonal_columns(u, v)
    total = 0.0
    smallest = np.inf
    for p in range(3):
        length = math.sqrt(u[0, p] * u[0, p] + u[1, p] * u[1, p] + u[2, p] * u[2, p])
        total += length
        smallest = min(smallest, length)
    # The columns are at right angles now, so the sign of their determinant is certain.
    det = (
        u[0, 0] * (u[1, 1] * u[2, 2] - u[1, 2] * u[2, 1])
        + u[0, 1] * (u[1, 2] * u[2, 0] - u[1, 0] * u[2, 2])
        + u[0, 2] * (u[1, 0] * u[2, 1] - u[1, 1] * u[2, 0])
    )
    return total - 2.0 * smallest if det < 0.0 else total


@njit(cache=True, nogil=True, error_model="numpy")
def _careful_root(work: Any, lane: int, epsilon: float, u: Any, v: Any) -> Any:
    """Return λ of one doubtful lane: Laguerre in float64 until it stands still, else Jacobi.

    float64 alone settles nearly all lanes of a float32 block.
    """
    a, b, c = np.float64(work[0, lane]), np.float64(work[1, lane]), np.float64(work[2, lane])
    d, e, f = np.float64(work[3, lane]), np.float64(work[4, lane]), np.float64(work[5, lane])
    g, h, i = np.float64(work[6, lane]), np.float64(work[7, lane]), np.float64(work[8, lane])
    cg, bd, fh, bf, dh = c * g, b * d, f * h, b * f, d * h
    c00, c11, c22 = e * i - fh, a * i - cg, a * e - bd
    c01, c10 = f * g - d * i, h * c - b * i
    c02, c20 = dh - g * e, bf - c * e
    c12, c21 = b * g - a * h, d * c - a * f
    square = (a * a + e * e + i * i) + ((b * b + d * d) + (c * c + g * g) + (f * f + h * h))
    cofactors = (c00 * c00 + c11 * c11 + c22 * c22) + (
        (c01 * c01 + c10 * c10) + (c02 * c02 + c20 * c20) + (c12 * c12 + c21 * c21)
    )
    det = (bf * g + dh * c) - e * cg - i * bd + a * c00
    root_c = math.sqrt(cofactors)
    product = min(np.float64(work[BOUND, lane]), 0.5 * square)
    rounding = 2.2e-16 * (2.0 * cofactors + 0.5 * product * (root_c + product))
    lam = math.sqrt(square + 2.0 * root_c)
    y = math.sqrt(max(cofactors + 2.0 * det * lam, 0.0))
    lam = math.sqrt(square + 2.0 * y)
    for _ in range(12):
        value = y * y - cofactors - 2.0 * det * lam
        q = y * lam - det
        curvature = lam * lam + y
        t = 2.0 * value / (abs(q) + math.sqrt(max(9.0 * q * q - 6.0 * value * curvature, 0.0)) + 1e-300)
        y -= t * (lam - 0.5 * t)
        lam -= t
        q = y * lam - det
        curvature = lam * lam + y
        if curvature > 0.0 and t * t * curvature <= epsilon * q and rounding <= 8.0 * epsilon * q:
            return lam
    return _jacobi_root(work, lane, u, v)


# -- frames in ------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _rotate(pp: Any, qq: Any, pq: Any, pr: Any, qr: Any, axes: Any, p: int, q: int) -> None:
    """One Jacobi rotation in every lane: clears the entry pq of the covariance and turns the axes along."""
    for lane in range(TOGETHER):
        x = pq[lane]
        difference = qq[lane] - pp[lane]
        root = math.sqrt(difference * difference + 4.0 * x * x)
        below = difference + root if difference >= 0.0 else difference - root
        t = 2.0 * x / below if below != 0.0 else 0.0
        c = 1.0 / math.sqrt(t * t + 1.0)
        s = t * c
        pp[lane] -= t * x
        qq[lane] += t * x
        pq[lane] = 0.0
        u, v = pr[lane], qr[lane]
        pr[lane] = c * u - s * v
        qr[lane] = s * u + c * v
        u, v = axes[0, p, lane], axes[0, q, lane]
        axes[0, p, lane], axes[0, q, lane] = c * u - s * v, s * u + c * v
        u, v = axes[1, p, lane], axes[1, q, lane]
        axes[1, p, lane], axes[1, q, lane] = c * u - s * v, s * u + c * v
        u, v = axes[2, p, lane], axes[2, q, lane]
        axes[2, p, lane], axes[2, q, lane] = c * u - s * v, s * u + c * v


@njit(cache=True, nogil=True, error_model="numpy")
def _order(moments: Any, axes: Any, p: int, q: int) -> None:
    """Exchange two axes in every lane where the second has the larger moment; a sign keeps them right-handed."""
    for lane in range(TOGETHER):
        u, v = moments[p, lane], moments[q, lane]
        swap = v > u
        moments[p, lane] = v if swap else u
        moments[q, lane] = u if swap else v
        for row in range(3):
            u, v = axes[row, p, lane], axes[row, q, lane]
            axes[row, p, lane] = v if swap else u
            axes[row, q, lane] = -u if swap else v


@njit(cache=True, nogil=True, error_model="numpy")
def prepare_frames(frames: Any, kept: Any, root_weights: Any, panels: Any, moments: Any) -> bool:
    """Centre, weigh, turn and scale ``frames`` (n, atoms, 3) into ``panels`` and ``moments``.

    Returns whether all norms are finite.

    All in float64: only the finished coordinates are rounded to the panels' dtype,
    so an offset of any size costs no accuracy that the input still had. Frames go
    through in lanes, each by the same instructions, so a frame's result does not
    depend on its neighbours.
    """
    n_frames, n_kept, lanes = frames.shape[0], kept.shape[0], panels.shape[2]
    real = panels.dtype.type
    x, y, z = np.empty((n_kept, TOGETHER)), np.empty((n_kept, TOGETHER)), np.empty((n_kept, TOGETHER))
    centre = np.empty((3, TOGETHER))
    diagonal, off = np.empty((3, TOGETHER)), np.empty((3, TOGETHER))
    axes = np.empty((3, 3, TOGETHER))
    scale, inverse = np.empty(TOGETHER), np.empty(TOGETHER)
    part, total = np.empty((3, TOGETHER)), np.empty((3, TOGETHER))
    rounded = np.empty((3, TOGETHER), panels.dtype)
    finite = True
    for first in range(0, n_frames, TOGETHER):
        # Lanes beyond the last frame repeat it and are not kept.
        for lane in range(TOGETHER):
            frame = frames[min(first + lane, n_frames - 1)]
            # Relative to the first atom, because differences of nearby numbers are exact.
            ox, oy, oz = (
                np.float64(frame[kept[0], 0]),
                np.float64(frame[kept[0], 1]),
                np.float64(frame[kept[0], 2]),
            )
            for k in range(n_kept):
                atom = kept[k]
                x[k, lane] = np.float64(frame[atom, 0]) - ox
                y[k, lane] = np.float64(frame[atom, 1]) - oy
                z[k, lane] = np.float64(frame[atom, 2]) - oz
        centre[:] = 0.0
        for k in range(n_kept):
            weight = root_weights[k] * root_weights[k]
            for lane in range(TOGETHER):
                centre[0, lane] += weight * x[k, lane]
                centre[1, lane] += weight * y[k, lane]
                centre[2, lane] += weight * z[k, lane]
        diagonal[:] = 0.0
        off[:] = 0.0
        for k in range(n_kept):
            weight = root_weights[k]
            for lane in range(TOGETHER):
                u = weight * (x[k, lane] - centre[0, lane])
                v = weight * (y[k, lane] - centre[1, lane])
                w = weight * (z[k, lane] - centre[2, lane])
                x[k, lane], y[k, lane], z[k, lane] = u, v, w
                diagonal[0, lane] += u * u
                diagonal[1, lane] += v * v
                diagonal[2, lane] += w * w
                off[0, lane] += u * v
                off[1, lane] += u * w
                off[2, lane] += v * w
        for lane in range(TOGETHER):
            # Rounded before the division, so that s times the stored frame is the frame.
            size = np.float64(real(math.sqrt(diagonal[0, lane] + diagonal[1, lane] + diagonal[2, lane])))
            scale[lane] = size if size > 0.0 and size < np.inf else 1.0
            inverse[lane] = 1.0 / scale[lane]
            for c in range(3):
                diagonal[c, lane] *= inverse[lane] * inverse[lane]
                off[c, lane] *= inverse[lane] * inverse[lane]
        axes[:] = 0.0
        axes[0, 0], axes[1, 1], axes[2, 2] = 1.0, 1.0, 1.0
        for _ in range(JACOBI_SWEEPS):
            _rotate(diagonal[0], diagonal[1], off[0], off[1], off[2], axes, 0, 1)
            _rotate(diagonal[0], diagonal[2], off[1], off[0], off[2], axes, 0, 2)
            _rotate(diagonal[1], diagonal[2], off[2], off[0], off[1], axes, 1, 2)
        _order(diagonal, axes, 0, 1)
        _order(diagonal, axes, 1, 2)
        _order(diagonal, axes, 0, 1)
        total[:] = 0.0
        part[:] = 0.0
        for k in range(n_kept):
            if k % ATOM_BLOCK == 0:  # partial sums, as for the products of pairs
                for lane in range(TOGETHER):
                    for c in range(3):
                        total[c, lane] += part[c, lane]
                        part[c, lane] = 0.0
            for lane in range(TOGETHER):
                u, v, w = x[k, lane] * inverse[lane], y[k, lane] * inverse[lane], z[k, lane] * inverse[lane]
                for c in range(3):
                    turned = real(u * axes[0, c, lane] + v * axes[1, c, lane] + w * axes[2, c, lane])
                    rounded[c, lane] = turned
                    # Norms of the rounded coordinates, so that a frame lies at distance 0 from itself.
                    part[c, lane] += np.float64(turned) * np.float64(turned)
            for start in range(0, TOGETHER, lanes):
                panel = (first + start) // lanes
                if panel < panels.shape[0]:
                    for c in range(3):
                        panels[panel, 3 * k + c, :] = rounded[c, start : start + lanes]
        for lane in range(min(TOGETHER, n_frames - first)):
            n = first + lane
            xx, yy, zz = (
                total[0, lane] + part[0, lane],
                total[1, lane] + part[1, lane],
                total[2, lane] + part[2, lane],
            )
            moments[SQUARED_NORM, n] = real((xx + yy + zz) * scale[lane] * scale[lane])
            moments[SCALE, n] = real(scale[lane])
            moments[AREA, n] = real(math.sqrt(xx * yy + xx * zz + yy * zz))
            finite = finite and math.isfinite(moments[SQUARED_NORM, n])
    if n_frames % lanes:
        panels[-1, :, n_frames % lanes :] = 0
    return finite


@njit(cache=True, nogil=True, error_model="numpy")
def prepare_aligned_frames(
    frames: Any,
    kept: Any,
    root_weights: Any,
    fitted: Any,
    root_fit_weights: Any,
    panels: Any,
    fit_panels: Any,
    norms: Any,
) -> bool:
    """Centre ``frames`` on the fitted atoms; write all kept atoms and the fitted ones, weighed.

    Returns whether all norms are finite.
    """
    lanes = panels.shape[2]
    finite = True
    centre = np.empty(3, np.float64)
    for n in range(frames.shape[0]):
        panel, lane = n // lanes, n % lanes
        norms[n] = 0.0
        largest = 0.0
        for c in range(3):
            origin = np.float64(frames[n, fitted[0], c])
            centre[c] = 0.0
            for k in range(fitted.shape[0]):
                x = np.float64(frames[n, fitted[k], c]) - origin
                centre[c] += root_fit_weights[k] * root_fit_weights[k] * x
            for k in range(fitted.shape[0]):
                x = (np.float64(frames[n, fitted[k], c]) - origin) - centre[c]
                fit_panels[panel, 3 * k + c, lane] = root_fit_weights[k] * x
                largest = max(largest, abs(root_fit_weights[k] * x))
            for k in range(kept.shape[0]):
                x = (np.float64(frames[n, kept[k], c]) - origin) - centre[c]
                panels[panel, 3 * k + c, lane] = root_weights[k] * x
                norms[n] += (root_weights[k] * x) ** 2
        if not (largest > 0.0 and largest < np.inf):
            largest = 1.0
        for k in range(fit_panels.shape[1]):
            fit_panels[panel, k, lane] /= largest
        finite = finite and math.isfinite(norms[n])
    return finite


# -- blocks out -----------------------------------------------------------


@njit(cache=True, nogil=True)
def _copy_rows(panels: Any, first: int, rows: Any, n_rows: int) -> None:
    lanes = panels.shape[2]
    for i in range(n_rows):
        panel, lane = (first + i) // lanes, (first + i) % lanes
        for k in range(rows.shape[1]):
            rows[i, k] = panels[panel, k, lane]


@njit(cache=True, nogil=True)
def _fill_sums(rows: Any, n_rows: int, panels: Any, first_panel: int, n_panels: int, work: Any) -> None:
    """Write M of every row against every panel, slot by slot, atoms in blocks."""
    depth, lanes = panels.shape[1], panels.shape[2]
    n_atoms = depth // 3
    for start in range(0, n_atoms, ATOM_BLOCK):
        count = min(ATOM_BLOCK, n_atoms - start)
        slot = 0
        for p in range(first_panel, first_panel + n_panels):
            panel_at = (p * depth + 3 * start) * lanes
            for i in range(n_rows):
                if start == 0:
                    _store_nine_sums(rows, i * depth, panels, panel_at, count, work, slot)
                else:
                    _add_nine_sums(rows, i * depth + 3 * start, panels, panel_at, count, work, slot)
                slot += 1


@njit(cache=True, nogil=True)
def squared_block(
    panels_a: Any,
    moments_a: Any,
    row_start: int,
    row_stop: int,
    panels_b: Any,
    moments_b: Any,
    col_start: int,
    col_stop: int,
    out: Any,
) -> None:
    """Write d² of the given rows of a and columns of b to ``out``; see the module's docstring."""
    depth, lanes = panels_b.shape[1], panels_b.shape[2]
    n_rows = row_stop - row_start
    n_cols = col_stop - col_start
    padded = moments_b.shape[1]
    epsilon = 1.1920929e-07 if panels_b.itemsize == 4 else 2.220446049250313e-16
    first_panel = col_start // lanes
    last_panel = (col_stop + lanes - 1) // lanes
    work = np.empty((WORK_ROWS, SLOTS * lanes), panels_b.dtype)
    rows = np.empty((min(n_rows, SLOTS), depth), panels_b.dtype)
    spill = np.empty(lanes, panels_b.dtype)
    u = np.empty((3, 3), np.float64)
    v = np.empty((3, 3), np.float64)
    for top in range(0, n_rows, SLOTS):
        height = min(SLOTS, n_rows - top)
        row = row_start + top
        _copy_rows(panels_a, row, rows, height)
        panels_a_pass = SLOTS // height
        for panel in range(first_panel, last_panel, panels_a_pass):
            width = min(panels_a_pass, last_panel - panel)
            _fill_sums(rows, height, panels_b, panel, width, work)
            slot = 0
            for p in range(panel, panel + width):
                for i in range(height):
                    _fill_bound(work, slot, moments_a[AREA, row + i], moments_b, AREA * padded + p * lanes)
                    slot += 1
            used = slot
            for slot in range(0, used, GROUP):
                doubtful = _solve_group(work, slot)
                if doubtful:
                    for lane in range(min(GROUP, used - slot) * lanes):
                        if (doubtful >> np.uint64(lane)) & np.uint64(1):
                            at = slot * lanes + lane
                            work[ROOT, at] = _careful_root(work, at, epsilon, u, v)
            slot = 0
            for p in range(panel, panel + width):
                col = p * lanes - col_start
                whole = col >= 0 and col + lanes <= n_cols
                norm_at = SQUARED_NORM * padded + p * lanes
                scale_at = SCALE * padded + p * lanes
                for i in range(height):
                    norm, scale = moments_a[SQUARED_NORM, row + i], moments_a[SCALE, row + i]
                    if whole:
                        out_at = (top + i) * n_cols + col
                        _write_distances(work, slot, norm, scale, moments_b, norm_at, scale_at, out, out_at)
                    else:
                        _write_distances(work, slot, norm, scale, moments_b, norm_at, scale_at, spill, 0)
                        for lane in range(max(0, -col), min(lanes, n_cols - col)):
                            out[top + i, col + lane] = spill[lane]
                    slot += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _fitted_trace(fit: Any, work: Any, lane: int, u: Any, v: Any) -> float:
    """Return tr(R M) of ``work`` for the proper rotation R that is optimal for ``fit``."""
    _load_matrix(fit, lane, u, v)
    _orthogonal_columns(u, v)
    order = np.empty(3, np.intp)
    length = np.empty(3, np.float64)
    for p in range(3):
        order[p] = p
        length[p] = math.sqrt(u[0, p] ** 2 + u[1, p] ** 2 + u[2, p] ** 2)
    for p in range(2):
        for q in range(2 - p):
            if length[order[q]] < length[order[q + 1]]:
                order[q], order[q + 1] = order[q + 1], order[q]
    left = np.zeros((3, 3), np.float64)
    right = np.zeros((3, 3), np.float64)
    for p in range(2):
        for i in range(3):
            right[i, p] = v[i, order[p]]
            left[i, p] = u[i, order[p]] / length[order[p]] if length[order[p]] > 0.0 else 0.0
    if length[order[0]] == 0.0:
        left[0, 0] = 1.0
    if length[order[1]] <= 1e-14 * length[order[0]]:
        # Fitted atoms on a line leave the turn about that line open: take any, always the same.
        least = 0
        for i in range(1, 3):
            if abs(left[i, 0]) < abs(left[least, 0]):
                least = i
        for i in range(3):
            left[i, 1] = (1.0 if i == least else 0.0) - left[least, 0] * left[i, 0]
        size = math.sqrt(left[0, 1] ** 2 + left[1, 1] ** 2 + left[2, 1] ** 2)
        for i in range(3):
            left[i, 1] /= size
    # Third axes as cross products make R proper and turn the shortest axis over where that is needed.
    for side in (left, right):
        side[0, 2] = side[1, 0] * side[2, 1] - side[2, 0] * side[1, 1]
        side[1, 2] = side[2, 0] * side[0, 1] - side[0, 0] * side[2, 1]
        side[2, 2] = side[0, 0] * side[1, 1] - side[1, 0] * side[0, 1]
    trace = 0.0
    for p in range(3):
        for i in range(3):
            for j in range(3):
                trace += left[i, p] * work[3 * i + j, lane] * right[j, p]
    return trace


@njit(cache=True, nogil=True)
def aligned_squared_block(
    panels_a: Any,
    fit_panels_a: Any,
    moments_a: Any,
    row_start: int,
    row_stop: int,
    panels_b: Any,
    fit_panels_b: Any,
    moments_b: Any,
    col_start: int,
    col_stop: int,
    out: Any,
) -> None:
    """Write d² over all atoms after superposing the fitted ones; float64 whatever ``out`` is."""
    lanes = panels_b.shape[2]
    n_rows = row_stop - row_start
    real = out.dtype.type
    work = np.empty((9, SLOTS * lanes), np.float64)
    fit = np.empty((9, SLOTS * lanes), np.float64)
    rows = np.empty((1, panels_b.shape[1]), np.float64)
    fit_rows = np.empty((1, fit_panels_b.shape[1]), np.float64)
    u = np.empty((3, 3), np.float64)
    v = np.empty((3, 3), np.float64)
    first_panel = col_start // lanes
    last_panel = (col_stop + lanes - 1) // lanes
    for i in range(n_rows):
        _copy_rows(panels_a, row_start + i, rows, 1)
        _copy_rows(fit_panels_a, row_start + i, fit_rows, 1)
        for panel in range(first_panel, last_panel, SLOTS):
            width = min(SLOTS, last_panel - panel)
            _fill_sums(rows, 1, panels_b, panel, width, work)
            _fill_sums(fit_rows, 1, fit_panels_b, panel, width, fit)
            start = max(col_start, panel * lanes)
            for col in range(start, min(col_stop, (panel + width) * lanes)):
                trace = _fitted_trace(fit, work, col - panel * lanes, u, v)
                squared = moments_a[SQUARED_NORM, row_start + i] + moments_b[SQUARED_NORM, col] - 2.0 * trace
                out[i, col - col_start] = real(max(squared, 0.0))
