"""Writing embeddings row by row: CSV, NPY and Parquet, each whole or not at all."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import EmbeddedText, coordinate_names, shared_columns
from ldmaps.extension.embedder import Coverage
from ldmaps.files import shown_name, to_stdout, written_whole
from ldmaps.inputs.formats import output_format
from ldmaps.inputs.source import FrameChunk
from ldmaps.inputs.table_files import import_parquet

#: Names of columns and numpy's codes of their types.
_Columns = list[tuple[str, str]]
#: Where a row comes from: these columns stand before those that all tables of embedded points have.
_ORIGIN: _Columns = [("file", "U"), ("frame", "<i8")]
#: Bytes of rows that an .npy file gets at a time: they stay in cache while their columns are filled in.
BLOCK_BYTES = 1 << 18


class Writer(ABC):
    """Takes chunk after chunk."""

    @abstractmethod
    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        """Write one chunk's rows."""

    def finish(self) -> None:
        """Write what can only be known at the end; by default nothing."""


def check_format(path: str) -> None:
    """Raise unless ``path`` ends in a format that can be written."""
    if output_format(path, "embed").name == "Parquet":
        import_parquet("Parquet is written")


@contextmanager
def open_writer(
    path: str, n_components: int, files: Sequence[str], names: Sequence[str] | None = None
) -> Iterator[Writer]:
    """Open an output for rows of ``files``, - for CSV on stdout; a file gets its name when the block ends well.

    ``names`` are those of the coordinates; None for psi2, psi3, ...
    """
    form = output_format(path, "embed").name
    names = coordinate_names(n_components) if names is None else names
    columns = [*_ORIGIN, *shared_columns(names)]
    with ExitStack() as stack:
        writer: Writer
        if path == "-":
            sys.stdout.flush()
            stack.callback(sys.stdout.flush)
            writer = _TextWriter(to_stdout, names, form)
        else:
            stream = stack.enter_context(written_whole(path))
            if form == "NPY":
                writer = _NpyWriter(stream, columns, files)
            elif form == "Parquet":
                writer = _ParquetWriter(stream, columns)
            else:
                writer = _TextWriter(stream.write, names, form)
        try:
            yield writer
        finally:  # in any case: pyarrow's writer complains if its file goes first
            writer.finish()


def _values(chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> list[Any]:
    """Return the columns of a chunk; times may be None, and the file is the same in all rows."""
    return [shown_name(chunk.file), chunk.numbers, chunk.times, *coordinates.T, *coverage]


class _TextWriter(Writer):
    def __init__(self, write: Callable[[bytes], Any], names: Sequence[str], form: str) -> None:
        self._write = write
        origin = [name for name, _ in _ORIGIN]
        self._text = EmbeddedText(form.lower(), origin, coordinates=names, writes_nan=True)
        write(self._text.header(len(names)))

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        file = shown_name(chunk.file)
        self._write(self._text.lines(chunk.numbers, chunk.times, coordinates, coverage, file=file))


class _NpyWriter(Writer):
    """A structured array whose length is filled in at the end."""

    def __init__(self, stream: BinaryIO, columns: _Columns, files: Sequence[str]) -> None:
        longest = max((len(shown_name(name)) for name in files), default=1) or 1
        self._dtype = np.dtype([(name, f"U{longest}" if kind == "U" else kind) for name, kind in columns])
        self._file: str | None = None
        self._block = np.empty(max(1, BLOCK_BYTES // self._dtype.itemsize), dtype=self._dtype)
        self._stream = stream
        self._rows = 0
        self._write_header()

    def _write_header(self) -> None:  # which has room for a greater length
        facts = {"descr": self._dtype.descr, "fortran_order": False, "shape": (self._rows,)}
        np.lib.format.write_array_header_1_0(self._stream, facts)

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        file, *values = _values(chunk, coordinates, coverage)
        if file != self._file:
            # The name takes more room than all numbers of a row, so it is filled in once for many blocks.
            self._block["file"] = self._file = file
        for start in range(0, len(chunk), len(self._block)):
            rows = self._block[: len(chunk) - start]
            part = slice(start, start + len(rows))
            for name, value in zip((self._dtype.names or ())[1:], values, strict=True):
                rows[name] = np.nan if value is None else value[part]
            self._stream.write(rows.view(np.uint8).data)
        self._rows += len(chunk)

    def finish(self) -> None:
        self._stream.seek(0)
        self._write_header()
        self._stream.seek(0, 2)


class _ParquetWriter(Writer):
    def __init__(self, stream: BinaryIO, columns: _Columns) -> None:
        parquet = import_parquet("Parquet is written")
        import pyarrow

        self._arrow = pyarrow
        kinds = [(name, "str" if kind == "U" else kind) for name, kind in columns]
        self._schema = pyarrow.schema([(name, pyarrow.from_numpy_dtype(kind)) for name, kind in kinds])
        self._writer = parquet.ParquetWriter(stream, self._schema)

    def write(self, chunk: FrameChunk, coordinates: NDArray[Any], coverage: Coverage) -> None:
        n = len(chunk)
        file, *values = _values(chunk, coordinates, coverage)
        # NaN is null: the time of rows without one, and p of a map that is not calibrated.
        columns = [
            self._arrow.nulls(n) if value is None else self._arrow.array(value, from_pandas=True)
            for value in values
        ]
        table = self._arrow.table([[file] * n, *columns], names=self._schema.names)
        self._writer.write_table(table.cast(self._schema))

    def finish(self) -> None:
        self._writer.close()
