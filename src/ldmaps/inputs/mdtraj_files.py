"""Trajectory files, read in chunks through mdtraj.

Coordinates come straight from mdtraj's file objects: making an mdtraj Trajectory
of every chunk would copy the topology each time.
"""

from __future__ import annotations

import glob
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, ShortFileWarning
from ldmaps.inputs.dcd_layout import dcd_layout
from ldmaps.inputs.source import (
    Atoms,
    FrameChunk,
    FrameSource,
    as_picoseconds,
    check_range,
    default_chunk,
)
from ldmaps.inputs.topology import Selection, select_atoms

__all__ = ["CARRY_TOPOLOGY", "MDTrajFiles", "expand", "import_mdtraj"]

#: Formats that are read frame by frame through mdtraj's file objects.
STREAMED = (".xtc", ".trr", ".dcd", ".h5", ".hdf5", ".nc", ".netcdf", ".ncdf")
#: Formats that bring their own topology.
CARRY_TOPOLOGY = (".pdb", ".pdb.gz", ".h5", ".hdf5", ".gro", ".cif", ".pdbx", ".lh5", ".gsd")
#: From this stride on, seeking to a frame is quicker than reading past those between.
SEEK_STRIDE = 8

_Block = tuple[NDArray[np.float32], NDArray[np.float64] | None, NDArray[np.float64] | None]


def import_mdtraj() -> ModuleType:
    """Return mdtraj, or raise with the command that installs it."""
    try:
        import mdtraj
    except ImportError as error:
        raise InvalidInputError(
            f"trajectory files are read with mdtraj, which cannot be imported ({error}); "
            'pip install "ldmaps[trajectory]"'
        ) from error
    return mdtraj  # type: ignore[no-any-return]


def expand(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files meant by paths and glob patterns, in the order given, or raise."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise InvalidInputError("no file was given; pass at least one path")
    found: list[str] = []
    for entry in listed:
        name = os.fspath(entry)
        if os.path.isdir(name):
            raise InvalidInputError(f"{name} is a directory; name the files in it, for example {name}/*.xtc")
        if os.path.exists(name):
            found.append(name)
            continue
        matches = sorted(glob.glob(name)) if glob.has_magic(name) else []
        if not matches:
            what = "no file matches the pattern" if glob.has_magic(name) else "there is no file"
            raise FileNotFoundError(f"{what} {name!r}; check the path")
        found += matches
    return found


class MDTrajFiles(FrameSource):
    """Frames from trajectory files; see :func:`ldmaps.inputs.open` for the arguments."""

    reads_ahead: ClassVar[bool] = True

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        top: Any = None,
        *,
        select: str | None = None,
        stride: int = 1,
        start: int | None = None,
        stop: int | None = None,
        chunk: int | None = None,
        periodic: str = "whole",
    ) -> None:
        self._md = import_mdtraj()
        self.files = tuple(expand(paths))
        self.select = select
        self._stride, self._start, self._stop = check_range(stride, start, stop)
        topology = _load_topology(self._md, top, self.files[0])
        self._n_file_atoms: int = topology.n_atoms
        told = "the topology" if top is None or not isinstance(top, (str, os.PathLike)) else str(top)
        self._topology_name = told
        self._selection: Selection = select_atoms(topology, select, periodic, told)
        self._topology = topology
        self.atoms: Atoms | None = self._selection.atoms
        self.n_atoms = len(self._selection.chosen)
        self._chunk = default_chunk(len(self._selection.read)) if chunk is None else int(chunk)
        if self._chunk < 1:
            raise InvalidInputError(f"chunk must be at least 1 frame, got {chunk!r}")
        for path in self.files:
            self._check_atom_count(path)

    @cached_property
    def n_frames(self) -> int | None:
        """Number of frames to come; counting them scans the files' frame headers."""
        total = 0
        for path in self.files:
            if not _is_streamed(path):
                return None
            try:
                with closing(self._open(path)) as handle:
                    length = len(handle)
            except Exception:  # a damaged file is explained when it is read
                return None
            last = length if self._stop is None else min(length, self._stop)
            total += len(range(self._start, last, self._stride))
        return total

    def __iter__(self) -> Iterator[FrameChunk]:
        for path in self.files:
            yield from self._chunks_of(path)

    # -- one file ---------------------------------------------------------

    def _chunks_of(self, path: str) -> Iterator[FrameChunk]:
        blocks = self._streamed(path) if _is_streamed(path) else self._loaded(path)
        position = None
        for numbers, (xyz, times, box) in blocks:
            position = numbers
            frames = self._selection.take(xyz, box, numbers, path)
            yield FrameChunk(frames, numbers, times, path)
        self._check_end(path)
        if position is None:
            raise InvalidInputError(f"{path} has no frame from {self._start} on; lower start (--start)")

    def _streamed(self, path: str) -> Iterator[tuple[NDArray[np.int64], _Block]]:
        """Yield frame numbers and coordinates, striding by hand: mdtraj's own stride is not reliable at the end."""
        indices = self._selection.read_or_none(self._n_file_atoms)
        seeking = self._stride >= SEEK_STRIDE
        with closing(self._open(path)) as handle:
            position = self._start
            if position or seeking:
                length = len(handle)
                if position >= length:
                    return
                handle.seek(position)
            while self._stop is None or position < self._stop:
                left = self._chunk if self._stop is None else min(self._chunk, self._stop - position)
                if seeking:
                    last = length if self._stop is None else min(length, self._stop)
                    numbers = np.arange(position, last, self._stride, dtype=np.int64)[: self._chunk]
                    if not len(numbers):
                        return
                    blocks = [self._one(handle, path, int(number), indices) for number in numbers]
                    yield numbers, _joined(blocks)
                    position = int(numbers[-1]) + self._stride
                    continue
                block = self._read(handle, path, left, position, indices)
                count = len(block[0])
                if count == 0:
                    return
                # Frames of the stride's comb that fall into this block.
                first = (self._start - position) % self._stride
                kept = slice(first, None, self._stride)
                numbers = np.arange(position, position + count, dtype=np.int64)[kept]
                position += count
                if len(numbers):
                    yield numbers, _sliced(block, kept)

    def _one(self, handle: Any, path: str, number: int, indices: NDArray[np.intp] | None) -> _Block:
        handle.seek(number)
        return self._read(handle, path, 1, number, indices)

    def _read(
        self, handle: Any, path: str, count: int, position: int, indices: NDArray[np.intp] | None
    ) -> _Block:
        try:
            return _unpack(self._md, path, handle, handle.read(n_frames=count, atom_indices=indices))
        except (RuntimeError, OSError) as error:
            whole = self._last_whole_frame(path, position)
            raise InvalidInputError(
                f"{path} is cut off or damaged: frame {whole} cannot be read ({_one_line(error)}), the {whole} "
                f"before it can; copy the file again, or use those with stop={whole} (--stop {whole})"
            ) from error

    def _check_end(self, path: str) -> None:
        """Raise at the end of a DCD that stops within a frame, and warn of one that stops early between two.

        Mdtraj passes over both in silence. The latter is no error: programs that write
        how many frames there will be leave such files while they run.
        """
        layout = dcd_layout(path) if path.lower().endswith(".dcd") else None
        if layout is None or (self._stop is not None and self._stop <= layout.whole):
            return
        whole = layout.whole
        if layout.left_over:
            raise InvalidInputError(
                f"{path} is cut off or damaged: frame {whole} cannot be read (only {layout.left_over} bytes of it are "
                f"there), the {whole} before it can; copy the file again, or use those with stop={whole} "
                f"(--stop {whole})"
            )
        if layout.announced > whole:
            warnings.warn(
                f"{path} holds {whole} frames but announces {layout.announced}: the run that wrote it was cut short or "
                f"still goes on, or the file was not copied to its end; the {whole} are used",
                ShortFileWarning,
                stacklevel=2,
            )

    def _last_whole_frame(self, path: str, position: int) -> int:
        with closing(self._open(path)) as handle:
            try:
                handle.seek(position)
                while len(handle.read(n_frames=1)[0]):
                    position += 1
            except Exception:  # this is where it breaks
                pass
        return position

    def _loaded(self, path: str) -> Iterator[tuple[NDArray[np.int64], _Block]]:
        """Read formats that mdtraj only loads whole; of a PDB, model by model."""
        if path.lower().endswith(".pdb"):
            models = _pdb_models(path, self._n_file_atoms)
            box = _pdb_box(self._md, path)
        else:
            loaded = self._load_whole(path)
            models = iter(loaded.xyz)
            box = None if loaded.unitcell_vectors is None else loaded.unitcell_vectors[0].astype(np.float64)
        read = self._selection.read
        frames: list[NDArray[np.float32]] = []
        numbers: list[int] = []

        def block() -> tuple[NDArray[np.int64], _Block]:
            boxes = None if box is None else np.broadcast_to(box, (len(frames), 3, 3))
            return np.asarray(numbers, dtype=np.int64), (np.stack(frames), None, boxes)

        for number, model in enumerate(models):
            if self._stop is not None and number >= self._stop:
                break
            if number < self._start or (number - self._start) % self._stride:
                continue
            frames.append(model[read])
            numbers.append(number)
            if len(frames) == self._chunk:
                yield block()
                frames, numbers = [], []
        if frames:
            yield block()

    def _load_whole(self, path: str) -> Any:
        try:
            if path.lower().endswith(CARRY_TOPOLOGY):
                return self._md.load(path)
            return self._md.load(path, top=self._topology)
        except Exception as error:
            raise InvalidInputError(f"{path} cannot be read as a trajectory ({_one_line(error)})") from error

    def _open(self, path: str) -> Any:
        try:
            return self._md.open(path)
        except ImportError as error:
            raise InvalidInputError(
                f'{path} needs another package ({_one_line(error)}); pip install "ldmaps[trajectory]"'
            ) from error
        except FileNotFoundError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"{path} cannot be opened as a trajectory ({_one_line(error)}); is it cut off, or of another format?"
            ) from error

    def _check_atom_count(self, path: str) -> None:
        lower = path.lower()
        if _is_streamed(path):
            with closing(self._open(path)) as handle:
                try:
                    first = handle.read(n_frames=1)
                    frames: Any = first[0] if len(first) else []
                except (RuntimeError, OSError) as error:
                    raise InvalidInputError(
                        f"{path} has no readable frame ({_one_line(error)}); is it empty, or of another format?"
                    ) from error
                if not len(frames):
                    raise InvalidInputError(f"{path} has no frames; check how it was written")
                count = frames.shape[1]
        elif lower.endswith(".pdb"):
            count = _pdb_atom_count(path)
        else:
            count = self._load_whole(path).n_atoms
        if count != self._n_file_atoms:
            raise InvalidInputError(
                f"{path} has {count} atoms a frame, but {self._topology_name} has {self._n_file_atoms}; "
                "give the topology that the trajectory was written with (a trajectory without water needs a "
                "topology without water)"
            )


# -- blocks -----------------------------------------------------------------


def _is_streamed(path: str) -> bool:
    return path.lower().endswith(STREAMED)


def _unpack(md: ModuleType, path: str, handle: Any, read: Any) -> _Block:
    """Bring what the formats' readers return into one form: nm, ps, lattice vectors."""
    lower = path.lower()
    xyz = read[0] if len(read) else np.empty((0, 1, 3), dtype=np.float32)
    if len(xyz) == 0:
        return np.empty((0, 1, 3), dtype=np.float32), None, None
    times: Any = None
    if lower.endswith((".xtc", ".trr")):
        times, vectors = read[1], read[3]
    else:
        if lower.endswith(".dcd"):
            lengths, angles = read[1], read[2]
        else:
            times, lengths, angles = read[1], read[2], read[3]
        vectors = None
        if lengths is not None and angles is not None and np.all(lengths > 0):
            vectors = _box_vectors(md, lengths, angles)
    frames = np.asarray(xyz, dtype=np.float32)
    if handle.distance_unit == "angstroms":
        frames = frames * np.float32(0.1)
        vectors = None if vectors is None else 0.1 * vectors
    return (
        frames,
        None if times is None else as_picoseconds(times),
        None if vectors is None else np.asarray(vectors, dtype=np.float64),
    )


def _box_vectors(md: ModuleType, lengths: Any, angles: Any) -> NDArray[np.float64]:
    from mdtraj.utils import lengths_and_angles_to_box_vectors

    columns = (*np.asarray(lengths, dtype=np.float64).T, *np.asarray(angles, dtype=np.float64).T)
    return np.stack(lengths_and_angles_to_box_vectors(*columns), axis=1)


def _sliced(block: _Block, kept: slice) -> _Block:
    xyz, times, box = block
    return xyz[kept], None if times is None else times[kept], None if box is None else box[kept]


def _joined(blocks: Sequence[_Block]) -> _Block:
    def join(parts: list[Any]) -> Any:
        return None if any(part is None for part in parts) else np.concatenate(parts)

    xyz, times, box = (join(list(parts)) for parts in zip(*blocks, strict=True))
    return xyz, times, box


# -- topologies ---------------------------------------------------------------


def _load_topology(md: ModuleType, top: Any, first_file: str) -> Any:
    if isinstance(top, md.Topology):
        return top
    if isinstance(top, md.Trajectory):
        return top.topology
    if top is None:
        if not first_file.lower().endswith(CARRY_TOPOLOGY):
            raise InvalidInputError(
                f"{first_file} holds coordinates only, without atom names: give a topology of the same atoms with "
                "top=... (-t top.pdb)"
            )
        top = first_file
    path = os.fspath(top)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no topology file {path!r}; check the path")
    try:
        if path.lower().endswith(".pdb"):
            return _first_pdb_model(md, path)
        return md.load_topology(path)
    except Exception as error:
        raise InvalidInputError(
            f"{path} cannot be read as a topology ({_one_line(error)}); use PDB, GRO, PSF, prmtop or another that "
            "mdtraj knows"
        ) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."


# -- PDB ------------------------------------------------------------------------
# mdtraj parses all models of a PDB at once; here one model is in memory at a time.


def _first_pdb_model(md: ModuleType, path: str) -> Any:
    """Return the topology of a PDB's first model, with the bonds that stand behind the last one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "first.pdb"
        with open(path, encoding="utf-8", errors="replace") as lines, copy.open("w") as out:
            within = True
            for line in lines:
                if within or line.startswith("CONECT"):
                    out.write(line)
                within = within and not line.startswith("ENDMDL")
        with warnings.catch_warnings():
            # A cell that mdtraj finds unlikely, or an unknown element: it is only names and bonds that are wanted.
            warnings.simplefilter("ignore")
            return md.load_pdb(str(copy)).topology


def _pdb_models(path: str, n_atoms: int) -> Iterator[NDArray[np.float32]]:
    """Yield the coordinates of each model in nm."""
    atoms: list[str] = []
    number = 0

    def model() -> NDArray[np.float32]:
        if len(atoms) != n_atoms:
            raise InvalidInputError(
                f"{path}: model {number} has {len(atoms)} atoms, but the topology has {n_atoms}; is the file cut off?"
            )
        try:
            values = [(text[:8], text[8:16], text[16:24]) for text in atoms]
            return np.asarray(values).astype(np.float32) * np.float32(0.1)
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: model {number} has a coordinate that is no number ({error})"
            ) from error

    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(("ATOM  ", "HETATM")):
                if line[16] in " A1":  # of alternative locations the first counts, as in mdtraj
                    atoms.append(line[30:54])
            elif line.startswith("ENDMDL"):
                yield model()
                atoms = []
                number += 1
    if atoms:
        yield model()


def _pdb_atom_count(path: str) -> int:
    count = 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(("ATOM  ", "HETATM")):
                count += line[16] in " A1"
            elif line.startswith("ENDMDL"):
                break
    return count


def _pdb_box(md: ModuleType, path: str) -> NDArray[np.float64] | None:
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("CRYST1"):
                try:
                    values = [float(line[begin : begin + width]) for begin, width in _CRYST1]
                except ValueError:
                    return None
                lengths, angles = np.array(values[:3]), np.array(values[3:])
                # 1 × 1 × 1 Å is how "no box" is written.
                if (lengths <= 1.0).all():
                    return None
                return np.asarray(0.1 * _box_vectors(md, lengths[None], angles[None])[0])
            if line.startswith(("ATOM  ", "HETATM", "MODEL")):
                return None
    return None


_CRYST1 = ((6, 9), (15, 9), (24, 9), (33, 7), (40, 7), (47, 7))
