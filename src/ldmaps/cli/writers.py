"""Writing embeddings row by row: CSV, NPY and Parquet, each whole or not at all."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.embedder import Coverage
from ldmaps.files import written_whole
from ldmaps.inputs.formats import output_format
from ldmaps.inputs.source import FrameChunk
from ldmaps.inputs.tables import import_parquet
from ldmaps.text_rows import formatted_rows, number_format, quoted

__all__ = ["Writer", "check_format", "open_writer"]


class Writer(ABC):
    """Takes chunk after chunk."""

    @abstractmethod
    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        """Write one chunk's rows."""

    @abstractmethod
    def finish(self) -> None:
        """Write what can only be known at the end."""


def check_format(path: str) -> None:
    """Raise unless ``path`` ends in a format that can be written."""
    if output_format(path, "embed").name == "Parquet":
        import_parquet("Parquet is written")


@contextmanager
def open_writer(path: str, n_components: int, files: Sequence[str]) -> Iterator[Writer]:
    """Open an output; the file appears under its name when the block ends without an error.

    Parameters
    ----------
    path : str
        "-" is CSV on stdout.
    files : sequence of str
        All file names that may come, which a fixed-width format must know.
    """
    names = [f"psi{number}" for number in range(2, n_components + 2)]
    form = output_format(path, "embed").name
    with ExitStack() as stack:
        writer: Writer
        if path == "-":
            sys.stdout.flush()
            buffer = getattr(sys.stdout, "buffer", None)
            writer = _CsvWriter(_TextOut() if buffer is None else buffer, names, ",")
        else:
            stream = stack.enter_context(written_whole(path))
            if form == "NPY":
                writer = _NpyWriter(stream, names, files)
            elif form == "Parquet":
                writer = _ParquetWriter(stream, names)
            else:
                writer = _CsvWriter(stream, names, "\t" if form == "TSV" else ",")
        yield writer
        writer.finish()


class _TextOut:
    """A text stdout (a notebook's, a test's) where bytes are expected."""

    def write(self, data: bytes) -> int:
        return sys.stdout.write(data.decode())

    def flush(self) -> None:
        sys.stdout.flush()


class _CsvWriter(Writer):
    def __init__(self, stream: BinaryIO | _TextOut, names: list[str], delimiter: str) -> None:
        self._stream = stream
        self._delimiter = delimiter
        columns = ["file", "frame", "time", *names, "distance", "inside", "nearest"]
        stream.write((delimiter.join(columns) + "\n").encode())

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        """Append rows."""
        number = number_format(coordinates.dtype)
        cells = [quoted(chunk.file, self._delimiter).replace("%", "%%"), "%d"]
        columns = [chunk.numbers.tolist()]
        if chunk.times is None:
            cells.append("")
        else:
            cells.append("%.10g")
            columns.append(chunk.times.tolist())
        cells += [number] * coordinates.shape[1] + ["%.5g", "%d", "%d"]
        columns += [column.tolist() for column in (*coordinates.T, *coverage)]
        self._stream.write(formatted_rows(self._delimiter.join(cells) + "\n", columns))

    def finish(self) -> None:
        """Flush."""
        self._stream.flush()


class _NpyWriter(Writer):
    """A structured array whose length is filled in at the end."""

    def __init__(self, stream: BinaryIO, names: list[str], files: Sequence[str]) -> None:
        longest = max((len(name) for name in files), default=1) or 1
        self._dtype = np.dtype(
            [("file", f"U{longest}"), ("frame", "<i8"), ("time", "<f8")]
            + [(name, "<f8") for name in names]
            + [("distance", "<f8"), ("inside", "?"), ("nearest", "<i8")]
        )
        self._names = names
        self._stream = stream
        self._rows = 0
        self._header_length = len(self._header(10**18))
        stream.write(self._header(0))

    def _header(self, rows: int) -> bytes:
        text = f"{{'descr': {self._dtype.descr!r}, 'fortran_order': False, 'shape': ({rows},), }}"
        length = getattr(self, "_header_length", 0)
        # 10 bytes stand before the text, and the whole is a multiple of 64.
        padded = length - 10 if length else -(-(len(text) + 11) // 64) * 64 - 10
        return b"\x93NUMPY\x01\x00" + padded.to_bytes(2, "little") + text.ljust(padded - 1).encode() + b"\n"

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        """Append rows."""
        rows = np.empty(len(chunk), dtype=self._dtype)
        rows["file"] = chunk.file
        rows["frame"] = chunk.numbers
        rows["time"] = np.nan if chunk.times is None else chunk.times
        for place, name in enumerate(self._names):
            rows[name] = coordinates[:, place]
        rows["distance"], rows["inside"], rows["nearest"] = coverage
        self._stream.write(rows.tobytes())
        self._rows += len(rows)

    def finish(self) -> None:
        """Go back and write the true length."""
        self._stream.seek(0)
        self._stream.write(self._header(self._rows))
        self._stream.seek(0, 2)


class _ParquetWriter(Writer):
    def __init__(self, stream: BinaryIO, names: list[str]) -> None:
        parquet = import_parquet("Parquet is written")
        import pyarrow as arrow

        self._arrow = arrow
        fields = [("file", arrow.string()), ("frame", arrow.int64()), ("time", arrow.float64())]
        fields += [(name, arrow.float64()) for name in names]
        fields += [("distance", arrow.float64()), ("inside", arrow.bool_()), ("nearest", arrow.int64())]
        self._schema = arrow.schema(fields)
        self._writer = parquet.ParquetWriter(stream, self._schema)

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        """Append a row group."""
        n = len(chunk)
        times = self._arrow.nulls(n, self._arrow.float64()) if chunk.times is None else chunk.times
        columns = [[chunk.file] * n, chunk.numbers, times]
        columns += [np.asarray(column, dtype=np.float64) for column in coordinates.T]
        columns += [coverage.distance.astype(np.float64), coverage.inside, coverage.nearest.astype(np.int64)]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def finish(self) -> None:
        """Write the footer."""
        self._writer.close()
