"""Alarms on data like the training data: as many as promised? Ten kinds of data, and three on which no promise can hold.

python benchmarks/alarms.py          writes docs/benchmarks/alarms.md and .csv: some minutes
python benchmarks/alarms.py ar       runs the kinds whose names begin so, and prints only
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from harness import DOCS, provenance
from scipy.signal import lfilter
from scipy.stats import t as student

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.extension.calibration import Calibration
from ldmaps.regions import Alarm, RegionTracker

RATE, LANDMARKS = 0.02, 100
#: Kinds that the CSV alone has: they are like others on the page.
HIDDEN = ("wide", "roll", "ar 0.5")
INTRODUCTION = """\
A map of {landmarks} landmarks watches data from the source that it was fitted to, at `--alarm-rate {rate}` unless
another is named: every alarm is a false one. Means over {repeats} repetitions with new data; the promise is kept where the 95 % interval
(of measured over promised, times the rate asked for) reaches that rate or lies below it. **Worth**: independent points that the held-out ones
count as. **In events**: share of records between beginning and end of an alarm, without and with `--adapt`. [More kinds and
columns](alarms.csv)."""
LIMITS = """\
Where the promise ends:

- **Drift.** `--adapt` moves the threshold, and halves the share of records in events: this drift is faster than it follows. What creeps in
  slowly enough raises no alarm at all.
- **Few independent points.** A rate that they cannot promise is refused. For dependent rows the promise is approximate: correlation
  times are estimated from the same rows.
- **A training set that has not seen everything**, such as three days of a weekly rhythm."""


@dataclass(frozen=True)
class Kind:
    """A kind of data: what it is, and how to make as many rows as one needs from a seed."""

    words: str
    make: Callable[[int], tuple[np.ndarray, np.ndarray]]  # training and new rows
    metric: str = "standardized"
    #: Wide enough to join all points: which of two is farther away does not depend on it, and finding one takes time.
    epsilon: float = 20.0
    holds: bool = True
    repeats: int = 20
    rate: float = RATE


def iid(
    draw: Callable[[np.random.Generator, int], np.ndarray], n: int = 2000, n_new: int = 10_000
) -> Callable:
    def make(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        return draw(rng, n), draw(rng, n_new)

    return make


def process(phi: float, n: int = 4000, drift: float = 0.0, n_new: int = 20_000) -> Callable:
    def make(seed: int) -> tuple[np.ndarray, np.ndarray]:
        noise = np.random.default_rng(seed).normal(size=(n + 5000 + n_new, 3))
        noise[0] /= np.sqrt(1 - phi**2)
        x = lfilter([1.0], [1.0, -phi], noise, axis=0)
        new = x[n + 5000 :]
        return x[:n], new + drift * np.linspace(0, 1, len(new))[:, None] / np.sqrt(1 - phi**2)

    return make


def sensors(days: int, weekly: bool = False) -> Callable:
    """Load, flow, pressure and temperature, a row per five minutes."""

    def make(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        n, new = 288 * days, 288 * 14
        hours = np.arange(n + new) / 12
        slow = np.zeros(n + new)
        noise = rng.normal(size=n + new)
        for i in range(1, n + new):
            slow[i] = 0.9 * slow[i - 1] + noise[i]
        at_work = np.where((hours // 24) % 7 < 5, 1.0, 0.45) if weekly else 1.0
        load = at_work * (60 + 18 * np.sin(2 * np.pi * hours / 24 - 1.2)) + 2 * slow
        rows = np.column_stack(
            [
                load,
                12 + 0.25 * load,
                101_300 + 45 * load,
                18 + 6 * np.sin(2 * np.pi * hours / 24 - 1.9) + 0.09 * load,
            ]
        )
        rows += rng.normal(size=rows.shape) * [1.0, 0.6, 120.0, 0.3]
        return rows[:n], rows[n:]

    return make


def frames(load: Callable) -> Callable:
    """A stretch of a simulation, and others; which one the seed decides."""

    def make(seed: int) -> tuple[np.ndarray, np.ndarray]:
        every = load()
        parts = np.array_split(np.asarray(every), 10)
        first = seed % 10
        # Two neighbouring tenths train; the rest, half a tenth away from them, is new.
        train = [first, (first + 1) % 10]
        new = [
            parts[i]
            for i in range(10)
            if i not in train and (i - 1) % 10 not in train and (i + 1) % 10 not in train
        ]
        return np.concatenate([parts[i] for i in train]), np.concatenate(new)

    return make


def mixture(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 4)) * np.where(rng.random(n) < 0.9, 0.5, 1.5)[:, None] + 6 * (
        rng.random((n, 1)) < 0.3
    )


KINDS = {
    "normal": Kind("independent, normal, 3 columns", iid(lambda rng, n: rng.normal(size=(n, 3)))),
    "heavy": Kind(
        "independent, Student's t of 3 degrees of freedom",
        iid(lambda rng, n: rng.standard_t(3, size=(n, 3))),
        epsilon=400.0,
    ),
    "mixture": Kind("independent, two clusters of two densities", iid(mixture)),
    "wide": Kind("independent, 30 columns", iid(lambda rng, n: rng.normal(size=(n, 30)))),
    "roll": Kind(
        "a rolled-up sheet",
        lambda seed: np.split(swiss_roll(12_000, random_state=seed).points, [2000]),
        "euclidean",
        400.0,
    ),
    "few": Kind("independent, only 600 rows", iid(lambda rng, n: rng.normal(size=(n, 3)), 600)),
    "ar 0.5": Kind("AR(1), correlation time 1.5 rows", process(0.5)),
    "ar 0.9": Kind("AR(1), correlation time 9.5 rows", process(0.9)),
    "ar 0.98": Kind("AR(1), correlation time 50 rows", process(0.98, 8000)),
    "sensors": Kind("four sensors, daily rhythm, two weeks", sensors(14)),
    "alanine": Kind(
        "alanine dipeptide, RMSD of 22 atoms",
        frames(lambda: alanine_dipeptide().frames),
        "rmsd",
        0.05,
        repeats=10,
    ),
    "c24h50": Kind(
        "C24H50, RMSD of 24 carbon atoms", frames(lambda: c24h50().frames), "rmsd", 0.05, repeats=10
    ),
    "rare": Kind(
        "independent, normal, 3 columns, 100,000 rows",
        iid(lambda rng, n: rng.normal(size=(n, 3)), 100_000, 500_000),
        rate=1e-4,
    ),
    "rare, heavy": Kind(
        "independent, Student's t of 3 degrees of freedom, 100,000 rows",
        iid(lambda rng, n: rng.standard_t(3, size=(n, 3)), 100_000, 500_000),
        epsilon=4e4,
        rate=1e-4,
    ),
    "rare, ar": Kind(
        "AR(1), correlation time 1.5 rows, 100,000 rows", process(0.5, 100_000, n_new=500_000), rate=1e-3
    ),
    "drift": Kind("AR(1) 0.9 that drifts by two standard deviations", process(0.9, drift=2.0), holds=False),
    "weekly": Kind(
        "four sensors, weekly rhythm, three days of training", sensors(3, weekly=True), holds=False
    ),
}


def measured(kind: Kind, seed: int) -> dict[str, float]:
    train, new = kind.make(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LandmarkDiffusionMap(2, kind.epsilon, kind.metric, n_landmarks=LANDMARKS).fit(train)
        seen = LandmarkDiffusionMap(2, kind.epsilon, kind.metric, n_landmarks=LANDMARKS, calibration=0).fit(
            train
        )
    known = model.embedder_.calibration
    if known is None:
        return {}  # too few independent points: there is no promise to measure
    rate = max(kind.rate, known.least_rate)
    coverage = model.coverage(new)
    others = np.setdiff1d(np.arange(len(train)), seen.landmark_indices_)
    careless = Calibration.of(seen.coverage(train[others]).distance, len(others))
    found = {
        "rate": rate,
        "share": float((coverage.p_value <= rate).mean()),
        "careless": float((careless.p_values(seen.coverage(new).distance) <= rate).mean()),
        "points": known.n_points,
        "worth": known.n_independent,
    }
    for name, adapt in (("events", False), ("adapting", True)):
        tracker = RegionTracker({"alarm": Alarm.of(model, rate, adapt=adapt)})
        labels, events = tracker.update(np.zeros((len(new), 1)), coverage, np.arange(len(new)), None)
        found[name] = sum(event.kind == "enter" for event in events) / len(new)
        found[f"in {name}"] = float((labels == 0).mean())
    return found


def page(rows: list[dict]) -> str:
    lines = [
        "# Alarms as rare as promised",
        "",
        INTRODUCTION.format(rate=RATE, landmarks=LANDMARKS, repeats="20 (molecules: 10)"),
        "",
        "| data | worth | promised | measured | 95 % interval | in events | with `--adapt` |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["kind"] in HIDDEN:
            continue
        kind, measured_rate = KINDS[row["kind"]], f"{row['share']:.2g}"
        words = kind.words
        if row["repeats"] < kind.repeats:
            words += f" ({row['repeats']} of {kind.repeats} maps had enough to promise)"
        lines.append(
            f"| {words} | {row['worth']:,.0f} | {row['rate']:.2g} | {measured_rate if row['kept'] else f'**{measured_rate}**'} | "
            f"{row['low']:.2g}–{row['high']:.2g} | {row['in events']:.2g} | {row['in adapting']:.2g} |"
        )
    kept = sum(row["kept"] for row in rows if KINDS[row["kind"]].holds)
    total = sum(KINDS[row["kind"]].holds for row in rows)
    lines += [
        "",
        f"The promise is kept on {kept} of {total} kinds of data that stay as they are; bold: not kept.",
        "",
        LIMITS,
        "",
        f"`python benchmarks/alarms.py` on {provenance()}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    wanted = tuple(sys.argv[1:])
    rows = []
    for name, kind in KINDS.items():
        if wanted and not name.startswith(wanted):
            continue
        runs = [run for seed in range(kind.repeats) if (run := measured(kind, seed))]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        excess = np.array([run["share"] / run["rate"] for run in runs])
        half = student.ppf(0.975, len(runs) - 1) * excess.std(ddof=1) / np.sqrt(len(runs))
        low, high = (excess.mean() - half) * kind.rate, (excess.mean() + half) * kind.rate
        row = {
            "kind": name,
            **mean,
            "low": max(low, 0.0),
            "high": high,
            "kept": bool(low <= kind.rate),
            "repeats": len(runs),
        }
        rows.append(row)
        print(
            {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()},
            flush=True,
        )
    if wanted:
        return
    (DOCS / "alarms.md").write_text(page(rows), encoding="utf-8")
    with open(DOCS / "alarms.csv", "w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, rows[0])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
