"""How many landmarks a tolerance of 1 % takes, over seeds and instruction sets; and whether its certificates hold.

    python benchmarks/fewest_landmarks.py [--seeds N] [--only TEXT] [--without TEXT] [--minutes T] [--again]
    python benchmarks/fewest_landmarks.py --before PYTHON [--before-seeds N]

Every trial fits the same points with another seed. A seed decides what is held out and which landmarks are drawn, but
neither ε nor the exact map, so these are computed once for all trials of a set, and their seconds are added to those of each.
Writes docs/benchmarks/fewest_landmarks.csv, a line as soon as it is known (what it holds already is not computed again,
unless --again), and docs/benchmarks/fewest_landmarks.md. Each instruction set has a process of its own.

--before fits with the interpreter of an earlier version (or "env PYTHONPATH=... python"), writes
docs/benchmarks/fewest_landmarks_before.csv, and the page compares.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest.mock import patch

import numpy as np
from harness import DOCS, commit
from point_sources import cells, digits, torus

from ldmaps import DiffusionMap, LandmarkDiffusionMap, kernels
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.errors import LdmapsWarning, ToleranceError
from ldmaps.fit import fit_map
from ldmaps.fit.decide import with_held_out
from ldmaps.metrics import RMSD, Features, Periodic
from ldmaps.validation.fidelity import point_errors

STORE = DOCS / "fewest_landmarks.csv"
BEFORE = DOCS / "fewest_landmarks_before.csv"
TOLERANCE = 1.0
SEEDS, SEEDS_BEFORE = 10, 3
#: What is wanted: largest M over smallest, certificates that hold, time relative to that before.
MOST_JUMP, FEWEST_KEPT, MOST_TIME = 2.0, 0.95, 1.2
INSTRUCTION_SETS = ("baseline", "best")
HEAD = (
    "data",
    "instruction_set",
    "seed",
    "outcome",
    "n_landmarks",
    "n_components",
    "epsilon_rule",
    "upper_bound",
    "share",
    "zeta_bound",
    "upper_bound_of_all",
    "fresh_z_of_share",
    "fresh_share",
    "fresh_z",
    "inside",
    "seconds",
    "commit",
)


@dataclass(frozen=True)
class Points:
    """Points to fit, and others of the same kind."""

    name: str
    load: Callable[[], tuple[np.ndarray, np.ndarray, Any]]  # what to fit, what is new, the metric


# -- the data -----------------------------------------------------------------------


def frames(molecule: Any, stride: int, count: int, *, heavy: bool = False) -> Callable[[], Any]:
    """Every so many frames of the first part of a trajectory; the last part, 5,001 or 2,001 frames, is new."""

    def load() -> tuple[np.ndarray, np.ndarray, Any]:
        data = molecule()
        atoms = data.heavy_atoms if heavy else np.arange(data.n_atoms)
        chosen = data.frames[:, atoms]
        metric = RMSD() if heavy else RMSD(weights=data.masses)
        return chosen[: stride * count : stride], chosen[-(len(chosen) // 5) :], metric

    return load


def split(points: np.ndarray, count: int, metric: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    return points[:count], points[count:], metric


def dihedrals() -> tuple[np.ndarray, np.ndarray, Any]:
    data = alanine_dipeptide()
    angles = Features(data.n_atoms, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]]).values(data.frames)
    return angles[:20_000:5], angles[-5000:], Periodic()


def shuffled_digits() -> tuple[np.ndarray, np.ndarray, Any]:
    images = digits()
    return split(images[np.random.default_rng(0).permutation(len(images))], 1200, "euclidean")


DATA = (
    Points("alanine dipeptide, 2,000 frames", frames(alanine_dipeptide, 10, 2000)),
    Points("alanine dipeptide, 4,000 frames", frames(alanine_dipeptide, 5, 4000)),
    Points("alanine dipeptide, heavy atoms, 2,000 frames", frames(alanine_dipeptide, 10, 2000, heavy=True)),
    Points("alanine dipeptide, heavy atoms, 4,000 frames", frames(alanine_dipeptide, 5, 4000, heavy=True)),
    Points("C24H50, 2,000 frames", frames(c24h50, 4, 2000)),
    Points("C24H50, 4,000 frames", frames(c24h50, 2, 4000)),
    Points(
        "Swiss roll, 4,000 points",
        lambda: split(swiss_roll(9000, random_state=0).points, 4000, "euclidean"),
    ),
    Points("torus, 4,000 points", lambda: split(torus(9000, np.random.default_rng(0)), 4000, "euclidean")),
    Points("handwritten digits, 1,200", shuffled_digits),
    Points(
        "counts of cells, 2,000 rows", lambda: split(cells(7000, np.random.default_rng(0)), 2000, "euclidean")
    ),
    Points("table of two dihedrals, 4,000 rows", dihedrals),
    Points("alanine dipeptide, 20,000 frames", frames(alanine_dipeptide, 1, 20_000)),
    Points("alanine dipeptide, heavy atoms, 20,000 frames", frames(alanine_dipeptide, 1, 20_000, heavy=True)),
    Points("C24H50, 8,000 frames (all but what is new)", frames(c24h50, 1, 8000)),
)


# -- measurements -------------------------------------------------------------------


class SharedWalks(AbstractContextManager[None]):
    """While this is entered, fits of the same points settle ε, solve the walk and resample it once for all seeds."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, float | None], tuple[Any, float]] = {}
        self._patches: list[Any] = []
        self.seconds = 0.0  #: of what the last fit had from an earlier one

    def __enter__(self) -> None:
        self.seconds = 0.0
        decide, solve, judge = fit_map.decide_walk, fit_map.solve_walk, fit_map.judge_walk

        def decide_walk(
            recipe: Any, data: Any, bandwidth: Any, calibration: Any, seeds: Any, squared: Any
        ) -> Any:
            epsilon = None if bandwidth is None else bandwidth.epsilon
            chosen = self._once("walk", epsilon, decide, recipe, data, bandwidth, calibration, seeds, squared)
            return with_held_out(recipe, chosen, seeds)

        def solve_walk(recipe: Any, chosen: Any, seeds: Any) -> Any:
            # Solving writes over the distances of ``chosen``, which nothing asks for after it.
            return self._once("solved", chosen.walk.epsilon, solve, recipe, chosen, seeds)

        def judge_walk(recipe: Any, chosen: Any) -> Any:
            return self._once("judged", chosen.walk.epsilon, judge, recipe, chosen)

        for name, function in (
            ("decide_walk", decide_walk),
            ("solve_walk", solve_walk),
            ("judge_walk", judge_walk),
        ):
            self._patches.append(patch.object(fit_map, name, function))
            self._patches[-1].start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._patches:
            self._patches.pop().stop()

    def _once(self, name: str, epsilon: float | None, function: Callable[..., Any], *arguments: Any) -> Any:
        if (name, epsilon) in self._known:
            self.seconds += self._known[name, epsilon][1]
        else:
            start = time.process_time()
            self._known[name, epsilon] = function(*arguments), time.process_time() - start
        return self._known[name, epsilon][0]


@dataclass
class ExactMaps:
    """Exact maps at new points; most fits of the same data ask for the same map."""

    known: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def at(
        self, name: str, model: LandmarkDiffusionMap, old: np.ndarray, new: np.ndarray, metric: Any
    ) -> Any:
        """Return the new points' coordinates on the map that this one stands for, and the ranges of these."""
        # Not always the leading ones: harmonics are left out.
        modes = [int(np.abs(model.spectrum_ - value).argmin()) for value in model.eigenvalues_]
        key = (name, model.epsilon_, *modes)
        if key not in self.known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LdmapsWarning)
                # By the rule: a given ε neither leaves points out nor keeps states apart.
                exact = DiffusionMap(max(modes) + 1, model.bandwidth_.rule, metric).fit(old)
                if not np.isclose(exact.epsilon_, model.epsilon_, rtol=1e-6):  # it looked at other points
                    used = np.setdiff1d(np.arange(len(old)), model.diagnosis_.left_out)
                    exact = DiffusionMap(max(modes) + 1, model.epsilon_, metric).fit(old[used])
            ranges = np.ptp(exact.embedding_[:, modes], axis=0)
            self.known[key] = exact.transform(new)[:, modes], ranges
        return self.known[key]


def trial(data: Points, seed: int, shared: SharedWalks, exact_maps: ExactMaps) -> dict[str, object]:
    """Fit to the tolerance, and compare what was certified with new points."""
    old, new, metric = data.load()
    model = LandmarkDiffusionMap(metric=metric, tolerance=TOLERANCE, random_state=seed)
    start = time.process_time()
    with warnings.catch_warnings(), shared:
        warnings.simplefilter("ignore", LdmapsWarning)
        try:
            model.fit(old)
        except ToleranceError as error:
            return {
                "outcome": "refused",
                "n_landmarks": error.n_landmarks,
                "upper_bound": error.best_bound,
                "seconds": round(time.process_time() - start + shared.seconds, 2),
            }
        seconds = time.process_time() - start + shared.seconds
    promise = model.certificate_
    exact, ranges = exact_maps.at(data.name, model, old, new, metric)
    errors = np.sort(point_errors(exact, model.transform(new), ranges=ranges))
    best = errors[: int(promise.share * len(errors))]
    z_of_share = float(np.sqrt((best**2).mean()))
    # Too few held-out points promise nothing about single points.
    fresh_share = 1.0 if promise.zeta_bound is None else float((errors <= promise.zeta_bound).mean())
    kept = z_of_share <= promise.upper_bound and fresh_share >= promise.share
    outcome = "kept" if kept else "exceeded" if z_of_share <= TOLERANCE else "broken"
    return {
        "outcome": outcome,
        "n_landmarks": promise.n_landmarks,
        "n_components": model.n_components_,
        "epsilon_rule": model.bandwidth_.rule,
        "upper_bound": promise.upper_bound,
        "share": promise.share,
        "zeta_bound": promise.zeta_bound,
        "upper_bound_of_all": promise.upper_bound_of_all,
        "fresh_z_of_share": z_of_share,
        "fresh_share": fresh_share,
        "fresh_z": float(np.sqrt((errors**2).mean())),
        "inside": float(model.coverage(new).inside.mean()),
        "seconds": round(seconds, 2),
    }


def stored(path: Path = STORE) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def measure(only: str, without: str | None, n_seeds: int, minutes: float) -> None:
    """Run what is not stored yet with the instruction set of this process, one set of data after the other."""
    instruction_set = "baseline" if kernels.INSTRUCTION_SET == "baseline" else "best"
    done = {(row["data"], row["instruction_set"], int(row["seed"])) for row in stored()}
    version, end = commit(), time.monotonic() + 60 * minutes
    is_new = not STORE.exists()
    wanted = [data for data in DATA if only in data.name and (without is None or without not in data.name)]
    with STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, HEAD)
        if is_new:
            writer.writeheader()
        for data in wanted:
            shared, exact_maps = SharedWalks(), ExactMaps()
            for seed in range(n_seeds):
                if (data.name, instruction_set, seed) in done:
                    continue
                if time.monotonic() > end:
                    print(f"{minutes:g} minutes are over; the same command goes on from here", flush=True)
                    return
                row = trial(data, seed, shared, exact_maps)
                key = {"data": data.name, "instruction_set": instruction_set, "seed": seed}
                writer.writerow({**key, **row, "commit": version})
                stream.flush()
                print(*key.values(), row["outcome"], row["n_landmarks"], row["seconds"], flush=True)


# -- an earlier version -------------------------------------------------------------

#: Run by another interpreter, whose package may have other names.
FIT = """
import json, sys, time, warnings
import numpy as np
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import ToleranceError
from ldmaps.metrics import RMSD, Periodic
stored, kind, seed = np.load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
metric = {"rmsd": lambda: RMSD(weights=stored["weights"]), "periodic": Periodic, "euclidean": lambda: "euclidean"}[kind]()
warnings.simplefilter("ignore")
LandmarkDiffusionMap(metric=metric).fit(stored["points"][:100])  # what is loaded on first use
model = LandmarkDiffusionMap(metric=metric, tolerance=float(sys.argv[4]), random_state=seed)
start = time.process_time()
try:
    found = len(model.fit(stored["points"]).landmark_indices_)
except ToleranceError:
    found = 0
print(json.dumps({"n_landmarks": found, "seconds": time.process_time() - start}))
"""


def measure_before(python: str, only: str, without: str | None, n_seeds: int) -> None:
    """Fit the same points with another interpreter; 0 landmarks are a refusal."""
    done = {(row["data"], int(row["seed"])) for row in stored(BEFORE)}
    is_new = not BEFORE.exists()
    with BEFORE.open("a", newline="") as stream, tempfile.TemporaryDirectory() as folder:
        writer = csv.DictWriter(stream, ("data", "seed", "n_landmarks", "seconds"))
        if is_new:
            writer.writeheader()
        for data in DATA:
            if only not in data.name or (without is not None and without in data.name):
                continue
            old, _, metric = data.load()
            kind = (
                "rmsd"
                if isinstance(metric, RMSD)
                else "periodic"
                if isinstance(metric, Periodic)
                else "euclidean"
            )
            weights = getattr(metric, "weights", None)
            path = Path(folder) / "points.npz"
            np.savez(path, points=old, weights=np.ones(old.shape[1]) if weights is None else weights)
            for seed in range(n_seeds):
                if (data.name, seed) in done:
                    continue
                command = [*shlex.split(python), "-c", FIT, str(path), kind, str(seed), str(TOLERANCE)]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                row = {"data": data.name, "seed": seed, **json.loads(printed.splitlines()[-1])}
                row["seconds"] = round(row["seconds"], 2)
                writer.writerow(row)
                stream.flush()
                print(*row.values(), flush=True)


# -- the page -----------------------------------------------------------------------


@dataclass(frozen=True)
class Trials:
    """What was found for one set of data."""

    name: str
    rows: list[dict[str, str]]

    @property
    def given(self) -> list[dict[str, str]]:
        return [row for row in self.rows if row["outcome"] != "refused"]

    @property
    def counts(self) -> list[int]:
        return [int(row["n_landmarks"]) for row in self.given]

    @property
    def n_kept(self) -> int:
        return sum(row["outcome"] == "kept" for row in self.given)

    def median(self, column: str) -> float:
        return statistics.median(float(row[column]) for row in self.given)

    def line(self) -> str:
        """Return a line of the table."""
        n, given = len(self.rows), self.given
        if not given:
            return f"| {self.name} | {n} | {n}" + " |" * 11
        zeta_bounds = [float(row["zeta_bound"]) for row in given if row["zeta_bound"]]
        within = f"{statistics.median(zeta_bounds):.2f} %" if zeta_bounds else "–"
        counts = self.counts
        return (
            f"| {self.name} | {n} | {n - len(given)} | {min(counts)} | {statistics.median(counts):g} | {max(counts)} | "
            f"{self.median('upper_bound'):.2f} % | {self.median('fresh_z_of_share'):.2f} % | {within} | "
            f"{self.median('fresh_z'):.2f} % | {100 * self.median('inside'):.1f} % | {self.median('seconds'):.2g} | "
            f"{self.n_kept} of {len(given)} |"
        )


def listed(names: list[str]) -> str:
    """Return names in words."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def about_jumps(all_trials: list[Trials]) -> str:
    ratios = {trials.name: max(trials.counts) / min(trials.counts) for trials in all_trials if trials.counts}
    above = [f"{name} ({ratio:.2g} times)" for name, ratio in ratios.items() if ratio > MOST_JUMP]
    worst = max(ratios, key=ratios.__getitem__)
    if above:
        return (
            f"- **Jumps**: the largest M is more than {MOST_JUMP:g} times the smallest for {listed(above)}."
        )
    return f"- **Jumps**: the largest M is at most {ratios[worst]:.2g} times the smallest (worst: {worst})."


def about_instruction_sets(all_trials: list[Trials]) -> str:
    found = {
        (trials.name, row["seed"], row["instruction_set"]): int(row["n_landmarks"])
        for trials in all_trials
        for row in trials.given
    }
    pairs = [
        (number, found[name, seed, "best"])
        for (name, seed, instruction_set), number in found.items()
        if instruction_set == "baseline" and (name, seed, "best") in found
    ]
    n_same = sum(one == other for one, other in pairs)
    text = f"- **Instruction sets**: M was the same with both for {n_same} of {len(pairs)} pairs of fits"
    if n_same == len(pairs):
        return text + "."
    ratio = max(max(pair) / min(pair) for pair in pairs)
    return text + f"; elsewhere one is up to {ratio:.2g} times the other."


def about_certificates(all_trials: list[Trials]) -> str:
    given = [row for trials in all_trials for row in trials.given]
    n_kept = sum(row["outcome"] == "kept" for row in given)
    # The bound of Z, the tolerance, and the certified ζ.
    n_above = sum(float(row["fresh_z_of_share"]) > float(row["upper_bound"]) for row in given)
    n_broken = sum(row["outcome"] == "broken" for row in given)
    outside = [
        float(row["fresh_share"])
        for row in given
        if row["zeta_bound"] and float(row["fresh_share"]) < float(row["share"])
    ]
    text = (
        f"- **Certificates**: {n_kept} of {len(given)} hold ({n_kept / len(given):.1%}; at least {FEWEST_KEPT:.0%} should). "
        f"Z is above its bound in {n_above}, above the tolerance in {n_broken}"
    )
    if outside:
        text += f"; in {len(outside)}, {100 * min(outside):.1f} to {100 * max(outside):.2f} % of the new points are within the certified ζ"
    failing = [
        f"{trials.name} ({len(trials.given) - trials.n_kept})"
        for trials in all_trials
        if trials.n_kept < len(trials.given)
    ]
    text += f". They are of {listed(failing)}." if failing else "."
    return text + (
        " All seeds of a set share its new points, which are one stretch of trajectory for the molecules and the "
        "dihedrals, so failures of one set are not independent of each other."
    )


def about_before(all_trials: list[Trials]) -> list[str]:
    """Compare with an earlier version where it was measured."""
    before: dict[str, list[dict[str, str]]] = {}
    for row in stored(BEFORE):
        before.setdefault(row["data"], []).append(row)
    known = [trials for trials in all_trials if trials.name in before and trials.given]
    if not known:
        return []
    lines = [
        "",
        "## Compared with an earlier version",
        "",
        "beef3a9b, when a tolerance asked for a bound of Z of all points. Its maps had other coordinates for some of these sets.",
        "",
        "| data | fits before | refused | M before: smallest, median, largest | M now: smallest, median, largest | seconds before | now |",
        "|---|---|---|---|---|---|---|",
    ]
    times = []
    for trials in known:
        rows = before[trials.name]
        counts = sorted(int(row["n_landmarks"]) for row in rows if int(row["n_landmarks"]))
        seconds = statistics.median(float(row["seconds"]) for row in rows)
        now = statistics.median(
            float(row["seconds"]) for row in trials.rows if row["instruction_set"] == "best"
        )
        times.append(now / seconds)
        then = f"{counts[0]}, {statistics.median(counts):g}, {counts[-1]}" if counts else "–"
        ours = trials.counts
        lines.append(
            f"| {trials.name} | {len(rows)} | {len(rows) - len(counts)} | {then} | "
            f"{min(ours)}, {statistics.median(ours):g}, {max(ours)} | {seconds:.2g} | {now:.2g} |"
        )
    return [
        *lines,
        "",
        f"Time is {statistics.median(times):.2g} times that before (median over the sets; {min(times):.2g} to {max(times):.2g}; "
        f"at most {MOST_TIME:g} is wanted), with the best instruction set on both sides.",
    ]


def page() -> None:
    rows = stored()
    all_trials = [
        Trials(name, [row for row in rows if row["data"] == name])
        for name in (data.name for data in DATA)
        if any(row["data"] == name for row in rows)
    ]
    seeds = [len(trials.rows) for trials in all_trials]
    lines = [
        "# How many landmarks a tolerance takes",
        "",
        f"`LandmarkDiffusionMap(tolerance={TOLERANCE:g})` of the same points, with other seeds and with two instruction sets (the least that",
        "the package is compiled for, and the best of the processor). A certificate holds if new points keep both of its promises: Z of all but the",
        "worst 1 %, and ζ of 99 %. Medians over the fits, but for the smallest and largest numbers of landmarks M; seconds of processor time.",
        "",
        "| data | fits | refused | M smallest | median | largest | certified Z of 99 % | new points' | certified ζ of 99 % | "
        "new points' Z, all | inside | seconds | certificates that hold |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(trials.line() for trials in all_trials),
        "",
        about_jumps(all_trials),
        about_instruction_sets(all_trials),
        about_certificates(all_trials),
        f"- **What ran**: {min(seeds)} to {max(seeds)} fits of each set. ε and the exact map, which no seed decides, were computed once",
        "  for all fits with one instruction set, and their seconds are added to those of each.",
        *about_before(all_trials),
        "",
        "`python benchmarks/fewest_landmarks.py`; [every fit](fewest_landmarks.csv) with its commit.",
    ]
    (DOCS / "fewest_landmarks.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds for each data set ({SEEDS})")
    parser.add_argument("--only", default="", help="data whose name contains this (all)")
    parser.add_argument("--without", help="no data whose name contains this")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no fit after so long")
    parser.add_argument("--again", action="store_true", help="forget the stored numbers first")
    parser.add_argument("--here", action="store_true", help="this process's instruction set alone, no page")
    parser.add_argument(
        "--before", metavar="PYTHON", help="interpreter of an earlier version, to compare with"
    )
    parser.add_argument(
        "--before-seeds", type=int, default=SEEDS_BEFORE, help=f"seeds with that ({SEEDS_BEFORE})"
    )
    arguments = parser.parse_args()
    if arguments.here:
        measure(arguments.only, arguments.without, arguments.seeds, arguments.minutes)
        sys.exit()
    if arguments.before is not None:
        measure_before(arguments.before, arguments.only, arguments.without, arguments.before_seeds)
        page()
        sys.exit()
    if arguments.again:
        STORE.unlink(missing_ok=True)
    options = ["--seeds", arguments.seeds, "--only", arguments.only, "--minutes", arguments.minutes / 2]
    if arguments.without is not None:
        options += ["--without", arguments.without]
    command = [sys.executable, __file__, "--here", *map(str, options)]
    for instruction_set in INSTRUCTION_SETS:
        surroundings = dict(os.environ)
        if instruction_set == "baseline":
            surroundings["LDMAPS_INSTRUCTION_SET"] = "baseline"
        subprocess.run(command, env=surroundings, check=True)
    page()
