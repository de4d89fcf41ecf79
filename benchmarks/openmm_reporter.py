"""What embedding costs an OpenMM run: alanine dipeptide, CPU platform, one thread, a report every 100 steps.

Implicit solvent twice: "gbn2" is what OpenMM recommends with Amber14, "obc" (an older built-in force) the cheapest there
is, so the hardest case.

    python benchmarks/openmm_reporter.py [--rounds 15] [--steps 3000] [--platform CPU] [--solvent gbn2]

Two figures, because machines are noisy. Runs with and without the reporter take turns, and
the median of the ratios of neighbouring runs is given with its spread. And within the runs
with the reporter, the processor time of the reports (asking OpenMM for the positions
included) is held against that of the steps: others on the machine hardly count in it, so
this is the figure to trust.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from harness import Row

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import RMSD
from ldmaps.openmm import LandmarkReporter
from ldmaps.regions import RegionTracker, find_basins

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "replica_reset.py"
INTERVAL, LANDMARKS = 100, 400
SOLVENTS = {
    "gbn2": ("amber14-all.xml", "implicit/gbn2.xml"),
    "obc": ("amber99sbildn.xml", "amber99_obc.xml"),
}


def example():
    spec = importlib.util.spec_from_file_location("replica_reset", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Timed(LandmarkReporter):
    """Adds up the processor time of its reports, the making of the state included."""

    spent = 0.0
    count = 0

    def report(self, simulation, state) -> None:
        start = time.process_time()
        # OpenMM has made the state already; make it once more, so that its cost is counted here.
        simulation.context.getState(positions=True, parameters=True)
        super().report(simulation, state)
        self.spent += time.process_time() - start
        self.count += 1


class Run:
    def __init__(self, platform: str, solvent: str) -> None:
        molecule = alanine_dipeptide(stride=2)
        self.model = LandmarkDiffusionMap(2, 1.36e-3, metric=RMSD(molecule.masses), n_landmarks=LANDMARKS)
        self.model.fit(molecule.frames)
        self.basins = find_basins(self.model, 2)
        self.simulation = example().build_simulation(
            molecule, molecule.frames[0], 1, platform, SOLVENTS[solvent]
        )
        self.plain, self.timed = (
            kind(self.model, INTERVAL, tracker=RegionTracker(self.basins.regions))
            for kind in (LandmarkReporter, Timed)
        )
        for reporters in ([], [self.plain, self.timed]):  # warm up
            self.simulation.reporters[:] = reporters
            self.simulation.step(5 * INTERVAL)

    def measure(self, rounds: int, steps: int) -> dict[str, list[float]]:
        """Let runs without and with the reporter take turns, and return ratios."""
        found: dict[str, list[float]] = {
            "slowdown": [],
            "share": [],
            "steps_per_second": [],
            "microseconds": [],
        }
        for turn in range(rounds):
            seconds, processor = {}, {}
            self.timed.spent, self.timed.count = 0.0, 0
            for reporter in (None, self.plain, self.timed)[:: 1 if turn % 2 else -1]:
                self.simulation.reporters[:] = [] if reporter is None else [reporter]
                start, used = time.perf_counter(), time.process_time()
                self.simulation.step(steps)
                seconds[reporter], processor[reporter] = (
                    time.perf_counter() - start,
                    time.process_time() - used,
                )
            found["slowdown"].append(seconds[self.plain] / seconds[None] - 1)
            found["share"].append(self.timed.spent / (processor[self.timed] - self.timed.spent))
            found["steps_per_second"].append(steps / seconds[None])
            found["microseconds"].append(1e6 * self.timed.spent / self.timed.count)
        return found


def quartiles(values: list[float]) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{100 * middle:+.2f} % (quartiles {100 * low:+.2f} to {100 * high:+.2f} %)"


def row(found: dict[str, list[float]], solvent: str) -> Row:
    share = statistics.median(found["share"])
    return Row(
        f"OpenMM run with a report every {INTERVAL} steps, M = {LANDMARKS}, 22 atoms in {solvent}",
        "the same run without",
        f"{100 * share:.2f} % of the steps' processor time",
        f"{statistics.median(found['steps_per_second']):,.0f} steps/s",
        1 / (1 + share),
        "< 1 % slower",
        f"wall clock of runs in turn: {quartiles(found['slowdown'])}",
    )


def run() -> list[Row]:
    return [row(Run("CPU", solvent).measure(15, 3000), solvent) for solvent in SOLVENTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--platform", default="CPU", choices=("CPU", "Reference"))
    parser.add_argument("--solvent", default="gbn2", choices=tuple(SOLVENTS))
    arguments = parser.parse_args()
    found = Run(arguments.platform, arguments.solvent).measure(arguments.rounds, arguments.steps)
    print(f"without the reporter: {statistics.median(found['steps_per_second']):,.0f} steps/s")
    print(f"wall clock, with against without, in turn: {quartiles(found['slowdown'])}")
    print(f"processor time of reports against that of steps: {quartiles(found['share'])}")
    print(f"that is {statistics.median(found['microseconds']):.0f} µs a report")


if __name__ == "__main__":
    main()
