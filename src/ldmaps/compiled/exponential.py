"""exp(x) for x ≤ 0, in vector code: the C library's is called once per element.

It relies on ``(x + magic) - magic``, so loops that use it must not allow sums to be
re-associated (:data:`ldmaps.compiled.jit.EXACT`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from ldmaps.compiled.jit import inlined

__all__ = ["exp", "exp64"]


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


@inlined
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


@inlined
def exp64(x: Any) -> Any:
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


def exp(x: Any) -> Any:
    """exp(x) for x ≤ 0, in the precision of x."""
    return np.exp(x)


@overload(exp, inline="always")
def _exp_of_type(x: Any) -> Any:
    return _exp32.py_func if x == types.float32 else exp64.py_func
