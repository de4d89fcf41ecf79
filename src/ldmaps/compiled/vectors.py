"""LLVM's vectors with Python's operators, for steps that must run in SIMD and whose rounding must not vary.

An intrinsic is made of them: a function that writes LLVM's instructions instead of
having numba translate a loop and hoping that it is vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

PANEL_BYTES = 32

__all__ = ["Arrays", "Vector", "llvm", "vector_code"]

vector_code: Any = intrinsic
llvm: Any = cgutils  # neither is typed


class Vector:
    """An LLVM vector with Python's operators; only the methods named ``f…`` may fuse a rounding away."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _operand(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * self.value.type.count)

    def __add__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fadd(self.value, self._operand(other)))

    def __sub__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fsub(self.value, self._operand(other)))

    def __mul__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fmul(self.value, self._operand(other)))

    def __truediv__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fdiv(self.value, self._operand(other)))

    def __rtruediv__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fdiv(self._operand(other), self.value))

    def __neg__(self) -> Vector:
        return Vector(self.builder, self.builder.fneg(self.value))

    def _product(self, other: Any) -> Any:
        return self.builder.fmul(self.value, self._operand(other), flags=("contract",))

    def fadd(self, factor: Any, addend: Any) -> Vector:
        """Return self·factor + addend."""
        product = self._product(factor)
        return Vector(self.builder, self.builder.fadd(product, self._operand(addend), flags=("contract",)))

    def fsub(self, factor: Any, subtrahend: Any) -> Vector:
        """Return self·factor − subtrahend."""
        product = self._product(factor)
        return Vector(
            self.builder, self.builder.fsub(product, self._operand(subtrahend), flags=("contract",))
        )

    def fsub_from(self, factor: Any, minuend: Any) -> Vector:
        """Return minuend − self·factor."""
        product = self._product(factor)
        return Vector(self.builder, self.builder.fsub(self._operand(minuend), product, flags=("contract",)))

    def positive_part(self) -> Vector:
        """Return max(self, 0), and 0 for NaN."""
        zero = ir.Constant(self.value.type, None)
        above = self.builder.fcmp_ordered(">", self.value, zero)
        return Vector(self.builder, self.builder.select(above, self.value, zero))

    def zero_up_to(self, level: Vector) -> Vector:
        """Return self where it is above ``level``, elsewhere 0; 0 for NaN."""
        above = self.builder.fcmp_ordered(">", self.value, level.value)
        zero = ir.Constant(self.value.type, None)
        return Vector(self.builder, self.builder.select(above, self.value, zero))

    def minimum(self, other: Vector) -> Vector:
        """Return the lesser of the two."""
        less = self.builder.fcmp_ordered("<", self.value, other.value)
        return Vector(self.builder, self.builder.select(less, self.value, other.value))

    def absolute(self) -> Vector:
        """Return |self|."""
        below = self.builder.fcmp_ordered("<", self.value, ir.Constant(self.value.type, None))
        return Vector(self.builder, self.builder.select(below, self.builder.fneg(self.value), self.value))

    def where(self, condition: Any, otherwise: Any) -> Vector:
        """Return self where a comparison holds, elsewhere the other."""
        return Vector(self.builder, self.builder.select(condition, self.value, self._operand(otherwise)))

    def compared(self, sign: str, other: Any) -> Any:
        """Return where an ordered comparison holds; it does not for NaN."""
        return self.builder.fcmp_ordered(sign, self.value, self._operand(other))

    def sqrt(self) -> Vector:
        """Return the correctly rounded square root."""
        kind = self.value.type
        bits = 32 if isinstance(kind.element, ir.FloatType) else 64
        function = llvm.get_or_insert_function(
            self.builder.module, ir.FunctionType(kind, [kind]), f"llvm.sqrt.v{kind.count}f{bits}"
        )
        return Vector(self.builder, self.builder.call(function, [self.value]))

    def rough_sqrt(self) -> Vector:
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
        inverse = Vector(self.builder, self.builder.bitcast(pattern, kind))
        root = self * inverse
        return (root * 0.703952253) * root.fsub_from(inverse, 2.38924456)


class Arrays:
    """Addresses of vectors inside the arrays that an intrinsic receives.

    Parameters
    ----------
    context, builder
        As numba passes them to the function that writes the code.
    dtype
        numba's type of the arrays' elements.
    lanes : int, optional
        Elements of a vector; by default as many as a row of a panel has.
    """

    def __init__(self, context: Any, builder: Any, dtype: Any, lanes: int | None = None) -> None:
        self.context, self.builder = context, builder
        self.scalar = context.get_value_type(dtype)
        self.align = dtype.bitwidth // 8
        self.lanes = lanes or PANEL_BYTES // self.align
        self.epsilon = float(np.finfo(np.float32 if self.align == 4 else np.float64).eps)

    def data(self, array_type: Any, value: Any) -> Any:
        """Return the address of an array's first element."""
        return self.context.make_array(array_type)(self.context, self.builder, value).data

    def shape(self, array_type: Any, value: Any) -> Any:
        """Return an array's sizes."""
        array = self.context.make_array(array_type)(self.context, self.builder, value)
        return llvm.unpack_tuple(self.builder, array.shape)

    def _pointer(self, data: Any, at: Any, lanes: int) -> Any:
        vector = ir.VectorType(self.scalar, lanes)
        return self.builder.bitcast(self.builder.gep(data, [at]), vector.as_pointer())

    def load(self, data: Any, at: Any, vectors: int = 1) -> Vector:
        """Return the vector, or several as one, that begins ``at`` elements after ``data``."""
        pointer = self._pointer(data, at, vectors * self.lanes)
        return Vector(self.builder, self.builder.load(pointer, align=self.align))

    def store(self, vector: Vector, data: Any, at: Any) -> None:
        """Write a vector ``at`` elements after ``data``."""
        self.builder.store(vector.value, self._pointer(data, at, vector.value.type.count), align=self.align)

    def prefetch(self, data: Any, at: Any) -> None:
        """Begin to fetch what stands ``at`` elements after ``data``; never faults."""
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = self.builder.bitcast(self.builder.gep(data, [at]), byte)
        # To read, to keep in every cache, as data.
        self.builder.call(function, [place, flag(0), flag(3), flag(1)])

    def spread(self, scalar: Any) -> Vector:
        """Return a vector that has a number in every lane."""
        vector = ir.VectorType(self.scalar, self.lanes)
        index = ir.IntType(32)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(index, 0))
        lanes = ir.Constant(ir.VectorType(index, self.lanes), None)
        return Vector(self.builder, self.builder.shuffle_vector(first, first, lanes))

    def offset(self, index: Any, scale: int, shift: int = 0) -> Any:
        """Return ``index`` · scale + shift."""
        scaled = self.builder.mul(index, ir.Constant(index.type, scale))
        return self.builder.add(scaled, ir.Constant(index.type, shift))
