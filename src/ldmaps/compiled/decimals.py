"""Decimal text to float64 and back, to the digit: what Python's ``float`` and ``"%.17g"`` give.

Both directions multiply a 64-bit significand by 128 bits of a power of five (D. Lemire,
"Number parsing at a gigabyte per second", 2021) and look whether what was cut off can
matter. Where it can (one number in 10¹⁵ or fewer), and for everything that is no plain
number, they say so, and the caller takes Python's way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.vectors import llvm, vector_code

__all__ = ["CELL_BYTES", "POWERS", "ROW_BYTES", "TENS", "parse_lines", "write_rows"]

#: Most bytes of a number with its delimiter (-1.2345678901234567e-308), and of all else in a row: two whole numbers
#: of up to 19 digits, a flag, delimiters.
CELL_BYTES, ROW_BYTES = 26, 46
#: Powers of ten that are in the table.
LOWEST, HIGHEST = -342, 308
#: Within these, five to the power fits into 128 bits, so that nothing is cut off.
_EXACT = 55


def _power_table() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the upper and lower 64 of the leading 128 bits of 5^q, (powers, 2); rounded up where q < 0."""
    rows = []
    for q in range(LOWEST, HIGHEST + 1):
        if q < 0:
            power = 5**-q
            z = (power - 1).bit_length()
            bits = (1 << (z + 127 if q >= -27 else 2 * z + 128)) // power + 1
        else:
            bits = 5**q << 128
        bits >>= bits.bit_length() - 128
        rows.append((bits >> 64, bits & (1 << 64) - 1))
    return np.array(rows, dtype=np.uint64)


POWERS = _power_table()
#: 10^0 to 10^19 as whole numbers.
TENS = np.array([10**power for power in range(20)], dtype=np.uint64)

_U0, _U1, _U9, _U10, _U48 = np.uint64(0), np.uint64(1), np.uint64(9), np.uint64(10), np.uint64(48)
_BELOW_MASK = np.uint64(0x1FF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HIDDEN, _FRACTION = np.uint64(1 << 52), np.uint64((1 << 52) - 1)
_SIGN = np.uint64(1 << 63)
_TOP_EXPONENT = np.uint64(0x7FF)
#: How far off the middle word of a product with a power that was cut off may be.
_NEAR = np.uint64(4)
_SPACE, _NEWLINE, _PLUS, _MINUS, _POINT, _ZERO, _OPEN, _CLOSE = 32, 10, 43, 45, 46, 48, 91, 93
_LOWER_E, _UPPER_E = 101, 69


@vector_code
def _high_product(typing: Any, left: Any, right: Any) -> Any:
    """Return the upper 64 bits of a product."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@vector_code
def _leading_zeros(typing: Any, value: Any) -> Any:
    """Return how many zero bits come first."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        function = llvm.get_or_insert_function(
            builder.module, ir.FunctionType(word, [word, ir.IntType(1)]), "llvm.ctlz.i64"
        )
        return builder.call(function, [args[0], ir.Constant(ir.IntType(1), 0)])

    return types.uint64(types.uint64), generate


@compiled
def _double_bits(w: Any, q: int, powers: Any) -> Any:
    """Return the bits of the float64 nearest to w·10^q; all ones where that is not certain, or not normal."""
    if w == _U0:
        return _U0
    if q < LOWEST or q > HIGHEST:
        return _ALL
    zeros = _leading_zeros(w)
    w = w << zeros
    upper_power = powers[q - LOWEST, 0]
    high, low = _high_product(w, upper_power), w * upper_power
    if high & _BELOW_MASK == _BELOW_MASK:
        more = _high_product(w, powers[q - LOWEST, 1])
        low = low + more
        if low < more:
            high += _U1
    if low == _ALL and (q < -27 or q > _EXACT):
        return _ALL
    upper_bit = high >> np.uint64(63)
    shift = upper_bit + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper_bit) - np.int64(zeros) + 1023
    if exponent <= 0 or exponent >= 2046:
        return _ALL
    # Half-way between two numbers: the even one.
    halfway = low <= _U1 and q >= -4 and q <= 23 and mantissa & np.uint64(3) == _U1
    if halfway and (mantissa << shift) == high:
        mantissa = mantissa & ~_U1
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= _HIDDEN + _HIDDEN:
        mantissa = _HIDDEN
        exponent += 1
    return (mantissa & _FRACTION) | (np.uint64(exponent) << np.uint64(52))


@compiled
def _digits(data: Any, at: int, w: Any) -> Any:
    """Append the digits from ``at`` on to w; return it and the place behind them."""
    digit = np.uint64(data[at]) - _U48  # below "0" this wraps round, and is more than 9 as well
    while digit <= _U9:
        w = w * _U10 + digit
        at += 1
        digit = np.uint64(data[at]) - _U48
    return w, at


@compiled
def _number(data: Any, at: Any, is_json: bool, powers: Any) -> Any:
    """Return the bits of the number at ``at``, all ones where there is no plain one, and the place behind it."""
    sign = _U0
    if data[at] == _MINUS:
        sign = _SIGN
        at += 1
    elif data[at] == _PLUS and not is_json:
        at += 1
    first = at
    while data[at] == _ZERO:
        at += 1
    zeros = at - first
    w, end = _digits(data, at, _U0)
    n_digits, at = end - at, end
    power: Any = 0
    if is_json and (zeros + n_digits == 0 or zeros > 1 or (zeros == 1 and n_digits > 0)):
        return _ALL, at
    is_whole = data[at] != _POINT
    if not is_whole:
        begin = at + 1
        at = begin
        while w == _U0 and data[at] == _ZERO:
            at += 1
        zeros += at - begin
        w, end = _digits(data, at, w)
        n_digits += end - at
        at, power = end, begin - end
        if is_json and power == 0:
            return _ALL, at
    if zeros + n_digits == 0 or n_digits > 19:
        return _ALL, at
    if data[at] == _LOWER_E or data[at] == _UPPER_E:
        is_whole = False
        below = data[at + 1] == _MINUS
        begin = at + 2 if below or data[at + 1] == _PLUS else at + 1
        exponent, at = _digits(data, begin, _U0)
        if at == begin or at - begin > 4:
            return _ALL, at
        power += -np.int64(exponent) if below else np.int64(exponent)
    if is_json and is_whole and w == _U0:
        sign = _U0  # a whole number, which has no negative zero
    value = _double_bits(w, power, powers)
    return value if value == _ALL else value | sign, at


@compiled
def parse_lines(data: Any, delimiter: int, is_json: bool, targets: Any, powers: Any, bits: Any) -> Any:
    """Write the numbers of lines to ``bits``; return the place behind them, -1 unless all are plain rows of numbers.

    Parameters
    ----------
    data : ndarray of uint8
        At least as many lines as ``bits`` has, each ending in a line break: everything below relies on the last one.
    delimiter : int
        What separates cells.
    is_json : bool
        Whether lines are lists, [1, 2.5, -3e-4], and numbers are JSON's.
    targets : ndarray of shape (columns,), int
        Column of ``bits`` for each column of the text, -1 to skip it.
    powers : ndarray
        POWERS.
    bits : ndarray of shape (lines, numbers), uint64
        The float64 as they lie in memory.
    """
    at = 0
    for line in range(bits.shape[0]):
        if at == data.size or (is_json and data[at] != _OPEN):
            return -1
        if is_json:
            at += 1
        for column in range(targets.size):
            if column > 0:
                if data[at] != delimiter:
                    return -1
                at += 1
            if targets[column] < 0:
                while data[at] != delimiter and data[at] != _NEWLINE:
                    at += 1
                continue
            while data[at] == _SPACE:
                at += 1
            value, at = _number(data, at, is_json, powers)
            if value == _ALL:
                return -1
            bits[line, targets[column]] = value
            while data[at] == _SPACE:
                at += 1
        if is_json:
            if data[at] != _CLOSE:
                return -1
            at += 1
        if data[at] != _NEWLINE:
            return -1
        at += 1
    return at


@compiled
def _rounded(m: Any, e: int, n_digits: int, x: int, powers: Any) -> Any:
    """Return m·2^e·10^(n_digits − 1 − x), cut and rounded to whole numbers; all ones where rounding is not certain.

    ``m`` has its highest bit set.
    """
    q = n_digits - 1 - x
    if q < LOWEST or q > HIGHEST:
        return _U0, _ALL
    upper_power, lower_power = powers[q - LOWEST, 0], powers[q - LOWEST, 1]
    low = m * lower_power
    more = _high_product(m, lower_power)
    middle = m * upper_power + more
    high = _high_product(m, upper_power)
    if middle < more:
        high += _U1
    # 10^q = 2^q · (128 bits) · 2^(⌊q log₂5⌋ − 127), and the product's upper 64 bits of 192 are ``high``.
    shift = np.uint64(-(e + q + ((152170 * q) >> 16) - 127) - 128)
    whole = high >> shift
    rest, half = high & ((_U1 << shift) - _U1), _U1 << (shift - _U1)
    if 0 <= q <= _EXACT:  # nothing was cut off
        above = rest > half or (rest == half and (middle | low) != _U0)
        if above or (rest == half and whole & _U1 == _U1):
            return whole, whole + _U1
        return whole, whole
    if (rest == half and middle < _NEAR) or (rest == half - _U1 and middle > ~_NEAR):
        return whole, _ALL
    return whole, whole + _U1 if rest >= half else whole


@compiled
def _write_digits(value: Any, length: int, out: Any, at: int) -> Any:
    """Write the last ``length`` digits of a whole number; return what stands before them."""
    for place in range(at + length - 1, at - 1, -1):
        tenth = value // _U10
        out[place] = _U48 + (value - tenth * _U10)
        value = tenth
    return value


@compiled
def _write_whole(value: Any, tens: Any, out: Any, at: int) -> int:
    """Write a whole number; return the place behind it."""
    length = 1
    while length < 19 and value >= tens[length]:
        length += 1
    _write_digits(value, length, out, at)
    return at + length


@compiled
def _write_number(bits: Any, precision: int, powers: Any, tens: Any, out: Any, at: int) -> Any:
    """Write a finite number as ``"%.{precision}g"`` does; return the place behind it, -1 if its digits are in doubt."""
    if bits & _SIGN != _U0:
        out[at] = _MINUS
        at += 1
        bits = bits & ~_SIGN
    if bits == _U0:
        out[at] = _ZERO
        return at + 1
    exponent = np.int64(bits >> np.uint64(52))
    if exponent == 0:  # subnormal
        return -1
    m, e = ((bits & _FRACTION) | _HIDDEN) << np.uint64(11), exponent - 1086
    x = ((exponent - 1023) * 315653) >> 20  # ⌊log₁₀⌋ of the power of two, so at most one too low
    whole, digits = _rounded(m, e, precision, x, powers)
    if whole >= tens[precision]:
        x += 1
        whole, digits = _rounded(m, e, precision, x, powers)
    if digits == _ALL:
        return -1
    if digits == tens[precision]:
        digits = tens[precision - 1]
        x += 1
    count = precision
    while digits % _U10 == _U0:
        digits = digits // _U10
        count -= 1
    if x < -4 or x >= precision:
        first = _write_digits(digits, count - 1, out, at + 2)
        out[at] = _U48 + first
        if count > 1:
            out[at + 1] = _POINT
            at += count
        out[at + 1] = _LOWER_E
        out[at + 2] = _MINUS if x < 0 else _PLUS
        x = abs(x)
        length = 3 if x >= 100 else 2
        _write_digits(np.uint64(x), length, out, at + 3)
        return at + 3 + length
    if x < 0:
        out[at], out[at + 1] = _ZERO, _POINT
        for place in range(at + 2, at + 1 - x):
            out[place] = _ZERO
        _write_digits(digits, count, out, at + 1 - x)
        return at + 1 - x + count
    if count <= x + 1:
        _write_digits(digits * tens[x + 1 - count], x + 1, out, at)
        return at + x + 1
    before = _write_digits(digits, count - x - 1, out, at + x + 2)
    out[at + x + 1] = _POINT
    _write_digits(before, x + 1, out, at)
    return at + count + 1


@compiled
def write_rows(
    prefix: Any,
    numbers: Any,
    values: Any,
    precisions: Any,
    inside: Any,
    nearest: Any,
    endings: Any,
    ending_stops: Any,
    which: Any,
    delimiter: int,
    powers: Any,
    tens: Any,
    out: Any,
) -> int:
    """Write rows of text; return their length, or -1 where a number needs Python's way.

    A row is ``prefix``, its number, its ``values``, ``inside`` as 0 or 1, ``nearest``
    and an ending; delimiters stand between all but the first two and the last two.

    Parameters
    ----------
    prefix : ndarray of uint8
    numbers, nearest : ndarray of shape (n,), int64
        Not negative.
    values : ndarray of shape (n, columns), uint64
        float64 as they lie in memory; one that is not finite leaves its cell empty.
    precisions : ndarray of shape (columns,), int
        Significant digits of each column, at most 17; 0 leaves the column empty.
    inside : ndarray of shape (n,), bool
    endings : ndarray of uint8
        All endings, one after the other, line breaks included.
    ending_stops : ndarray of int
        Where each ending stops.
    which : ndarray of shape (n,), int
        Ending of each row.
    out : ndarray of uint8
        Long enough: ROW_BYTES for each row, CELL_BYTES for each of its values, prefix and longest ending.
    """
    at = 0
    for row in range(numbers.size):
        for place in range(prefix.size):
            out[at + place] = prefix[place]
        at = _write_whole(np.uint64(numbers[row]), tens, out, at + prefix.size)
        for column in range(precisions.size):
            out[at] = delimiter
            at += 1
            bits = values[row, column]
            if precisions[column] > 0 and (bits >> np.uint64(52)) & _TOP_EXPONENT != _TOP_EXPONENT:
                at = _write_number(bits, precisions[column], powers, tens, out, at)
                if at < 0:
                    return -1
        out[at], out[at + 1], out[at + 2] = delimiter, _ZERO + inside[row], delimiter
        at = _write_whole(np.uint64(nearest[row]), tens, out, at + 3)
        begin = 0 if which[row] == 0 else ending_stops[which[row] - 1]
        for place in range(begin, ending_stops[which[row]]):
            out[at] = endings[place]
            at += 1
    return at
