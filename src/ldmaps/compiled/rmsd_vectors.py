"""The innermost steps of RMSD in LLVM's vectors: nine sums, and the largest root of a quartic.

No loop that the compiler vectorises by itself keeps the nine sums in registers over
all atoms, and only explicit vectors make it certain that no lane ever takes a
differently rounded scalar path.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ldmaps.compiled.vectors import Arrays, Vector, llvm, vector_code

__all__ = [
    "BOUND",
    "GROUP",
    "ROOT",
    "ROUNDING",
    "SLOTS",
    "WORK_ROWS",
    "add_nine_sums",
    "fill_bound",
    "solve_group",
    "store_nine_sums",
    "write_distances",
]

#: Slots of one pass: their sums take 12 KB, which leaves most of a 32 KB cache to the frames.
SLOTS = 32
#: Slots that the root finder takes at once, to have independent work while a division is under way.
GROUP = 4
#: Rows of the work array beyond the nine sums.
BOUND, ROOT, WORK_ROWS = 9, 10, 11

#: A difference G_a + G_b − 2 s_a s_b λ of no more than so many roundings of G_a + G_b counts as 0. Copies of a frame,
#: turned and moved, give up to 2.5.
ROUNDING = 4.0


def _largest_root(
    m: Sequence[Vector], bound: Vector, epsilon: float, newton_steps: int
) -> tuple[Vector, ...]:
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

    def squares(diagonal: Sequence[Vector], pairs: Sequence[tuple[Vector, Vector]]) -> Vector:
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


class _Work(Arrays):
    """Addresses in the work array too."""

    def work(self, row: int, slot: Any) -> Any:
        return self.offset(slot, self.lanes, row * SLOTS * self.lanes)


def _nine_sums(accumulate: bool) -> Any:
    """Make the loop that costs the most: M of one row against one panel, in nine registers."""

    @vector_code
    def nine_sums(
        typing: Any, row: Any, row_at: Any, panel: Any, panel_at: Any, n_atoms: Any, work: Any, slot: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = _Work(context, builder, row.dtype)
            row_data = builder.gep(at.data(row, args[0]), [args[1]])
            panel_data = builder.gep(at.data(panel, args[2]), [args[3]])
            work_data = at.data(work, args[5])
            zero = ir.Constant(ir.VectorType(at.scalar, at.lanes), None)
            sums = [llvm.alloca_once_value(builder, zero) for _ in range(9)]
            with llvm.for_range(builder, args[4]) as loop:
                left, right = [], []
                for c in range(3):
                    here = at.offset(loop.index, 3, c)
                    left.append(at.spread(builder.load(builder.gep(row_data, [here]), align=at.align)))
                    right.append(at.load(panel_data, at.offset(here, at.lanes)))
                for entry, total in enumerate(sums):
                    so_far = Vector(builder, builder.load(total))
                    builder.store(left[entry // 3].fadd(right[entry % 3], so_far).value, total)
            for entry, total in enumerate(sums):
                result = Vector(builder, builder.load(total))
                if accumulate:
                    result = at.load(work_data, at.work(entry, args[6])) + result
                at.store(result, work_data, at.work(entry, args[6]))
            return context.get_dummy_value()

        return types.void(row, types.intp, panel, types.intp, types.intp, work, types.intp), generate

    return nine_sums


store_nine_sums = _nine_sums(accumulate=False)
add_nine_sums = _nine_sums(accumulate=True)


@vector_code
def fill_bound(typing: Any, work: Any, slot: Any, area: Any, moments: Any, moments_at: Any) -> Any:
    """Write the product of two frames' AREA, which bounds the cofactors of M."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Work(context, builder, work.dtype)
        product = at.spread(args[2]) * at.load(at.data(moments, args[3]), args[4])
        at.store(product, at.data(work, args[0]), at.work(BOUND, args[1]))
        return context.get_dummy_value()

    return types.void(work, types.intp, work.dtype, moments, types.intp), generate


@vector_code
def solve_group(typing: Any, work: Any, slot: Any) -> Any:
    """Write λ of GROUP slots; return a bit for every lane that must be computed again."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Work(context, builder, work.dtype)
        data = at.data(work, args[0])
        m = [at.load(data, at.work(entry, args[1]), GROUP) for entry in range(9)]
        bound = at.load(data, at.work(BOUND, args[1]), GROUP)
        lam, excess, curvature = _largest_root(m, bound, at.epsilon, newton_steps=1 if at.align == 4 else 2)
        at.store(lam, data, at.work(ROOT, args[1]))
        zero = ir.Constant(excess.value.type, None)
        # Unordered comparisons: NaN is doubtful too.
        doubtful = builder.or_(
            builder.fcmp_unordered(">", excess.value, zero),
            builder.fcmp_unordered("<", curvature.value, zero),
        )
        bits = builder.bitcast(doubtful, ir.IntType(at.lanes * GROUP))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(work, types.intp), generate


@vector_code
def write_distances(
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
    """Write d² of one slot to ``out``: G_a + G_b − 2 s_a s_b λ, and 0 where that is rounding only."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _Work(context, builder, work.dtype)
        data = at.data(moments, args[4])
        lam = at.load(at.data(work, args[0]), at.work(ROOT, args[1]))
        norms = at.spread(args[2]) + at.load(data, args[5])
        scales = at.spread(args[3]) * at.load(data, args[6])
        rounding = norms * (ROUNDING * float(np.finfo(str(work.dtype)).eps))
        squared = (scales * 2).fsub_from(lam, norms).zero_up_to(rounding)
        at.store(squared, at.data(out, args[7]), args[8])
        return context.get_dummy_value()

    dtype = work.dtype
    return (
        types.void(work, types.intp, dtype, dtype, moments, types.intp, types.intp, out, types.intp),
        generate,
    )
