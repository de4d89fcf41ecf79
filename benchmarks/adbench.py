"""NoveltyDetector beside PyOD's detectors on the classical data sets of ADBench, with and without anomalies to train on.

python benchmarks/adbench.py FOLDER               writes docs/benchmarks/adbench.md and .csv
python benchmarks/adbench.py FOLDER wine glass    runs the sets of these names, and prints only

FOLDER is adbench/datasets/Classical of ADBench's repository (Minqi824/ADBench), which holds files such as 45_wine.npz.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from anomalies import PyOD, Task, scaled
from harness import DOCS, provenance
from sklearn.metrics import average_precision_score, roc_auc_score

from ldmaps import NoveltyDetector

#: Rows that are drawn from larger sets, and anomalies that are kept at least.
MOST_ROWS, LEAST_ANOMALIES = 5000, 30
N_SPLITS, TEST_SHARE = 3, 0.3
#: Areas that differ by less are equal.
EQUAL = 0.01
INTRODUCTION = """\
# ADBench

[`NoveltyDetector`](../guide/packages.md#outlier-detectors-scikit-learn-and-pyod) beside PyOD's
detectors on {count} of the 47 classical data sets of ADBench.
{missing}
All detectors have their default settings, PyOD's `contamination=0.1` among them. Of larger sets, {rows:,} rows are drawn, with at least
{least} anomalies. {splits} random splits leave 30 % of the rows for the test; columns are scaled by the training part. Each split is used twice:

- **clean**: the anomalies are removed from the training part, and ours is `NoveltyDetector()`.
- **contaminated**: they stay in it, as in ADBench's unsupervised runs, and ours is `NoveltyDetector(contamination=0.1)`.

`python benchmarks/adbench.py FOLDER` on {where}.
"""


class Ours:
    """Distance to the landmarks."""

    def fit(self, task: Task) -> Ours:
        # PyOD's detectors have contamination=0.1 by default; ours is told whether there is any.
        self.detector = NoveltyDetector(contamination=0.1 if task.contaminated else None).fit(task.train)
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return -self.detector.score_samples(X)


CONTESTANTS: dict[str, Callable[[], Any]] = {
    "ldmaps": Ours,
    "KNN": lambda: PyOD("knn", "KNN"),
    "LOF": lambda: PyOD("lof", "LOF"),
    "IForest": lambda: PyOD("iforest", "IForest"),
    "OCSVM": lambda: PyOD("ocsvm", "OCSVM"),
    "ECOD": lambda: PyOD("ecod", "ECOD"),
}
TRAININGS = ("clean", "contaminated")


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as file:
        return np.asarray(file["X"], float), np.asarray(file["y"]).astype(bool)


def splits(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, Task]]:
    """Yield a clean and a contaminated training part for each split, with the same test part."""
    for seed in range(N_SPLITS):
        rng = np.random.default_rng(seed)
        anomalies, normal = (rng.permutation(np.flatnonzero(y == kind)) for kind in (True, False))
        if len(X) > MOST_ROWS:
            n_anomalies = max(round(MOST_ROWS * y.mean()), min(LEAST_ANOMALIES, len(anomalies)))
            anomalies, normal = anomalies[:n_anomalies], normal[: MOST_ROWS - n_anomalies]
        first, second = (max(1, round(TEST_SHARE * len(part))) for part in (anomalies, normal))
        test = np.concatenate([anomalies[:first], normal[:second]])
        kept = np.sort(normal[second:])
        yield "clean", scaled(X[kept], X[test], y[test])
        kept = np.sort(np.concatenate([anomalies[first:], normal[second:]]))
        yield "contaminated", replace(scaled(X[kept], X[test], y[test]), contaminated=True)


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each detector and training: means over the splits."""
    X, y = read(path)
    name = path.stem.partition("_")[2]
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for training, task in splits(X, y):
        for who, make in CONTESTANTS.items():
            start = time.process_time()
            detector = make().fit(task)
            seconds = time.process_time() - start
            scores = np.nan_to_num(np.asarray(detector.scores(task.test), float), posinf=1e300)
            figures = roc_auc_score(task.is_anomaly, scores), average_precision_score(task.is_anomaly, scores)
            found.setdefault((training, who), []).append((*figures, seconds))
    for (training, who), values in found.items():
        area, precision, seconds = (statistics.mean(column) for column in zip(*values, strict=True))
        yield {
            "set": name,
            "rows": len(X),
            "columns": X.shape[1],
            "anomalies": round(y.mean(), 4),
            "training": training,
            "detector": who,
            "auc": round(area, 4),
            "precision": round(precision, 4),
            "fit_seconds": round(seconds, 3),
        }


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def overview(rows: list[dict[str, Any]], training: str) -> str:
    """Return the detectors over all sets: means, mean ranks, and how often ours is better or worse."""
    chosen = [row for row in rows if row["training"] == training]
    names = list(dict.fromkeys(row["set"] for row in chosen))
    area = {(row["set"], row["detector"]): row["auc"] for row in chosen}
    lines = []
    for who in CONTESTANTS:
        of_this = [row for row in chosen if row["detector"] == who]
        ranks = [
            1
            + sum(area[name, other] > area[name, who] for other in CONTESTANTS)
            + 0.5 * sum(area[name, other] == area[name, who] for other in CONTESTANTS if other != who)
            for name in names
        ]
        gains = [area[name, "ldmaps"] - area[name, who] for name in names]
        better, worse = sum(gain > EQUAL for gain in gains), sum(gain < -EQUAL for gain in gains)
        lines.append(
            [
                who,
                f"{statistics.mean(row['auc'] for row in of_this):.3f}",
                f"{statistics.mean(row['precision'] for row in of_this):.3f}",
                f"{statistics.mean(ranks):.2f}",
                "–" if who == "ldmaps" else f"{better} / {len(names) - better - worse} / {worse}",
                f"{statistics.median(row['fit_seconds'] for row in of_this):.2g}",
            ]
        )
    head = ["detector", "mean AUC", "mean precision", "mean rank", "ldmaps better / equal / worse", "fit, s"]
    return table(head, lines)


def page(rows: list[dict[str, Any]], missing: str) -> str:
    names = list(dict.fromkeys(row["set"] for row in rows))
    area = {(row["set"], row["training"], row["detector"]): row["auc"] for row in rows}
    lines = []
    for name in sorted(names, key=str.lower):
        cells = [name]
        for training in TRAININGS:
            values = {who: area[name, training, who] for who in CONTESTANTS}
            best = max(values.values())
            cells += [f"**{value:.3f}**" if value == best else f"{value:.3f}" for value in values.values()]
        lines.append(cells)
    return "\n".join(
        [
            INTRODUCTION.format(
                count=len(names),
                missing=missing,
                rows=MOST_ROWS,
                least=LEAST_ANOMALIES,
                splits="Three" if N_SPLITS == 3 else N_SPLITS,
                where=provenance(),
            ),
            "Means over the sets of the area under the ROC curve (AUC), of average precision and of the rank by AUC (1 is best), on how "
            f"many sets ours is better, equal (within {EQUAL}) or worse than each, and the median processor time of a fit. Clean:",
            "",
            overview(rows, "clean"),
            "Contaminated:",
            "",
            overview(rows, "contaminated"),
            "AUC of each set, clean on the left and contaminated on the right ([all figures](adbench.csv)):",
            "",
            table(["set", *CONTESTANTS, *(f"{who} " for who in CONTESTANTS)], lines),
        ]
    )


def main(folder: Path, asked: list[str]) -> None:
    warnings.filterwarnings("ignore")  # of peers; ours are shown by the tests
    paths = sorted(folder.glob("*_*.npz"), key=lambda path: int(path.stem.partition("_")[0]))
    rows = []
    for path in paths:
        if not asked or path.stem.partition("_")[2].lower() in asked:
            for row in measure(path):
                rows.append(row)
                print(*row.values(), flush=True)
    numbers = {int(path.stem.partition("_")[0]) for path in paths}
    absent = sorted(set(range(1, 48)) - numbers)
    missing = f"Numbers {', '.join(map(str, absent))} were not measured." if absent else ""
    text = page(rows, missing)
    print(text)
    if not asked:
        (DOCS / "adbench.md").write_text(text, encoding="utf-8")
        with (DOCS / "adbench.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [name.lower() for name in sys.argv[2:]])
