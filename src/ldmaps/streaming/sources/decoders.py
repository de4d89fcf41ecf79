"""Which decoder reads a stream of bytes: the one that is named, or the one for its first bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import table_streams
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sources.decoding import BOM, Decoder, LineDecoder, excerpt
from ldmaps.streaming.sources.decoding_npy import NpyDecoder
from ldmaps.streaming.sources.line_parsers import CsvParser, JsonParser

__all__ = ["open_decoder"]


def open_decoder(
    form: str | None = None,
    facts: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> Decoder:
    """Return a decoder for a form, by default for the first bytes; facts and columns as in :func:`open_source`."""
    facts = dict(facts or {})
    if form is None:
        return _Sniffing(facts, columns)
    if form in ("csv", "ndjson"):
        return LineDecoder((CsvParser if form == "csv" else JsonParser)(facts, columns))
    if form == "npy":
        if columns is not None:
            raise InvalidInputError("npy messages have no columns to choose; leave columns out")
        return NpyDecoder(facts)
    raise InvalidInputError(f"the format must be one of {', '.join(table_streams())}, got {form!r}")


class _Sniffing(Decoder):
    """Finds out the format from the first bytes."""

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None) -> None:
        self._settings = facts, columns
        self._head = b""
        self._inner: Decoder | None = None

    def feed(self, data: bytes, arrived: float) -> None:
        if self._inner is None:
            self._head += data
            start = self._head.removeprefix(BOM).lstrip()
            if not start or BOM.startswith(self._head) or (len(start) < 6 and b"\x93NUMPY".startswith(start)):
                return
            form = "npy" if start.startswith(b"\x93") else "ndjson" if start[:1] in b"[{" else "csv"
            self._inner = open_decoder(form, *self._settings)
            data, self._head = self._head, b""
        self._inner.feed(data, arrived)

    def finish(self) -> None:
        if self._inner is not None:
            self._inner.finish()
        elif self._head.strip():
            raise InvalidInputError(f"{excerpt(self._head)!r} is neither CSV, NDJSON nor npy")

    @property
    def ready(self) -> int:
        return 0 if self._inner is None else self._inner.ready

    def take(self, most: int) -> Records:
        if self._inner is None:
            return Records.none()
        return self._inner.take(most)

    def restore(self, position: Position) -> None:
        self._inner = open_decoder(position["format"], *self._settings)
        self._inner.restore(position)
