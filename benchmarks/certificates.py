"""How often fresh points meet the tolerance that a map was certified for.

    python benchmarks/certificates.py [--seeds 20]

Writes docs/accuracy/certificates.csv, a line as soon as it is known (what it holds
already is not computed again), and docs/accuracy/certificates.md.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.errors import ToleranceError
from ldmaps.maps.tolerance import CONFIDENCE
from ldmaps.metrics import RMSD
from ldmaps.quality.fidelity import rms_error

OUT = Path(__file__).resolve().parents[1] / "docs" / "accuracy"
STORE = OUT / "certificates.csv"
HEAD = ("data", "tolerance", "seed", "outcome", "n_landmarks", "held_out_z", "upper_bound", "fresh_z")
TOLERANCES = (1.0, 3.0)
N_OLD, N_NEW = 1000, 2000


def torus(n: int, rng: np.random.Generator) -> np.ndarray:
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])


def basins(n: int, rng: np.random.Generator) -> np.ndarray:
    """Two unequal basins and the way between them, in five dimensions."""
    centre = np.where(rng.random(n) < 0.7, -2.0, 2.0)
    between = rng.random(n) < 0.125
    centre[between] = rng.uniform(-2, 2, between.sum())
    X = 0.3 * rng.normal(size=(n, 5))
    X[:, 0] += centre
    return X


def noisy_roll(n: int, rng: np.random.Generator) -> np.ndarray:
    points: np.ndarray = swiss_roll(n, random_state=rng).points + rng.normal(scale=0.3, size=(n, 3))
    return points


def drawn(frames: np.ndarray):
    return lambda n, rng: frames[rng.permutation(len(frames))[:n]]


def sources() -> Iterator[tuple]:
    alanine, chain = alanine_dipeptide(), c24h50()
    yield "Swiss roll", lambda n, rng: swiss_roll(n, random_state=rng).points, "euclidean", 9.0
    yield "Swiss roll with noise 0.3", noisy_roll, "euclidean", 9.0
    yield "torus", torus, "euclidean", 0.5
    yield "two basins in 5-D", basins, "euclidean", 0.4
    yield "alanine dipeptide", drawn(alanine.frames), RMSD(weights=alanine.masses), 5e-3
    yield "C24H50", drawn(chain.frames), RMSD(weights=chain.masses), 6e-2


def trial(draw, metric, epsilon: float, tolerance: float, seed: int) -> dict[str, object]:
    X = draw(N_OLD + N_NEW, np.random.default_rng(seed))
    old, new = X[:N_OLD], X[N_OLD:]
    try:
        model = LandmarkDiffusionMap(2, epsilon, metric, tolerance=tolerance, random_state=seed).fit(old)
    except ToleranceError as error:
        return {"outcome": "refused", "n_landmarks": error.n_landmarks, "upper_bound": error.best_bound}
    exact = DiffusionMap(2, epsilon, metric).fit(old)
    fresh = rms_error(
        exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0), aligned=True
    )
    promise = model.certificate_
    return {
        "outcome": "kept" if fresh <= tolerance else "broken",
        "n_landmarks": promise.n_landmarks,
        "held_out_z": promise.held_out_z,
        "upper_bound": promise.upper_bound,
        "fresh_z": fresh,
    }


def stored() -> list[dict[str, str]]:
    if not STORE.exists():
        return []
    with STORE.open(newline="") as stream:
        return list(csv.DictReader(stream))


def measure(n_seeds: int) -> None:
    done = {(row["data"], float(row["tolerance"]), int(row["seed"])) for row in stored()}
    is_new = not STORE.exists()
    with STORE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, HEAD)
        if is_new:
            writer.writeheader()
        for name, draw, metric, epsilon in sources():
            for tolerance in TOLERANCES:
                for seed in range(n_seeds):
                    if (name, tolerance, seed) in done:
                        continue
                    found = trial(draw, metric, epsilon, tolerance, seed)
                    writer.writerow({"data": name, "tolerance": tolerance, "seed": seed, **found})
                    stream.flush()
            print(f"{name}: done", flush=True)


def page() -> None:
    rows = stored()
    given = [row for row in rows if row["outcome"] != "refused"]
    broken = sum(row["outcome"] == "broken" for row in given)
    lines = [
        "## How often a certificate is kept",
        "",
        f"`LandmarkDiffusionMap(tolerance=...)` fitted to {N_OLD:,} points, then Z of {N_NEW:,} fresh ones from the same",
        f"source against the exact map of the same {N_OLD:,}. The promise is kept with a probability of at least "
        f"{100 * CONFIDENCE:.0f} %:",
        f"of {len(given):,} certificates {broken} were broken ({100 * broken / max(1, len(given)):.1f} %). "
        "[All numbers](accuracy/certificates.csv).",
        "",
        "| data | tolerance, % | certificates | refused | broken | fresh Z, median / largest | landmarks, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tolerance in dict.fromkeys((row["data"], row["tolerance"]) for row in rows):
        own = [row for row in rows if (row["data"], row["tolerance"]) == (name, tolerance)]
        kept = [row for row in own if row["outcome"] != "refused"]
        fresh = [float(row["fresh_z"]) for row in kept]
        shown = f"{np.median(fresh):.2f} / {max(fresh):.2f}" if fresh else "–"
        count = f"{np.median([int(row['n_landmarks']) for row in kept]):.0f}" if kept else "–"
        bad = sum(row["outcome"] == "broken" for row in kept)
        lines.append(
            f"| {name} | {float(tolerance):g} | {len(kept)} | {len(own) - len(kept)} | {bad} | {shown} | {count} |"
        )
    (OUT / "certificates.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="seeds for each source and tolerance (20)")
    measure(parser.parse_args().seeds)
    page()
