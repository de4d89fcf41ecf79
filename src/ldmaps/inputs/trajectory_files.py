"""Trajectory files in chunks: XTC, TRR and DCD as bytes, others through mdtraj, or MDAnalysis where that fails."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, ShortFileWarning, one_line
from ldmaps.inputs.foreign_files import (
    MDAnalysisFile,
    MdtrajFile,
    ascii_name,
    mol2_models,
    pdb_atom_count,
    pdb_box,
    pdb_models,
)
from ldmaps.inputs.formats import conversion, known_format
from ldmaps.inputs.frame_blocks import Block, FrameFile, block_of, cut_off, import_mdtraj, joined
from ldmaps.inputs.frame_formats import FRAME_FORMATS
from ldmaps.inputs.selection import SelectedFrames, bonds_of, molecules_of, select_atoms, selection_of
from ldmaps.inputs.source import FrameChunk, Reading
from ldmaps.inputs.topology import load_topology
from ldmaps.user_warnings import warn

#: From this stride on, seeking to a frame is quicker than reading past those between.
SEEK_STRIDE = 8


class TrajectoryFiles(SelectedFrames):
    """Frames from trajectory files; see :func:`ldmaps.inputs.open_files` for the arguments."""

    def __init__(self, files: Sequence[str], top: Any, reading: Reading) -> None:
        self._md = import_mdtraj()
        self.files = tuple(files)
        self._formats = {path: known_format(path) for path in files}
        # MDAnalysis' warnings are silenced while it reads, which another thread cannot do for itself alone.
        self.reads_ahead = all(form.reader != "mdanalysis" for form in self._formats.values())
        self._topology = load_topology(top, self.files[0])
        self._n_file_atoms: int = self._topology.n_atoms
        self._topology_name = str(top) if isinstance(top, (str, os.PathLike)) else "the topology"
        super().__init__(select_atoms(self._topology, reading, self._topology_name), reading)
        for path in self.files:
            self._check_atom_count(path)

    @cached_property
    def n_frames(self) -> int | None:
        """Number of frames to come; counting them scans the files' frame headers."""
        total = 0
        for path in self.files:
            if not self._is_streamed(path):
                return None
            try:
                with closing(self._open(path)) as handle:
                    total += len(self._reading.of(len(handle)))
            except Exception:  # a damaged file is explained when it is read
                return None
        return total

    def __iter__(self) -> Iterator[FrameChunk]:
        for path in self.files:
            numbers = None
            for numbers, block in self._streamed(path) if self._is_streamed(path) else self._loaded(path):
                yield self._selection.chunk(block, numbers, path)
            if numbers is None:
                told = f"{path} ends before frame {self._reading.first}, the first to read; lower "
                raise InvalidInputError(told, Named("start"))

    def topology(self) -> Any:
        """Return the mdtraj topology of the selected atoms."""
        return self._topology.subset(self._selection.chosen)

    @property
    def selected_atoms(self) -> NDArray[np.intp]:
        """Indices of the selected atoms in the topology, in the order in which they are read."""
        return self._selection.chosen

    def atoms_of_molecules(self) -> NDArray[np.intp]:
        """Return the indices of all atoms of the molecules that the selected atoms are of."""
        molecule = molecules_of(self._topology.n_atoms, bonds_of(self._topology))[1]
        return np.flatnonzero(np.isin(molecule, molecule[self._selection.chosen]))

    def atoms_selected_by(self, select: str) -> NDArray[np.intp]:
        """Return the indices of atoms that a selection in mdtraj's language means."""
        return select_atoms(self._topology, replace(self._reading, select=select), self._topology_name).chosen

    def of_atoms(self, chosen: NDArray[np.intp]) -> TrajectoryFiles:
        """Return the same frames of other atoms, given by their indices in the topology."""
        other = copy(self)
        other._selection = selection_of(self._topology, chosen, self._reading)
        other.atoms, other.n_atoms = other._selection.atoms, len(chosen)
        return other

    def chunks_at(self, path: str, numbers: NDArray[np.int64]) -> Iterator[FrameChunk]:
        """Yield frames of a file by their numbers, which ascend, of the selected atoms and whole."""
        for found, block in self.blocks_at(path, numbers):
            yield self._selection.chunk(block, found, path)

    def blocks_at(self, path: str, numbers: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Block]]:
        """Yield frames of a file by their numbers, which ascend, with times and boxes, as they are in the file."""
        if not len(numbers):
            return
        last, position = int(numbers[-1]), -1
        if self._is_streamed(path):
            with closing(self._open(path)) as handle:
                self._check_number(path, last, len(handle))
                yield from self._picked(handle, path, numbers)
            return
        wanted = set(numbers.tolist())
        for part, block in self._loaded(path):
            rows = np.flatnonzero([number in wanted for number in part.tolist()])
            position = int(part[-1])
            if len(rows):
                yield part[rows], block.take(rows)
        self._check_number(path, last, position + 1)

    def _check_number(self, path: str, number: int, length: int) -> None:
        if number >= length:
            raise InvalidInputError(
                f"frame {number} is out of range for {path} ({length:,} frames, 0 to {length - 1}); pass the file that "
                "contains it"
            )

    # -- one file ---------------------------------------------------------

    def _streamed(self, path: str) -> Iterator[tuple[NDArray[np.int64], Block]]:
        """Yield frame numbers and coordinates, striding by hand: mdtraj's own stride is not reliable at the end."""
        reading, stop = self._reading, self._reading.stop
        with closing(self._open(path)) as handle:
            if reading.stride >= SEEK_STRIDE:
                yield from self._picked(handle, path, np.asarray(reading.of(len(handle)), dtype=np.int64))
                if isinstance(handle, FrameFile) and (stop is None or stop > len(handle)):
                    handle.check_end()
                    _check_length(handle, path)
                return
            position = reading.first
            if position:
                if position >= len(handle):
                    return
                handle.seek(position)
            while stop is None or position < stop:
                left = self._chunk if stop is None else min(self._chunk, stop - position)
                block = self._read(handle, path, left, position)
                count = len(block[0])
                if count == 0:
                    _check_length(handle, path)
                    return
                kept = reading.among(position, count)
                numbers = np.arange(position, position + count, dtype=np.int64)[kept]
                position += count
                if len(numbers):
                    yield numbers, block.take(kept)

    def _picked(
        self, handle: Any, path: str, wanted: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Block]]:
        """Yield frames by their numbers, which ascend, a chunk at a time."""
        for begin in range(0, len(wanted), self._chunk):
            numbers, blocks = wanted[begin : begin + self._chunk], []
            if isinstance(handle, FrameFile):
                yield numbers, handle.pick(numbers, self._selection.read_or_none(self._n_file_atoms))
                continue
            # Runs of frames are read at once: seeking takes as long as a frame.
            for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
                handle.seek(int(run[0]))
                blocks.append(self._read(handle, path, len(run), int(run[0])))
            yield numbers, joined(blocks)

    def _read(self, handle: Any, path: str, count: int, position: int) -> Block:
        try:
            return handle.read(count, self._selection.read_or_none(self._n_file_atoms))  # type: ignore[no-any-return]
        except (RuntimeError, OSError) as error:
            n_readable = self._last_whole_frame(path, position)
            raise cut_off(path, n_readable, one_line(error, 160)) from error

    def _last_whole_frame(self, path: str, position: int) -> int:
        with closing(self._open(path)) as handle:
            try:
                handle.seek(position)
                while len(handle.read(1).frames):
                    position += 1
            except Exception:  # this is where it breaks
                pass
        return position

    def _loaded(self, path: str) -> Iterator[tuple[NDArray[np.int64], Block]]:
        """Read formats that mdtraj only loads whole; of a PDB, model by model."""
        models: Iterable[tuple[NDArray[np.float32], NDArray[Any] | None]]
        if self._formats[path].reader == "models":
            models = zip(pdb_models(path, self._n_file_atoms), repeat(pdb_box(path)), strict=False)
        elif self._formats[path].reader == "mol2":
            models = zip(mol2_models(path), repeat(None), strict=False)
        else:
            loaded = self._load_whole(path)
            self._check_count(path, loaded.n_atoms)
            boxes = repeat(None) if loaded.unitcell_vectors is None else loaded.unitcell_vectors
            models = zip(loaded.xyz, boxes, strict=False)
        reading = self._reading
        wanted = islice(enumerate(models), reading.first, reading.stop, reading.stride)
        while batch := list(islice(wanted, self._chunk)):
            frames = [model[self._selection.read] for _, (model, _) in batch]
            block = block_of(frames, None, [box for _, (_, box) in batch])
            yield np.asarray([number for number, _ in batch], dtype=np.int64), block

    def _load_whole(self, path: str) -> Any:
        form = self._formats[path]
        top = {} if form.has_topology else {"top": self._topology}
        try:
            return self._md.load(ascii_name(path, form), **top)
        except ImportError as error:
            raise InvalidInputError(
                f"{form.name} needs another package ({one_line(error, 160)}); pip install it, or {conversion(path)}"
            ) from error
        except Exception as error:
            raise InvalidInputError(
                f"{path} cannot be read as a trajectory ({one_line(error, 160)}); is it damaged? If not, "
                f"{conversion(path)}"
            ) from error

    def _is_streamed(self, path: str) -> bool:
        return self._formats[path].reader in ("frames", "mdanalysis")

    def _open(self, path: str) -> Any:
        form = self._formats[path]
        try:
            if form.name in FRAME_FORMATS:
                return FrameFile(path, FRAME_FORMATS[form.name]())
            if form.reader == "mdanalysis":
                return MDAnalysisFile(path, self._n_file_atoms)
            return MdtrajFile(self._md.open(path))
        except (InvalidInputError, FileNotFoundError):
            raise
        except ImportError as error:
            why = f"{path} needs another package ({one_line(error, 160)})"
            raise InvalidInputError(f"{why}; pip install mdtraj tables") from error
        except Exception as error:
            raise InvalidInputError(
                f"{path} cannot be opened as a trajectory ({one_line(error, 160)}); is it cut off, or of another "
                "format?"
            ) from error

    def _check_atom_count(self, path: str) -> None:
        """Raise where a file has other atoms than the topology, if that can be told without reading all of it."""
        if self._is_streamed(path):
            with closing(self._open(path)) as handle:
                try:
                    frames = handle.read(1).frames
                except (RuntimeError, OSError) as error:
                    raise cut_off(path, 0, one_line(error, 160)) from error
            if not len(frames):
                raise InvalidInputError(f"{path} has no frames; check how it was written")
            self._check_count(path, frames.shape[1])
        elif self._formats[path].reader == "models":
            self._check_count(path, pdb_atom_count(path))

    def _check_count(self, path: str, count: int) -> None:
        if count != self._n_file_atoms:
            raise InvalidInputError(
                f"{path} has {count} atoms per frame, but {self._topology_name} has {self._n_file_atoms}; "
                "give the topology that the trajectory was written with (a trajectory without water needs a "
                "topology without water)"
            )


def _check_length(handle: Any, path: str) -> None:
    """Warn of a DCD that stops early between two frames."""
    # That is no error: programs that write how many frames there will be leave such files while they run.
    if isinstance(handle, FrameFile) and handle.announced and handle.announced > len(handle):
        warn(
            ShortFileWarning(
                f"{path} holds {len(handle)} frames but announces {handle.announced}: the run that wrote it was cut "
                f"short or is still running, or the file was not copied completely; only these {len(handle)} are used"
            )
        )
