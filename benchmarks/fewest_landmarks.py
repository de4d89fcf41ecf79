"""How many landmarks a tolerance of 1 % takes, over seeds and instruction sets; and whether its certificates hold.

    python benchmarks/fewest_landmarks.py [--seeds N] [--only TEXT] [--without TEXT] [--minutes T] [--again]

Every trial fits the same points with another seed. Writes docs/benchmarks/fewest_landmarks.csv, a line as soon as it is
known (what it holds already is not computed again, unless --again), and docs/benchmarks/fewest_landmarks.md. Each
instruction set has a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import DOCS, commit
from point_sources import cells, digits, torus

from ldmaps import DiffusionMap, LandmarkDiffusionMap, kernels
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.errors import LdmapsWarning, ToleranceError
from ldmaps.metrics import RMSD, Features, Periodic
from ldmaps.validation.fidelity import point_errors

STORE = DOCS / "fewest_landmarks.csv"
#: Written by hand; the page ends with it.
DISCUSSION = Path(__file__).parent / "prose" / "fewest_landmarks.md"
TOLERANCE = 1.0
SEEDS = 20
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
)


# -- measurements -------------------------------------------------------------------


@dataclass
class ExactMaps:
    """Exact maps at new points; most fits of the same data ask for the same map."""

    known: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def at(self, name: str, model: LandmarkDiffusionMap, old: np.ndarray, new: np.ndarray) -> Any:
        """Return the new points' coordinates on the map that this one stands for, and the ranges of these."""
        used = np.setdiff1d(np.arange(len(old)), model.diagnosis_.left_out)
        # Not always the leading ones: harmonics are left out.
        modes = [int(np.abs(model.spectrum_ - value).argmin()) for value in model.eigenvalues_]
        key = (name, model.epsilon_, *modes, used.tobytes())
        if key not in self.known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LdmapsWarning)
                exact = DiffusionMap(max(modes) + 1, model.epsilon_, model.metric).fit(old[used])
            ranges = np.ptp(exact.embedding_[:, modes], axis=0)
            self.known[key] = exact.transform(new)[:, modes], ranges
        return self.known[key]


def trial(data: Points, seed: int, exact_maps: ExactMaps) -> dict[str, object]:
    """Fit to the tolerance, and compare what was certified with new points."""
    old, new, metric = data.load()
    model = LandmarkDiffusionMap(metric=metric, tolerance=TOLERANCE, random_state=seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        try:
            model.fit(old)
        except ToleranceError as error:
            return {
                "outcome": "refused",
                "n_landmarks": error.n_landmarks,
                "upper_bound": error.best_bound,
                "seconds": round(time.process_time() - start, 2),
            }
        seconds = time.process_time() - start
    promise = model.certificate_
    exact, ranges = exact_maps.at(data.name, model, old, new)
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


def stored() -> list[dict[str, str]]:
    if not STORE.exists():
        return []
    with STORE.open(newline="") as stream:
        return list(csv.DictReader(stream))


def measure(only: str, without: str | None, n_seeds: int, minutes: float) -> None:
    """Run what is not stored yet with the instruction set of this process, a seed of all data after the other."""
    instruction_set = "baseline" if kernels.INSTRUCTION_SET == "baseline" else "best"
    done = {(row["data"], row["instruction_set"], int(row["seed"])) for row in stored()}
    version, end = commit(), time.monotonic() + 60 * minutes
    is_new = not STORE.exists()
    wanted = [data for data in DATA if only in data.name and (without is None or without not in data.name)]
    exact_maps = ExactMaps()
    with STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, HEAD)
        if is_new:
            writer.writeheader()
        for seed in range(n_seeds):
            for data in wanted:
                if (data.name, instruction_set, seed) in done:
                    continue
                if time.monotonic() > end:
                    print(f"{minutes:g} minutes are over; the same command goes on from here", flush=True)
                    return
                row = trial(data, seed, exact_maps)
                key = {"data": data.name, "instruction_set": instruction_set, "seed": seed}
                writer.writerow({**key, **row, "commit": version})
                stream.flush()
                print(*key.values(), row["outcome"], row["n_landmarks"], row["seconds"], flush=True)


# -- the page -----------------------------------------------------------------------


def page() -> None:
    rows = stored()
    lines = [
        "# How many landmarks a tolerance takes",
        "",
        f"`LandmarkDiffusionMap(tolerance={TOLERANCE:g})` of the same points, with other seeds and with two instruction sets (the least that",
        "the package is compiled for, and the best of the processor). A certificate holds if new points keep both of its promises: Z of all but the",
        "worst 1 %, and ζ of 99 %. Medians over the fits, but for the smallest and largest numbers of landmarks M; seconds of processor time,",
        "on a machine that was busy with other work.",
        "",
        "| data | fits | refused | M smallest | median | largest | certified Z of 99 % | new points' | certified ζ of 99 % | "
        "new points' Z, all | inside | seconds | certificates that hold |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    n_given = n_kept = 0
    for name in dict.fromkeys(row["data"] for row in rows):
        found = [row for row in rows if row["data"] == name]
        given = [row for row in found if row["outcome"] != "refused"]
        kept = sum(row["outcome"] == "kept" for row in given)
        n_given, n_kept = n_given + len(given), n_kept + kept
        if not given:
            lines.append(f"| {name} | {len(found)} | {len(found)}" + " |" * 11)
            continue

        def median(column: str, rows: list[dict[str, str]] = given) -> float:
            return statistics.median(float(row[column]) for row in rows)

        zeta_bounds = [float(row["zeta_bound"]) for row in given if row["zeta_bound"]]
        within = f"{statistics.median(zeta_bounds):.2f} %" if zeta_bounds else "–"
        counts = [int(row["n_landmarks"]) for row in given]
        lines.append(
            f"| {name} | {len(found)} | {len(found) - len(given)} | {min(counts)} | {statistics.median(counts):g} | "
            f"{max(counts)} | {median('upper_bound'):.2f} % | {median('fresh_z_of_share'):.2f} % | "
            f"{within} | {median('fresh_z'):.2f} % | {100 * median('inside'):.1f} % | "
            f"{median('seconds'):.2g} | {kept} of {len(given)} |"
        )
    lines += ["", f"All together, {n_kept} of {n_given} certificates hold.", ""]
    if DISCUSSION.exists():
        lines += [DISCUSSION.read_text().rstrip(), ""]
    lines.append(
        "`python benchmarks/fewest_landmarks.py`; [every fit](fewest_landmarks.csv) with its commit."
    )
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
    arguments = parser.parse_args()
    if arguments.here:
        measure(arguments.only, arguments.without, arguments.seeds, arguments.minutes)
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
