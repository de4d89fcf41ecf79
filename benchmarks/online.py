"""One point at a time: latency of the fitted embedder against the peers' ``transform`` of one point."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from harness import Row

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD

PEERS = Path(__file__).resolve().parent.parent / ".venv-peers" / "bin" / "python"
ROUNDS, CALLS = 9, 200


class OnePoint:
    """M = 400 landmarks; 22-atom frames under RMSD, and 3-D points.

    The peers have no RMSD: for frames they get the 66 coordinates and the Euclidean
    distance, which is in their favour.
    """

    n_landmarks = 400

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "22 atoms, RMSD":
            data = alanine_dipeptide()
            self.train, self.new = data.frames[::2], data.frames[1::2]
            metric, epsilon, self.flat_epsilon, self.cut_off = RMSD(weights=data.masses), 1.36e-3, 0.3, 1.0
        else:
            points = swiss_roll(20_000).points
            self.train, self.new = points[:16_000], points[16_000:]
            metric, epsilon, self.flat_epsilon, self.cut_off = "euclidean", 1.0, 1.0, 4.0
        model = LandmarkDiffusionMap(2, epsilon, metric=metric, n_landmarks=self.n_landmarks)
        self.embed_one = model.fit(self.train).embedder_.embed_one
        self.flat = self.train.reshape(len(self.train), -1).astype(np.float64)
        self.flat -= self.flat.mean(axis=0)

    def ours(self) -> list[float]:
        seconds = []
        for x in self.new[:CALLS]:
            start = time.perf_counter()
            self.embed_one(x)
            seconds.append(time.perf_counter() - start)
        return seconds

    def pydiffmap(self):
        from pydiffmap.diffusion_map import DiffusionMap

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = DiffusionMap.from_sklearn(n_evecs=2, k=64, epsilon=self.flat_epsilon, alpha=0.0)
            peer.fit(self.flat)

        def median() -> float:
            seconds = []
            for x in self.flat[: CALLS // 8, None]:
                start = time.perf_counter()
                peer.transform(x)
                seconds.append(time.perf_counter() - start)
            return statistics.median(seconds)

        return median

    def run(self) -> list[Row]:
        contestants = {"pyDiffMap (k = 64)": self.pydiffmap()}
        worker = None
        if PEERS.exists():
            worker = Datafold(self.flat, self.flat_epsilon, self.cut_off, self.n_landmarks)
            for model in worker.models:
                contestants[f"datafold {model}"] = lambda model=model: worker.median(model)
        else:
            print(f"datafold is left out: no {PEERS} (make bench creates it)", file=sys.stderr)
        self.ours()
        own, theirs = [], {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, contestant in contestants.items():
                own.append(self.ours())
                theirs[name].append((contestant(), statistics.median(own[-1])))
        everything = np.concatenate(own) * 1e6
        shown = f"{np.median(everything):.1f} µs, p99 {np.percentile(everything, 99):.1f} µs"
        rows = []
        for name, pairs in theirs.items():
            ratio = statistics.median(their / our for their, our in pairs)
            landmarks = ", the same M" if "Roseland" in name else ", all N"
            rows.append(
                Row(
                    f"one point, M = 400, {self.name}",
                    name + landmarks,
                    shown,
                    f"{statistics.median(their for their, _ in pairs) * 1e6:.0f} µs",
                    ratio,
                    "≥ 40×" if "Roseland" not in name else "",
                )
            )
        if worker is not None:
            worker.close()
        return rows


class Datafold:
    """The worker process that holds datafold."""

    def __init__(self, points: np.ndarray, epsilon: float, cut_off: float, landmarks: int) -> None:
        script = Path(__file__).with_name("peer_datafold.py")
        self.process = subprocess.Popen(
            [PEERS, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/points.npy", points[:8000] if points.shape[1] > 10 else points)
            answer = self.ask(
                {
                    "fit": f"{folder}/points.npy",
                    "epsilon": epsilon,
                    "cut_off": cut_off,
                    "landmarks": landmarks,
                }
            )
        self.models = answer["models"]

    def ask(self, command: dict) -> dict:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def median(self, model: str) -> float:
        return self.ask({"time": CALLS // 8})[model]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)


def run() -> list[Row]:
    return [row for name in ("22 atoms, RMSD", "3-D") for row in OnePoint(name).run()]
