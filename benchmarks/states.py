"""Do fits keep rare states, and does any part of the data give the same map? docs/benchmarks/states.md.

Of each kind there are several data sets, drawn with other seeds. Kept: at least 95 % of the
points of every state take part. Groups: the
map finds them as groups. Ratios of ε are those of two halves and of four quarters, the largest over all seeds. Span:
how well the coordinates that should be found agree between maps of the halves, the smallest canonical correlation over
all points.

Usage: python benchmarks/states.py [--only NAME] [--rules bulk local] [--points N] [--seeds 3] [--first-seed 700]
           [--again] [--page]

A line of docs/benchmarks/states.csv (and of states_rare.csv) is written as soon as it is known; what they hold of this
commit is not computed again, and all else is forgotten. The page also shows what real_tables.py has measured.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import real_tables
from harness import DOCS, commit, provenance

from ldmaps import LandmarkDiffusionMap, datasets

HEAD = (
    "data",
    "rule",
    "seed",
    "points",
    "kept",
    "found",
    "halves",
    "quarters",
    "span",
    "left_out",
    "carried",
    "seconds",
    "commit",
)
#: Points, and points of a third state that is far smaller than 1 %.
RARE = ((1000, 15), (2000, 22), (4000, 12), (4000, 20), (20_000, 20), (20_000, 40))
RARE_HEAD = ("points", "state", "seed", "kept", "commit")
#: Halves have "the same" ε up to this factor.
SAME = 1.2
#: Share of a state's points that may be left out.
MOST_GONE = 0.05
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


def unequal_blobs(n: int, rng: np.random.Generator) -> Labelled:
    """Five blobs in four dimensions with 60, 25, 10, 4 and 1 % of the points, each of another width."""
    blob = rng.choice(5, n, p=[0.6, 0.25, 0.1, 0.04, 0.01])
    centres = np.vstack([np.zeros(4), 9.0 * np.eye(4)])
    return centres[blob] + np.array([1.0, 0.5, 0.8, 0.3, 0.6])[blob, None] * rng.normal(size=(n, 4)), blob


def densities(n: int, rng: np.random.Generator, share: float) -> Labelled:
    """A dense ball with this share of the points within a sparse one, thirty times as wide: no states."""
    scale = np.where(rng.random(n) < share, 0.1, 3.0)
    return scale[:, None] * rng.normal(size=(n, 3)), np.full(n, -1)


@cache
def frames(name: str) -> np.ndarray:
    if name == "C24H50":
        return datasets.c24h50().frames
    molecule = datasets.alanine_dipeptide()
    return molecule.frames[:, molecule.heavy_atoms]


def molecule(name: str) -> Callable[[int, np.random.Generator], Labelled]:
    def draw(n: int, rng: np.random.Generator) -> Labelled:
        rows = rng.choice(len(frames(name)), min(n, 3000), replace=False)
        return frames(name)[rows], np.full(len(rows), -1)

    return draw


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
    "five blobs, 60:25:10:4:1": unequal_blobs,
    **{
        f"dense within sparse, {name}": lambda n, rng, share=share: densities(n, rng, share)
        for name, share in (("7:3", 0.7), ("3:7", 0.3), ("1:1", 0.5))
    },
    "alanine dipeptide": molecule("alanine dipeptide"),
    "C24H50": molecule("C24H50"),
}


#: Kinds that have no states to keep.
WITHOUT_STATES = (
    *("Cauchy", "Pareto", "log-normal", "Student's t, 3 degrees"),
    *(f"dense within sparse, {shares}" for shares in ("7:3", "3:7", "1:1")),
    *("alanine dipeptide", "C24H50"),
)


def are_groups(groups: np.ndarray | None, state: np.ndarray) -> bool:
    """Say whether every state is a union of groups, and no group has points of two of them."""
    if groups is None:
        return bool((state == -1).all())
    taken = groups >= 0
    pairs = {(int(group), int(label)) for group, label in zip(groups[taken], state[taken], strict=True)}
    return len(pairs) == int(groups.max()) + 1


def are_kept(state: np.ndarray, left_out: np.ndarray) -> bool:
    """Say whether hardly a frame of any state is left out: single ones may lie far from all others."""
    gone = np.isin(np.arange(len(state)), left_out)
    return all(gone[state == label].mean() <= MOST_GONE for label in np.unique(state))


def span(maps: Sequence[LandmarkDiffusionMap], X: np.ndarray, count: int) -> float:
    """Return the smallest canonical correlation of the leading coordinates of two maps."""
    bases = []
    for model in maps:
        y = model.transform(X)[:, : min(count, model.n_components_)].astype(np.float64)
        bases.append(np.linalg.qr(y - y.mean(axis=0))[0])
    return float(np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[-1])


def measure(name: str, rule: str, n_points: int, seed: int) -> dict[str, object]:
    """Fit to all points, to halves and to quarters."""
    X, state = KINDS[name](n_points, np.random.default_rng(seed))
    n_states = len(np.unique(state))

    def fit(points: np.ndarray) -> LandmarkDiffusionMap:
        return LandmarkDiffusionMap(epsilon=rule, metric="rmsd" if X.ndim == 3 else "euclidean").fit(points)

    begun = time.perf_counter()
    model = fit(X)
    seconds = time.perf_counter() - begun
    halves, quarters = ([fit(X[part::count]) for part in range(count)] for count in (2, 4))
    left_out = model.diagnosis_.left_out
    weights = model.multiplicities_[:, None] * model.landmark_embedding_[:, :2] ** 2
    return {
        "data": name,
        "rule": rule,
        "seed": seed,
        "points": len(X),
        "kept": int(are_kept(state, left_out)),
        "found": int(are_groups(getattr(model, "groups_", None), state)),
        "halves": ratio(halves),
        "quarters": ratio(quarters),
        # The states of equal eigenvalues span the same; of more, any coordinate may come next.
        "span": span(halves, X, n_states - 1 if n_states > 1 else 1),
        "left_out": len(left_out),
        "carried": float(
            (weights.sum(axis=0) ** 2 / (weights**2 / model.multiplicities_[:, None]).sum(axis=0)).min()
        ),
        "seconds": seconds,
        "commit": commit(),
    }


def measure_rare(n_points: int, n_rare: int, seed: int) -> dict[str, object]:
    """Say whether a map keeps a third state of so few points."""
    X, state = third_state(n_points, np.random.default_rng(seed), n_rare / n_points)
    kept = are_kept(state, LandmarkDiffusionMap().fit(X).diagnosis_.left_out)
    return dict(zip(RARE_HEAD, (n_points, n_rare, seed, int(kept), commit()), strict=True))


def ratio(maps: Sequence[LandmarkDiffusionMap]) -> float:
    """Return the largest ratio of their ε."""
    epsilons = [model.epsilon_ for model in maps]
    return max(epsilons) / min(epsilons)


def summary(rows: Sequence[dict[str, str]], has_states: bool) -> list[str]:
    """Return the cells of one kind of data and one rule."""
    if not rows:
        return ["–"] * 6
    kept = sum(int(row["kept"]) for row in rows)
    halves, quarters = (max(float(row[column]) for row in rows) for column in ("halves", "quarters"))
    return [
        f"{kept} of {len(rows)}" if has_states else "–",
        f"{halves:.3g}",
        f"{quarters:.3g}",
        f"{np.median([float(row['span']) for row in rows]):.3f}",
        str(max(int(row["left_out"]) for row in rows)),
        f"{np.median([float(row['seconds']) for row in rows]):.2f} s",
    ]


def read(path: Path) -> list[dict[str, str]]:
    """Return what was measured with this commit."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row.get("commit") == commit()]


def begin(path: Path, head: Sequence[str], *, again: bool) -> list[dict[str, str]]:
    """Return what is known, and leave nothing else in the file."""
    known = [] if again else read(path)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, head)
        writer.writeheader()
        writer.writerows(known)
    return known


def add(path: Path, head: Sequence[str], row: dict[str, object]) -> None:
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, head).writerow(
            {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
        )


def page(rows: list[dict[str, str]], rare: list[dict[str, str]], made: str) -> str:
    """Return the page: a line for each kind of data and rule."""
    lines = [
        "| data | rule | states kept | ε of halves | ε of quarters | span of halves | left out at most | fit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    apart = []
    for name in KINDS:
        has_states, title = name not in WITHOUT_STATES, name
        for rule in ("bulk", "local"):
            own = [row for row in rows if row["data"] == name and row["rule"] == rule]
            if own:
                lines.append(f"| {' | '.join([title, rule, *summary(own, has_states)])} |")
                title = ""
                worst = max(float(row["halves"]) for row in own)
                if worst > SAME:
                    apart.append(f"{name} ({rule}) {worst:.3g}")
    with_states = [row for row in rows if row["data"] not in WITHOUT_STATES]
    kept = sum(int(row["kept"]) for row in with_states)
    few = [
        f"{kept_of} of {len(own)} with {int(n_rare)} points of {int(n_points):,}"
        for n_points, n_rare in RARE
        if (own := [row for row in rare if (row["points"], row["state"]) == (str(n_points), str(n_rare))])
        for kept_of in [sum(int(row["kept"]) for row in own)]
    ]
    texts = {
        "{table}": "\n".join(lines),
        "{kept}": f"{kept} of {len(with_states)}",
        "{factor}": f"{SAME:g}",
        "{apart}": f"but for {'; '.join(apart)}" if apart else "on all kinds",
        "{rare}": ", ".join(few),
        "{real}": real_tables.section(),
    }
    prose = (Path(__file__).parent / "prose" / "states.md").read_text(encoding="utf-8")
    for place, text in texts.items():
        prose = prose.replace(place, text)
    return prose + f"\n`python benchmarks/states.py`, {made}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kinds whose name has this text (all)")
    parser.add_argument("--rules", nargs="+", default=["bulk", "local"])
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=700)
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument("--page", action="store_true", help="only write the page, of what was measured")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    made, path, rare_path = provenance(), DOCS / "states.csv", DOCS / "states_rare.csv"
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if not arguments.page:
        known = begin(path, HEAD, again=arguments.again)
        done = {(row["data"], row["rule"], int(row["seed"])) for row in known}
        rare = begin(rare_path, RARE_HEAD, again=arguments.again)
        rare_done = {tuple(int(row[name]) for name in RARE_HEAD[:3]) for row in rare}
        for seed in seeds:
            for n_points, n_rare in RARE:
                if (n_points, n_rare, seed) not in rare_done:
                    add(rare_path, RARE_HEAD, measure_rare(n_points, n_rare, seed))
            for rule in arguments.rules:
                for name in KINDS:
                    if arguments.only in name and (name, rule, seed) not in done:
                        add(path, HEAD, measure(name, rule, arguments.points, seed))
    (DOCS / "states.md").write_text(page(read(path), read(rare_path), f"on {made}"), encoding="utf-8")


if __name__ == "__main__":
    main()
