"""Writing frames as files that viewers and engines read: XTC, TRR, DCD, PDB."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.files import written_whole
from ldmaps.inputs.formats import output_format
from ldmaps.inputs.frame_blocks import Block, import_mdtraj

__all__ = ["FrameWriter", "open_frame_writer"]

ANGSTROM_PER_NM = 10.0


class FrameWriter:
    """Takes block after block of frames; made by :func:`open_frame_writer`.

    Attributes
    ----------
    remarks : list of str
        Lines that go before the frames, where the format has a place for them (PDB).
    """

    def __init__(self, path: Path, form: str, topology: Any) -> None:
        formats = import_mdtraj().formats
        self._form, self._topology = form, topology
        self._file = {
            "XTC": formats.XTCTrajectoryFile,
            "TRR": formats.TRRTrajectoryFile,
            "DCD": formats.DCDTrajectoryFile,
            "PDB": formats.PDBTrajectoryFile,
        }[form](str(path), "w")
        self._model = 0
        self.remarks: list[str] = []

    def write(self, block: Block, numbers: NDArray[np.int64]) -> None:
        """Write frames; a frame's number stands for its time where that is not known, and is its step."""
        xyz, times, box = block
        if self._form in ("XTC", "TRR"):
            vectors = np.zeros((len(xyz), 3, 3)) if box is None else box
            self._file.write(
                xyz.astype(np.float32),
                time=np.asarray(numbers if times is None else times, dtype=np.float32),
                step=numbers.astype(np.int32),
                box=vectors.astype(np.float32),
            )
            return
        lengths, angles = (None, None) if box is None else _lengths_and_angles(box)
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
            self._file.write(frame, self._topology, modelIndex=self._model + 1, **cell)
            self._model += 1

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


@contextmanager
def open_frame_writer(path: str, topology: Any) -> Iterator[FrameWriter]:
    """Open a file for frames of a topology's atoms; it appears under its name when the block ends without an error.

    Parameters
    ----------
    path : str
        Its suffix says the format. XTC keeps three decimals of a nanometre, PDB three of
        an ångström and the first frame's box, DCD no times.
    topology : mdtraj Topology
    """
    form = output_format(path, "frames").name
    with (
        written_whole(path) as stream,
        tempfile.TemporaryDirectory(prefix=".ldmaps-", dir=Path(path).parent) as folder,
    ):
        part = Path(folder) / "frames"
        with closing(FrameWriter(part, form, topology)) as writer:
            yield writer
        if form == "PDB":
            stream.write("".join(f"REMARK   6 {remark}\n" for remark in writer.remarks).encode())
        with part.open("rb") as written:
            shutil.copyfileobj(written, stream, 1 << 20)


def _lengths_and_angles(box: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lengths and angles in degrees of lattice vectors (n, 3, 3); a box of zeros has right angles.

    >>> _lengths_and_angles(np.array([[[3.0, 0, 0], [0, 4.0, 0], [0, 0, 5.0]]]))
    (array([[3., 4., 5.]]), array([[90., 90., 90.]]))
    """
    lengths = np.linalg.norm(box, axis=2)
    pairs = ((1, 2), (0, 2), (0, 1))  # α lies between b and c
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.stack(
            [np.einsum("ni,ni->n", box[:, i], box[:, j]) / (lengths[:, i] * lengths[:, j]) for i, j in pairs],
            axis=1,
        )
    angles = np.degrees(np.arccos(np.clip(np.nan_to_num(cosines), -1.0, 1.0)))
    return lengths, angles
