"""Calls of any kernel, made up from its signature: sound ones, and ones that break a rule of it.

The rules are those that ``binding.h`` explains, read here a second time and computed with Python's numbers, which do
not overflow. So whether a call must be refused is decided without the code that decides it in C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

#: Sizes that calls are made of: none, few, and what is left over from vectors and blocks of 64.
SIZES = [0, 1, 1, 2, 3, 3, 4, 5, 8, 9, 17, 70]
#: Bytes before and behind each array, and what stands there.
MARGIN, MARK = 256, 0xA5
ODD_NUMBERS = [0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 1e-310, 1e30, -1e30, 1e300]
EXTREMES = [-(2**63), -(2**63) + 1, -(2**31), -1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1]


@dataclass
class Argument:
    """An argument as the signature has it: sizes with their ranges, and the range of its values."""

    name: str
    sizes: list[tuple[str, str | None]]
    range: str | None
    is_rising: bool


class Refused(Exception):
    """Arguments break a rule of the signature."""


class Signature:
    """What the signature of a kernel says."""

    def __init__(self, text: str, constants: dict[str, int]) -> None:
        self.constants = constants
        self.arguments = []
        for part in text.split():
            found = re.fullmatch(r"(\w+)(?:\[([^\]]*)\])?(?:=([^,]*))?(,rising)?", part)
            assert found, part
            sizes = [tuple(size.split("=")) for size in (found[2] or "").split(",") if size]
            self.arguments.append(
                Argument(found[1], [(*size, None)[:2] for size in sizes], found[3], bool(found[4]))
            )

    def value(self, text: str, values: dict[str, int], itemsize: int = 0) -> int:
        """Compute an expression from left to right; a name that has no value is a KeyError."""
        known = {**self.constants, **values, "itemsize": itemsize}
        total = 0
        for sign, term in re.findall(r"([-+*/]?)(\w+)", text):
            number = int(term) if term.isdigit() else known[term]
            if sign in "+-":
                total += -number if sign == "-" else number
            elif sign == "/" and number == 0:
                raise Refused(text)
            else:
                total = total * number if sign == "*" else -(-total // number)
        return total

    def bounds(self, text: str, values: dict[str, int], itemsize: int = 0) -> tuple[int, int]:
        """Return the lowest and the highest value of a range."""
        if ".." not in text:
            return (self.value(text, values, itemsize),) * 2
        low, high = text.split("..")
        return (
            self.value(low, values, itemsize) if low else -(2**63),
            self.value(high, values, itemsize) if high else 2**63 - 1,
        )

    def check(self, given: list[object]) -> None:
        """Raise where arguments of the right types break a rule."""
        values: dict[str, int] = {}
        for argument, one in zip(self.arguments, given, strict=True):
            if argument.range is not None and not argument.sizes:
                values[argument.name] = int(one.__index__())
        for argument, one in zip(self.arguments, given, strict=True):
            for (size, _), got in zip(argument.sizes, shape_of(one) if argument.sizes else (), strict=True):
                if size.isidentifier() and size not in self.constants:
                    values.setdefault(size, got)
        for argument, one in zip(self.arguments, given, strict=True):
            for (size, allowed), got in zip(
                argument.sizes, shape_of(one) if argument.sizes else (), strict=True
            ):
                itemsize = one.dtype.itemsize if isinstance(one, np.ndarray) else 1
                low, high = (
                    self.bounds(allowed, values, itemsize)
                    if allowed
                    else (self.value(size, values, itemsize),) * 2
                )
                if not low <= got <= high or got != self.value(size, values, itemsize):
                    raise Refused(argument.name)
            if argument.range is None:
                continue
            low, high = self.bounds(argument.range, values)
            elements = [int(each) for each in one.ravel()] if argument.sizes else [values[argument.name]]
            is_rising = all(a <= b for a, b in pairwise(elements))
            if not all(low <= each <= high for each in elements) or (argument.is_rising and not is_rising):
                raise Refused(argument.name)


def shape_of(given: object) -> tuple[int, ...]:
    return (len(given),) if isinstance(given, bytes) else given.shape


def fits_type(given: object, wanted: str, argument: Argument) -> bool:
    """Say whether a kernel takes an object for an argument of such a type."""
    kind = np.dtype(wanted.rstrip("*"))
    if argument.sizes:
        if isinstance(given, bytes):
            return wanted == "uint8" and len(argument.sizes) == 1
        if not isinstance(given, np.ndarray) or given.dtype != kind or given.ndim != len(argument.sizes):
            return False
        is_writable = given.flags.writeable and given.flags.aligned
        return given.flags.c_contiguous and (is_writable or not wanted.endswith("*"))
    if kind.kind == "b":
        return True
    try:
        number = float(given) if kind.kind == "f" else given.__index__()
    except (TypeError, ValueError, AttributeError, OverflowError):
        return False
    return not isinstance(given, str) and (kind.kind == "f" or -(2**63) <= number < 2**63)


class Guarded:
    """Arrays with bytes around them that nobody may write to."""

    def __init__(self) -> None:
        self.memories: list[tuple[np.ndarray, int, int]] = []

    def array(self, values: np.ndarray, offset: int = 0) -> np.ndarray:
        memory = np.full(values.nbytes + 2 * MARGIN + 64 + offset, MARK, np.uint8)
        begin = MARGIN + (-memory.ctypes.data) % 64 + offset
        inside = memory[begin : begin + values.nbytes]
        array = inside.view(values.dtype).reshape(values.shape) if values.nbytes else values.copy()
        array[...] = values
        self.memories.append((memory, begin, begin + values.nbytes))
        return array

    def are_intact(self) -> bool:
        return all(
            (memory[:begin] == MARK).all() and (memory[end:] == MARK).all()
            for memory, begin, end in self.memories
        )


def elements(rng: np.random.Generator, kind: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers of a type, among them odd ones."""
    if kind.kind == "f":
        values = rng.normal(size=shape)
        if rng.random() < 0.3:
            values = np.where(rng.random(shape) < 0.1, rng.choice(ODD_NUMBERS, shape), values)
        with np.errstate(over="ignore"):
            return values.astype(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind == np.uint8 and rng.random() < 0.5:
        return rng.choice(np.frombuffer(b'0123456789,,..-+e \n\n\r"[]#', np.uint8), shape)
    return rng.integers(0, 256 if kind == np.uint8 else 4, shape).astype(kind)


def sound_arguments(
    signature: Signature, types: tuple[str, ...], rng: np.random.Generator, guarded: Guarded
) -> list[object]:
    """Return arguments that keep every rule; sizes that cannot be had together are drawn again."""
    while True:
        try:
            return _drawn(signature, types, rng, guarded)
        except Refused:
            continue


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    if low > high:
        raise Refused
    low, high = max(low, -5) if low < 0 else low, min(high, max(low, -5) + 80)
    return int(rng.choice([low, high, rng.integers(low, high + 1)]))


def _drawn(
    signature: Signature, types: tuple[str, ...], rng: np.random.Generator, guarded: Guarded
) -> list[object]:
    values: dict[str, int] = {}
    kinds = [np.dtype(each.rstrip("*")) for each in types]

    def draw_sizes() -> None:
        for argument, kind in zip(signature.arguments, kinds, strict=True):
            for size, allowed in argument.sizes:
                if not size.isidentifier() or size in signature.constants or size in values:
                    continue
                if allowed is None:
                    values[size] = int(rng.choice(SIZES))
                    continue
                with suppress(KeyError):  # of numbers that are not drawn yet
                    low, high = signature.bounds(allowed, values, kind.itemsize)
                    values[size] = _between(rng, max(low, 0), min(high, max(low, 0) + 6))

    draw_sizes()
    for argument in signature.arguments:
        if argument.range is not None and not argument.sizes:
            values[argument.name] = _between(rng, *signature.bounds(argument.range, values))
    draw_sizes()
    arguments: list[object] = []
    for argument, kind in zip(signature.arguments, kinds, strict=True):
        if not argument.sizes:
            number = float(rng.choice([rng.normal(), abs(rng.normal()), rng.choice(ODD_NUMBERS)]))
            arguments.append(values.get(argument.name, bool(number > 0) if kind.kind == "b" else number))
            continue
        shape = tuple(signature.value(size, values, kind.itemsize) for size, _ in argument.sizes)
        if argument.range is None:
            arguments.append(guarded.array(elements(rng, kind, shape)))
            continue
        low, high = signature.bounds(argument.range, values)
        if np.prod(shape) and low > high:
            raise Refused
        drawn = rng.integers(low, max(low, high), shape, endpoint=True)
        arguments.append(guarded.array((np.sort(drawn) if argument.is_rising else drawn).astype(kind)))
    signature.check(arguments)
    return arguments


def broken_arguments(
    signature: Signature,
    arguments: list[object],
    rng: np.random.Generator,
    guarded: Guarded,
) -> Iterator[list[object]]:
    """Yield copies of a call in which one argument was replaced, most often by what breaks a rule."""
    for place, argument in enumerate(signature.arguments):
        given = arguments[place]
        if argument.sizes:
            others = _broken_arrays(given, argument, rng, guarded)
        elif argument.range is not None:
            others = iter([*EXTREMES, given - 1, given + 1, 2**63, 2**64, -(2**64), 1.0, None, "1", b"1"])
        else:
            others = iter([*ODD_NUMBERS, 1, True, None, "1", [1.0]])
        for other in others:
            changed = list(arguments)
            changed[place] = other
            yield changed


def _broken_arrays(
    given: np.ndarray, argument: Argument, rng: np.random.Generator, guarded: Guarded
) -> Iterator[object]:
    yield from (None, "text", b"bytes", [1.0], 1.0, given.tolist())
    for kind in (
        np.float32,
        np.float64,
        np.float16,
        np.int32,
        np.int64,
        np.uint64,
        np.uint8,
        bool,
        np.complex128,
    ):
        yield np.zeros(given.shape, kind)
    yield given.astype(given.dtype.newbyteorder())
    yield given[None].copy()
    yield given.reshape(-1).copy()
    for axis, size in enumerate(given.shape):
        for other in {0, 1, size - 1, size + 1, 2 * size, size + 64} - {-1}:
            shape = (*given.shape[:axis], other, *given.shape[axis + 1 :])
            # What stands in an array of indices stays what it was, so that its size alone is wrong.
            yield guarded.array(np.resize(given, shape) if given.size else np.zeros(shape, given.dtype))
        yield np.repeat(given, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)]
        yield given[(slice(None),) * axis + (slice(None, None, -1),)]
        yield np.broadcast_to(given[(slice(None),) * axis + (slice(0, 1),)], given.shape) if size else given
    yield np.asfortranarray(given)
    yield guarded.array(given, offset=1)
    read_only = guarded.array(given)
    read_only.flags.writeable = False
    yield read_only
    if given.size and given.dtype.kind == "i":
        limits = np.iinfo(given.dtype)
        for value in (*EXTREMES, int(given.max()) + 1, int(given.min()) - 1, limits.min, limits.max):
            if limits.min <= value <= limits.max:
                changed = guarded.array(given)
                changed.flat[rng.integers(given.size)] = value
                yield changed
        yield guarded.array(np.ascontiguousarray(given.reshape(-1)[::-1]).reshape(given.shape))
