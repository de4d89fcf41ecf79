"""Writing frames as files that viewers and engines read: XTC, TRR, DCD, PDB."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, one_line
from ldmaps.files import temporary_beside, written_whole
from ldmaps.inputs.formats import output_format
from ldmaps.inputs.frame_blocks import Block, FrameFile, import_mdtraj
from ldmaps.inputs.frame_formats import FRAME_FORMATS

ANGSTROM_PER_NM = 10.0


class FrameWriter:
    """Takes block after block of frames; made by :func:`open_frame_writer`."""

    def __init__(self, path: str, form: str, topology: Any, name: str) -> None:
        self._path, self._form, self._topology, self._name = path, form, topology, name
        self._file = getattr(import_mdtraj().formats, f"{form}TrajectoryFile")(path, "w")
        self._count = 0
        self.remarks: list[str] = []

    def write(self, block: Block, numbers: NDArray[np.int64]) -> None:
        """Write frames; a frame's number stands for its time where that is not known, and is its step."""
        try:
            self._write(block, numbers)
        except Exception as error:  # mdtraj's writers raise what they happen to meet on a full disk
            raise self._failure(one_line(error, 120)) from error
        self._count += len(block[0])

    def _write(self, block: Block, numbers: NDArray[np.int64]) -> None:
        xyz, times, box = block
        if self._form in ("XTC", "TRR"):
            self._file.write(
                xyz.astype(np.float32),
                time=np.asarray(numbers if times is None else times, dtype=np.float32),
                step=numbers.astype(np.int32),
                box=box.astype(np.float32),
            )
            return
        lengths, angles = _lengths_and_angles(box) if box.any() else (None, None)
        xyz = ANGSTROM_PER_NM * xyz
        if lengths is not None:
            lengths = ANGSTROM_PER_NM * lengths
        if self._form == "DCD":
            self._file.write(xyz, cell_lengths=lengths, cell_angles=angles)
            return
        for row, frame in enumerate(xyz):
            cell = {}
            if lengths is not None and angles is not None and (lengths[row] > 0).all():
                cell = {"unitcell_lengths": tuple(lengths[row]), "unitcell_angles": tuple(angles[row])}
            self._file.write(frame, self._topology, modelIndex=self._count + row + 1, **cell)

    def finish(self) -> None:
        """Close the file, and read it: on a full disk some writers end without a word."""
        try:
            self._file.close()
            if self._form in FRAME_FORMATS and self._count:
                with closing(FrameFile(self._path, FRAME_FORMATS[self._form]())) as written:
                    count = len(written)
                    written.check_end()
                if count != self._count:
                    raise InvalidInputError(f"{count} of {self._count} frames are there")
        except (OSError, ValueError) as error:
            raise self._failure(one_line(error, 120)) from error

    def _failure(self, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._name} could not be written ({why}), and no file was left; free disk space, or choose another disk"
        )


@contextmanager
def open_frame_writer(path: str | os.PathLike[str], topology: Any) -> Iterator[FrameWriter]:
    """Open a file for frames of a topology's atoms; it appears under its name when the block ends without an error."""
    path = os.fspath(path)
    form = output_format(path, "frames").name
    with written_whole(path) as stream, temporary_beside(path) as part:
        writer = FrameWriter(part, form, topology, path)
        try:
            yield writer
            writer.finish()
        except BaseException:
            with suppress(Exception):  # another error is on its way already
                writer._file.close()
            raise
        if form == "PDB":
            stream.write("".join(f"REMARK   6 {remark}\n" for remark in writer.remarks).encode())
        with open(part, "rb") as written:
            shutil.copyfileobj(written, stream, 1 << 20)


def _lengths_and_angles(box: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lengths and angles in degrees of lattice vectors (n, 3, 3); a box of zeros has right angles."""
    import_mdtraj()
    from mdtraj.utils import box_vectors_to_lengths_and_angles

    with np.errstate(invalid="ignore", divide="ignore"):
        cells = np.stack(box_vectors_to_lengths_and_angles(*np.moveaxis(box, 1, 0)), axis=1)
    return cells[:, :3], np.nan_to_num(cells[:, 3:], nan=90.0)
