"""Embeds an OpenMM simulation while it runs, and acts when it enters or leaves a region: stop, save itself, branch."""

from __future__ import annotations

import io
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.files import written_whole
from ldmaps.openmm.atoms import FrameReporter
from ldmaps.regions.tracker import Event, RegionTracker
from ldmaps.settings import check_whole
from ldmaps.streaming.record_embedder import RecordEmbedder
from ldmaps.streaming.records import Embedded, Records
from ldmaps.streaming.sinks.base import Sink


class StopSimulation(LdmapsError):  # noqa: N818 - not an error
    """Raised inside a report to end ``simulation.step`` there; the simulation can continue afterwards.

    Attributes
    ----------
    event : Event
        What stopped it.
    """

    def __init__(self, event: Event) -> None:
        super().__init__(event)
        self.event = event

    def __str__(self) -> str:
        return f"stopped on {self.event.kind} of region {self.event.region!r} at record {self.event.number}"


@dataclass(frozen=True)
class Snapshot:
    """Positions and velocities at one step, from which the same or another simulation can continue.

    Attributes
    ----------
    positions, velocities : ndarray of shape (atoms, 3)
        In nm and nm/ps; all atoms of the simulation.
    box : ndarray of shape (3, 3) or None
        Box vectors in nm, for periodic systems.
    time : float
        Simulated time in ps.
    step : int
        Steps that the simulation had done.
    event : Event or None
        Why it was taken.
    """

    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    box: NDArray[np.float64] | None
    time: float
    step: int
    event: Event | None = None

    @classmethod
    def of(cls, simulation: Any, event: Event | None = None) -> Snapshot:
        """Return a snapshot of a simulation as it is now.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            With positions and velocities.
        event : Event, optional
            Why it is taken.
        """
        state = simulation.context.getState(positions=True, velocities=True)
        periodic = simulation.system.usesPeriodicBoundaryConditions()
        return cls(
            np.array(state.getPositions(asNumpy=True)._value),
            np.array(state.getVelocities(asNumpy=True)._value),
            np.array(state.getPeriodicBoxVectors(asNumpy=True)._value) if periodic else None,
            float(state.getTime()._value),
            int(simulation.currentStep),
            event,
        )

    def restore(
        self, simulation: Any, *, new_velocities_temperature: float | None = None, seed: int | None = None
    ) -> None:
        """Set a ``simulation`` of the same system to the snapshot; its clock and step count continue.

        With ``new_velocities_temperature``, in K, new velocities are drawn by ``seed``, so that copies diverge. By
        default the snapshot's are kept, and only a random integrator makes copies differ.
        """
        total, count = simulation.system.getNumParticles(), len(self.positions)
        if total != count:
            raise InvalidInputError(
                f"the snapshot has {count} atoms and the simulation {total}; use the same system"
            )
        context = simulation.context
        if self.box is not None:
            context.setPeriodicBoxVectors(*self.box)
        context.setPositions(self.positions)
        if new_velocities_temperature is not None:
            context.setVelocitiesToTemperature(new_velocities_temperature, *([] if seed is None else [seed]))
            return
        if seed is not None:
            raise InvalidInputError("seed is for new velocities; pass new_velocities_temperature= as well")
        context.setVelocities(self.velocities)


class _OnEvent(ABC):
    """An action for events of one kind ("leave", "enter", "dwell"), of one region or, by default, of all."""

    def __init__(self, kind: str = "leave", region: str | None = None) -> None:
        if kind not in ("enter", "leave", "dwell"):
            raise InvalidInputError(f"events are called enter, leave and dwell, got {kind!r}")
        self.kind = kind
        self.region = region

    def __call__(self, event: Event, simulation: Any) -> None:
        if event.kind == self.kind and self.region in (None, event.region):
            self.act(event, simulation)

    @abstractmethod
    def act(self, event: Event, simulation: Any) -> None:
        """Act on an ``event`` of the right kind and region, which happened in a ``simulation``."""


class Stop(_OnEvent):
    """End the run at the step where an event happens; see :func:`run_until`.

    Parameters
    ----------
    kind : {"leave", "enter", "dwell"}
        Which events to act on.
    region : str, optional
        By default any region.
    """

    def act(self, event: Event, simulation: Any) -> None:
        """Raise :class:`StopSimulation`."""
        raise StopSimulation(event)


class Save(_OnEvent):
    """Write a state for ``simulation.loadState`` and a PDB when an event happens; names hold region, kind and step.

    Parameters
    ----------
    folder : path-like
        Created if missing.
    kind, region
        See :class:`Stop`.

    Attributes
    ----------
    written : list of Path
        The states written so far; each has a PDB of the same name.
    """

    def __init__(self, folder: Any, kind: str = "leave", region: str | None = None) -> None:
        super().__init__(kind, region)
        self.folder = Path(folder)
        self.written: list[Path] = []

    def act(self, event: Event, simulation: Any) -> None:
        """Write both files."""
        from openmm import XmlSerializer
        from openmm.app import PDBFile

        state = simulation.context.getState(
            positions=True, velocities=True, parameters=True, integratorParameters=True
        )
        pdb = io.StringIO()
        PDBFile.writeFile(simulation.topology, state.getPositions(), pdb, keepIds=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in event.region)
        path = self.folder / f"{safe}-{event.kind}-{simulation.currentStep}.xml"
        with written_whole(path.with_suffix(".pdb")) as file:
            file.write(pdb.getvalue().encode())
        with written_whole(path) as file:
            file.write(XmlSerializer.serialize(state).encode())
        self.written.append(path)


class Branch(_OnEvent):
    """Keep a copy of positions and velocities when an event happens, to start other runs from.

    Parameters
    ----------
    kind, region
        See :class:`Stop`.
    most : int
        Snapshots to keep; the oldest go first.

    Attributes
    ----------
    snapshots : list of Snapshot
    """

    def __init__(self, kind: str = "leave", region: str | None = None, *, most: int = 1000) -> None:
        super().__init__(kind, region)
        self.most = check_whole("most", most, 1)
        self.snapshots: list[Snapshot] = []

    def act(self, event: Event, simulation: Any) -> None:
        """Take a snapshot."""
        self.snapshots.append(Snapshot.of(simulation, event))
        del self.snapshots[: -self.most]


#: Called with an event and the simulation it happened in.
Action = Callable[[Event, Any], None]


class LandmarkReporter(FrameReporter):
    """An OpenMM reporter that embeds the current frame every so many steps.

    Append it to ``simulation.reporters`` as the last one: when an action stops the run,
    later reporters do not see that frame. Positions are not wrapped into the box, so that molecules stay
    whole; atoms of several may drift into different images of it, so map the atoms of one molecule there.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        Fitted on frames in nm, or the ``.ldm`` file of such a map.
    report_interval : int
        Steps between two frames.
    atoms : array-like of int, optional
        Which atoms of the simulation the map was fitted on, in its order. By default those that have the residues
        and names of the map's, or all of them where the map does not know its atoms.
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
        The frame embedded last, alone.
    n_reports : int
        Frames reported so far; numbers them, from 0. A frame that cannot be embedded goes to the
        sink as rejected, and the run continues.
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
        super().__init__(model, report_interval, atoms, ignore_names)
        self._engine = RecordEmbedder(self._model, tracker=tracker, n_threads=1)
        self.sink = sink
        actions: Any = () if on_event is None else [on_event] if callable(on_event) else on_event
        self.actions: tuple[Action, ...] = tuple(actions)
        for action in self.actions:
            if not callable(action):
                raise InvalidInputError(
                    f"on_event takes functions of an event and a simulation, got {action!r}"
                )
        if self.actions and tracker is None:
            raise InvalidInputError("on_event needs a tracker, which reports the events; pass tracker=")
        self.last: Embedded | None = None
        self.n_reports = 0

    @property
    def tracker(self) -> RegionTracker | None:
        """Turns frames into regions and events."""
        return self._engine.tracker

    def report(self, simulation: Any, state: Any) -> None:
        """Embed the positions of a ``simulation`` at ``state``, pass them to the sink, and act on the events."""
        number, at = np.array([self.n_reports]), np.array([float(state.getTime()._value)])
        embedded = self._engine.embed(
            Records(self._frame(simulation, state), number, at, np.array([time.monotonic()]))
        )
        self.n_reports += 1
        if len(embedded):
            self.last = embedded
        if self.sink is not None:
            self.sink.write(embedded)
        stop: StopSimulation | None = None
        for event in embedded.events:
            for action in self.actions:
                try:
                    action(event, simulation)
                except StopSimulation as wanted:
                    stop = stop or wanted
        if stop is not None:
            raise stop


def run_until(simulation: Any, steps: int, reporter: LandmarkReporter) -> Event | None:
    """Run a simulation for so many steps, or until one of the reporter's actions stops it; return what did, or None.

    Parameters
    ----------
    simulation : openmm.app.Simulation
        Ready to step.
    steps : int
        Most steps to run.
    reporter : LandmarkReporter
        Reports last during this run, whether or not it was appended before.

    Returns
    -------
    Event or None
        The event that stopped the run; None if all steps were run.

    See Also
    --------
    Stop : the action that stops a run.
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
