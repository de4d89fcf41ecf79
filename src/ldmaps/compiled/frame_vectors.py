"""One step of preparing frames in LLVM's vectors: a frame to a lane, every lane the same instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ldmaps.compiled.layout import AREA, PANEL_BYTES, SCALE, SQUARED_NORM
from ldmaps.compiled.vectors import Arrays, Vector, llvm, vector_code

__all__ = ["ATOM_BLOCK", "TOGETHER", "pack_frames"]

#: Atoms summed in registers before partial sums are added up: bounds rounding and cache footprint.
ATOM_BLOCK = 64
#: Frames that are prepared together.
TOGETHER = 8
#: Sweeps of Jacobi's method that make a frame's covariance diagonal to rounding. With fewer, the rounding of a frame
#: and of its turned copy would no longer be alike, and their distance no longer 0.
JACOBI_SWEEPS = 4
#: Moments that differ by a smaller share of their sum have no axes: no d² shows them, and their squares underflow.
NO_EXTENT = 1e-140
#: Bytes that a processor fetches at once; only speed depends on it.
CACHE_LINE = 64


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

    def add_products(self, factors: Sequence[tuple[Vector, Vector]]) -> None:
        for slot, so_far, (left, right) in zip(self._slots, self.values(), factors, strict=True):
            self._builder.store(left.fadd(right, so_far).value, slot)

    def clear(self) -> None:
        for slot in self._slots:
            self._builder.store(self._zero, slot)


class _Gathered:
    """Atoms of TOGETHER frames, a frame to a lane.

    Parameters
    ----------
    at : Arrays
        Of float64, which atoms are widened to.
    dtype
        numba's type of the frames' elements.
    begins : sequence
        Address at which each lane's frame begins.
    """

    def __init__(self, at: Arrays, dtype: Any, begins: Sequence[Any]) -> None:
        self._at = at
        self._scalar = at.context.get_value_type(dtype)
        self._begins = begins

    def atom(self, index: Any) -> list[Vector]:
        """Return x, y and z of one atom."""
        builder, pair = self._at.builder, ir.VectorType(self._scalar, 2)
        here = self._at.offset(index, 3)
        xy, z = [], ir.Constant(ir.VectorType(self._scalar, TOGETHER), ir.Undefined)
        for lane, begin in enumerate(self._begins):
            place = builder.gep(begin, [here])
            # Frames come from outside and may begin at any byte.
            xy.append(builder.load(builder.bitcast(place, pair.as_pointer()), align=1))
            third = builder.load(builder.gep(place, [ir.Constant(here.type, 2)]), align=1)
            z = builder.insert_element(z, third, ir.Constant(ir.IntType(32), lane))
        return [self._widened(value) for value in (self._picked(xy, 0), self._picked(xy, 1), z)]

    def _picked(self, pairs: Sequence[Any], which: int) -> Any:
        """Return one element of each pair, joined by halves, which takes the fewest instructions."""
        vectors, places = list(pairs), [which, which + 2]
        while len(vectors) > 1:
            mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
            vectors = [
                self._at.builder.shuffle_vector(left, right, mask)
                for left, right in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            places = list(range(2 * len(places)))
        return vectors[0]

    def _widened(self, value: Any) -> Vector:
        if self._scalar != self._at.scalar:
            value = self._at.builder.fpext(value, ir.VectorType(self._at.scalar, TOGETHER))
        return Vector(self._at.builder, value)


def _principal_axes(diagonal: Sequence[Vector], off: Sequence[Vector]) -> list[list[Vector]]:
    """Return the axes of symmetric 3×3 matrices, that of the largest moment first; right-handed.

    Parameters
    ----------
    diagonal, off
        Entries 00, 11, 22 and 01, 02, 12.
    """
    builder, pairs = diagonal[0].builder, ((0, 1), (0, 2), (1, 2))
    zero = Vector(builder, ir.Constant(diagonal[0].value.type, None))
    identity = [zero + float(row == column) for row in range(3) for column in range(3)]
    slots = [llvm.alloca_once_value(builder, vector.value) for vector in (*diagonal, *off, *identity)]

    def loaded() -> tuple[list[Vector], dict[tuple[int, int], Vector], list[list[Vector]]]:
        values = [Vector(builder, builder.load(slot)) for slot in slots]
        return (
            values[:3],
            dict(zip(pairs, values[3:6], strict=True)),
            [values[6:9], values[9:12], values[12:]],
        )

    with llvm.for_range(builder, ir.Constant(ir.IntType(64), JACOBI_SWEEPS)):
        moments, products, axes = loaded()
        for p, q in pairs:
            # Clear the entry pq by a rotation, and turn the axes along.
            r = 3 - p - q
            x = products[p, q]
            difference = moments[q] - moments[p]
            root = difference.fadd(difference, (x * 4.0) * x).sqrt()
            below = difference.absolute() + root
            is_turned = root.compared(">", NO_EXTENT)
            t = ((x * 2.0) / below).where(is_turned, 0.0)
            t = t.where(difference.compared(">=", 0.0), -t)
            # Not 1/sqrt(1 + t²), so that the two divisions do not wait for each other.
            c = ((below * 0.5) / root).sqrt().where(is_turned, 1.0)
            s = t * c
            moments[p], moments[q] = t.fsub_from(x, moments[p]), t.fadd(x, moments[q])
            products[p, q] = zero
            pr, qr = (min(p, r), max(p, r)), (min(q, r), max(q, r))
            u, v = products[pr], products[qr]
            products[pr], products[qr] = c.fsub(u, s * v), s.fadd(u, c * v)
            for row in range(3):
                u, v = axes[p][row], axes[q][row]
                axes[p][row], axes[q][row] = c.fsub(u, s * v), s.fadd(u, c * v)
        turned = *moments, *products.values(), *axes[0], *axes[1], *axes[2]
        for slot, vector in zip(slots, turned, strict=True):
            builder.store(vector.value, slot)
    moments, _, axes = loaded()

    def order(p: int, q: int) -> None:
        """Exchange two axes where the second has the larger moment; a sign keeps them right-handed."""
        u, v = moments[p], moments[q]
        swap = v.compared(">", u)
        moments[p], moments[q] = v.where(swap, u), u.where(swap, v)
        for row in range(3):
            u, v = axes[p][row], axes[q][row]
            axes[p][row], axes[q][row] = v.where(swap, u), (-u).where(swap, v)

    order(0, 1)
    order(1, 2)
    order(0, 1)
    return axes


@vector_code
def pack_frames(
    typing: Any,
    frames: Any,
    first: Any,
    kept: Any,
    root_weights: Any,
    lanes: Any,
    panels: Any,
    moments: Any,
) -> Any:
    """Centre, weigh, turn and scale TOGETHER frames, and write them to their panels.

    Lanes beyond the last frame repeat it; panels that there are not are not written.

    Parameters
    ----------
    frames : ndarray of shape (n, atoms, 3)
        All frames; C-contiguous.
    first : int
        The first one to pack, a multiple of TOGETHER.
    kept : ndarray of shape (kept atoms,), intp
    root_weights : ndarray of shape (kept atoms,), float64
    lanes : ndarray of shape (3·kept atoms, TOGETHER), float64
        Scratch.
    panels : ndarray of shape (panels, 3·kept atoms, width)
    moments : ndarray of shape (MOMENTS, TOGETHER)
        Of the packed frames, in the panels' precision.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = Arrays(context, builder, types.float64, TOGETHER)
        target = Arrays(context, builder, panels.dtype, TOGETHER)
        source, chosen = at.data(frames, args[0]), at.data(kept, args[2])
        weights, data = at.data(root_weights, args[3]), at.data(lanes, args[4])
        out, own = target.data(panels, args[5]), target.data(moments, args[6])
        n_frames, n_atoms, _ = at.shape(frames, args[0])
        n_panels, depth, _ = at.shape(panels, args[5])
        (count,) = at.shape(kept, args[2])
        width = PANEL_BYTES // target.align
        rounded_type = ir.VectorType(target.scalar, TOGETHER)
        number = args[1].type

        def place(atom: Any, axis: int) -> Any:
            return at.offset(atom, 3 * TOGETHER, axis * TOGETHER)

        def frame_at(index: Any) -> Any:
            """Return the address of a frame; of the last where there are not so many."""
            last = builder.sub(n_frames, ir.Constant(number, 1))
            there = builder.select(builder.icmp_signed("<", index, last), index, last)
            return builder.gep(source, [builder.mul(there, at.offset(n_atoms, 3))])

        def rounded(vector: Vector) -> Vector:
            if target.align == at.align:
                return vector
            return Vector(builder, builder.fptrunc(vector.value, rounded_type))

        def widened(vector: Vector) -> Vector:
            if target.align == at.align:
                return vector
            return Vector(builder, builder.fpext(vector.value, ir.VectorType(at.scalar, TOGETHER)))

        first_panel = builder.sdiv(args[1], ir.Constant(number, width))

        def store_row(vector: Vector, row: Any) -> None:
            """Write one row of the frames to the one or two panels that hold them."""
            for panel in range(TOGETHER // width):
                picked = ir.Constant(
                    ir.VectorType(ir.IntType(32), width), list(range(panel * width, (panel + 1) * width))
                )
                piece = Vector(builder, builder.shuffle_vector(vector.value, vector.value, picked))
                here = builder.add(first_panel, ir.Constant(number, panel))
                with builder.if_then(builder.icmp_signed("<", here, n_panels), likely=True):
                    rows_before = builder.add(builder.mul(here, depth), row)
                    target.store(piece, out, at.offset(rows_before, width))

        gathered = _Gathered(
            at, frames.dtype, [frame_at(at.offset(args[1], 1, lane)) for lane in range(TOGETHER)]
        )
        # Relative to the first atom, because differences of nearby numbers are exact.
        origin = gathered.atom(builder.load(chosen))
        centre = _Sums(at, 3)
        with llvm.for_range(builder, count) as loop:
            root = at.spread(builder.load(builder.gep(weights, [loop.index])))
            weight = root * root
            atom = gathered.atom(builder.load(builder.gep(chosen, [loop.index])))
            shifted = [value - begin for value, begin in zip(atom, origin, strict=True)]
            for axis, value in enumerate(shifted):
                at.store(value, data, place(loop.index, axis))
            centre.add_products([(weight, value) for value in shifted])
        middle = centre.values()
        covariance = _Sums(at, 6)
        upcoming = frame_at(at.offset(args[1], 1, TOGETHER))
        with llvm.for_range(builder, count) as loop:
            # Processors do not foresee that eight frames will be read at once.
            for line in range(0, 3 * TOGETHER, CACHE_LINE * 8 // frames.dtype.bitwidth):
                at.prefetch(upcoming, at.offset(loop.index, 3 * TOGETHER, line))
            root = at.spread(builder.load(builder.gep(weights, [loop.index])))
            u, v, w = (root * (at.load(data, place(loop.index, axis)) - middle[axis]) for axis in range(3))
            for axis, value in enumerate((u, v, w)):
                at.store(value, data, place(loop.index, axis))
            covariance.add_products([(u, u), (v, v), (w, w), (u, v), (u, w), (v, w)])
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
                x, y, z = axes[axis]
                turned = rounded(u.fadd(x, v.fadd(y, w * z)))
                # Norms of the rounded coordinates, so that a frame lies at distance 0 from itself.
                squares.append((widened(turned), widened(turned)))
                store_row(turned, at.offset(loop.index, 3, axis))
            part.add_products(squares)
        xx, yy, zz = (whole + rest for whole, rest in zip(total.values(), part.values(), strict=True))
        results = {
            SQUARED_NORM: ((xx + yy + zz) * scale) * scale,
            SCALE: scale,
            AREA: (xx * yy + xx * zz + yy * zz).sqrt(),
        }
        for row, value in results.items():
            target.store(rounded(value), own, ir.Constant(ir.IntType(64), row * TOGETHER))
        return context.get_dummy_value()

    return types.void(frames, types.intp, kept, root_weights, lanes, panels, moments), generate
