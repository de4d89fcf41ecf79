"""Embeds an OpenMM simulation while it runs, and acts when it enters or leaves a region.

    model = ldmaps.load("map.ldm")
    tracker = RegionTracker(learn_basins(model).regions)
    reporter = LandmarkReporter(model, 100, tracker=tracker, on_event=Stop("leave", "basin 1"))
    event = run_until(simulation, 1_000_000, reporter)     # None if it never left

Positions are asked for in nm and as OpenMM integrates them, not wrapped into the box:
then the molecules it was started with whole stay whole. Atoms of several molecules may
drift into different images of a periodic box; map the atoms of one molecule there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.openmm.actions import StopSimulation
from ldmaps.regions.tracker import Event
from ldmaps.settings import is_whole_number
from ldmaps.streaming.record_embedder import RecordEmbedder
from ldmaps.streaming.records import Embedded, Records

if TYPE_CHECKING:
    from ldmaps.regions.tracker import RegionTracker
    from ldmaps.streaming.sinks.base import Sink

__all__ = ["LandmarkReporter", "run_until"]

#: Called with an event and the simulation it happened in.
Action = Callable[[Event, Any], None]


class LandmarkReporter:
    """An OpenMM reporter that embeds the current frame every so many steps.

    Append it to ``simulation.reporters`` as the last one: an action that stops the
    run does so before later reporters have had their turn.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        Fitted on frames in nm, or the ``.ldm`` file of such a map.
    report_interval : int
        Steps between two frames.
    atoms : array-like of int, optional
        Which atoms of the simulation the map was fitted on, in its order. By default
        all of them.
    tracker : RegionTracker, optional
        Turns frames into regions and events.
    sink : Sink, optional
        Gets every embedded frame. The caller closes it.
    on_event : callable or sequence of callables, optional
        Called as ``action(event, simulation)`` for every event of the tracker, after
        the sink has the frame: :class:`~ldmaps.openmm.Stop`, ``Save``, ``Branch`` or a
        function. Where one stops the run, the other actions still get all events.
    ignore_names : bool
        Whether to accept atoms whose names are not those of the model's frames.

    Attributes
    ----------
    last : Embedded or None
        The frame embedded last, by itself.
    n_reports : int
        Frames reported so far; numbers them, from 0. One that cannot be embedded goes to the
        sink as rejected, and the run goes on.
    """

    def __init__(
        self,
        model: Any,
        report_interval: int,
        *,
        atoms: ArrayLike | None = None,
        tracker: RegionTracker | None = None,
        sink: Sink | None = None,
        on_event: Action | Iterable[Action] | None = None,
        ignore_names: bool = False,
    ) -> None:
        if not is_whole_number(report_interval) or report_interval < 1:
            raise InvalidInputError(
                f"report_interval must be a whole number of steps, at least 1, got {report_interval!r}"
            )
        self.report_interval = int(report_interval)
        self._engine = RecordEmbedder(_fitted(model), tracker=tracker, n_threads=1)
        self._atoms = None if atoms is None else _indices(atoms)
        self.sink = sink
        self.actions: tuple[Action, ...] = _actions(on_event)
        if self.actions and tracker is None:
            raise InvalidInputError("on_event needs a tracker, which makes the events; pass tracker=")
        self.ignore_names = bool(ignore_names)
        self.last: Embedded | None = None
        self.n_reports = 0
        self._checked: Any = None
        self._n_atoms = 0
        self._request = {"steps": 0, "periodic": False, "include": ["positions"]}

    @property
    def tracker(self) -> RegionTracker | None:
        """Turns frames into regions and events."""
        return self._engine.tracker

    def describeNextReport(self, simulation: Any) -> dict[str, Any]:  # noqa: N802 - OpenMM's name
        """Tell OpenMM in how many steps the next report is due, and that it needs positions, not wrapped."""
        if self._checked is not simulation.topology:
            self._check_atoms(simulation.topology)
            self._checked = simulation.topology
            self._n_atoms = simulation.system.getNumParticles()
        self._request["steps"] = self.report_interval - simulation.currentStep % self.report_interval
        return self._request

    def report(self, simulation: Any, state: Any) -> None:
        """Embed the state's positions, tell the sink, and do what the events ask for."""
        positions = _positions(state, self._n_atoms)
        if self._atoms is not None:
            positions = positions[self._atoms]
        number, at = np.array([self.n_reports]), np.array([float(state.getTime()._value)])
        embedded = self._engine.embed(Records(positions[None], number, at, np.array([time.monotonic()])))
        self.n_reports += 1
        if len(embedded):
            self.last = embedded
        if self.sink is not None:
            self.sink.write(embedded)
        if embedded.events and self.actions:
            self._act(embedded.events, simulation)

    def _act(self, events: tuple[Event, ...], simulation: Any) -> None:
        stop: StopSimulation | None = None
        for event in events:
            for action in self.actions:
                try:
                    action(event, simulation)
                except StopSimulation as wanted:
                    stop = stop or wanted
        if stop is not None:
            raise stop

    def _check_atoms(self, topology: Any) -> None:
        """Raise when the simulation's atoms are not those the model was fitted on."""
        wanted = int(self._engine.model.n_features_in_) // 3
        total = topology.getNumAtoms()
        indices = np.arange(total) if self._atoms is None else self._atoms
        if len(indices) and indices.max() >= total:
            raise InvalidInputError(
                f"atoms holds index {indices.max()}, but the simulation has {total} atoms, counted from 0"
            )
        if len(indices) != wanted:
            raise InvalidInputError(
                f"the model was fitted on {wanted} atoms, but the simulation gives {len(indices)}; choose the same "
                "ones, in the model's order, with atoms="
            )
        facts = self._engine.model.source_ or {}
        names = facts.get("atom_names")
        if names is None or self.ignore_names:
            return
        everything = list(topology.atoms())
        for place, (name, index) in enumerate(zip(names, indices, strict=True)):
            atom = everything[index]
            if name.upper() != atom.name.upper():
                label = (facts.get("atom_labels") or names)[place]
                raise InvalidInputError(
                    f"atom {index} of the simulation is {atom.residue.name}{atom.residue.id}-{atom.name}, where the "
                    f"model was fitted on {label}; choose the same atoms in the same order with atoms=, or pass "
                    "ignore_names=True if only the naming differs"
                )


def run_until(simulation: Any, steps: int, reporter: LandmarkReporter) -> Event | None:
    """Run a simulation for so many steps, or until one of the reporter's actions stops it.

    Parameters
    ----------
    simulation : openmm.app.Simulation
    steps : int
    reporter : LandmarkReporter
        Reports last during this run, whether or not it was appended before.

    Returns
    -------
    Event or None
        Why the run was stopped; None if it went all the way.
    """
    before = list(simulation.reporters)
    # Last, so that no other reporter misses the frame at which the run stops.
    simulation.reporters[:] = [one for one in before if one is not reporter] + [reporter]
    try:
        simulation.step(steps)
    except StopSimulation as stop:
        return stop.event
    finally:
        simulation.reporters[:] = before
    return None


# -- pieces -------------------------------------------------------------------------


def _fitted(model: Any) -> Any:
    if isinstance(model, (str, Path)):
        from ldmaps.maps.loading import load

        model = load(model)
    if not hasattr(model, "embedder_"):
        raise InvalidInputError(f"the reporter needs a fitted map, got {model!r}; call fit first")
    if not model.metric_.takes_frames:
        raise InvalidInputError(
            f"the map's metric {model.metric_!r} does not compare molecular frames; fit one with RMSD"
        )
    if model.units_ not in (None, "nm"):
        raise InvalidInputError(
            f"the map was fitted on coordinates in {model.units_}, and OpenMM gives nm; fit the map on frames in nm"
        )
    return model


def _positions(state: Any, n_atoms: int) -> NDArray[np.float64]:
    """Return the state's positions in nm."""
    fill = getattr(state, "_getVectorAsNumpy", None)
    if fill is None:
        return np.asarray(state.getPositions(asNumpy=True)._value)
    # What getPositions does, without its units, which take longer than the embedding.
    positions = np.empty((n_atoms, 3))
    fill(type(state).Positions, positions)
    return positions


def _indices(atoms: ArrayLike) -> NDArray[np.intp]:
    indices = np.asarray(atoms)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not len(indices) or indices.min() < 0:
        raise InvalidInputError(f"atoms must be indices from 0, one an atom of the model, got {atoms!r}")
    if len(np.unique(indices)) != len(indices):
        raise InvalidInputError("atoms holds an index twice; each atom of the model is another one")
    return indices.astype(np.intp)


def _actions(on_event: Action | Iterable[Action] | None) -> tuple[Action, ...]:
    if on_event is None:
        return ()
    actions: Sequence[Any] = [on_event] if callable(on_event) else list(on_event)
    for action in actions:
        if not callable(action):
            raise InvalidInputError(f"on_event takes functions of an event and a simulation, got {action!r}")
    return tuple(actions)
