"""Molecular trajectories, read in chunks: memory does not depend on their length."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ldmaps.inputs.objects import as_source
from ldmaps.inputs.prefetch import prefetch
from ldmaps.inputs.source import Atoms, FrameChunk, FrameSource, check_frames_finite, check_same_atoms

__all__ = [
    "Atoms",
    "FrameChunk",
    "FrameSource",
    "as_source",
    "check_frames_finite",
    "check_same_atoms",
    "open",
    "prefetch",
]


def open(  # the name people look for; used as ldmaps.inputs.open
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Any,
    top: Any = None,
    *,
    select: str | None = None,
    stride: int = 1,
    start: int | None = None,
    stop: int | None = None,
    chunk: int | None = None,
    periodic: str = "whole",
) -> FrameSource:
    """Open trajectory files for reading in chunks.

    Parameters
    ----------
    path_or_paths : path, glob pattern, several of them, or an object
        xtc, trr, dcd, h5, netcdf, pdb and whatever else mdtraj reads, all of the same
        atoms; or an mdtraj Trajectory, MDAnalysis Universe or AtomGroup.
    top : path or mdtraj Topology, optional
        File that names the atoms, for formats that hold coordinates only.
    select : str, optional
        Atoms to keep, in mdtraj's selection language (MDAnalysis' for its objects).
        Fewer atoms make distances cheaper, and decide what the map can see.
    stride, start, stop : int, optional
        Every ``stride``-th frame from ``start`` to before ``stop``, counted from 0 in
        each file.
    chunk : int, optional
        Frames to a chunk; about 4 MB by default.
    periodic : {"whole", "keep"}
        What to do with molecules that a periodic box cut apart. "whole" joins them
        along their bonds and puts molecules into the image nearest to the largest
        one; where there are no bonds and the atoms spread over more than half the box,
        it refuses. "keep" takes coordinates as they stand.

    Returns
    -------
    FrameSource
        Iterate it for :class:`FrameChunk`, or pass it to ``fit`` and ``transform``.
        Coordinates are in nm whatever the file's unit.

    Examples
    --------
    >>> import ldmaps.inputs
    >>> source = ldmaps.inputs.open("run.xtc", top="run.pdb", select="not element H")  # doctest: +SKIP
    >>> model = LandmarkDiffusionMap(metric="rmsd").fit(source)  # doctest: +SKIP
    """
    settings: dict[str, Any] = {
        "select": select,
        "stride": stride,
        "start": start,
        "stop": stop,
        "chunk": chunk,
        "periodic": periodic,
    }
    if not isinstance(path_or_paths, (str, os.PathLike)):
        source = as_source(path_or_paths, **settings)
        if source is not None:
            return source
    from ldmaps.inputs.mdtraj_files import MDTrajFiles

    return MDTrajFiles(path_or_paths, top, **settings)
