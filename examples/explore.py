"""Find what lies beyond a map: bias a simulation outwards, absorb the frames that left the map, repeat.

The frames that ship with ldmaps (20 ns of alanine dipeptide in water) never visit the
left-handed helix, φ > 0. A map of them is where each exploration starts. A round is a short
run (the same force field, implicit solvent) under a force that lifts the molecule out of
wherever the map has many points; frames outside the map's domain are absorbed, and the next
round runs on the new map. Unbiased runs of the same total length are made for comparison.

    pip install ".[openmm,plot]"
    python examples/explore.py --output exploring

Interrupted, the same command goes on where it stopped: every finished round is on disk. The
page ``exploring/index.html`` shows the map growing; it is written anew after every round.
"""

from __future__ import annotations

import argparse
import html
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from replica_reset import FORCE_FIELD, TEMPERATURE, TIME_STEP, topology_of

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.absorbing import absorb
from ldmaps.datasets import MolecularFrames, alanine_dipeptide
from ldmaps.errors import AccuracyWarning, OutsideDomainWarning
from ldmaps.metrics import RMSD
from ldmaps.openmm import BiasLog, exploration_force

EPSILON, N_LANDMARKS = 1.36e-3, 100
INTERVAL = 50  # steps between frames: 0.2 ps
STRENGTH = 12.0  # kJ/mol per factor e of density, about five times kT: the less a place is known, the more it attracts
BIAS_GROUP = 7
#: The left-handed helix in degrees: φ, ψ.
LEFT_HANDED = (20.0, 110.0), (-60.0, 110.0)
#: Frames in it that make it found, and the share of them inside the domain that makes it mapped.
FOUND_FRAMES, MAPPED_SHARE = 10, 0.9


# -- the molecule ----------------------------------------------------------------------


def dihedral(frames: np.ndarray, atoms: list[int]) -> np.ndarray:
    """Return one dihedral angle of every frame, in degrees."""
    a, b, c, d = (frames[:, atom].astype(np.float64) for atom in atoms)
    first, middle, last = b - a, c - b, d - c
    left, right = np.cross(first, middle), np.cross(middle, last)
    sine = np.einsum("ij,ij->i", np.cross(left, right), middle) / np.linalg.norm(middle, axis=1)
    return np.degrees(np.arctan2(sine, np.einsum("ij,ij->i", left, right)))


def backbone_angles(molecule: MolecularFrames, frames: np.ndarray) -> np.ndarray:
    """Return φ and ψ of every frame, of shape (n, 2), in degrees."""
    place = {
        (number, name): index
        for index, (number, name) in enumerate(
            zip(molecule.residue_numbers.tolist(), molecule.atom_names, strict=True)
        )
    }
    c0, n1, ca, c1, n2 = (place[key] for key in ((1, "C"), (2, "N"), (2, "CA"), (2, "C"), (3, "N")))
    return np.column_stack([dihedral(frames, [c0, n1, ca, c1]), dihedral(frames, [n1, ca, c1, n2])])


def left_handed(angles: np.ndarray) -> np.ndarray:
    """Say which frames are in the left-handed helix."""
    inside = [
        (low < angles[:, axis]) & (angles[:, axis] < high) for axis, (low, high) in enumerate(LEFT_HANDED)
    ]
    return inside[0] & inside[1]


class Frames:
    """A reporter that keeps positions."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []

    def describeNextReport(self, simulation: Any) -> dict[str, Any]:  # noqa: N802 - OpenMM's name
        """Ask for positions every INTERVAL steps."""
        return {
            "steps": INTERVAL - simulation.currentStep % INTERVAL,
            "periodic": False,
            "include": ["positions"],
        }

    def report(self, simulation: Any, state: Any) -> None:
        """Keep the positions, in nm."""
        self.kept.append(np.asarray(state.getPositions(asNumpy=True)._value, dtype=np.float32))


def simulation_from(molecule: MolecularFrames, positions: np.ndarray, seed: int, bias: Any = None) -> Any:
    """Return a simulation in implicit solvent, with a bias where there is one."""
    import openmm
    from openmm import app, unit

    topology = topology_of(molecule)
    system = app.ForceField(*FORCE_FIELD).createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=app.AllBonds, hydrogenMass=4.0 * unit.amu
    )
    if bias is not None:
        bias.setForceGroup(BIAS_GROUP)
        system.addForce(bias)
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, TIME_STEP)
    integrator.setRandomNumberSeed(seed)
    # For so few atoms OpenMM's plain Reference platform is faster than its threads.
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return simulation


# -- exploring -----------------------------------------------------------------------------


@dataclass
class Round:
    """What one round did; times in ns, counted from the exploration's beginning."""

    number: int
    until: float
    outside: int
    n_landmarks: int
    left_handed_frames: int
    first_left_handed: float | None
    mapped: float


class Exploration:
    """One exploration in a directory of its own; every round is finished on disk before the next begins."""

    def __init__(self, molecule: MolecularFrames, directory: Path, seed: int, round_ps: float) -> None:
        self.molecule, self.directory, self.seed = molecule, directory, seed
        self.steps = round(round_ps / TIME_STEP)
        directory.mkdir(parents=True, exist_ok=True)
        self.record = directory / "rounds.json"
        self.rounds = (
            [Round(**line) for line in json.loads(self.record.read_text())] if self.record.exists() else []
        )
        if not self._model_path(0).exists():
            start = LandmarkDiffusionMap(
                2,
                EPSILON,
                metric=RMSD(molecule.masses),
                n_landmarks=N_LANDMARKS,
                extension="nystrom",
                random_state=0,
            )
            start.fit(molecule.frames)
            start.save(self._model_path(0))

    @property
    def finished(self) -> bool:
        """Whether the left-handed helix is mapped."""
        return bool(self.rounds) and self.rounds[-1].mapped >= MAPPED_SHARE

    @property
    def nanoseconds(self) -> float:
        """How long it took so far."""
        return self.rounds[-1].until if self.rounds else 0.0

    def _model_path(self, number: int) -> Path:
        return self.directory / f"map_{number:02}.ldm"

    def model(self, number: int | None = None) -> LandmarkDiffusionMap:
        """Return the map after a round, the last one by default."""
        return ldmaps.load(self._model_path(len(self.rounds) if number is None else number))

    def frames(self, number: int) -> np.ndarray:
        """Return the frames of a round, from 1."""
        return np.load(self.directory / f"frames_{number:02}.npy")

    def advance(self) -> Round:
        """Run a round: bias, look what left the map, absorb it."""
        number = len(self.rounds) + 1
        model = self.model()
        start = self.frames(number - 1)[-1] if number > 1 else self.molecule.frames[0]
        bias = exploration_force(model, STRENGTH, topology=topology_of(self.molecule))
        simulation = simulation_from(self.molecule, start, 1000 * self.seed + number, bias)
        log_path = self.directory / f"bias_{number:02}.csv"
        log_path.unlink(missing_ok=True)  # of a round that was interrupted
        keeper, log = Frames(), BiasLog(log_path, model, INTERVAL, bias={BIAS_GROUP})
        simulation.reporters[:] = [keeper, log]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDomainWarning)  # outside is where it should go
            simulation.step(self.steps)
        log.close()
        frames = np.array(keeper.kept)
        coverage = model.coverage(frames)
        new = frames[~coverage.inside]
        grown = model
        if len(new):
            with warnings.catch_warnings():
                # Old coordinates may have little in common with new ones where a new basin was found.
                warnings.simplefilter("ignore", AccuracyWarning)
                counts = np.bincount(coverage.nearest[coverage.inside], minlength=model.embedder_.n_landmarks)
                grown = absorb(model, new, counts=counts, disconnected="leave", keep_coordinates=False)
        return self._finish(number, frames, len(new), grown)

    def _finish(self, number: int, frames: np.ndarray, outside: int, grown: LandmarkDiffusionMap) -> Round:
        helical = left_handed(backbone_angles(self.molecule, frames))
        before = self.nanoseconds
        first = before + 1e-3 * TIME_STEP * INTERVAL * int(np.argmax(helical)) if helical.any() else None
        everything = [*(self.frames(past.number) for past in self.rounds), frames]
        found = np.concatenate(
            [part[left_handed(backbone_angles(self.molecule, part))] for part in everything]
        )
        done = Round(
            number,
            round(before + 1e-3 * self.steps * TIME_STEP, 6),
            outside,
            grown.embedder_.n_landmarks,
            int(helical.sum()),
            first,
            float(grown.coverage(found).inside.mean()) if len(found) >= FOUND_FRAMES else 0.0,
        )
        np.save(self.directory / f"frames_{number:02}.npy", frames)
        grown.save(self._model_path(number))
        self.rounds.append(done)
        # Last, and in one step: a round that is not in the record is run again.
        fresh = self.record.with_suffix(".new")
        fresh.write_text(json.dumps([asdict(one) for one in self.rounds], indent=1))
        fresh.replace(self.record)
        return done

    def found_at(self) -> float | None:
        """Return when the left-handed helix was first entered, in ns."""
        return next((one.first_left_handed for one in self.rounds if one.first_left_handed is not None), None)


def unbiased(molecule: MolecularFrames, path: Path, seed: int, nanoseconds: float) -> np.ndarray:
    """Return φ, ψ of an unbiased run; run where it is not on disk in that length already."""
    steps = round(1000 * nanoseconds / TIME_STEP)
    if path.exists():
        angles = np.load(path)
        if len(angles) >= steps // INTERVAL:
            return angles
    simulation = simulation_from(molecule, molecule.frames[0], 500 + seed)
    keeper = Frames()
    simulation.reporters[:] = [keeper]
    simulation.step(steps)
    angles = backbone_angles(molecule, np.array(keeper.kept))
    np.save(path, angles)
    return angles


# -- the page -----------------------------------------------------------------------------

CAPTION = (
    "After each round, above in the plane of the dihedrals and below on the map as it is then: blue the frames of this "
    "round, grey those from before, orange those that the map still does not cover; the green frame is the "
    "left-handed helix."
)


def draw(exploration: Exploration, path: Path) -> None:
    """Draw the map after every round: its landmarks in the plane of φ and ψ, and in its own coordinates."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    molecule = exploration.molecule
    count = len(exploration.rounds) + 1
    columns = min(count, 5)
    rows = 2 * -(-count // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.9 * rows), layout="constrained", squeeze=False
    )
    for axes in panels.ravel()[: rows * columns]:
        axes.set_visible(False)
    everything = [molecule.frames, *(exploration.frames(one.number) for one in exploration.rounds)]
    for number in range(count):
        model = exploration.model(number)
        seen = np.concatenate(everything[: number + 1])
        angles = backbone_angles(molecule, seen)
        coverage = model.coverage(seen)
        coordinates = model.transform(seen)
        top, left = 2 * (number // columns), number % columns
        above, below = panels[top, left], panels[top + 1, left]
        newest = (
            np.arange(len(seen)) >= len(seen) - len(everything[number])
            if number
            else np.zeros(len(seen), bool)
        )
        for axes, points in ((above, angles), (below, 1e3 * coordinates[:, :2])):
            axes.set_visible(True)
            axes.scatter(*points[~newest].T, s=1, color="0.75", linewidths=0, rasterized=True)
            axes.scatter(*points[newest].T, s=1.5, color="#0072B2", linewidths=0, rasterized=True)
            outside = ~coverage.inside
            axes.scatter(*points[outside].T, s=3, color="#D55E00", linewidths=0, rasterized=True)
        above.set(xlim=(-180, 180), ylim=(-180, 180), xticks=(-180, 0, 180), yticks=(-180, 0, 180))
        above.add_patch(
            plt.Rectangle(
                (LEFT_HANDED[0][0], LEFT_HANDED[1][0]),
                LEFT_HANDED[0][1] - LEFT_HANDED[0][0],
                LEFT_HANDED[1][1] - LEFT_HANDED[1][0],
                fill=False,
                color="#009E73",
                linewidth=1.2,
            )
        )
        when = "start" if not number else f"{exploration.rounds[number - 1].until:g} ns"
        above.set_title(f"{when}: {model.embedder_.n_landmarks} landmarks", fontsize=9)
        above.set(xlabel="φ / °", ylabel="ψ / °")
        below.set(xlabel="10³·first coordinate", ylabel="10³·second")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write_page(directory: Path, explorations: list[Exploration], comparison: dict[int, float | None]) -> None:
    """Write index.html: what was found when, and the map of each exploration as it grew."""
    sections = []
    for one in explorations:
        if not one.rounds:
            continue
        picture = directory / f"growing_{one.seed}.png"
        draw(one, picture)
        lines = "".join(
            f"<tr><td>{line.until:.2f}</td><td>{line.outside}</td><td>{line.n_landmarks}</td>"
            f"<td>{line.left_handed_frames}</td><td>{100 * line.mapped:.0f} %</td></tr>"
            for line in one.rounds
        )
        found = one.found_at()
        verdict = "not found yet" if found is None else f"first entered after {found:.2f} ns"
        verdict += f"; mapped after {one.nanoseconds:.2f} ns" if one.finished else "; not mapped yet"
        sections.append(
            f"<h2>Exploration {one.seed}: left-handed helix {html.escape(verdict)}</h2>"
            f'<img src="{picture.name}" alt="Frames in the plane of the dihedrals and on the map, after each round">'
            f"<p>{CAPTION}</p>"
            "<table><tr><th>until / ns</th><th>frames outside</th><th>landmarks</th>"
            f"<th>frames left-handed</th><th>of them inside</th></tr>{lines}</table>"
        )
    rows = "".join(
        f"<tr><td>{seed}</td><td>{'never' if when is None else f'{when:.2f} ns'}</td></tr>"
        for seed, when in comparison.items()
    )
    versus = (
        f"<h2>Unbiased runs of {max(one.nanoseconds for one in explorations):.2f} ns, the longest exploration</h2>"
        f"<table><tr><th>seed</th><th>left-handed helix entered</th></tr>{rows}</table>"
    )
    fresh = directory / "index.html.new"
    fresh.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Exploring beyond a map</title>'
        "<style>body{font:15px sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}img{max-width:100%}"
        "td,th{padding:.15rem .8rem;text-align:right}</style><h1>Exploring beyond a map of alanine dipeptide</h1>"
        f"{''.join(sections)}{versus if comparison else ''}</html>"
    )
    fresh.replace(directory / "index.html")


def main(arguments: list[str] | None = None) -> None:
    """Explore with several seeds, compare with unbiased runs, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("exploring"))
    parser.add_argument("--seeds", type=int, default=5, help="explorations, and unbiased runs (default: 5)")
    parser.add_argument("--round-ps", type=float, default=100.0, help="length of a round (default: 100 ps)")
    parser.add_argument("--rounds", type=int, default=30, help="most rounds of one exploration (default: 30)")
    options = parser.parse_args(arguments)
    molecule = alanine_dipeptide(stride=10)
    options.output.mkdir(parents=True, exist_ok=True)
    explorations = [
        Exploration(molecule, options.output / f"exploration_{seed}", seed, options.round_ps)
        for seed in range(1, options.seeds + 1)
    ]
    for one in explorations:
        while not one.finished and len(one.rounds) < options.rounds:
            done = one.advance()
            print(
                f"exploration {one.seed}, {done.until:.2f} ns: {done.outside} frames outside, "
                f"{done.n_landmarks} landmarks, {done.left_handed_frames} left-handed, "
                f"{100 * done.mapped:.0f} % mapped",
                flush=True,
            )
            write_page(options.output, explorations, {})
    length = max(one.nanoseconds for one in explorations)
    comparison: dict[int, float | None] = {}
    for seed in range(1, options.seeds + 1):
        angles = unbiased(molecule, options.output / f"unbiased_{seed}.npy", seed, length)
        helical = left_handed(angles)
        comparison[seed] = 1e-3 * TIME_STEP * INTERVAL * int(np.argmax(helical)) if helical.any() else None
        print(f"unbiased run {seed}, {length:.2f} ns: entered {comparison[seed]}", flush=True)
        write_page(options.output, explorations, comparison)
    print(f"see {options.output / 'index.html'}")


if __name__ == "__main__":
    main()
