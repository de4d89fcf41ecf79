"""Which bound of the error of new points a certificate should rest on: how often each holds, and how wide it is.

    python benchmarks/error_bounds.py [--seeds N] [--draws N] [--points N] [--store FOLDER]

Fits maps of 4 to 64 landmarks to twelve kinds of data and stores the errors of up to 20,000 new points in a folder (what it
holds already is not computed again). Held-out points are then drawn from these, so that the truth is known. Writes
docs/benchmarks/error_bounds.md. It takes about five minutes of one core.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import DOCS, provenance
from point_sources import branch, cells, digits, endless, noisy_roll, shuffled, torus

from ldmaps import DiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import LdmapsWarning
from ldmaps.extension import Distilled
from ldmaps.fit.confidence_bound import (
    HeldOutErrors,
    bound_mean,
    bound_z,
    bound_z_of_all,
    bound_zeta,
)
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.solve import solve
from ldmaps.landmarks import KMedoids
from ldmaps.landmarks.base import assign
from ldmaps.metrics import RMSD, Features, Periodic
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.validation.fidelity import point_errors

LANDMARKS = (4, 8, 16, 32, 64)
N_FRESH = 20_000
#: Above so many points one data set of a kind is enough; new points are compared so many at a time.
LARGE, AT_ONCE = 5000, 1000
#: Numbers of held-out points that what a certificate promises is tried with.
SIZES = (150, 300, 1200, 6000)
#: Landmarks of the maps whose errors are compared with the reference's own.
CONTROLLED = 16
CONFIDENCE, SHARE = 0.95, 0.99
LINES = "\n"

_Array = np.ndarray


# -- errors of many new points ---------------------------------------------------------


def kinds() -> dict[str, tuple[Callable[..., tuple[_Array, _Array]], Any, int]]:
    """Return how to draw points of each kind, their metric, and how many to fit."""
    alanine, chain = alanine_dipeptide(), c24h50()
    angles = Features(alanine.n_atoms, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]]).values(alanine.frames)
    roll = endless(lambda n, rng: swiss_roll(n, random_state=rng).points)
    return {
        "noisy_roll": (endless(noisy_roll), "euclidean", 1000),
        "alanine_large": (shuffled(alanine.frames), RMSD(weights=alanine.masses), 20_000),
        "torus_large": (endless(torus), "euclidean", 20_000),
        "alanine": (shuffled(alanine.frames), RMSD(weights=alanine.masses), 4000),
        "alanine_heavy": (shuffled(alanine.frames[:, alanine.heavy_atoms]), RMSD(), 4000),
        "c24h50": (shuffled(chain.frames), RMSD(weights=chain.masses), 4000),
        "roll": (roll, "euclidean", 4000),
        "torus": (endless(torus), "euclidean", 4000),
        "digits": (shuffled(digits()), "euclidean", 1200),
        "phipsi": (shuffled(angles), Periodic(), 4000),
        "cells": (endless(cells), "euclidean", 2000),
        "branch": (endless(branch), "euclidean", 2000),
    }


def measure(store: Path, n_seeds: int) -> None:
    """Store ζ² of new points for every kind, seed and number of landmarks, and what ζ² cannot exceed."""
    for seed in range(n_seeds):
        for name, (draw, metric, count) in kinds().items():
            path = store / f"{name}_{count}_{seed}.npz"
            if path.exists() or (seed and count > LARGE):
                continue
            old, new = draw(count, N_FRESH, np.random.default_rng(seed))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LdmapsWarning)
                exact = DiffusionMap(metric=metric).fit(old)
            np.savez(path, **errors_of_maps(exact, old, new, seed))
            print(path.name, flush=True)


def errors_of_maps(exact: DiffusionMap, old: _Array, new: _Array, seed: int) -> dict[str, Any]:
    """Distil the exact map with each number of landmarks from a random half of its points; return ζ² of new points."""
    metric = exact.metric_
    points = metric.prepare(np.delete(old, exact.diagnosis_.left_out, axis=0))
    walk = Walk(metric, points, np.ones(len(points)), exact.epsilon_)
    reference = solve(walk, exact.n_components_)
    fresh = metric.prepare(new)
    truth = reference.embedder().extend(fresh).coordinates
    ranges, rng = np.ptp(reference.own_coordinates, axis=0), np.random.default_rng(seed)
    usable = np.sort(rng.permutation(len(points))[: len(points) // 2])
    own_changes = truth * changes_by_itself(walk, fresh, reference.spectrum.eigenvalues)
    found: dict[str, Any] = {"control": (1e4 * (own_changes / ranges) ** 2).sum(axis=1)}
    for n_landmarks in LANDMARKS:
        if n_landmarks < exact.n_components_ + 2:
            continue
        chosen = KMedoids(n_landmarks).select(walk.take(usable), rng)
        landmarks = assign(walk, usable[chosen.indices])
        step = Distilled().fit(reference, landmarks, usable, rng)
        embedder = LandmarkFit.of(walk, landmarks, step, None).embedder
        embedded = embedder.extend(fresh).coordinates
        own = np.abs(reference.own_coordinates / reference.spectrum.eigenvalues).max(axis=0)
        reach = np.abs(step.coefficients).max(axis=0) + own
        found[f"fresh{n_landmarks}"] = point_errors(truth, embedded, ranges=ranges, matched=True) ** 2
        found[f"largest{n_landmarks}"] = float(1e4 * ((reach / ranges) ** 2).sum())
    return found


def changes_by_itself(walk: Walk, fresh: Points, eigenvalues: _Array) -> _Array:
    """Return by which part the exact map's coordinates of new points would change if each were one of its points.

    A point that has the share p of the weights at its place is put there by its own coordinate y: λy = (1−p)λy₀ + py.
    """
    sums = []
    for start in range(0, len(fresh), AT_ONCE):
        some = fresh.take(np.arange(start, min(start + AT_ONCE, len(fresh))))
        squared = squared_matrix(walk.metric, some, walk.points).astype(np.float64)
        sums.append(np.exp(squared / (-2.0 * walk.epsilon)).sum(axis=1))
    own = 1.0 / (1.0 + np.concatenate(sums)[:, None])
    moved = (1.0 - own) * eigenvalues / np.maximum(eigenvalues - own, np.finfo(float).tiny)
    # By all of it at most: the place of a point that hardly has others beside it is its own affair.
    return np.minimum(moved - 1.0, 1.0, where=own < eigenvalues, out=np.ones_like(moved))


# -- candidates -------------------------------------------------------------------------


def bernstein(squares: _Array, largest: float) -> float:
    """Maurer and Pontil's empirical Bernstein bound (COLT 2009)."""
    n, doubt = len(squares), math.log(2 / (1 - CONFIDENCE))
    return math.sqrt(
        squares.mean() + math.sqrt(2 * squares.var(ddof=1) * doubt / n) + 7 * largest * doubt / (3 * (n - 1))
    )


def betting(squares: _Array, largest: float) -> float:
    """Waudby-Smith and Ramdas' bound by betting (J. R. Stat. Soc. B 86, 1 (2024)), with predictable bets."""
    x, needed = squares / largest, math.log(1 / (1 - CONFIDENCE))
    n, counts = len(x), np.arange(1, len(x) + 1)
    mean = np.append(0.5, ((0.5 + np.cumsum(x)) / (counts + 1))[:-1])
    variance = np.append(0.25, ((0.25 + np.cumsum((x - mean) ** 2)) / (counts + 1))[:-1])
    bets = np.sqrt(2 * needed / (variance * n))
    low, high = max(float(x.mean()), 1e-12), 1.0 - 1e-9
    for _ in range(50):
        middle = math.sqrt(low * high)
        if np.log1p(-np.minimum(bets, 0.75 / (1 - middle)) * (x - middle)).sum() >= needed:
            high = middle
        else:
            low = middle
    return math.sqrt(high * largest)


def generalised_pareto(squares: _Array, largest: float) -> float:
    """Student's bound, and what exceeds all squares by a generalised Pareto law (probability-weighted moments) cut at R."""
    n = len(squares)
    k = max(15, n // 20)
    ordered = np.sort(squares)[::-1]
    excess = np.sort(ordered[:k] - ordered[k])
    first, second = excess.mean(), (excess * (k - np.arange(1, k + 1)) / (k - 1)).mean()
    shape = min(max(2 - first / (first - 2 * second) + 1 / math.sqrt(k), -0.5), 0.95)
    grid = np.geomspace(ordered[0], largest, 200)
    beyond = np.maximum(1 + shape * (grid - ordered[k]) / (first * (1 - shape)), 1e-12) ** (-1 / shape)
    tail = (np.trapezoid(beyond, grid) + grid[0] * beyond[0]) * k / n
    return math.sqrt(bound_mean(squares, CONFIDENCE) + min(tail, largest / n))


def z_of_all(squares: _Array) -> float:
    return math.sqrt(squares.mean())


def z_of_share(squares: _Array) -> float:
    return math.sqrt(np.sort(squares)[: int(SHARE * len(squares))].mean())


def zeta_of(share: float) -> Callable[[_Array], float]:
    return lambda squares: math.sqrt(np.quantile(squares, share))


@dataclass(frozen=True)
class Candidate:
    name: str
    bound: Callable[[_Array, float], float]
    truth: Callable[[_Array], float]
    is_promised: bool = False  # whether a certificate has it


def independent(bound: Callable[..., float], *settings: float) -> Callable[[_Array, float], float]:
    return lambda squares, largest: bound(HeldOutErrors.independent(squares), *settings)


Z_OF_SHARE, ZETA_OF_SHARE = "**Z of 99 %** (`upper_bound`)", "ζ of 99 % (`zeta_bound`)"

CANDIDATES = (
    Candidate(
        "Z of all: Student, Hall, no tail",
        lambda squares, largest: math.sqrt(bound_mean(squares, CONFIDENCE)),
        z_of_all,
    ),
    Candidate(
        "Z of all: with Hill's tail up to R (`upper_bound_of_all`)",
        lambda squares, largest: bound_z_of_all(HeldOutErrors.independent(squares), CONFIDENCE, largest),
        z_of_all,
        is_promised=True,
    ),
    Candidate("Z of all: generalised Pareto tail up to R", generalised_pareto, z_of_all),
    Candidate("Z of all: empirical Bernstein, R", bernstein, z_of_all),
    Candidate(
        "Z of all: empirical Bernstein, 4 × the largest square",
        lambda squares, largest: bernstein(squares, min(largest, 4 * squares.max())),
        z_of_all,
    ),
    Candidate("Z of all: betting, R", betting, z_of_all),
    Candidate(
        "Z of all: betting, 4 × the largest square",
        lambda squares, largest: betting(squares, min(largest, 4 * squares.max())),
        z_of_all,
    ),
    Candidate(Z_OF_SHARE, independent(bound_z, SHARE, CONFIDENCE), z_of_share, is_promised=True),
    Candidate(ZETA_OF_SHARE, independent(bound_zeta, SHARE, CONFIDENCE), zeta_of(SHARE), is_promised=True),
    Candidate("ζ of 95 %", independent(bound_zeta, 0.95, CONFIDENCE), zeta_of(0.95)),
)


@dataclass(frozen=True)
class Errors:
    """ζ² of many new points of one map."""

    kind: str
    n_landmarks: int
    squares: _Array
    largest: float  # what none of them can exceed

    def draws(self, n_points: int, n_draws: int) -> list[_Array]:
        """Return sets of held-out points."""
        rng = np.random.default_rng([self.n_landmarks, n_points])
        return [rng.choice(self.squares, n_points, replace=False) for _ in range(n_draws)]


def all_errors(store: Path) -> list[Errors]:
    found = []
    for path in sorted(store.glob("*_*_*.npz")):
        stored, kind = np.load(path), path.stem.rsplit("_", 2)[0]
        for n_landmarks in LANDMARKS:
            if f"fresh{n_landmarks}" in stored:
                largest = float(stored[f"largest{n_landmarks}"])
                found.append(Errors(kind, n_landmarks, stored[f"fresh{n_landmarks}"], largest))
    return found


@dataclass(frozen=True)
class Result:
    """How one bound did with some number of held-out points."""

    name: str
    holds: _Array  # (maps,): share of the draws
    median: _Array  # (maps,): of the ratio to the truth
    wide: _Array  # (maps,): one draw in twenty has at least this ratio; infinite where there is no bound
    alanine: tuple[float, ...]  # median bounds of alanine dipeptide with 4, 16 and 64 landmarks

    @classmethod
    def of(cls, candidate: Candidate, errors: list[Errors], n_points: int, n_draws: int) -> Result:
        """Try a bound on all maps with enough new points."""
        found, alanine = [], {}
        for each in errors:
            if len(each.squares) < 2 * n_points:
                continue
            truth = candidate.truth(each.squares)
            bounds = np.array(
                [candidate.bound(drawn, each.largest) for drawn in each.draws(n_points, n_draws)]
            )
            found.append(
                (
                    np.mean(bounds >= truth),
                    np.median(bounds) / truth,
                    np.quantile(bounds, 0.95, method="higher") / truth,
                )
            )
            if each.kind == "alanine":
                alanine.setdefault(each.n_landmarks, []).extend(bounds)
        shown = tuple(float(np.median(alanine[m])) if m in alanine else math.nan for m in (4, 16, 64))
        return cls(candidate.name, *np.array(found).T, alanine=shown)

    def line(self) -> str:
        return (
            f"| {self.name} | {100 * self.holds.mean():.1f} % | {100 * self.holds.min():.0f} % | "
            f"{np.median(self.median):.2f} | {np.median(self.wide):.2f} (largest {self.wide.max():.1f}) | "
            + " | ".join(f"{bound:.2f} %" for bound in self.alanine)
            + " |"
        )


def compare(errors: list[Errors], n_points: int, n_draws: int) -> list[Result]:
    """Try all candidates."""
    results = []
    for candidate in CANDIDATES:
        results.append(Result.of(candidate, errors, n_points, n_draws))
        print(results[-1].line(), flush=True)
    return results


def by_size(errors: list[Errors], n_draws: int) -> list[str]:
    """Return a table of what a certificate promises, with other numbers of held-out points."""
    lines = [
        "| bound | held-out points | maps | holds, all | holds, worst map | bound / truth, median |",
        "|---|---|---|---|---|---|",
    ]
    for candidate in (candidate for candidate in CANDIDATES if candidate.is_promised):
        for n_points in SIZES:
            found = Result.of(candidate, errors, n_points, n_draws)
            median = float(np.median(found.median))
            lines.append(
                f"| {candidate.name} | {n_points:,} | {len(found.holds)} | {100 * found.holds.mean():.1f} % | "
                f"{100 * found.holds.min():.0f} % | {f'{median:.2f}' if math.isfinite(median) else 'no bound'} |"
            )
    return lines


def controls(store: Path) -> dict[str, float]:
    """Return the correlation of ζ² with how far the exact map's own point would move its place, for each kind."""
    found: dict[str, list[float]] = {}
    for path in sorted(store.glob("*_*_*.npz")):
        stored = np.load(path)
        if f"fresh{CONTROLLED}" in stored:
            correlation = np.corrcoef(stored["control"], stored[f"fresh{CONTROLLED}"])[0, 1]
            found.setdefault(path.stem.rsplit("_", 2)[0], []).append(float(correlation))
    return {kind: float(np.median(values)) for kind, values in found.items()}


def page(
    errors: list[Errors],
    results: list[Result],
    sizes: list[str],
    control: dict[str, float],
    n_points: int,
    n_draws: int,
) -> None:
    by_name = {result.name: result for result in results}
    free = [result for result in results if result.name.endswith(", R")]
    assumed = [result for result in results if result.name.startswith("Z of all") and result not in free]
    share, zeta = by_name[Z_OF_SHARE], by_name[ZETA_OF_SHARE]
    of_zeta = [zeta_of(SHARE)(each.squares) / z_of_share(each.squares) for each in errors]
    of_free = " and ".join(f"{np.median(result.median):.0f}" for result in free)
    least_held, widest = (
        min(result.holds.min() for result in assumed),
        max(result.wide.max() for result in assumed),
    )
    ordered = sorted(control, key=control.__getitem__)
    typical = float(np.median(list(control.values())))
    text = f"""# Which bound a certificate rests on

From the errors of up to 20,000 new points, {n_points:,} are drawn as held-out points, {n_draws} times for each of {len(share.holds)} maps
of 4 to 64 landmarks, fitted to data of {len(control)} kinds with 1,000 to 20,000 points. A bound at 95 % confidence *holds* if it is not
below the truth, the same quantity over all new points. R is what no squared error can exceed. The last columns are the median bounds
of maps of alanine dipeptide: they should fall as landmarks are added.

| bound | holds, all | holds, worst map | bound / truth, median | the same, one draw in 20 | alanine dipeptide, M = 4 | M = 16 | M = 64 |
|---|---|---|---|---|---|---|---|
{LINES.join(result.line() for result in results)}

- **Z of all points**: bounds that assume nothing (with R) are {of_free} times the truth. Those that assume a tail, or where it ends, hold
  in {100 * least_held:.0f} % or more of the draws for every map, and for one draw in twenty they are up to {widest:.1f} times the truth: the draw
  decides whether the few points between basins are seen.
- **ζ of 99 %** assumes nothing. It is {np.median(of_zeta):.1f} times Z of 99 % (truths, median over the maps), so that a tolerance for it would take
  more landmarks.
- **Z of 99 %** holds in {100 * share.holds.mean():.1f} % of the draws ({100 * share.holds.min():.0f} % for the worst map) and is {np.median(share.median):.2f} times the truth: a
  `tolerance` asks for this. The certificate also has ζ of 99 %, which holds in {100 * zeta.holds.mean():.1f} %.

## With fewer and more held-out points

{LINES.join(sizes)}

## The reference's own error as a control variate

The places where landmarks do badly have few points, so that one more point there would change the exact map too. The correlation of that
change, squared, with ζ² of {CONTROLLED} landmarks is {control[ordered[0]]:.2f} ({ordered[0]}) to {control[ordered[-1]]:.2f} ({ordered[-1]}), with a median of {typical:.2f}. As a
control variate it takes the square of that off the variance of Z², {100 * typical**2:.0f} % at the median: certificates do not use it.

`python benchmarks/error_bounds.py` on {provenance()}.
"""
    (DOCS / "error_bounds.md").write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="data sets of each kind (3)")
    parser.add_argument("--draws", type=int, default=40, help="sets of held-out points for each map (40)")
    parser.add_argument("--points", type=int, default=1200, help="held-out points of a set (1,200)")
    parser.add_argument("--store", type=Path, default=Path("error_bounds"), help="folder of errors")
    arguments = parser.parse_args()
    arguments.store.mkdir(exist_ok=True)
    measure(arguments.store, arguments.seeds)
    errors = all_errors(arguments.store)
    results = compare(errors, arguments.points, arguments.draws)
    sizes = by_size(errors, arguments.draws)
    page(errors, results, sizes, controls(arguments.store), arguments.points, arguments.draws)
