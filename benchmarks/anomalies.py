"""Anomalies found by distance from the map, beside PyOD, River and a matrix profile, on labelled data from packages.

python benchmarks/anomalies.py             writes docs/benchmarks/anomalies.md, .csv (make bench-anomalies installs the peers)
python benchmarks/anomalies.py wine gun    runs the sets whose names begin so, and prints only
"""

from __future__ import annotations

import csv
import pickle
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import DOCS, provenance
from scipy.stats import binom
from sklearn.metrics import average_precision_score, roc_auc_score

from ldmaps import LandmarkDiffusionMap

PROMISED = 0.01
#: Of fewer ordinary points, a count of alarms says nothing about this rate.
ENOUGH = 300
INTRODUCTION = """\
Which points are unlike the training data? Sets come inside packages, detectors have their default settings, and columns are scaled by the
training part ({} to {} points), which has no anomalies. Classes are held back in turn, and figures are means; series are cut into windows.
Our score is the distance to the nearest landmark, `coverage(X).distance`."""


@dataclass(frozen=True)
class Task:
    """A training part, usually without anomalies, a test part, and which of its points are anomalies."""

    train: np.ndarray
    test: np.ndarray
    is_anomaly: np.ndarray
    series: tuple[np.ndarray, np.ndarray] | None = None  # of the two parts, where points are windows of them
    #: Windows of a series share samples, so their alarms come in runs.
    dependent: bool = False
    #: Whether anomalies are in the training part, too.
    contaminated: bool = False


def one_class_held_back(X: np.ndarray, classes: np.ndarray, only: Any = None) -> Iterator[Task]:
    X = np.asarray(X, float)
    for held in np.unique(classes) if only is None else [only]:
        normal = np.flatnonzero(classes != held)
        order = np.random.default_rng(0).permutation(normal)
        train, test = np.sort(order[::2]), np.sort(order[1::2])
        places = np.concatenate([test, np.flatnonzero(classes == held)])
        yield scaled(X[train], X[places], classes[places] == held)


def scaled(train: np.ndarray, test: np.ndarray, is_anomaly: np.ndarray) -> Task:
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread[spread == 0] = 1.0
    return Task((train - mean) / spread, (test - mean) / spread, is_anomaly)


def windows(train: np.ndarray, test: np.ndarray, is_anomaly: np.ndarray, width: int) -> Iterator[Task]:
    """A window is an anomaly if one of its samples is; one column, so one scale for all lags."""
    cut = np.lib.stride_tricks.sliding_window_view
    mean, spread = train.mean(), train.std()
    train, test = (train - mean) / spread, (test - mean) / spread
    yield Task(
        np.ascontiguousarray(cut(train, width)),
        np.ascontiguousarray(cut(test, width)),
        cut(is_anomaly, width).any(axis=1),
        (train, test),
        dependent=True,
    )


def from_aeon(name: str, width: int, train: str = "TRAIN") -> Iterator[Task]:
    import aeon

    folder = Path(aeon.__file__).parent / "datasets" / "data"
    parts = [
        np.genfromtxt(folder / f"{name}_{part}.csv", delimiter=",", skip_header=1) for part in (train, "TEST")
    ]
    return windows(parts[0][:, 1], parts[1][:, 1], parts[1][:, 2] > 0, width)


def aeon_classes(name: str) -> Iterator[Task]:
    from aeon.datasets import __file__ as package
    from aeon.datasets import load_from_ts_file

    folder = Path(package).parent / "data"
    stem = folder / name.removesuffix("_eq") / name
    parts = [load_from_ts_file(f"{stem}_{part}.ts") for part in ("TRAIN", "TEST")]
    X = np.concatenate([np.asarray(part[0], float).reshape(len(part[0]), -1) for part in parts])
    return one_class_held_back(X, np.concatenate([part[1] for part in parts]))


def sklearn_classes(name: str, only: Any = None) -> Iterator[Task]:
    import sklearn.datasets

    X, classes = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return one_class_held_back(X, classes, only)


def river_table(name: str, label: str, only: Any = None, most: int | None = None) -> Iterator[Task]:
    import pandas
    import river

    table = pandas.read_csv(Path(river.__file__).parent / "datasets" / name)[:most]
    return one_class_held_back(table.drop(columns=label).to_numpy(float), table[label].to_numpy(), only)


SETS: dict[str, Callable[[], Iterator[Task]]] = {
    "InternalBleeding16, windows of 64": lambda: from_aeon(
        "KDD-TSAD_135/135_UCR_Anomaly_InternalBleeding16", 64
    ),
    "ECG, windows of 64": lambda: from_aeon("UnitTest/ecg-diff-count-3", 64, "TRAIN_NA"),
    "shuttle": lambda: river_table("shuttle.csv.gz", "anomaly", 1),
    "image segments": lambda: river_table("segment.csv.zip", "category"),
    "phishing": lambda: river_table("phishing.csv.gz", "is_phishing", 1),
    "digits": lambda: sklearn_classes("digits"),
    "breast cancer": lambda: sklearn_classes("breast_cancer", 0),
    "wine": lambda: sklearn_classes("wine"),
    "GunPoint": lambda: aeon_classes("GunPoint"),
    "ItalyPowerDemand": lambda: aeon_classes("ItalyPowerDemand"),
    "ArrowHead": lambda: aeon_classes("ArrowHead"),
    "OSULeaf": lambda: aeon_classes("OSULeaf"),
    "JapaneseVowels": lambda: aeon_classes("JapaneseVowels_eq"),
}


class Ours:
    """Distance to the nearest landmark."""

    def fit(self, task: Task) -> Ours:
        self.model = LandmarkDiffusionMap().fit(task.train)
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return self.model.coverage(X).distance

    def one(self, x: np.ndarray) -> object:
        return self.model.embedder_.embed_one(x)

    def size(self) -> int:
        path = Path("anomalies.ldm.tmp")
        self.model.save(path, include_embedding=False)
        size = path.stat().st_size
        path.unlink()
        return size


class PyOD:
    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def fit(self, task: Task) -> PyOD:
        import importlib

        self.detector = getattr(importlib.import_module(f"pyod.models.{self.module}"), self.name)()
        self.detector.fit(task.train)
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return self.detector.decision_function(X)

    def one(self, x: np.ndarray) -> object:
        return self.detector.decision_function(x[None])

    def size(self) -> int:
        return len(pickle.dumps(self.detector))


class River:
    """Half-space trees take values from 0 to 1 and one record at a time."""

    def fit(self, task: Task) -> River:
        from river.anomaly import HalfSpaceTrees

        self.low, self.width = task.train.min(axis=0), np.ptp(task.train, axis=0)
        self.width[self.width == 0] = 1.0
        self.detector = HalfSpaceTrees(seed=0)
        for record in self._records(task.train):
            self.detector.learn_one(record)
        return self

    def _records(self, X: np.ndarray) -> Iterator[dict[int, float]]:
        for row in np.clip((X - self.low) / self.width, 0.0, 1.0):
            yield dict(enumerate(row.tolist()))

    def scores(self, X: np.ndarray) -> np.ndarray:
        return np.array([self.detector.score_one(record) for record in self._records(X)])

    def one(self, x: np.ndarray) -> object:
        return self.scores(x[None])

    def size(self) -> int:
        return len(pickle.dumps(self.detector))


class MatrixProfile:
    """Distance of each window to the nearest of the training part, each brought to mean 0 and deviation 1."""

    def fit(self, task: Task) -> MatrixProfile:
        self.series, self.windows = task.series, task.test.shape
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        import stumpy

        if self.series is None:
            raise LookupError("not a series")
        return stumpy.stump(self.series[1], self.windows[1], self.series[0], ignore_trivial=False)[
            :, 0
        ].astype(float)

    def one(self, x: np.ndarray) -> object:
        raise LookupError("batches only")

    def size(self) -> int:
        return self.series[0].nbytes if self.series is not None else 0


CONTESTANTS: dict[str, Callable[[], Any]] = {
    "ldmaps": Ours,
    "KNN": lambda: PyOD("knn", "KNN"),
    "LOF": lambda: PyOD("lof", "LOF"),
    "IForest": lambda: PyOD("iforest", "IForest"),
    "OCSVM": lambda: PyOD("ocsvm", "OCSVM"),
    "ECOD": lambda: PyOD("ecod", "ECOD"),
    "HalfSpaceTrees": River,
    "matrix profile": MatrixProfile,
}


def per_call(function: Callable[[], object], least: float = 0.2) -> float:
    """Return seconds of this thread's time per call, the least of three turns."""
    function()
    best = np.inf
    for _ in range(3):
        calls, start = 0, time.thread_time()
        while time.thread_time() - start < least / 3 or calls == 0:
            function()
            calls += 1
        best = min(best, (time.thread_time() - start) / calls)
    return best


def measure(name: str, tasks: list[Task]) -> list[dict[str, object]]:
    """Return a row per detector: figures of merit over all tasks, costs on the first."""
    rows = []
    for contestant, make in CONTESTANTS.items():
        row: dict[str, object] = {"set": name, "detector": contestant}
        try:
            fitted = [make().fit(task) for task in tasks]
            scores = [
                np.asarray(each.scores(task.test), float) for each, task in zip(fitted, tasks, strict=True)
            ]
        except LookupError:
            continue
        pairs = [(task.is_anomaly, score) for task, score in zip(tasks, scores, strict=True)]
        row["auc"] = statistics.mean(roc_auc_score(*pair) for pair in pairs)
        row["precision"] = statistics.mean(average_precision_score(*pair) for pair in pairs)
        batch = tasks[0].test[:2000]
        if contestant != "matrix profile":
            row["batch_us"] = 1e6 * per_call(lambda f=fitted[0], b=batch: f.scores(b)) / len(batch)
            row["one_us"] = 1e6 * per_call(lambda f=fitted[0], x=batch[0]: f.one(x))
        row["kilobytes"] = fitted[0].size() / 1000
        if contestant == "ldmaps":
            row |= false_alarms([each.model for each in fitted], tasks)
        rows.append(row)
        print(
            name,
            *(f"{key} {value:.4g}" if isinstance(value, float) else value for key, value in row.items()),
            flush=True,
        )
    return rows


def false_alarms(models: list[Any], tasks: list[Task]) -> dict[str, object]:
    """Count alarms at the promised rate among test points that are no anomalies."""
    alarms = normal = 0
    for model, task in zip(models, tasks, strict=True):
        p = model.coverage(task.test[~task.is_anomaly]).p_value
        if p is None:
            return {}
        alarms, normal = alarms + int((p <= PROMISED).sum()), normal + len(p)
    low, high = binom.interval(0.95, normal, PROMISED)
    return {"alarms": alarms, "normal": normal, "low": low, "high": high}


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def page(rows: list[dict[str, Any]], tasks: dict[str, list[Task]]) -> str:
    names = [name for name in CONTESTANTS if any(row["detector"] == name for row in rows)]
    found = {(row["set"], row["detector"]): row for row in rows}

    def compared(key: str) -> str:
        lines = []
        for name in tasks:
            values = {who: found[name, who][key] for who in names if (name, who) in found}
            best = max(values.values())
            cells = [
                f"**{values[who]:.3f}**"
                if values.get(who) == best
                else f"{values[who]:.3f}"
                if who in values
                else "–"
                for who in names
            ]
            lines.append([name, *cells])
        return table(["set", *names], lines)

    def middle(who: str, key: str) -> str:
        values = [row[key] for row in rows if row["detector"] == who and key in row]
        return f"{statistics.median(values):.3g}" if values else "–"

    def near(key: str) -> int:
        best = {name: max(found[name, who][key] for who in names if (name, who) in found) for name in tasks}
        return sum(found[name, "ldmaps"][key] >= best[name] - 0.01 for name in tasks)

    sizes = [len(of[0].train) for of in tasks.values()]
    costs = [[who, middle(who, "one_us"), middle(who, "batch_us"), middle(who, "kilobytes")] for who in names]
    promises = [
        [
            name,
            f"{row['alarms']} of {row['normal']:,}",
            f"{row['low']:.0f}–{row['high']:.0f}",
            f"{row['alarms'] / row['normal']:.2%}",
        ]
        for name in tasks
        for row in [found[name, "ldmaps"]]
        if row.get("normal", 0) >= ENOUGH
    ]
    above = [
        f"{name} ({row['alarms'] / row['normal']:.1%})"
        for name in tasks
        for row in [found[name, "ldmaps"]]
        if row.get("normal", 0) >= ENOUGH and row["alarms"] > row["high"]
    ]
    above = ", ".join(above) or "none"
    return "\n".join(
        [
            "# Anomalies",
            "",
            INTRODUCTION.format(*(f"{size:,}" for size in (min(sizes), max(sizes)))),
            "",
            f"`python benchmarks/anomalies.py` on {provenance()}.",
            "",
            f"Area under the ROC curve; ours is the best or within 0.01 of it on {near('auc')} of {len(tasks)} sets, and by average "
            f"precision ([all figures](anomalies.csv)) on {near('precision')}:",
            "",
            compared("auc"),
            "Microseconds per record on one thread, one by one and in batches of up to 2,000, and size of the model file or pickle; "
            "medians over the sets:",
            "",
            table(["detector", "one by one", "in batches", "kB"], costs),
            f"False alarms at a promised rate of {PROMISED:.0%}, and the range that holds 95 % of such counts if the promise is true "
            f"and points are independent, which overlapping windows are not. Above it: {above}. In small sets, where all training points are "
            f"landmarks, alarms are rarer than promised. Sets with fewer than {ENOUGH} ordinary points are not shown.",
            "",
            table(["set", "alarms", "expected", "rate"], promises),
        ]
    )


def main(asked: list[str]) -> None:
    warnings.filterwarnings("ignore")  # of peers; ours are shown by the tests
    chosen = [name for name in SETS if not asked or any(name.lower().startswith(word) for word in asked)]
    tasks = {name: list(SETS[name]()) for name in chosen}
    rows = [row for name in chosen for row in measure(name, tasks[name])]
    text = page(rows, tasks)
    print(text)
    if not asked:
        (DOCS / "anomalies.md").write_text(text, encoding="utf-8")
        with (DOCS / "anomalies.csv").open("w", newline="") as stream:
            keys = list(dict.fromkeys(key for row in rows for key in row))
            writer = csv.DictWriter(stream, keys)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main([word.lower() for word in sys.argv[1:]])
