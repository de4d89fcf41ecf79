"""Is an error estimate near the truth, or does it warn? A search over many kinds of data for where it does neither.

    python benchmarks/estimate_search.py [--only all|sample] [--seeds N] [--minutes T] [--again]

*all*: every training point at hand, few landmarks, kinds of data of point_sources.py and the sets of accuracy.py
that the method was not developed on. *sample*: more points than a fit keeps. Writes docs/benchmarks/estimates.csv, a
line as soon as it is known (what it holds already is not computed again, unless --again), and its part of
docs/error_estimates.md. Minutes of one core for each seed.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from accuracy import UNSEEN
from harness import DOCS, commit
from perturbation import fill
from point_sources import sources

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning, DisconnectedError
from ldmaps.validation.fidelity import nrmse

STORE = DOCS / "estimates.csv"
PAGE = DOCS.parent / "error_estimates.md"
KEYS = ("part", "data", "n", "m", "extension", "seed")
HEAD = (*KEYS, "true_z", "estimated_z", "sampling", "n_reference", "warned", "commit")
#: Estimates beyond these factors of the truth must come with a warning.
LOW, HIGH = 0.5, 2.0
N_POINTS, N_NEW = 1000, 500
FEW = (10, 25, 50)
#: Swiss roll beyond what a fit keeps: landmarks of plain and distilled maps.
N_MANY = 40_000
MANY = (("nystrom", 1000), ("nystrom", 4000), ("distilled", 100), ("distilled", 400))
#: Which warning it was: a word of its text.
WARNINGS = {
    "lost": "less than half of",
    "unsettled": "not converged",
    "sample": "reference points are too few",
}

Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]


def kinds() -> Iterator[tuple[str, Draw, object, float | str, int]]:
    """Yield name, points to learn from and new ones for a seed, metric, ε and k."""
    for source in sources():
        yield (
            source.name,
            lambda seed, source=source: source.draw(N_POINTS, N_NEW, np.random.default_rng(seed)),
            source.metric,
            source.epsilon,
            source.n_components,
        )
    for data in UNSEEN:

        def draw(seed: int, data=data) -> tuple[np.ndarray, np.ndarray]:
            order = np.random.default_rng(seed).permutation(len(data.points))
            return data.points[order[: 2 * N_POINTS]], data.points[order[2 * N_POINTS :][:N_NEW]]

        # The torus is also one of the sources, with an ε of its own.
        yield f"{data.name}, connected ε", draw, data.metric, "connected", data.n_components


def trial(
    model: LandmarkDiffusionMap, exact: DiffusionMap, train: np.ndarray, new: np.ndarray
) -> dict | None:
    """Compare an estimate with the truth; None where so few landmarks make no map."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(train)
        except DisconnectedError:
            return None
        truth, found = exact.transform(new), model.transform(new)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate = model.error_estimate(new)
    texts = " ".join(str(w.message) for w in caught if issubclass(w.category, AccuracyWarning))
    noise = 100 * np.sqrt(np.mean((estimate.sampling[:, None] / estimate.ranges) ** 2))
    return {
        "true_z": f"{nrmse(truth, found, ranges=np.ptp(exact.embedding_, axis=0)):.4g}",
        "estimated_z": f"{estimate.nrmse:.4g}",
        "sampling": f"{noise:.3g}",
        "n_reference": estimate.n_reference,
        "warned": " ".join(name for name, words in WARNINGS.items() if words in texts),
    }


def few_landmarks(n_seeds: int, done: Callable[..., bool]) -> Iterator[tuple[dict, dict | None]]:
    for seed in range(n_seeds):
        for name, draw, metric, epsilon, k in kinds():
            keys = [
                dict(zip(KEYS, ("all", name, 0, m, extension, seed), strict=True))
                for m in FEW
                for extension in ("nystrom", "distilled")
            ]
            if all(done(**{**key, "n": None}) for key in keys):
                continue
            train, new = draw(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exact = DiffusionMap(k, epsilon, metric).fit(train)
            for key in keys:
                if not done(**{**key, "n": None}):
                    settings = {"n_landmarks": key["m"], "extension": key["extension"], "random_state": seed}
                    model = LandmarkDiffusionMap(k, exact.epsilon_, metric, **settings)
                    yield {**key, "n": len(train)}, trial(model, exact, train, new)


def many_points(n_points: int, done: Callable[..., bool]) -> Iterator[tuple[dict, dict | None]]:
    key = {"part": "sample", "data": "Swiss roll", "n": n_points, "seed": 7}
    wanted = [(extension, m) for extension, m in MANY if not done(**key, m=m, extension=extension)]
    if not wanted:
        return
    both = swiss_roll(n_points + 2000, random_state=7).points
    train, new = both[:n_points], both[n_points:]
    exact = DiffusionMap(2, "connected", solver="sparse").fit(train)
    for extension, m in wanted:
        model = LandmarkDiffusionMap(2, exact.epsilon_, n_landmarks=m, extension=extension)
        yield {**key, "m": m, "extension": extension}, trial(model, exact, train, new)


def stored() -> list[dict[str, str]]:
    if not STORE.exists():
        return []
    with STORE.open(newline="") as stream:
        return list(csv.DictReader(stream))


def measure(trials: list[Iterator[tuple[dict, dict | None]]], minutes: float) -> None:
    version, end = commit(), time.monotonic() + 60 * minutes
    is_new = not STORE.exists()
    with STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, HEAD)
        if is_new:
            writer.writeheader()
            stream.flush()
        for part in trials:
            for key, row in part:
                row = row or {"warned": "no map"}
                writer.writerow({**key, **row, "commit": version})
                stream.flush()
                print(time.strftime("%H:%M:%S"), *key.values(), *row.values(), flush=True)
                if time.monotonic() > end:
                    return


# -- the page -----------------------------------------------------------------------


def ratio(row: dict[str, str]) -> float:
    return float(row["estimated_z"]) / float(row["true_z"])


def is_far(row: dict[str, str]) -> bool:
    return not LOW <= ratio(row) <= HIGH


def page() -> None:
    rows = [row for row in stored() if row["true_z"]]
    few = [row for row in rows if row["part"] == "all"]
    far = [row for row in few if is_far(row)]
    silent = [row for row in far if not row["warned"]]
    calm = [row for row in few if not row["warned"]]
    lines = [
        f"In {len({row['data'] for row in few})} kinds of data (N = {N_POINTS:,} to {2 * N_POINTS:,}, M = {', '.join(map(str, FEW))}, plain and "
        f"distilled), {len(far)} of {len(few)} estimates were wrong by more than a factor of two, **{len(silent)} without a warning**; "
        f"{len(few) - len(calm)} had a warning. Measured with commit {', '.join(sorted({row['commit'] for row in rows}))}.",
    ]
    ratios = [ratio(row) for row in calm]
    lines[0] += (
        f" Without one, estimate over truth was {min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}."
    )
    lines += [
        f"\nSilent: {row['data']}, N = {int(row['n']):,}, seed {row['seed']}, M = {row['m']}, {row['extension']}: {ratio(row):.2f}."
        for row in silent
    ]
    lines += [
        "",
        "Estimates from a sample, for a Swiss roll of "
        + " or ".join(sorted({f"{int(row['n']):,}" for row in rows if row["part"] == "sample"}))
        + " points (a fit keeps 20,000 of them):",
        "",
        "| extension | M | true Z, % | estimated Z, % | its sampling error, % | warned |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["part"] == "sample":
            told = "yes" if "sample" in row["warned"] else "no"
            lines.append(
                f"| {row['extension']} | {int(row['m']):,} | {float(row['true_z']):.3g} | {float(row['estimated_z']):.3g} | "
                f"{float(row['sampling']):.2g} | {told} |"
            )
    fill(PAGE, "\n".join(lines), "searched")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("all", "sample"), help="part to do (both)")
    parser.add_argument("--seeds", type=int, default=1, help="for each kind of data (1)")
    parser.add_argument("--points", type=int, default=N_MANY, help=f"of the Swiss roll ({N_MANY:,})")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="end after so long, to go on later"
    )
    parser.add_argument("--again", action="store_true", help="forget the stored numbers first")
    arguments = parser.parse_args()
    if arguments.again:
        STORE.unlink(missing_ok=True)
    known = stored()

    def done(**key: object) -> bool:
        return any(
            all(value is None or row[name] == str(value) for name, value in key.items()) for row in known
        )

    parts = []
    if arguments.only != "sample":
        parts.append(few_landmarks(arguments.seeds, done))
    if arguments.only != "all":
        parts.append(many_points(arguments.points, done))
    measure(parts, arguments.minutes)
    page()


if __name__ == "__main__":
    main()
