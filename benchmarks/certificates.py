"""How often fresh points break the tolerance, or exceed the bound, that a map was certified for.

    python benchmarks/certificates.py [--rounds 4] [--minutes 20] [--again] [--full] [--page]
    python benchmarks/certificates.py --only TEXT --first-seed K      trials whose regime or data has this text

Writes docs/benchmarks/certificates.csv (independent rows), docs/benchmarks/certificates_trajectories.csv (consecutive
rows of one run of a process, and fresh rows of other runs: trajectory_sources.py), a line as soon as it is known, and
docs/benchmarks/certificates.md. A round has new seeds for all of them. What both hold of this commit is not computed
again, and all else is forgotten. --minutes, of the processor, count what was stored. --full
adds 10,000 points, and 4,000 with a kernel that cannot be stored: an hour more.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from harness import DOCS, commit, provenance
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
LENGTHS = ((1500, "connected", (1.0, 3.0, 7.5, 25.0, 75.0)), (4000, "bulk", (4.0, 20.0, 60.0, 200.0)))
#: Longer ones are in the first round, and in every so many.
EVERY = {1500: 1, 4000: 3}
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
    "seconds",
    "commit",
)
#: No constant was settled with seeds from here on.
FIRST_SEED = 100
#: Most fresh points.
N_FRESH = 4000


@dataclass(frozen=True)
class Regime:
    name: str
    n_points: int
    tolerances: tuple[float, ...]
    #: Whether a run that is not --full has it.
    is_usual: bool
    #: Most points whose kernel may be stored in double precision; None sets no limit.
    storable: int | None = None

    @property
    def limits(self) -> Limits:
        return Limits() if self.storable is None else Limits(memory=8.0 * self.storable**2)


REGIMES = (
    Regime("N = 1,000", 1000, (1.0, 3.0), True),
    Regime("N = 10,000", 10_000, (1.0,), False),
    Regime("N = 4,000, kernel of 2,000 storable", 4000, (1.0,), False, storable=2000),
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
        exact = exact_map_of(model, settings, old)
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


def exact_map_of(
    model: LandmarkDiffusionMap, settings: tuple[int, float | str, object], X: np.ndarray
) -> DiffusionMap:
    """Return the exact map of the points that took part, at the same ε; with others it would be another map."""
    took_part = np.ones(len(X))
    took_part[model.diagnosis_.left_out] = 0.0
    count, rule, metric = settings
    try:
        return DiffusionMap(count, model.epsilon_, metric).fit(X, sample_weight=took_part)
    except DisconnectedError:  # the rule gives sparse states an ε of their own
        return DiffusionMap(count, rule, metric).fit(X, sample_weight=took_part)


def trajectory_trial(
    process: Trajectories, n_rows: int, rule: str, memory: float, seed: int
) -> dict[str, object]:
    """Fit to consecutive rows of one run; compare Z of rows of other runs with what was certified."""
    begun = time.process_time()
    old, new = process.draw(n_rows, N_FRESH, memory, seed)
    settings = (process.n_components, rule, "euclidean")
    model = LandmarkDiffusionMap(*settings, tolerance=TRAJECTORY_TOLERANCE, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        try:
            model.fit(old)
        except ToleranceError as error:
            reason = str(error.reason).split("; ")[0].split(", because")[0]
            return {"outcome": "refused", "reason": reason, "seconds": round(time.process_time() - begun, 2)}
        exact = exact_map_of(model, settings, old)
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
        "seconds": round(time.process_time() - begun, 2),
    }


@dataclass(frozen=True)
class Trial:
    """A trial that may be tried: where its line goes, what names it, and how it is done."""

    store: Path
    head: tuple[str, ...]
    key: dict[str, object]
    run: Callable[[], dict[str, object]]

    def is_among(self, rows: list[dict[str, str]]) -> bool:
        """Say whether its line is known."""
        return any(all(row[name] == str(value) for name, value in self.key.items()) for row in rows)


def planned(seeds: range, is_full: bool) -> Iterator[Trial]:
    """Yield every trial, a seed of all kinds of data after the other, so that a run cut short is fair to all."""
    for seed in seeds:
        for n_rows, rule, memories in LENGTHS:
            for memory in memories if (seed - seeds.start) % EVERY[n_rows] == 0 else ():
                for process in TRAJECTORIES:
                    key = {
                        "rows": n_rows,
                        "rule": rule,
                        "process": process.name,
                        "memory": memory,
                        "seed": seed,
                    }
                    run = partial(trajectory_trial, process, n_rows, rule, memory, seed)
                    yield Trial(TRAJECTORY_STORE, TRAJECTORY_HEAD, key, run)
        for regime in REGIMES:
            for source in sources() if regime.is_usual or is_full else ():
                for tolerance in regime.tolerances:
                    key = {
                        "regime": regime.name,
                        "data": source.name,
                        "tolerance": tolerance,
                        "seed": seed,
                    }
                    run = partial(trial, source, regime.n_points, tolerance, seed, regime.limits)
                    yield Trial(STORE, HEAD, key, run)


def stored(store: Path = STORE) -> list[dict[str, str]]:
    if not store.exists():
        return []
    with store.open(newline="") as stream:
        return list(csv.DictReader(stream))


def forget(store: Path, head: tuple[str, ...], version: str | None) -> None:
    """Leave only the lines of one commit in a store; none if it is None."""
    rows = [row for row in stored(store) if set(row) == set(head) and row["commit"] == version]
    with store.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, head)
        writer.writeheader()
        writer.writerows(rows)


def measure(trials: Iterator[Trial], minutes: float, version: str) -> None:
    """Do what is not yet known, and write each line as soon as it is."""
    known = {store: stored(store) for store in (STORE, TRAJECTORY_STORE)}
    spent = sum(float(row.get("seconds") or 0.0) for rows in known.values() for row in rows)
    for one in trials:
        if one.is_among(known[one.store]):
            continue
        if spent > 60 * minutes:
            print(f"{minutes:g} minutes are over; --minutes allows more", flush=True)
            return
        begun = time.process_time()
        row = one.run()
        # With what is not of the fit: fresh rows, and the exact map that they are compared with.
        row = {**one.key, **row, "seconds": round(time.process_time() - begun, 2), "commit": version}
        spent += time.process_time() - begun
        with one.store.open("a", newline="") as stream:
            csv.DictWriter(stream, one.head).writerow(row)
        print(", ".join(str(row.get(name, "")) for name in one.head[:7]), flush=True)


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
        "- *Blind*: nobody had looked at this kind of data when the constants of the bound were settled. Of no kind had anyone looked at these seeds.",
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
    lines += ["", *often_exceeded(rows, "data")]
    lines += trajectory_lines()
    lines += ["", DISCUSSION.read_text().rstrip(), ""]
    lines.append(
        "`python benchmarks/certificates.py`; every trial of [independent](certificates.csv) and of "
        f"[consecutive](certificates_trajectories.csv) rows; on {provenance()}."
    )
    (DOCS / "certificates.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def often_exceeded(rows: list[dict[str, str]], column: str) -> list[str]:
    """Return a sentence on the kinds whose bounds were exceeded most often."""
    given = Counter(row[column] for row in rows if row["outcome"] in ("kept", "exceeded", "broken"))
    failed = Counter(row[column] for row in rows if row["outcome"] in ("exceeded", "broken"))
    if not failed:
        return ["No bound was exceeded."]
    worst = ", ".join(f"{name} ({count} of {given[name]})" for name, count in failed.most_common(4))
    excess = max(
        float(row["fresh_z"]) / float(row["upper_bound"])
        for row in rows
        if row["outcome"] in ("exceeded", "broken")
    )
    return [f"Most often exceeded: {worst}. Fresh Z was at most {excess:.2f} times the bound."]


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
        "surface, jumps between unequal wells, Lorenz' system and windows of it, an oscillator), and fresh rows of other runs. *Memory*: about",
        f"how many rows a process remembers. A tolerance of {TRAJECTORY_TOLERANCE:g} % is asked for. Z is that of 99 % of all fresh rows, against the exact map of the rows that took",
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
    return [*lines, "", *often_exceeded(rows, "process")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4, help="seeds of all kinds of data (4)")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no trial after so long (20)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help=f"({FIRST_SEED})")
    parser.add_argument("--full", action="store_true", help="more points as well")
    parser.add_argument("--only", default="", help="trials with this text (all)")
    parser.add_argument("--again", action="store_true", help="forget the stored numbers first")
    parser.add_argument("--page", action="store_true", help="only write the page, of what was measured")
    arguments = parser.parse_args()
    provenance()  # while the tree is as it was committed
    version = commit()
    if not arguments.page:
        for store, head in ((STORE, HEAD), (TRAJECTORY_STORE, TRAJECTORY_HEAD)):
            forget(store, head, None if arguments.again else version)
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.rounds)
        trials = (
            one
            for one in planned(seeds, arguments.full)
            if arguments.only in ", ".join(map(str, one.key.values()))
        )
        measure(trials, arguments.minutes, version)
    page()


if __name__ == "__main__":
    main()
