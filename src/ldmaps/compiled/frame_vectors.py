"""One step of preparing frames in LLVM's vectors: a frame to a lane, every lane the same instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ldmaps.compiled.layout import AREA, PANEL_BYTES, SCALE, SQUARED_NORM
from ldmaps.compiled.vectors import Arrays, Vector, llvm, vector_code

__all__ = ["ATOM_BLOCK", "TOGETHER", "pack_lanes"]

#: Atoms summed in registers before partial sums are added up: bounds rounding and cache footprint.
ATOM_BLOCK = 64
#: Frames that are prepared together.
TOGETHER = 8
#: Sweeps of Jacobi's method that make a frame's covariance diagonal to rounding.
JACOBI_SWEEPS = 4


class _Sums:
    """Vectors that grow in a loop; LLVM keeps them in registers."""

    def __init__(self, at: Arrays, count: int) -> None:
        self._builder = at.builder
        self._zero = ir.Constant(ir.VectorType(at.scalar, at.lanes), None)
        self._slots = [llvm.alloca_once_value(at.builder, self._zero) for _ in range(count)]

    def values(self) -> list[Vector]:
        return [Vector(self._builder, self._builder.load(slot)) for slot in self._slots]

    def add(self, terms: Sequence[Vector]) -> None:
        for slot, so_far, term in zip(self._slots, self.values(), terms, strict=True):
            self._builder.store((so_far + term).value, slot)

    def clear(self) -> None:
        for slot in self._slots:
            self._builder.store(self._zero, slot)


def _principal_axes(diagonal: Sequence[Vector], off: Sequence[Vector]) -> list[list[Vector]]:
    """Return the axes of symmetric 3×3 matrices, that of the largest moment first; right-handed.

    Parameters
    ----------
    diagonal, off
        Entries 00, 11, 22 and 01, 02, 12.
    """
    moments, products = list(diagonal), dict(zip(((0, 1), (0, 2), (1, 2)), off, strict=True))
    zero = Vector(diagonal[0].builder, ir.Constant(diagonal[0].value.type, None))
    axes = [[zero + float(row == column) for column in range(3)] for row in range(3)]

    def rotate(p: int, q: int) -> None:
        """Clear the entry pq by a rotation, and turn the axes along."""
        r = 3 - p - q
        x = products[p, q]
        difference = moments[q] - moments[p]
        root = (difference * difference + (x * 4.0) * x).sqrt()
        below = (difference + root).where(difference.compared(">=", 0.0), difference - root)
        t = zero.where(below.compared("==", 0.0), (x * 2.0) / below)
        c = 1.0 / (t * t + 1.0).sqrt()
        s = t * c
        moments[p], moments[q] = moments[p] - t * x, moments[q] + t * x
        products[p, q] = zero
        pr, qr = (min(p, r), max(p, r)), (min(q, r), max(q, r))
        u, v = products[pr], products[qr]
        products[pr], products[qr] = c * u - s * v, s * u + c * v
        for row in range(3):
            u, v = axes[p][row], axes[q][row]
            axes[p][row], axes[q][row] = c * u - s * v, s * u + c * v

    def order(p: int, q: int) -> None:
        """Exchange two axes where the second has the larger moment; a sign keeps them right-handed."""
        u, v = moments[p], moments[q]
        swap = v.compared(">", u)
        moments[p], moments[q] = v.where(swap, u), u.where(swap, v)
        for row in range(3):
            u, v = axes[p][row], axes[q][row]
            axes[p][row], axes[q][row] = v.where(swap, u), (-u).where(swap, v)

    for _ in range(JACOBI_SWEEPS):
        rotate(0, 1)
        rotate(0, 2)
        rotate(1, 2)
    order(0, 1)
    order(1, 2)
    order(0, 1)
    return axes


@vector_code
def pack_lanes(
    typing: Any,
    lanes: Any,
    root_weights: Any,
    n_atoms: Any,
    panels: Any,
    panel_at: Any,
    n_panels: Any,
    moments: Any,
) -> Any:
    """Centre, weigh, turn and scale TOGETHER frames, and write them to their panels.

    Parameters
    ----------
    lanes : ndarray of shape (3·atoms, TOGETHER), float64
        Coordinates; overwritten.
    root_weights : ndarray of shape (atoms,), float64
    n_atoms : int
    panels : ndarray
    panel_at : int
        Element of ``panels`` at which the frames' first panel begins.
    n_panels : int
        Panels that there are from there on; no more than these are written.
    moments : ndarray of shape (MOMENTS, TOGETHER)
        In the panels' precision.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = Arrays(context, builder, types.float64, TOGETHER)
        target = Arrays(context, builder, panels.dtype, TOGETHER)
        count = args[2]
        data, weights = at.data(lanes, args[0]), at.data(root_weights, args[1])
        out, kept = target.data(panels, args[3]), target.data(moments, args[6])
        rounded_type = ir.VectorType(target.scalar, TOGETHER)

        def place(atom: Any, axis: int) -> Any:
            return at.offset(atom, 3 * TOGETHER, axis * TOGETHER)

        def rounded(vector: Vector) -> Vector:
            if target.align == at.align:
                return vector
            return Vector(builder, builder.fptrunc(vector.value, rounded_type))

        def widened(vector: Vector) -> Vector:
            if target.align == at.align:
                return vector
            return Vector(builder, builder.fpext(vector.value, ir.VectorType(at.scalar, TOGETHER)))

        def store_row(vector: Vector, row: Any) -> None:
            """Write one row of the frames to the one or two panels that hold them."""
            width = PANEL_BYTES // target.align
            depth = at.offset(count, 3)
            for panel in range(TOGETHER // width):
                picked = ir.Constant(
                    ir.VectorType(ir.IntType(32), width), list(range(panel * width, (panel + 1) * width))
                )
                piece = Vector(builder, builder.shuffle_vector(vector.value, vector.value, picked))
                rows_before = builder.add(at.offset(depth, panel), row)
                with builder.if_then(
                    builder.icmp_signed(">", args[5], ir.Constant(args[5].type, panel)), likely=True
                ):
                    target.store(piece, out, builder.add(args[4], at.offset(rows_before, width)))

        centre = _Sums(at, 3)
        with llvm.for_range(builder, count) as loop:
            root = at.spread(builder.load(builder.gep(weights, [loop.index])))
            weight = root * root
            centre.add([weight * at.load(data, place(loop.index, axis)) for axis in range(3)])
        middle = centre.values()
        covariance = _Sums(at, 6)
        with llvm.for_range(builder, count) as loop:
            root = at.spread(builder.load(builder.gep(weights, [loop.index])))
            u, v, w = (root * (at.load(data, place(loop.index, axis)) - middle[axis]) for axis in range(3))
            for axis, value in enumerate((u, v, w)):
                at.store(value, data, place(loop.index, axis))
            covariance.add([u * u, v * v, w * w, u * v, u * w, v * w])
        entries = covariance.values()
        # Rounded before the division, so that s times the stored frame is the frame.
        size = widened(rounded((entries[0] + entries[1] + entries[2]).sqrt()))
        scale = size.where(builder.and_(size.compared(">", 0.0), size.compared("<", float("inf"))), 1.0)
        inverse = 1.0 / scale
        entries = [entry * (inverse * inverse) for entry in entries]
        axes = _principal_axes(entries[:3], entries[3:])
        total, part = _Sums(at, 3), _Sums(at, 3)
        with llvm.for_range(builder, count) as loop:
            # Partial sums, as for the products of pairs.
            within = builder.urem(loop.index, ir.Constant(loop.index.type, ATOM_BLOCK))
            with builder.if_then(builder.icmp_unsigned("==", within, ir.Constant(within.type, 0))):
                total.add(part.values())
                part.clear()
            u, v, w = (at.load(data, place(loop.index, axis)) * inverse for axis in range(3))
            squares = []
            for axis in range(3):
                turned = rounded(u * axes[axis][0] + v * axes[axis][1] + w * axes[axis][2])
                # Norms of the rounded coordinates, so that a frame lies at distance 0 from itself.
                squares.append(widened(turned) * widened(turned))
                store_row(turned, at.offset(loop.index, 3, axis))
            part.add(squares)
        xx, yy, zz = (whole + rest for whole, rest in zip(total.values(), part.values(), strict=True))
        results = {
            SQUARED_NORM: ((xx + yy + zz) * scale) * scale,
            SCALE: scale,
            AREA: (xx * yy + xx * zz + yy * zz).sqrt(),
        }
        for row, value in results.items():
            target.store(rounded(value), kept, ir.Constant(ir.IntType(64), row * TOGETHER))
        return context.get_dummy_value()

    return (
        types.void(lanes, root_weights, types.intp, panels, types.intp, types.intp, moments),
        generate,
    )
