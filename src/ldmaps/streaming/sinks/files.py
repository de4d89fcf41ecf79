"""Embedded records, events and rejected records as text, in files that survive a crash, or on stdout."""

from __future__ import annotations

import json
import os
import sys
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ldmaps import door
from ldmaps.embedded_rows import EmbeddedText
from ldmaps.errors import CheckpointError, InvalidInputError, SinkError
from ldmaps.files import lock, sync_folder, to_stdout
from ldmaps.inputs.formats import output_format
from ldmaps.streaming.fingerprint import Fingerprint
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink

#: Appending, so that nothing is written beyond the end of a file that another process truncated.
_OPEN = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_LOST = "start over, with an output that no other process touches"


class TextSink(Sink):
    """What all sinks that write text share; the path "-" is stdout, which is not durable."""

    durable = True

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = os.fspath(path)
        self.durable = self.path != "-"
        self.paths = (self.path,) if self.durable else ()
        self.name = os.path.abspath(self.path) if self.durable else "stdout"
        self._overwrite = overwrite
        self._descriptor: int | None = None
        self._begun = False  # whether the file is as long as what was written
        self._written = Fingerprint()

    @abstractmethod
    def _text(self, embedded: Embedded) -> bytes:
        """Return what is to be written."""

    def write(self, embedded: Embedded) -> None:
        """Append a batch."""
        data = self._text(embedded)
        if not data:
            return
        if not self.durable:
            to_stdout(data)
            sys.stdout.flush()
            self._written.add(data)
            return
        descriptor = self._opened()
        try:
            left = memoryview(data)
            while left:
                left = left[door.write(descriptor, left) :]
        except OSError:
            # A disk that is full may have taken half a line: nothing half-written stays.
            with suppress(OSError):
                door.ftruncate(descriptor, self._written.end)
            raise
        self._written.add(data)

    def check(self, mark: Any = None) -> None:
        """Open the file if it is there, and make sure that it may be replaced, or is the one of the mark."""
        if not self.durable or self._descriptor is not None:
            return
        folder = os.path.dirname(self.path) or "."
        if door.isdir(self.path):
            raise InvalidInputError(f"the output {self.path} is a directory; name a file")
        if not door.isdir(folder):
            raise InvalidInputError(f"there is no directory {folder} for the output; create it first")
        try:
            self._take(door.open(self.path, _OPEN))
        except FileNotFoundError as error:
            if mark is not None:
                raise CheckpointError(
                    f"the output {self.path} is missing, but the checkpoint says that {mark['bytes']} bytes were "
                    "written; put it back, or start over with another checkpoint"
                ) from error
            if not door.access(folder, os.W_OK):
                raise InvalidInputError(
                    f"the directory {folder} cannot be written to; name another output"
                ) from error
            return
        try:
            self._compare(mark)
        except BaseException:
            self.close()
            raise

    def flush(self) -> Any:
        """Sync everything written so far; return the file's length and checksums of its bytes."""
        if not self.durable:
            return None
        descriptor = self._opened()
        self._check_untouched(descriptor)
        door.fsync(descriptor)
        return {"bytes": self._written.end, "checksums": self._written.mark()}

    def rewind(self, mark: Any) -> None:
        """Cut the file back to a mark, after making sure that it is the file the mark was made for."""
        if not self.durable:
            return
        if mark is None:
            self._overwrite = True
        self.check(mark)
        if mark is not None:
            self._begin()
        self._opened()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            door.close(self._descriptor)
            self._descriptor = None
        self._begun = False

    def _opened(self) -> int:
        if self._descriptor is None or not self._begun:
            self.check()
            if self._descriptor is None:
                self._take(door.open(self.path, _OPEN | os.O_CREAT, 0o666))
            self._written = Fingerprint()
            self._begin()
            sync_folder(os.path.dirname(self.path) or ".")
        assert self._descriptor is not None
        return self._descriptor

    def _begin(self) -> None:
        """Cut the file to what counts as written; this is the first change to it."""
        assert self._descriptor is not None
        door.ftruncate(self._descriptor, self._written.end)
        self._begun = True

    def _take(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if not lock(descriptor, self.path):
            self.close()
            raise InvalidInputError(f"another process is writing to {self.path}; name another output")

    def _compare(self, mark: Any) -> None:
        """Raise unless the open file may be replaced, or begins with what the mark was made for."""
        assert self._descriptor is not None
        size = door.fstat(self._descriptor).st_size
        if mark is None:
            if size and not self._overwrite:
                raise InvalidInputError(
                    f"{self.path} exists already; name another output, overwrite it (--force), or resume with its "
                    "checkpoint"
                )
            return
        length = int(mark["bytes"])
        if not 0 <= length <= size:
            raise CheckpointError(
                f"the output {self.path} has {size} bytes, but the checkpoint says that {length} were written; "
                "put it back, or start over with another checkpoint and another output"
            )
        self._written = Fingerprint()
        self._written.add_from(self._descriptor, length)
        if self._written.mark() != mark["checksums"]:
            raise CheckpointError(
                f"the output {self.path} is not what the checkpoint was made for: it differs before byte {length}; "
                "put it back, or start over with another checkpoint and another output"
            )

    def _check_untouched(self, descriptor: int) -> None:
        """Raise if another process removed, replaced or changed the file, so that results are missing."""
        mine = door.fstat(descriptor)
        try:
            is_named = os.path.samestat(mine, door.stat(self.path))
        except FileNotFoundError:
            raise SinkError(f"{self.path} was removed or renamed while it was written; {_LOST}") from None
        if not is_named:
            raise SinkError(f"{self.path} was replaced by another file while it was written; {_LOST}")
        if mine.st_size != self._written.end:
            raise SinkError(
                f"{self.path} has {mine.st_size} bytes, but {self._written.end} were written: another process "
                f"truncated it or wrote to it; {_LOST}"
            )
        if not self._written.is_at_end_of(descriptor):
            raise SinkError(f"{self.path} was overwritten by another process; {_LOST}")


class OutputFile(TextSink):
    """Coordinates, coverage and region of every record, as CSV or NDJSON.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv, .ndjson or .jsonl; "-" is stdout, as CSV.
    regions : sequence of str
        The tracker's ``names``; without them regions are numbers.
    form : {"csv", "tsv", "ndjson"}, optional
        By default the name's suffix decides.
    overwrite : bool
        Whether an existing file may be replaced. By default only an empty one is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        regions: Sequence[str] = (),
        form: str | None = None,
        overwrite: bool = False,
    ) -> None:
        super().__init__(path, overwrite=overwrite)
        form = form or output_format(self.path, "stream").name.lower()
        self._table = EmbeddedText(form, ["number"], ["region"])
        self._regions = (*map(self._table.word, regions), self._table.unknown)

    def _text(self, embedded: Embedded) -> bytes:
        self._table.coordinates = embedded.names
        head = b"" if self._written.end else self._table.header(embedded.coordinates.shape[1])
        if not len(embedded):
            return head
        *known, unknown = self._regions  # those without a name appear as their number
        self._regions = (*known, *map(str, range(len(known), int(embedded.regions.max()) + 1)), unknown)
        return head + self._table.lines(
            embedded.numbers,
            embedded.times,
            embedded.coordinates,
            embedded.coverage,
            labels=self._regions,
            which=embedded.regions,
        )


class EventsFile(TextSink):
    """Events of regions, one JSON object per line: kind, region, number, time, duration.

    Parameters
    ----------
    path, overwrite
        See :class:`OutputFile`; "-" is stdout.
    """

    def _text(self, embedded: Embedded) -> bytes:
        return _lines(event.as_dict() for event in embedded.events)


class QuarantineFile(TextSink):
    """Records that could not be embedded, one JSON object per line: number, reason, raw.

    Parameters
    ----------
    path, overwrite
        See :class:`OutputFile`; "-" is stdout.
    """

    takes_rejected = True

    def _text(self, embedded: Embedded) -> bytes:
        return _lines(vars(one) for one in embedded.rejected)


def _lines(values: Any) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode(errors="replace")
