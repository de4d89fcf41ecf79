"""npy messages, one after the other, to records."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any

import numpy as np

from ldmaps.errors import InvalidInputError, one_line
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.decoding import Decoder, largest_record

_MAGIC = b"\x93NUMPY"
#: numpy refuses longer headers too; no array of numbers needs them.
_MAX_HEADER = 10_000
#: What numpy raises for a header that is none: it reads it as Python's own tokens and literals.
_UNREADABLE = (ValueError, TypeError, SyntaxError, TokenError, MemoryError, RecursionError, OverflowError)


class NpyDecoder(Decoder):
    """Decodes ``.npy`` files that follow one another."""

    form = "npy"

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        self._data = bytearray()
        self._arrived = 0.0
        self._offset = 0
        self._number = 0
        self._dtype = np.dtype(np.float64)
        self._shape: tuple[int, ...] = ()  # of one row
        self._finished = False
        self._left = 0  # rows of the message that are still to come

    @property
    def ready(self) -> int:
        """How many whole rows there are; at the end also what is left of a message that was cut off."""
        return self._n_complete() or int(self._is_cut_off)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the stream ended within a message: half a row is there, or rows are missing that its header named."""
        return self._finished and (len(self._data) > 0 or self._left > 0)

    @property
    def _row_bytes(self) -> int:
        return math.prod(self._shape) * self._dtype.itemsize

    def _n_complete(self) -> int:
        self._read_headers()
        return min(self._left, len(self._data) // self._row_bytes) if self._left else 0

    def feed(self, data: bytes, arrived: float) -> None:
        """Take bytes."""
        self._data += data
        self._arrived = arrived
        self._read_headers()

    def finish(self) -> None:
        """Let what is left of a message that was cut off be rejected."""
        self._finished = True

    def take(self, most: int) -> Records:
        """Return up to ``most`` rows."""
        count, width = min(most, self._n_complete()), self._facts.get("n_features")
        if not count and self._is_cut_off:
            return self._cut_off()
        size = count * self._row_bytes
        rows = np.frombuffer(bytes(self._data[:size]), dtype=self._dtype).reshape(count, *self._shape)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        del self._data[:size]
        self._offset += size
        self._left -= count
        numbers = np.arange(self._number, self._number + count, dtype=np.int64)
        self._number += count
        rejected: tuple[Rejected, ...] = ()
        takes_frames = bool(self._facts.get("takes_frames"))
        reason = None if width is None else wrong_width(self._shape, width, takes_frames=takes_frames)
        if count and reason is not None:
            rejected = tuple(Rejected(int(number), reason) for number in numbers)
            rows, numbers = rows[:0], numbers[:0]
        # The header that may follow is read when it is its turn: if it is damaged, these rows are not.
        return Records(rows, numbers, None, np.full(len(numbers), self._arrived), rejected, self._position())

    def _cut_off(self) -> Records:
        length = len(self._data)
        reason = f"the stream ended in the middle of a record ({length} bytes of a header)"
        if self._left and length:
            reason = f"the stream ended in the middle of a record ({length} bytes of {self._row_bytes})"
        elif self._left:
            reason = f"the stream ended in the middle of a message (rows missing: {self._left:,})"
        rejected = Rejected(self._number, reason)
        self._data.clear()
        self._offset += length
        self._number += 1
        self._left = 0  # whatever comes after that must begin with a header
        return Records.none((rejected,), self._position())

    def _position(self) -> dict[str, Any]:
        return {
            "format": self.form,
            "offset": self._offset,
            "number": self._number,
            "dtype": self._dtype.str,
            "shape": list(self._shape),
            "left": self._left,
        }

    def restore(self, position: Position) -> None:
        """Go on in the middle of a message, or before one."""
        self._offset, self._number = int(position["offset"]), int(position["number"])
        self._dtype, self._shape = np.dtype(position["dtype"]), tuple(position["shape"])
        self._left = int(position["left"])

    def _read_headers(self) -> None:
        """Read the next message's header as soon as it is there; empty messages are skipped."""
        while self._left == 0 and len(self._data) >= 12:
            if self._data[:6] != _MAGIC:
                raise InvalidInputError(
                    f"byte {self._offset} of the npy stream should begin a message, but is {bytes(self._data[:6])!r}"
                )
            major = self._data[6]
            before = 10 if major == 1 else 12
            length = before + int.from_bytes(self._data[8:before], "little")
            if length > _MAX_HEADER:
                raise InvalidInputError(
                    f"the npy header at byte {self._offset} claims {length} bytes; it is damaged"
                )
            if len(self._data) < length:
                return
            self._set_rows(bytes(self._data[:length]), major)
            del self._data[:length]
            self._offset += length

    def _set_rows(self, header: bytes, major: int) -> None:
        stream = io.BytesIO(header)
        try:
            np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(stream)
        except _UNREADABLE as error:
            raise InvalidInputError(
                f"the npy header at byte {self._offset} cannot be read ({one_line(error, 120)})"
            ) from error
        if dtype.kind not in "biuf":
            raise InvalidInputError(f"the npy stream holds values of type {dtype}, but numbers are needed")
        if fortran and sum(length > 1 for length in shape) > 1:
            raise InvalidInputError(
                "the npy stream holds an array in Fortran order; write numpy.ascontiguousarray(array) instead"
            )
        rows = _rows_of(shape, self._facts)
        if rows is None:
            raise InvalidInputError(
                f"the npy stream holds an array of shape {shape}; "
                "a point, (rows, features) or (frames, atoms, 3) is needed"
            )
        row_bytes, most = math.prod(rows[1]) * dtype.itemsize, largest_record(self._facts.get("n_features"))
        if row_bytes > most:  # before waiting for it
            raise InvalidInputError(
                f"the npy header at byte {self._offset} claims rows of {row_bytes} bytes (shape {shape}); "
                f"at most {most} are taken"
            )
        self._left, self._shape = rows
        self._dtype = dtype


def _rows_of(shape: tuple[int, ...], facts: Mapping[str, Any]) -> tuple[int, tuple[int, ...]] | None:
    """Return how many rows a message has and the shape of each."""
    if len(shape) == 1 and shape[0]:
        return 1, shape
    takes_frames = bool(facts.get("takes_frames")) and facts.get("n_features") != 3
    if takes_frames and len(shape) == 2 and shape[1] == 3 and shape[0]:
        return 1, shape
    row: tuple[int, ...] = shape[1:]
    if (len(shape) == 2 and row[0]) or (len(shape) == 3 and row[0] and row[1] == 3):
        return shape[0], row
    return None
