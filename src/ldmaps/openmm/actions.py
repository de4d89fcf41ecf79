"""What an OpenMM run can do when it enters or leaves a region: stop, save itself, or branch."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.files import written_whole
from ldmaps.regions.tracker import Event
from ldmaps.settings import check_whole


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
        """Set a simulation of the same system to the snapshot.

        Its clock and step count continue, so that trajectories it writes stay in order.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            Of the same system.
        new_velocities_temperature : float, optional
            In K: draw new velocities, so that copies diverge. By default the snapshot's
            are kept, and only a random integrator makes copies differ.
        seed : int, optional
            Of the new velocities.
        """
        total = simulation.system.getNumParticles()
        if total != len(self.positions):
            raise InvalidInputError(
                f"the snapshot has {len(self.positions)} atoms and the simulation {total}; use the same system"
            )
        context = simulation.context
        if self.box is not None:
            context.setPeriodicBoxVectors(*self.box)
        context.setPositions(self.positions)
        if new_velocities_temperature is None:
            if seed is not None:
                raise InvalidInputError(
                    "seed is for new velocities; pass new_velocities_temperature= as well"
                )
            context.setVelocities(self.velocities)
        elif seed is None:
            context.setVelocitiesToTemperature(new_velocities_temperature)
        else:
            context.setVelocitiesToTemperature(new_velocities_temperature, seed)


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
        """Act on an event of the right kind and region.

        Parameters
        ----------
        event : Event
            What happened, in which region and when.
        simulation : openmm.app.Simulation
            The run it happened in.
        """


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
    """Write the simulation to files when an event happens: a state to go on from, and a PDB to look at.

    ``simulation.loadState`` reads the state, on any platform. Each file appears whole
    or not at all; their names hold the region, the kind and the step.

    Parameters
    ----------
    folder : path-like
        Created if missing.
    kind, region
        As for :class:`Stop`.

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
        As for :class:`Stop`.
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
