"""A map as an analysis of MDAnalysis: ``run(start, stop, step, backend)``, ``results`` and its progress bar.

Frames are read by MDAnalysis, one by one, also by several workers. What is kept of each are the chosen atoms, in nm and
with molecules made whole, so that no transformation has to be added to the trajectory. The map is fitted, or the frames
are embedded, when all have been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, cast

import numpy as np
from MDAnalysis.analysis.base import AnalysisBase
from MDAnalysis.analysis.results import Results, ResultsGroup
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.objects import AtomGroupFrames
from ldmaps.inputs.source import FrameChunk, Reading
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

__all__ = ["LandmarkDiffusionMapAnalysis"]


class LandmarkDiffusionMapAnalysis(AnalysisBase):
    """Fit a landmark diffusion map to a trajectory, or embed a trajectory in a map.

    Parameters
    ----------
    universe_or_group : Universe or AtomGroup
        Its trajectory is read. A universe may hold several files (``Universe(top, ["a.xtc", "b.xtc"])``) or be in
        memory; for several universes, fit a ``model`` to a list of their atom groups.
    select : str, optional
        Which of its atoms, in the selection language of MDAnalysis. By default all, or those of ``model``.
    model : LandmarkDiffusionMap or DiffusionMap, optional
        A fitted map, such as :func:`ldmaps.load` returns: frames are then only embedded. By default a map is
        fitted to the frames.
    periodic : {"whole", "keep"}
        "whole" joins molecules that the box has split, as :func:`ldmaps.inputs.open_files` does; "keep" takes
        coordinates as they are, for trajectories whose transformations or files have made molecules whole.
    verbose : bool
        Whether to show MDAnalysis' progress bar.
    **settings
        Of the :class:`~ldmaps.LandmarkDiffusionMap` to fit, such as ``tolerance=1``. Its metric is "rmsd" unless
        you give another.

    Attributes
    ----------
    results.coordinates : ndarray of shape (n_frames, n_components)
        Coordinates of the frames that were read, in their order.
    results.eigenvalues : ndarray of shape (n_components,)
        Of the map.
    results.inside, results.distance : ndarray of shape (n_frames,)
        Whether a frame is in the domain of the map, and its distance to the nearest landmark in √ε.
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted; ``model.save("map.ldm")`` keeps it. Lengths are in nm.
    frames, times : ndarray of shape (n_frames,)
        Numbers and times of the frames.

    Examples
    --------
    >>> import MDAnalysis as mda
    >>> from ldmaps.datasets import alanine_dipeptide
    >>> from ldmaps.mdanalysis import LandmarkDiffusionMapAnalysis
    >>> frames = alanine_dipeptide().frames[:20_000:50]
    >>> u = mda.Universe.empty(frames.shape[1], trajectory=True)
    >>> u.load_new(10 * frames)
    <Universe with 22 atoms>
    >>> analysis = LandmarkDiffusionMapAnalysis(u, n_components=2, n_landmarks=50).run(step=2)
    >>> analysis.results.coordinates.shape
    (200, 2)
    """

    #: Reading frames and choosing their atoms may be split; what follows takes all frames at once.
    _analysis_algorithm_is_parallelizable: ClassVar[bool] = True

    @classmethod
    def get_supported_backends(cls) -> tuple[str, ...]:
        """Return the backends of MDAnalysis that may read the frames."""
        return "serial", "multiprocessing", "dask"

    def __init__(
        self,
        universe_or_group: Any,
        select: str | None = None,
        *,
        model: Any = None,
        periodic: str = "whole",
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(universe_or_group.universe.trajectory, verbose=verbose)
        if model is not None and not hasattr(model, "embedder_"):
            raise InvalidInputError(
                f"model must be a fitted map, got {model!r}; to fit one here, pass its settings: n_landmarks=..."
            )
        if model is not None and settings:
            raise InvalidInputError(
                f"{', '.join(settings)}: settings of a fit, but model= is fitted already; leave out one of the two"
            )
        facts = {} if model is None else model.source_ or {}
        atoms = universe_or_group.atoms
        if select is None and len(atoms) != facts.get("n_atoms", len(atoms)):
            select = facts.get("select")
        source = _GatheredFrames(atoms, Reading(select=select, periodic=periodic))
        self.model = self._given = model
        self._settings = {"metric": "rmsd", **settings}
        self._source = cast(_GatheredFrames, source.matched(facts or None))

    def _prepare(self) -> None:
        # Nothing of an earlier run: results of workers are joined, and only frames can be.
        self.results = Results(gathered=np.empty((self.n_frames, *self._source.shape), dtype=np.float32))

    def _single_frame(self) -> None:
        self.results.gathered[self._frame_index] = self._source.frame_at(self._ts)

    def _get_aggregator(self) -> ResultsGroup:
        return ResultsGroup(lookup={"gathered": ResultsGroup.ndarray_vstack})

    def _conclude(self) -> None:
        source: Any = self._source.holding(self.results.gathered, self.frames, self.times)
        del self.results.gathered
        if self._given is None:
            self.model = LandmarkDiffusionMap(**self._settings).fit(source)
        self.results.coordinates = self.model.transform(source)
        self.results.eigenvalues = self.model.eigenvalues_
        coverage = self.model.coverage(source)
        self.results.inside, self.results.distance = coverage.inside, coverage.distance


class _GatheredFrames(AtomGroupFrames):
    """Frames of an atom group that somebody else goes through, and which are then held in memory."""

    _held: FrameChunk | None = None

    def frame_at(self, step: Any) -> NDArray[np.float32]:
        """Return the chosen atoms at the time step that the trajectory is at, in nm and whole, (atoms, 3)."""
        row = self._read.positions, int(step.frame), float(step.time), step.triclinic_dimensions
        return np.asarray(self._packed([row]).frames[0], dtype=np.float32)

    def holding(self, frames: NDArray[Any], numbers: NDArray[Any], times: NDArray[Any]) -> _GatheredFrames:
        """Return the same source with frames that have been gathered."""
        held = copy(self)
        held._held = FrameChunk(frames, np.asarray(numbers, np.int64), times, "".join(self.files))
        return held

    @property
    def n_frames(self) -> int | None:
        """Number of frames that are held."""
        return None if self._held is None else len(self._held)

    def __iter__(self) -> Iterator[FrameChunk]:
        if self._held is None:
            raise InvalidInputError("no frames have been read yet; call run()")
        for begin in range(0, len(self._held), self._chunk):
            yield self._held.take(slice(begin, begin + self._chunk))
