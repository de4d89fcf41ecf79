"""Frames of a map as trajectory files: those of a region, those picked by hand, landmarks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.analysis.report.structures import NM_PER_UNIT, superposed
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import block_of, import_mdtraj
from ldmaps.inputs.frame_writer import open_frame_writer
from ldmaps.inputs.source import PointSource, Reading
from ldmaps.inputs.tables import read_columns
from ldmaps.inputs.trajectory_files import TrajectoryFiles
from ldmaps.maps.embed_chunks import embed_chunks
from ldmaps.progress import is_shown, stage
from ldmaps.regions.base import Region


@dataclass(frozen=True)
class FramePicks:
    """Frames of trajectory files, in the files' order.

    Attributes
    ----------
    files : tuple of str
        Their paths.
    file_of, numbers : ndarray of int, shape (n,)
        Which file each frame is of, and which frame of it, counted from 0.
    labels : tuple of str
        A description of each, or an empty string.
    """

    files: tuple[str, ...]
    file_of: NDArray[np.int64]
    numbers: NDArray[np.int64]
    labels: tuple[str, ...]

    @staticmethod
    def in_region(model: Any, source: PointSource, region: Region) -> FramePicks:
        """Embed ``source`` (opened for this ``model``) and pick the frames that lie in a ``region``."""
        region.check_model(model)
        files, numbers, ends, count = [], [], [], 0
        with stage("embedding", source.n_frames if is_shown() else None, source.item):
            # Distances tick as they are computed.
            for chunk, projected in embed_chunks(model.embedder_, source, model.n_threads):
                inside = region.masks(projected.coordinates, projected.coverage)[0]
                numbers.append(chunk.numbers[inside])
                files.append(np.full(int(inside.sum()), source.files.index(chunk.file)))
                ends += [projected.coordinates.min(axis=0), projected.coordinates.max(axis=0)]
                count += len(chunk)
        picks = picked(source.files, np.concatenate(files), np.concatenate(numbers))
        if not len(picks.numbers):
            ranges = ", ".join(
                f"{name} from {min(column):.4g} to {max(column):.4g}"
                for name, column in zip(model.coordinate_names_, np.transpose(ends), strict=True)
            )
            raise InvalidInputError(
                f"none of the {count:,} frames of {source.describe()} lies in {region!r}; they have {ranges}"
            )
        return picks

    @staticmethod
    def of_landmarks(
        model: Any,
        landmarks: Iterable[int] | None = None,
        files: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
    ) -> FramePicks:
        """Pick the training frames that are landmarks.

        Parameters
        ----------
        model : LandmarkDiffusionMap or DiffusionMap
            Fitted on trajectory files.
        landmarks, labels : iterable of int, sequence of str, optional
            Which, counted from 0 (all by default), and what each is ("landmark 7").
        files : sequence of str, optional
            Where those files are now; by default where they were.
        """
        count = len(model.landmark_indices_)
        wanted = list(range(count) if landmarks is None else landmarks)
        for number in wanted:
            if not 0 <= number < count:
                raise InvalidInputError(f"landmarks are numbered 0 to {count - 1} on this map, got {number}")
        record, facts = model.training_, model.source_ or {}
        if record is None or record.frames is None or facts.get("kind") != "frames":
            raise InvalidInputError(
                "the model does not remember which frames its landmarks are: it was fitted on arrays, or saved "
                "without its embedding; write the landmarks' own coordinates with write_landmarks (no INPUT)"
            )
        chosen = np.asarray(model.landmark_indices_)[wanted]
        rows = np.minimum(np.searchsorted(record.rows, chosen), len(record.rows) - 1)
        if (record.rows[rows] != chosen).any():
            raise InvalidInputError(
                "the model remembers only some of its landmarks' frames; name fewer of them"
            )
        place = np.zeros(len(wanted), dtype=np.int64) if record.files is None else record.files[rows]
        here = _same_files(facts["files"], files)
        return picked(here, place, record.frames[rows], labels or [f"landmark {number}" for number in wanted])

    def write(
        self, path: str | os.PathLike[str], top: Any = None, *, atoms: str | None = None
    ) -> NDArray[np.float64] | None:
        """Write the frames to an XTC, TRR, DCD or PDB file, whose remarks say where each model is from.

        Coordinates, times and boxes are those of the files; velocities are not written.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, completely or not at all.
        top : path or mdtraj Topology, optional
            As in :func:`ldmaps.inputs.open_files`.
        atoms : str, optional
            Atoms to write, in mdtraj's selection language; by default all of the topology.

        Returns
        -------
        ndarray of shape (n,) or None
            Times of the frames in ps, where the files have them.
        """
        source = TrajectoryFiles(self.files, top, Reading(select=atoms, periodic="keep"))
        times: list[NDArray[np.float64] | None] = []
        with (
            stage("writing", len(self.numbers), "frames") as progress,
            open_frame_writer(path, source.topology()) as writer,
        ):
            for place, file in enumerate(self.files):
                wanted = self.numbers[self.file_of == place]
                for numbers, block in source.blocks_at(file, wanted):
                    writer.write(block, numbers)
                    times.append(block[1])
                    progress.advance(len(numbers))
            told = [time for time in times if time is not None]
            known = np.concatenate(told) if len(told) == len(times) else None
            writer.remarks += rows_of(self, known)
        return known


def picked(
    files: Sequence[str], file_of: ArrayLike, numbers: ArrayLike, labels: Sequence[str] | None = None
) -> FramePicks:
    """Put picks into the files' order. A frame picked twice is kept once, with both labels."""
    together: dict[tuple[int, int], list[str]] = {}
    pairs = zip(np.asarray(file_of).tolist(), np.asarray(numbers).tolist(), strict=True)
    for pair, label in zip(pairs, labels or [""] * len(np.asarray(numbers)), strict=True):
        together.setdefault(pair, []).append(label)
    ordered = sorted(together)
    return FramePicks(
        tuple(files),
        np.asarray([place for place, _ in ordered], dtype=np.int64),
        np.asarray([number for _, number in ordered], dtype=np.int64),
        tuple(", ".join(filter(None, dict.fromkeys(together[pair]))) for pair in ordered),
    )


def read_picks(path: str, files: Sequence[str] = ()) -> FramePicks:
    """Read picks from a table with the columns frame and file; files may be elsewhere now, and one needs no column."""
    columns = read_columns(path)
    if "frame" not in columns:
        raise InvalidInputError(
            f"{path} has no column frame; it has {', '.join(columns)}. Picks are rows of ldmaps embed, or any "
            "table with the columns file and frame"
        )
    try:
        numbers = columns["frame"].astype(np.float64)
    except ValueError as error:
        raise InvalidInputError(f"{path}, column frame: {error}") from error
    bad = numbers[(numbers != np.floor(numbers)) | (numbers < 0)]
    if len(bad):
        raise InvalidInputError(f"{path}, column frame: frames are whole numbers from 0, got {bad[0]:g}")
    if "file" in columns:
        names, file_of = np.unique(columns["file"].astype(str), return_inverse=True)
        return picked(_same_files(names.tolist(), files or None), file_of, numbers.astype(np.int64))
    if len(files) != 1:
        raise InvalidInputError(
            f"{path} has no column file, so its frames are those of one file, but {len(files)} were given"
        )
    return picked(files, np.zeros(len(numbers), dtype=np.int64), numbers.astype(np.int64))


def rows_of(picks: FramePicks, times: NDArray[np.float64] | None = None) -> list[str]:
    """Return a line per frame that says where it is from, with its time in ps if given."""
    lines = []
    for row, (place, number) in enumerate(zip(picks.file_of, picks.numbers, strict=True)):
        time = "" if times is None else f" ({times[row]:.10g} ps)"
        label = f", {picks.labels[row]}" if picks.labels[row] else ""
        lines.append(f"{row + 1}: frame {number} of {picks.files[place]}{time}{label}")
    return lines


def summary_of(picks: FramePicks) -> list[str]:
    """Return a line per file with its frames, runs of them as ranges: "5 frames of a.xtc: 2-4, 7, 9"."""
    lines = []
    for place, file in enumerate(picks.files):
        numbers = picks.numbers[picks.file_of == place]
        if len(numbers):
            parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
            runs = [f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts]
            shown = ", ".join(runs[:20]) + (f" and {len(runs) - 20} more runs" if len(runs) > 20 else "")
            lines.append(f"{len(numbers):,} frame{'s' * (len(numbers) > 1)} of {file}: {shown}")
    return lines


def write_landmarks(
    model: Any,
    path: str | os.PathLike[str],
    landmarks: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
) -> None:
    """Write landmarks as the model file holds them: the selected atoms, superposed (all: FramePicks.of_landmarks).

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        Of RMSD.
    path : str
        PDB, XTC, TRR or DCD.
    landmarks, labels : sequences of int and str, optional
        Which, counted from 0 (all by default), and what each is.
    """
    if not model.metric_.has_structures:
        raise InvalidInputError(
            f"a map of {model.metric_!r} has no structures to write; give the trajectory its rows belong to and a "
            "table of picks"
        )
    numbers = np.arange(len(model.landmark_indices_)) if landmarks is None else np.asarray(landmarks)
    n_atoms = model.n_features_in_ // 3
    kept = model.metric_.weighed_atoms(n_atoms).kept
    unit = NM_PER_UNIT.get(model.units_ or "nm")
    if unit is None:
        raise InvalidInputError(
            f"the map's distances are in {model.units_!r}; nm or Å is needed for a structure"
        )
    frames = superposed(unit * model.metric_.structures(model.map_.landmark_points.take(numbers), n_atoms))
    with open_frame_writer(path, topology_of(model.source_ or {}, kept)) as writer:
        writer.write(block_of(frames), numbers.astype(np.int64))
        names = labels or [f"landmark {number}" for number in numbers]
        writer.remarks += [f"{row + 1}: {name}" for row, name in enumerate(names)]


def topology_of(facts: dict[str, Any], kept: NDArray[np.intp]) -> Any:
    """Return an mdtraj topology of the atoms that a model remembers."""
    md = import_mdtraj()
    topology = md.Topology()
    chain, residue, last = topology.add_chain(), None, None
    labels, names, elements = (facts.get(name) for name in ("atom_labels", "atom_names", "elements"))
    for index in kept.tolist():
        match = re.fullmatch(r"(.+?)(-?\d+)-(.*)", labels[index]) if labels else None
        key = (match[1], int(match[2])) if match else ("UNK", 1)
        if key != last:
            residue, last = topology.add_residue(key[0], chain, resSeq=key[1]), key
        symbol = elements[index] if elements else ""
        element = md.element.get_by_symbol(symbol) if symbol else md.element.virtual
        topology.add_atom(names[index] if names else f"X{index}", element, residue)
    place = {index: row for row, index in enumerate(kept.tolist())}
    atoms = list(topology.atoms)
    for left, right in facts.get("bonds") or ():
        if left in place and right in place:
            topology.add_bond(atoms[place[left]], atoms[place[right]])
    return topology


def _same_files(then: Sequence[str], now: Sequence[str] | None) -> list[str]:
    """Return where files are now: under the same path, under the same name elsewhere, or one file for one."""
    if now is None:
        return list(then)
    if len(then) == len(now) == 1:
        return list(now)
    paths = []
    for path in then:
        name = os.path.basename(path)
        candidates = [path] if path in now else [one for one in now if os.path.basename(one) == name]
        if len(candidates) != 1:
            raise InvalidInputError(
                f"{path} is not among the inputs ({', '.join(now[:4])}{', ...' if len(now) > 4 else ''}), or more than "
                "once; name the files that the frames are of"
            )
        paths += candidates
    return paths
