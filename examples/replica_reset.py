"""Replicas of alanine dipeptide wait in one basin of a map; each is reset as it escapes.

A map is fitted on the frames that ship with ldmaps (Amber99SB-ILDN in water), its basins
are learned, and replicas are simulated with OpenMM (the same force field, implicit
solvent) from inside one of them. A reporter embeds each replica as it runs and stops it
when it has left the basin; the waiting time is noted and the replica starts anew. For a
basin that is left at random, n escapes in a total waiting time T give the rate n/T.

    pip install ".[openmm,plot]"
    python examples/replica_reset.py --replicas 4 --steps 60000 --output escapes.png
"""

from __future__ import annotations

import argparse
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import chi2

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import MolecularFrames, alanine_dipeptide
from ldmaps.metrics import RMSD
from ldmaps.openmm import LandmarkReporter, Snapshot, Stop, run_until
from ldmaps.regions import Basins, RegionTracker, find_basins
from ldmaps.streaming import Embedded, Sink

TEMPERATURE = 300.0  # K
TIME_STEP = 0.004  # ps, with heavy hydrogens, as in the data set
INTERVAL = 50  # steps between frames: 0.2 ps
GONE_AFTER = 5  # frames in a row outside: 1 ps, so that a mere recrossing is no escape
SETTLING = 1000  # steps in the basin before the clock starts, so that replicas forget their common start
BASINS = ("extended", "helical")  # β/PII and αR
START = "helical"
FORCE_FIELD = ("amber99sbildn.xml", "amber99_obc.xml")
TRAIL = 20  # frames before an escape that the figure shows: 4 ps


# -- the simulation -----------------------------------------------------------------


def topology_of(molecule: MolecularFrames) -> Any:
    """Return the OpenMM topology of a molecule of :mod:`ldmaps.datasets`; atoms keep their order."""
    from openmm.app import Element, Topology

    topology = Topology()
    chain = topology.addChain()
    residues: dict[int, Any] = {}
    atoms = []
    for name, symbol, residue, number in zip(
        molecule.atom_names,
        molecule.elements,
        molecule.residue_names,
        molecule.residue_numbers.tolist(),
        strict=True,
    ):
        if number not in residues:
            residues[number] = topology.addResidue(residue, chain)
        atoms.append(topology.addAtom(name, Element.getBySymbol(symbol), residues[number]))
    for first, second in molecule.bonds:
        topology.addBond(atoms[first], atoms[second])
    return topology


def build_simulation(
    molecule: MolecularFrames,
    positions: Any,
    seed: int,
    platform: str = "Reference",
    force_field: tuple[str, ...] = FORCE_FIELD,
) -> Any:
    """Return a simulation in implicit solvent.

    For so few atoms OpenMM's plain Reference platform is faster than its threads.
    """
    import openmm
    from openmm import app, unit

    topology = topology_of(molecule)
    system = app.ForceField(*force_field).createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=app.AllBonds, hydrogenMass=4.0 * unit.amu
    )
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, TIME_STEP)
    integrator.setRandomNumberSeed(seed)
    settings = {"Threads": "1"} if platform == "CPU" else {}
    simulation = app.Simulation(
        topology, system, integrator, openmm.Platform.getPlatformByName(platform), settings
    )
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return simulation


# -- replicas -----------------------------------------------------------------------


class Trail(Sink):
    """Remembers the last few frames, and how many were out of the map's domain."""

    def __init__(self) -> None:
        self.places: deque[Any] = deque(maxlen=TRAIL)
        self.frames = self.outside = 0

    def write(self, embedded: Embedded) -> None:
        """Take a frame."""
        self.places.append(embedded.coordinates[0].copy())
        self.frames += 1
        self.outside += int(not embedded.coverage.inside[0])


@dataclass
class Escape:
    """One escape: how long it took, in ps, with the 1 ps that it takes to be sure; and the way out on the map."""

    waited: float
    way_out: np.ndarray


@dataclass
class Replica:
    """A simulation that is put back into the basin each time it escapes.

    ``waited`` is all time spent waiting in the basin, the last, unfinished wait included.
    """

    simulation: Any
    reporter: LandmarkReporter
    start: Snapshot
    rng: np.random.Generator
    escapes: list[Escape] = field(default_factory=list)
    waited: float = 0.0
    steps_done: int = 0
    _clock: float | None = None

    @property
    def unfinished(self) -> float | None:
        """How long it has been waiting for the next escape; None while it settles."""
        return self._clock

    def run(self, steps: int) -> None:
        """Run for so many steps, resets and settling included."""
        goal = self.steps_done + steps
        while self.steps_done < goal:
            if self._clock is None:
                self._settle()
                continue
            escaped = self._step(goal - self.steps_done)
            if escaped:
                way_out = np.array(self.reporter.sink.places)
                self.escapes.append(Escape(self._clock, way_out))
                self._clock = None

    def _settle(self) -> None:
        """Put the replica back with new velocities and let it forget where it began."""
        self.reporter.tracker.reset()
        self.start.restore(
            self.simulation,
            new_velocities_temperature=TEMPERATURE,
            seed=int(self.rng.integers(1, 2**31 - 1)),
        )
        # Whoever leaves while settling, or is not in the basin at its end, starts over.
        if not self._step(SETTLING) and START in self.reporter.tracker.inside:
            basin = self.reporter.tracker.regions[START]
            if basin.membership(self.reporter.last.coordinates)[0] >= basin.enter:
                self._clock = 0.0

    def _step(self, steps: int) -> bool:
        before = self.simulation.currentStep
        event = run_until(self.simulation, steps, self.reporter)
        done = self.simulation.currentStep - before
        self.steps_done += done
        if self._clock is not None:
            self._clock += done * TIME_STEP
            self.waited += done * TIME_STEP
        return event is not None


def rate_of(n: int, total: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the rate n/T and its interval, for waits that are exponential and cut off at a given time.

    >>> rate, low, high = rate_of(10, 100.0)
    >>> round(rate, 3), round(low, 3), round(high, 3)
    (0.1, 0.048, 0.184)
    """
    tail = (1 - confidence) / 2
    low = chi2.ppf(tail, 2 * n) / (2 * total) if n else 0.0
    return n / total, float(low), float(chi2.ppf(1 - tail, 2 * n + 2) / (2 * total))


def tell(replicas: list[Replica]) -> None:
    """Print escape times and rates, by replica and in total."""
    print(f"{'replica':>8} {'escapes':>8} {'waited':>10}  {'rate (95 % interval)':<34} escape times")
    rows = [(str(i), replica.escapes, replica.waited) for i, replica in enumerate(replicas, 1)]
    rows.append(
        ("all", [e for replica in replicas for e in replica.escapes], sum(r.waited for r in replicas))
    )
    for name, escapes, waited in rows:
        if waited <= 0:
            print(f"{name:>8} {len(escapes):>8} {waited:>7.1f} ps  (still settling)")
            continue
        rate, low, high = (1000 * value for value in rate_of(len(escapes), waited))
        times = " ".join(f"{escape.waited:.1f}" for escape in escapes[:8]) if name != "all" else ""
        more = " ..." if len(escapes) > 8 and name != "all" else ""
        text = f"{rate:.1f} per ns ({low:.1f} to {high:.1f})"
        print(f"{name:>8} {len(escapes):>8} {waited:>7.1f} ps  {text:<34} {times}{more}")
    frames = sum(replica.reporter.sink.frames for replica in replicas)
    outside = sum(replica.reporter.sink.outside for replica in replicas)
    print(f"{frames:,} frames embedded, {100 * outside / max(1, frames):.1f} % out of the map's domain")


# -- the figure ---------------------------------------------------------------------


def draw(path: str, model: Any, basins: Basins, replicas: list[Replica]) -> None:
    """Draw the escapes over the map with its basins, and how many replicas are still waiting after a time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    psi = model.embedding_
    chi = basins.memberships(psi)[:, basins.names.index(START)]
    points = left.scatter(psi[:, 0], psi[:, 1], c=chi, s=7, cmap="cividis", vmin=0, vmax=1, linewidths=0)
    figure.colorbar(points, ax=left, label=f"membership of the {START} basin")
    basin = basins.regions[START]
    grid = [np.linspace(*left.get_xlim(), 200), np.linspace(*left.get_ylim(), 200)]
    x, y = np.meshgrid(*grid)
    height = basin.membership(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    for level, style, label in ((basin.leave, "--", "left below"), (basin.enter, "-", "entered at")):
        left.contour(x, y, height, [level], colors="black", linestyles=style, linewidths=1)
        left.plot([], [], color="black", linestyle=style, linewidth=1, label=f"{label} {level:g}")
    for number, replica in enumerate(replicas):
        colour = plt.get_cmap("tab10")(number % 10)
        for place, escape in enumerate(replica.escapes):
            label = f"replica {number + 1}" if place == 0 and number < 6 else None
            left.plot(*escape.way_out[:, :2].T, color=colour, linewidth=0.5, alpha=0.5)
            left.plot(*escape.way_out[-1, :2], "o", color=colour, mec="white", mew=0.6, ms=6, label=label)
    left.set(xlabel="psi2", ylabel="psi3", title=f"Ways out of the {START} basin (last {TRAIL} frames)")
    left.legend(fontsize=8)
    _draw_waiting(right, replicas)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_waiting(axes: Any, replicas: list[Replica]) -> None:
    waits = [escape.waited for replica in replicas for escape in replica.escapes]
    unfinished = [replica.unfinished for replica in replicas if replica.unfinished is not None]
    axes.set(xlabel="time since the reset (ps)", ylabel="share still in the basin", title="Escape times")
    if not waits:
        axes.text(0.5, 0.5, "no escapes", ha="center", va="center", transform=axes.transAxes)
        return
    rate, low, high = rate_of(len(waits), sum(waits) + sum(unfinished))
    # Kaplan-Meier: waits that the end of the run cut off count for as long as they lasted.
    ends = sorted([(wait, True) for wait in waits] + [(wait, False) for wait in unfinished])
    times, shares = [0.0], [1.0]
    for place, (wait, escaped) in enumerate(ends):
        times.append(wait)
        shares.append(shares[-1] * (1 - escaped / (len(ends) - place)))
    axes.step(times, shares, where="post", color="tab:blue", label=f"{len(waits)} escapes")
    t = np.linspace(0, times[-1] * 1.05, 200)
    axes.plot(t, np.exp(-rate * t), color="black", label=f"exp(−t·{1000 * rate:.0f}/ns)")
    axes.fill_between(
        t, np.exp(-high * t), np.exp(-low * t), color="black", alpha=0.12, label="95 % interval"
    )
    axes.legend()


# -- the program --------------------------------------------------------------------


def main(argv: list[str] | None = None) -> list[Replica]:
    """Run the example and return the replicas."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replicas", type=int, default=4, metavar="N", help="how many simulations (4)")
    parser.add_argument(
        "--steps", type=int, default=60_000, metavar="N", help="steps of each (60,000: 240 ps)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of velocities and noise (1)")
    parser.add_argument("--output", metavar="PNG", help="figure to write")
    parser.add_argument("--quick", action="store_true", help="a small map and two short replicas")
    arguments = parser.parse_args(argv)
    n_replicas, steps = (2, 20_000) if arguments.quick else (arguments.replicas, arguments.steps)

    molecule = alanine_dipeptide(stride=25 if arguments.quick else 5)
    model = LandmarkDiffusionMap(
        2, 1.36e-3, metric=RMSD(molecule.masses), n_landmarks=100 if arguments.quick else 300
    ).fit(molecule.frames)
    model.units_ = "nm"
    basins = find_basins(model, 2, names=BASINS)
    shares = ", ".join(
        f"{name} {100 * share:.0f} %" for name, share in zip(basins.names, basins.populations, strict=True)
    )
    print(f"map of {len(molecule)} frames; basins: {shares} (crispness {basins.crispness:.2f})")

    membership = basins.memberships(model.embedding_)[:, basins.names.index(START)]
    begin = molecule.frames[int(np.argmax(membership))]
    replicas = []
    for number in range(n_replicas):
        rng = np.random.default_rng([arguments.seed, number])
        simulation = build_simulation(molecule, begin, int(rng.integers(1, 2**31 - 1)))
        tracker = RegionTracker({START: basins.regions[START]}, leave_after=GONE_AFTER)
        reporter = LandmarkReporter(
            model, INTERVAL, tracker=tracker, sink=Trail(), on_event=Stop("leave", START)
        )
        replicas.append(Replica(simulation, reporter, Snapshot.of(simulation), rng))
    for replica in replicas:
        replica.run(steps)
    tell(replicas)
    if arguments.output:
        draw(arguments.output, model, basins, replicas)
        print(f"figure: {arguments.output}")
    return replicas


if __name__ == "__main__":
    main()
