"""Embeds an OpenMM simulation while it runs, and acts when it enters or leaves a region."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ldmaps.errors import InvalidInputError
from ldmaps.openmm.actions import StopSimulation
from ldmaps.openmm.atoms import FrameReporter
from ldmaps.regions.tracker import Event
from ldmaps.streaming.record_embedder import RecordEmbedder
from ldmaps.streaming.records import Embedded, Records

if TYPE_CHECKING:
    from ldmaps.regions.tracker import RegionTracker
    from ldmaps.streaming.sinks.base import Sink

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
        Which atoms of the simulation the map was fitted on, in its order. By default all of them.
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
        """Embed the state's positions, pass them to the sink, and act on the events.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            The run.
        state : openmm.State
            Where the run is, with positions.
        """
        number, at = np.array([self.n_reports]), np.array([float(state.getTime()._value)])
        embedded = self._engine.embed(
            Records(self._frame(simulation, state), number, at, np.array([time.monotonic()]))
        )
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
