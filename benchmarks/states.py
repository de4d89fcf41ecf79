"""Do fits keep rare states, and does any half of the data give the same ε? Prints a table, one line per kind of data.

Of each kind there are several data sets, drawn with other seeds. A line has how many of them keep every point of the
states, how many find them as groups, the ratio of ε of two halves (the largest over all seeds), most points that were
left out, and the median time of a fit.

Usage: python benchmarks/states.py [--only NAME] [--rule bulk|local] [--points N] [--seeds K]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

from ldmaps import LandmarkDiffusionMap

#: Points, and the state of each: 0 for the rest, -1 where there is none to find.
Labelled = tuple[np.ndarray, np.ndarray]


def third_state(
    n: int, rng: np.random.Generator, share: float, width: float = 0.3, away: float = 6.0
) -> Labelled:
    """Two wells that transitions join, and a compact third state."""
    state = (np.arange(n) < round(share * n)).astype(int)
    X = 0.5 * rng.normal(size=(n, 2))
    X[:, 0] += np.where(rng.random(n) < 0.373, 1.5, -1.5)
    X[state == 1] = width * rng.normal(size=(int(state.sum()), 2)) + [0.0, away]
    order = rng.permutation(n)
    return X[order], state[order]


def curves(n: int, rng: np.random.Generator) -> Labelled:
    """Three curves with 85, 12 and 3 % of the points."""
    curve, place = rng.choice(3, n, p=[0.85, 0.12, 0.03]), rng.random(n)
    return np.column_stack([3 * place, np.sin(4 * place) + 5 * curve]) + 0.03 * rng.normal(size=(n, 2)), curve


def blobs(n: int, rng: np.random.Generator) -> Labelled:
    """Four blobs of equal weight."""
    blob = rng.integers(0, 4, n)
    return 10.0 * np.column_stack([blob % 2, blob // 2]) + rng.normal(size=(n, 2)), blob


def tails(draw: Callable[[], np.ndarray]) -> Labelled:
    X = draw()
    return X, np.full(len(X), -1)


KINDS: dict[str, Callable[[int, np.random.Generator], Labelled]] = {
    "third state, 0.7 %": lambda n, rng: third_state(n, rng, 0.007),
    "third state, 1 %": lambda n, rng: third_state(n, rng, 0.01),
    "third state, 1 %, sparse": lambda n, rng: third_state(n, rng, 0.01, 0.8, 8.0),
    "third state, 1 %, far": lambda n, rng: third_state(n, rng, 0.01, 0.3, 60.0),
    "third state, 1.25 %": lambda n, rng: third_state(n, rng, 0.0125),
    "third state, 3 %": lambda n, rng: third_state(n, rng, 0.03),
    "three curves, 85:12:3": curves,
    "four blobs": blobs,
    "Cauchy": lambda n, rng: tails(lambda: rng.standard_cauchy((n, 3))),
    "Pareto": lambda n, rng: tails(lambda: rng.pareto(1.5, (n, 3))),
    "log-normal": lambda n, rng: tails(lambda: np.exp(rng.normal(size=(n, 4)))),
    "Student's t, 3 degrees": lambda n, rng: tails(lambda: rng.standard_t(3, (n, 3))),
}


def are_groups(groups: np.ndarray | None, state: np.ndarray) -> bool:
    """Say whether every state is a union of groups, and no group has points of two of them."""
    if groups is None:
        return bool((state == -1).all())
    taken = groups >= 0
    pairs = {(int(group), int(label)) for group, label in zip(groups[taken], state[taken], strict=True)}
    return len(pairs) == int(groups.max()) + 1


def line(name: str, rule: str, n_points: int, n_seeds: int) -> str:
    kept = found = most_left_out = 0
    worst, times = 1.0, []
    for seed in range(n_seeds):
        X, state = KINDS[name](n_points, np.random.default_rng(seed))
        begun = time.perf_counter()
        model = LandmarkDiffusionMap(epsilon=rule).fit(X)
        times.append(time.perf_counter() - begun)
        left_out = model.diagnosis_.left_out
        kept += not (state[left_out] > 0).any()
        found += are_groups(getattr(model, "groups_", None), state)
        most_left_out = max(most_left_out, len(left_out))
        halves = [LandmarkDiffusionMap(epsilon=rule).fit(X[part::2]).epsilon_ for part in range(2)]
        worst = max(worst, max(halves) / min(halves))
    return (
        f"| {name} | {kept} of {n_seeds} | {found} of {n_seeds} | {worst:.2f} | {most_left_out} | "
        f"{np.median(times):.2f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rule", default="bulk")
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=16)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | states kept | found as groups | ε of halves, largest ratio | left out at most | fit |")
    print("|---" * 6 + "|")
    for name in KINDS:
        if arguments.only in name:
            print(line(name, arguments.rule, arguments.points, arguments.seeds), flush=True)


if __name__ == "__main__":
    main()
