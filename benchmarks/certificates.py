"""How often fresh points break the tolerance, or exceed the bound, that a map was certified for.

    python benchmarks/certificates.py [--only REGIME] [--kinds blind|known] [--seeds N] [--minutes T] [--again]
    python benchmarks/certificates.py --trajectories [--first-seed K] [--seeds N] [--minutes T]

Writes docs/benchmarks/certificates.csv, a line as soon as it is known (what it holds
already is not computed again, unless --again), and docs/benchmarks/certificates.md. All
of it takes an hour of one core; --minutes ends it earlier with the same number of
seeds for each kind of data, give or take one.

With --trajectories: consecutive rows of one run of a process, and fresh rows of other
runs (trajectory_sources.py), for several correlation times. Their lines are in
docs/benchmarks/certificates_trajectories.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import DOCS, commit
from point_sources import Source, sources
from trajectory_sources import KINDS as TRAJECTORIES
from trajectory_sources import Trajectories

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits
from ldmaps.errors import DisconnectedError, LdmapsWarning, ToleranceError
from ldmaps.fit.certify import CONFIDENCE
from ldmaps.validation.fidelity import point_errors

STORE = DOCS / "certificates.csv"
#: Written by hand; the page ends with it.
DISCUSSION = Path(__file__).parent / "prose" / "certificates.md"
HEAD = (
    "regime",
    "data",
    "tolerance",
    "seed",
    "outcome",
    "n_points",
    "n_landmarks",
    "held_out_z",
    "upper_bound",
    "reference_error",
    "fresh_z",
    "seconds",
    "commit",
)
#: Trajectories: rows of each and the rule for ε, about how many rows the process remembers (from one to a twentieth of
#: them), the tolerance, and what is stored.
LENGTHS = ((1500, "connected", (1.0, 3.0, 7.5, 25.0, 75.0)), (6000, "bulk", (4.0, 20.0, 60.0, 300.0)))
TRAJECTORY_TOLERANCE = 3.0
TRAJECTORY_STORE = DOCS / "certificates_trajectories.csv"
TRAJECTORY_HEAD = (
    "rows",
    "rule",
    "process",
    "memory",
    "seed",
    "outcome",
    "n_landmarks",
    "held_out_z",
    "upper_bound",
    "fresh_z",
    "covered",
    "n_independent",
    "reason",
    "commit",
)
#: Most fresh points.
N_FRESH = 4000


@dataclass(frozen=True)
class Regime:
    name: str
    n_points: int
    tolerances: tuple[float, ...]
    n_seeds: int
    #: Most points whose kernel may be stored in double precision; None sets no limit.
    storable: int | None = None

    @property
    def limits(self) -> Limits:
        return Limits() if self.storable is None else Limits(memory=8.0 * self.storable**2)


REGIMES = (
    Regime("N = 1,000", 1000, (1.0, 3.0), 40),
    Regime("N = 10,000", 10_000, (1.0,), 2),
    Regime("N = 4,000, kernel of 2,000 storable", 4000, (1.0,), 3, storable=2000),
)


# -- measurements -------------------------------------------------------------------


def trial(
    source: Source,
    n_points: int,
    tolerance: float,
    seed: int,
    limits: Limits | None = None,
    n_fresh: int = N_FRESH,
) -> dict[str, object]:
    """Fit to a tolerance; compare Z of fresh points with what was certified."""
    old, new = source.draw(n_points, n_fresh, np.random.default_rng(seed))
    settings = (source.n_components, source.epsilon, source.metric)
    model = LandmarkDiffusionMap(*settings, tolerance=tolerance, limits=limits, random_state=seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        try:
            model.fit(old)
        except ToleranceError as error:
            return {
                "outcome": "refused",
                "n_points": len(old),
                "n_landmarks": error.n_landmarks,
                "upper_bound": error.best_bound,
                "seconds": round(time.process_time() - start, 2),
            }
        seconds = time.process_time() - start
        exact = DiffusionMap(*settings).fit(old)
    promise = model.certificate_
    fresh = fresh_error(exact, model, new, 1.0 if promise is None else promise.share)
    row = {"n_points": len(old), "fresh_z": fresh, "seconds": round(seconds, 2)}
    if promise is None:
        return {"outcome": "no certificate", "n_landmarks": len(model.multiplicities_), **row}
    outcome = "broken" if fresh > tolerance else "exceeded" if fresh > promise.upper_bound else "kept"
    return {
        "outcome": outcome,
        "n_landmarks": promise.n_landmarks,
        "held_out_z": promise.held_out_z,
        "upper_bound": promise.upper_bound,
        "reference_error": promise.reference_error,
        **row,
    }


def fresh_error(exact: DiffusionMap, model: LandmarkDiffusionMap, new: np.ndarray, share: float) -> float:
    """Return Z of a share of fresh points: all but those with the largest errors."""
    ranges = np.ptp(exact.landmark_embedding_, axis=0)  # of the points that the map is made of
    errors = np.sort(point_errors(exact.transform(new), model.transform(new), ranges=ranges, matched=True))
    return float(np.sqrt(np.mean(errors[: int(share * len(errors))] ** 2)))


def exact_map_of(model: LandmarkDiffusionMap, rule: str, X: np.ndarray) -> DiffusionMap:
    """Return the exact map of the points that took part, at the same ε; with others it would be another map."""
    took_part = np.ones(len(X))
    took_part[model.diagnosis_.left_out] = 0.0
    try:
        return DiffusionMap(model.n_components_, model.epsilon_).fit(X, sample_weight=took_part)
    except DisconnectedError:  # the rule gives sparse states an ε of their own
        return DiffusionMap(model.n_components_, rule).fit(X, sample_weight=took_part)


def trajectory_trial(
    process: Trajectories, n_rows: int, rule: str, memory: float, seed: int
) -> dict[str, object]:
    """Fit to consecutive rows of one run; compare Z of rows of other runs with what was certified."""
    old, new = process.draw(n_rows, N_FRESH, memory, seed)
    model = LandmarkDiffusionMap(
        process.n_components, rule, tolerance=TRAJECTORY_TOLERANCE, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        try:
            model.fit(old)
        except ToleranceError as error:
            return {"outcome": "refused", "reason": error.reason.split("; ")[0].split(", because")[0]}
        exact = exact_map_of(model, rule, old)
    promise = model.certificate_
    fresh = fresh_error(exact, model, new, promise.share)
    outcome = "broken" if fresh > promise.tolerance else "exceeded" if fresh > promise.upper_bound else "kept"
    return {
        "outcome": outcome,
        "n_landmarks": promise.n_landmarks,
        "held_out_z": promise.held_out_z,
        "upper_bound": promise.upper_bound,
        "fresh_z": fresh,
        "covered": promise.covered,
        "n_independent": promise.n_independent,
    }


def measure_trajectories(seeds: range, minutes: float) -> None:
    """Try every process at every correlation time; a line is written as soon as it is known."""
    key = ("rows", "rule", "process", "memory", "seed")
    done = {tuple(row[name] for name in key) for row in stored(TRAJECTORY_STORE)}
    version, end, is_new = commit(), time.monotonic() + 60 * minutes, not TRAJECTORY_STORE.exists()
    with TRAJECTORY_STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, TRAJECTORY_HEAD)
        if is_new:
            writer.writeheader()
        for seed in seeds:  # a run cut short is fair to all processes and memories
            for n_rows, rule, memories in LENGTHS:
                for memory in memories:
                    for process in TRAJECTORIES:
                        values = (n_rows, rule, process.name, memory, seed)
                        if tuple(map(str, values)) in done:
                            continue
                        if time.monotonic() > end:
                            return
                        row = trajectory_trial(process, n_rows, rule, memory, seed)
                        row |= dict(zip(key, values, strict=True))
                        writer.writerow({**row, "commit": version})
                        stream.flush()


def stored(store: Path = STORE) -> list[dict[str, str]]:
    if not store.exists():
        return []
    with store.open(newline="") as stream:
        return list(csv.DictReader(stream))


def planned(only: str, kinds: str, n_seeds: int | None) -> Iterator[tuple[Regime, Source, float, int]]:
    """Yield every trial, a seed of all kinds of data after the other, so that a run cut short is fair to all."""
    wanted = [source for source in sources() if kinds in ("all", "blind" if source.is_blind else "known")]
    for regime in REGIMES:
        if only in regime.name:
            for seed in range(n_seeds or regime.n_seeds):
                for source in wanted:
                    for tolerance in regime.tolerances:
                        yield regime, source, tolerance, seed


def measure(trials: Iterator[tuple[Regime, Source, float, int]], minutes: float) -> None:
    done = {(row["regime"], row["data"], float(row["tolerance"]), int(row["seed"])) for row in stored()}
    version, end, begun = commit(), time.monotonic() + 60 * minutes, None
    is_new = not STORE.exists()
    with STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, HEAD)
        if is_new:
            writer.writeheader()
            stream.flush()
        for regime, source, tolerance, seed in trials:
            if (regime.name, source.name, tolerance, seed) in done:
                continue
            if time.monotonic() > end:
                print(f"{minutes:g} minutes are over; the same command goes on from here", flush=True)
                return
            if begun != (regime.name, seed):
                begun = (regime.name, seed)
                print(f"{time.strftime('%H:%M:%S')} {regime.name}, seed {seed}", flush=True)
            key = {"regime": regime.name, "data": source.name, "tolerance": tolerance, "seed": seed}
            row = trial(source, regime.n_points, tolerance, seed, regime.limits)
            writer.writerow({**key, **row, "commit": version})
            stream.flush()


# -- the page -----------------------------------------------------------------------


GROUPS = {
    "known": lambda source: not source.is_blind and not source.is_heavy,
    "known, heavy-tailed": lambda source: not source.is_blind and source.is_heavy,
    "blind": lambda source: source.is_blind and not source.is_heavy,
    "blind, heavy-tailed": lambda source: source.is_blind and source.is_heavy,
}


def counts(rows: list[dict[str, str]]) -> dict[str, int]:
    """Count outcomes; a broken tolerance is an exceeded bound as well."""
    outcomes = [row["outcome"] for row in rows]
    given = len(outcomes) - outcomes.count("refused") - outcomes.count("no certificate")
    broken = outcomes.count("broken")
    return {
        "certificates": given,
        "refused": len(outcomes) - given,
        "broken": broken,
        "exceeded": outcomes.count("exceeded") + broken,
    }


def page() -> None:
    rows = stored()
    kinds = {source.name: source for source in sources()}
    lines = [
        "# How often a certificate is kept",
        "",
        "Each trial fits `LandmarkDiffusionMap(tolerance=...)` and measures Z of up to 4,000 fresh points from the same source against the",
        "exact map of the training points ([what is promised](../accuracy.md#what-a-tolerance-promises)).",
        "",
        "- *Broken*: fresh Z is above the tolerance. *Exceeded*: above the certified bound, which should happen to at most "
        f"{100 * (1 - CONFIDENCE):.0f} %.",
        "- *Refused*: a `ToleranceError` with the reason, or a warning and no certificate.",
        "- *Heavy-tailed*: few points carry most of the squared error or of a coordinate.",
        "- *Blind*: nobody had looked at this kind of data when the constants of the bound were settled, on 12 of the others at N = 1,000.",
        "",
        "| | certificates | refused | broken | exceeded |",
        "|---|---|---|---|---|",
    ]
    for regime in dict.fromkeys(row["regime"] for row in rows):
        found = [row for row in rows if row["regime"] == regime]
        # Few trials are not told apart.
        for label, wanted in (GROUPS if len(found) >= 200 else {"all": lambda source: True}).items():
            own = [row for row in found if wanted(kinds[row["data"]])]
            if not own:
                continue
            number = counts(own)
            share = (
                f" ({100 * number['exceeded'] / number['certificates']:.1f} %)" if number["exceeded"] else ""
            )
            lines.append(
                f"| {regime}, {label} | {number['certificates']} | {number['refused']} | {number['broken']} | "
                f"{number['exceeded']}{share} |"
            )
    lines += trajectory_lines()
    lines += ["", DISCUSSION.read_text().rstrip(), ""]
    lines.append("`python benchmarks/certificates.py`; [every trial](certificates.csv) with its commit.")
    (DOCS / "certificates.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def trajectory_lines() -> list[str]:
    """Return the table of certificates on consecutive rows."""
    rows = stored(TRAJECTORY_STORE)
    if not rows:
        return []
    lines = [
        "",
        "## Consecutive rows",
        "",
        f"Consecutive rows of one run of {len(TRAJECTORIES)} processes (Ornstein–Uhlenbeck, Langevin dynamics in wells and on the Müller–Brown",
        "surface, Lorenz' system and windows of it, an oscillator), and fresh rows of other runs. *Memory*: about how many rows a process",
        f"remembers. A tolerance of {TRAJECTORY_TOLERANCE:g} % is asked for. Z is that of 99 % of all fresh rows, against the exact map of the rows that took",
        "part: a certificate also covers rows like those that were left out as isolated.",
        "",
        "| rows | ε | memory | certificates | refused | broken | exceeded |",
        "|---|---|---|---|---|---|---|",
    ]
    for n_rows, rule, memories in LENGTHS:
        for memory in memories:
            asked = (str(n_rows), rule, str(memory))
            own = [row for row in rows if (row["rows"], row["rule"], row["memory"]) == asked]
            number = counts(own)
            lines.append(
                f"| {n_rows:,} | {rule} | {memory:g} rows | {number['certificates']} | {number['refused']} | "
                f"{number['broken']} | {number['exceeded']} |"
            )
    number = counts(rows)
    share = 100 * number["exceeded"] / max(number["certificates"], 1)
    lines.append(
        f"| all | | | {number['certificates']} | {number['refused']} | {number['broken']} | {number['exceeded']} ({share:.1f} %) |"
    )
    lines += [
        "",
        "`python benchmarks/certificates.py --trajectories`; [every trial](certificates_trajectories.csv).",
    ]
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="regimes whose name contains this (all)")
    parser.add_argument(
        "--seeds", type=int, help="seeds for each source and tolerance (as the regime has it)"
    )
    parser.add_argument("--first-seed", type=int, default=0, help="of trajectories (0)")
    parser.add_argument("--kinds", default="all", choices=("all", "blind", "known"), help="of data (all)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no trial after so long")
    parser.add_argument("--again", action="store_true", help="forget the stored numbers first")
    parser.add_argument("--trajectories", action="store_true", help="consecutive rows of processes instead")
    arguments = parser.parse_args()
    if arguments.again:
        (TRAJECTORY_STORE if arguments.trajectories else STORE).unlink(missing_ok=True)
    if arguments.trajectories:
        seeds = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or 4))
        measure_trajectories(seeds, arguments.minutes)
    else:
        measure(planned(arguments.only, arguments.kinds, arguments.seeds), arguments.minutes)
    page()
