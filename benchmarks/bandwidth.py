"""Is ε a property of the system or of one frame? Rules for the bandwidth side by side: docs/benchmarks/bandwidth.md.

Every kind of data is cut into two random halves and four quarters that share no point. A rule is good when all parts
of one size give the same ε, when ε changes little as N is halved, and when more than a few points carry ψ₂.

Usage: python benchmarks/bandwidth.py [--only NAME] [--full] [--again]

A line of docs/benchmarks/bandwidth.csv is written as soon as it is known; what it holds of this commit is not computed
again. Only the default and the paper's rule are on the page; --full measures five others as well, whose older lines stay
in the CSV otherwise.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import DOCS, commit, provenance
from sklearn.datasets import load_digits

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion import bandwidth
from ldmaps.errors import LdmapsError
from ldmaps.metrics import RMSD

#: Rules that need a spanning tree see no more points than this.
MOST_FOR_TREES = 20_000


@dataclass(frozen=True)
class Rule:
    """A rule for ε: settings of an estimator, and the share of points that "bulk" reaches."""

    name: str
    settings: dict[str, Any]
    share: float = bandwidth.BULK_SHARE

    @contextmanager
    def applied(self) -> Iterator[dict[str, Any]]:
        before = bandwidth.BULK_SHARE
        bandwidth.BULK_SHARE = self.share
        try:
            yield self.settings
        finally:
            bandwidth.BULK_SHARE = before


RULES = (
    Rule("connected", {"epsilon": "connected"}),
    Rule("connected, 0.1 % left out", {"epsilon": "connected", "outliers": 0.001}),
    Rule("connected, 1 % left out", {"epsilon": "connected", "outliers": 0.01}),
    *(Rule(f"bulk, {100 * share:g} %", {"epsilon": "bulk"}, share) for share in (0.0025, 0.005, 0.01, 0.02)),
)


def flights(n: int, rng: np.random.Generator) -> np.ndarray:
    """Delays with a long tail, air time and distance on few routes, the hour; standardised."""
    distance = np.exp(rng.normal(6.6, 0.7, 60))[rng.integers(0, 60, n)]
    departure = np.where(rng.random(n) < 0.6, rng.normal(-4, 4, n), np.exp(rng.normal(3.2, 1.2, n)))
    columns = (
        departure,
        departure + rng.normal(-5, 15, n),
        distance / 7.5 + rng.normal(20, 9, n),
        distance,
        rng.integers(5, 23, n),
    )
    table = np.column_stack(columns)
    return (table - table.mean(axis=0)) / table.std(axis=0)


def sensors(n: int, rng: np.random.Generator, spikes: float) -> np.ndarray:
    """Eight sensors of a daily cycle and a slow drift; a share of the rows has one reading far off."""
    time = np.arange(n)
    slow = np.cumsum(rng.normal(size=n)) / np.sqrt(n)
    cycle = np.column_stack([np.sin(time / 230.0), np.cos(time / 230.0), slow])
    table = cycle @ rng.normal(size=(3, 8)) + 0.2 * rng.normal(size=(n, 8))
    rows = np.flatnonzero(rng.random(n) < spikes)
    table[rows, rng.integers(0, 8, len(rows))] += rng.choice([-1, 1], len(rows)) * rng.uniform(
        10, 60, len(rows)
    )
    return table


def torus(n: int, rng: np.random.Generator) -> np.ndarray:
    around, across = 2 * np.pi * rng.random((2, n))
    return np.column_stack(
        [(3 + np.cos(across)) * np.cos(around), (3 + np.cos(across)) * np.sin(around), np.sin(across)]
    )


def lorenz_windows(n: int, width: int = 140, step: float = 0.02) -> np.ndarray:
    """Stretches of the first coordinate of the Lorenz system, by the classical Runge-Kutta method."""

    def slope(at: np.ndarray) -> np.ndarray:
        x, y, z = at
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    state, series = np.ones(3), []
    for _ in range(n + width + 500):
        first = slope(state)
        second = slope(state + step / 2 * first)
        third = slope(state + step / 2 * second)
        state = state + step / 6 * (first + 2 * second + 2 * third + slope(state + step * third))
        series.append(state[0])
    return np.lib.stride_tricks.sliding_window_view(np.array(series[500:]), width)[:n].copy()


def basins(n: int, rng: np.random.Generator, n_features: int = 2) -> np.ndarray:
    side = rng.random(n) < 0.3
    return rng.normal(size=(n, n_features)) + 5.0 * side[:, None] * (np.arange(n_features) == 0)


def steps(n: int, rng: np.random.Generator) -> np.ndarray:
    place = np.arange(n)
    return np.column_stack([place + 100 * (place // 3000), rng.normal(size=(n, 5))])


def kinds() -> dict[str, Callable[[], tuple[np.ndarray, Any]]]:
    """Return what makes each kind: points and metric."""
    rng = np.random.default_rng(28)
    molecule, chain = alanine_dipeptide(), c24h50()
    heavy = np.asarray(molecule.masses) > 2
    plain = "euclidean"
    return {
        "alanine dipeptide, masses": lambda: (molecule.frames, RMSD(weights=molecule.masses)),
        "alanine dipeptide, heavy atoms": lambda: (molecule.frames[:, heavy], "rmsd"),
        "alanine dipeptide, all atoms": lambda: (molecule.frames, "rmsd"),
        "C24H50": lambda: (chain.frames, "rmsd"),
        "C24H50, every third atom": lambda: (np.ascontiguousarray(chain.frames[:, ::3]), "rmsd"),
        "Swiss roll": lambda: (swiss_roll(16_000).points, plain),
        "torus": lambda: (torus(20_000, rng), plain),
        "two basins": lambda: (basins(10_000, rng), plain),
        "200 points of a Gaussian": lambda: (rng.normal(size=(200, 2)), plain),
        "digits": lambda: (load_digits().data, plain),
        "flights": lambda: (flights(100_000, rng), plain),
        "Student's t, 2 degrees": lambda: (rng.standard_t(2, size=(50_000, 3)), plain),
        "log-normal incomes": lambda: (np.exp(rng.normal(size=(20_000, 4))), plain),
        "sensors": lambda: (sensors(50_000, rng, 0.0), plain),
        "sensors with spikes": lambda: (sensors(50_000, rng, 0.001), plain),
        "Lorenz, windows": lambda: (lorenz_windows(5000), plain),
        "steps, 160,000": lambda: (steps(160_000, rng), plain),
        "Gaussian in 40-D, 160,000": lambda: (rng.normal(size=(160_000, 40)), plain),
        "two basins in 5-D, 2 million": lambda: (basins(2_000_000, rng, 5), plain),
    }


def epsilon_of(rule: Rule, points: np.ndarray, metric: Any) -> tuple[float, float, float]:
    """Return ε as a fit finds it, λ₂, and how many points carry ψ₂."""
    with rule.applied() as settings:
        model = LandmarkDiffusionMap(2, metric=metric, n_landmarks=min(400, len(points)), **settings)
        try:
            model.fit(points)
        except LdmapsError:
            return np.nan, np.nan, np.nan
    return model.epsilon_, model.eigenvalues_[0], model.diagnosis_.participation[0]


def judged(name: str, points: np.ndarray, metric: Any, rules: Sequence[Rule]) -> Iterator[list[str]]:
    order = np.random.default_rng(0).permutation(len(points))
    for rule in rules:
        shown = order if rule.settings["epsilon"] == "bulk" else order[:MOST_FOR_TREES]
        halves, quarters = (
            [epsilon_of(rule, points[np.sort(part)], metric) for part in np.array_split(shown, count)]
            for count in (2, 4)
        )
        ratios = [max(found)[0] / min(found)[0] for found in (halves, quarters)]
        smooth = np.median([found[0] for found in quarters]) / np.median([found[0] for found in halves])
        epsilon, value, carried = halves[0]
        yield [
            name,
            rule.name,
            str(len(shown)),
            f"{epsilon:.4g}",
            f"{ratios[0]:.2f}",
            f"{ratios[1]:.2f}",
            f"{smooth:.2f}",
            f"{value:.4f}",
            f"{min(found[1] for found in quarters):.4f}",
            f"{carried:.0f}",
            commit(),
        ]


HEADING = (
    "data",
    "rule",
    "points",
    "epsilon",
    "ratio_halves",
    "ratio_quarters",
    "quarters_over_halves",
    "lambda2",
    "lambda2_least",
    "carriers",
    "commit",
)


DEFAULT, PAPERS = "bulk, 0.5 %", "connected"
#: Parts of one size give "the same" ε up to this factor.
SAME = 1.2
#: Kinds that the CSV alone has: they are like others on the page.
HIDDEN = ("alanine dipeptide, all atoms", "C24H50, every third atom", "sensors")
#: Of the CSV's columns: what a column of the page shows of the paper's rule and of the default.
SHOWN = {
    "ratio_quarters": "ε of quarters, largest/smallest",
    "quarters_over_halves": "ε of a quarter / of a half",
    "carriers": "points that carry ψ₂",
}


def page(rows: list[list[str]]) -> str:
    """Return the page: one line per kind, the default beside the paper's rule; other rules are in the CSV."""
    cell = {(row[0], row[1]): dict(zip(HEADING, row, strict=True)) for row in rows}
    names = [name for name in dict.fromkeys(row[0] for row in rows) if (name, DEFAULT) in cell]
    own = {name: cell[name, DEFAULT] for name in names}
    differ = {
        name: max(float(row["ratio_halves"]), float(row["ratio_quarters"])) for name, row in own.items()
    }
    apart = [f"{name} {ratio:.2f}" for name, ratio in differ.items() if ratio > SAME]
    papers = {name: float(cell[name, PAPERS]["ratio_quarters"]) for name in names if (name, PAPERS) in cell}
    worst = max(papers, key=lambda name: papers[name], default="")
    prose = (DOCS.parent.parent / "benchmarks" / "prose" / "bandwidth.md").read_text(encoding="utf-8")
    heads = [f"{text}: {rule}" for text in SHOWN.values() for rule in (PAPERS, "bulk")]
    lines = [
        prose.rstrip().format(
            same=len(names) - len(apart),
            kinds=len(names),
            factor=SAME,
            apart="; ".join(apart) or "none",
            worst=f"{papers.get(worst, float('nan')):.2g} times ({worst})",
        ),
        "",
        "| data | points | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for name in names:
        if name in HIDDEN:
            continue
        values = [
            cell[name, rule][column] if (name, rule) in cell else "–"
            for column in SHOWN
            for rule in (PAPERS, DEFAULT)
        ]
        lines.append(f"| {name} | {int(own[name]['points']):,} | " + " | ".join(values) + " |")
    return "\n".join([*lines, "", f"`python benchmarks/bandwidth.py` on {provenance()}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kinds whose name has this text (all)")
    parser.add_argument("--full", action="store_true", help="other rules as well")
    parser.add_argument("--again", action="store_true", help="measure also what is known of this commit")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    provenance()  # while the tree is as it was committed
    path, version = DOCS / "bandwidth.csv", commit()
    rows: dict[tuple[str, str], list[str]] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as stream:
            rows = {(row[0], row[1]): row for row in list(csv.reader(stream))[1:] if len(row) == len(HEADING)}
    wanted = [rule for rule in RULES if arguments.full or rule.name in (DEFAULT, PAPERS)]
    names, rules = list(kinds()), [rule.name for rule in RULES]
    for name, make in kinds().items():
        stale = [
            rule
            for rule in wanted
            if arguments.again or (name, rule.name) not in rows or rows[name, rule.name][-1] != version
        ]
        if arguments.only not in name:
            continue
        points, metric = make()  # also where all is known: the next kind draws on
        for row in judged(name, points, metric, stale):
            rows[row[0], row[1]] = row
            print(", ".join(row), flush=True)
            known = sorted(rows.values(), key=lambda row: (names.index(row[0]), rules.index(row[1])))
            with path.open("w", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerows([HEADING, *known])
    text = page(sorted(rows.values(), key=lambda row: (names.index(row[0]), rules.index(row[1]))))
    (DOCS / "bandwidth.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
