"""What is measured of growth with N and M, one case per section of docs/benchmarks/scale.md.

    python benchmarks/scale_cases.py CASE SIZE    one case in this process, as JSON; writes nothing

Every case runs in a process of its own, because peak memory cannot be reset.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from harness import peak_memory, turns

M = 400
#: Bandwidths at which landmarks are passed over by their boxes.
EPSILONS = (1.0, 0.3, 0.1, 0.03)


def swiss(n: int) -> np.ndarray:
    from ldmaps.datasets import swiss_roll

    return swiss_roll(n).points


def frames(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` frames of 22 atoms: the bundled ones, and copies of them shaken by 0.002 nm."""
    from ldmaps.datasets import alanine_dipeptide

    data = alanine_dipeptide()
    rng = np.random.default_rng(0)
    chosen = np.arange(n) % len(data.frames)
    out = data.frames[chosen]
    out[len(data.frames) :] += rng.normal(scale=0.002, size=out[len(data.frames) :].shape).astype(np.float32)
    return out, data.masses


def measured(work) -> dict:
    before = peak_memory()
    start, processor = time.perf_counter(), time.process_time()
    extra = work() or {}
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return {"seconds": seconds, "processor": processor, "peak": peak_memory(), "before": before, **extra}


def landmark_fit(n: int) -> dict:
    from ldmaps import LandmarkDiffusionMap

    points = swiss(n)
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=M, extension="nystrom").fit(points[:8000])  # warm up
    return measured(lambda: model.fit(points) and None)


def landmark_fit_rmsd(n: int) -> dict:
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.metrics import RMSD

    points, masses = frames(n)
    metric = RMSD(weights=masses)
    model = LandmarkDiffusionMap(2, 1.36e-3, metric=metric, n_landmarks=M, extension="nystrom")
    model.fit(points[:8000])  # warm up
    return measured(lambda: model.fit(points) and None)


def tree_landmarks(n: int) -> dict:
    from ldmaps.diffusion.walk import Walk
    from ldmaps.landmarks import PrunedSpanningTree
    from ldmaps.metrics import Euclidean

    points = Euclidean().prepare(swiss(n))

    def work() -> dict:
        chosen = PrunedSpanningTree().select(
            Walk(Euclidean(), points, np.ones(n), 0.25), np.random.default_rng(0)
        )
        return {
            "landmarks": len(chosen.indices),
            "covered": bool(chosen.squared_distances.max() <= 0.25 * 1.000001),
        }

    return measured(work)


def tree_landmarks_rmsd(n: int) -> dict:
    from ldmaps.diffusion.walk import Walk
    from ldmaps.landmarks import PrunedSpanningTree
    from ldmaps.metrics import RMSD

    data, masses = frames(n)
    metric = RMSD(weights=masses)
    points = metric.prepare(data)

    def work() -> dict:
        chosen = PrunedSpanningTree().select(
            Walk(metric, points, np.ones(n), 1.6e-3), np.random.default_rng(0)
        )
        return {
            "landmarks": len(chosen.indices),
            "covered": bool(chosen.squared_distances.max() <= 1.6001e-3),
        }

    return measured(work)


def exact_rmsd(n: int) -> dict:
    from ldmaps import DiffusionMap
    from ldmaps.metrics import RMSD

    points, masses = frames(n)
    before = peak_memory()
    # Once untimed: it compiles, and a virtual machine that has lent its free memory out takes tens of seconds to get
    # gigabytes back, which are then at hand for a moment.
    model = DiffusionMap(2, "connected", metric=RMSD(weights=masses)).fit(points)
    return {**measured(lambda: model.fit(points) and None), "before": before}


def solution(model) -> dict:
    """What a fitted exact map says of itself, for the table."""
    made = model.solution_
    return {"solver": made.solver, "passes": made.n_passes, "bound": float(np.max(made.error_bound))}


def streamed_rmsd(n: int) -> dict:
    """The exact map without its kernel; up to 20,000 frames also with it, and Z between the two."""
    from ldmaps import DiffusionMap, Limits
    from ldmaps.metrics import RMSD
    from ldmaps.validation.fidelity import nrmse

    points, masses = frames(n)
    metric = RMSD(weights=masses)
    settings = {"metric": metric, "limits": Limits(memory=2e9)}
    model = DiffusionMap(2, "connected", solver="streamed", **settings).fit(points[:3000])  # warm up
    row = {**measured(lambda: model.fit(points) and None), **solution(model)}
    if n <= 20_000:
        stored = DiffusionMap(2, "connected", solver="stored", **settings).fit(points[:3000])
        stored.fit(points)
        row |= {"z": nrmse(stored.embedding_, model.embedding_)}
    return row


def box(n: int) -> np.ndarray:
    return (np.random.default_rng(0).random((n, 3)) * [2.0, 1.4, 1.0]).astype(np.float32)


def exact_3d(n: int) -> dict:
    """The exact map of points in a box, as many near each at any N; up to 20,000 of them also without the kernel."""
    from ldmaps import DiffusionMap, Limits
    from ldmaps.validation.fidelity import nrmse

    points, epsilon = box(n), 2e-4 * (300_000 / n) ** (2 / 3)
    model = DiffusionMap(2, 2e-4 * (300_000 / 10_000) ** (2 / 3)).fit(points[:10_000])  # warm up
    model.set_params(epsilon=epsilon)
    row = {**measured(lambda: model.fit(points) and None), **solution(model)}
    if n <= 20_000:
        passes = DiffusionMap(2, 0.02, solver="streamed", limits=Limits(max_passes=60)).fit(
            points[:3000]
        )  # warm up
        passes.set_params(epsilon=epsilon)
        taken = measured(lambda: passes.fit(points) and None)
        row |= {
            "in_passes": passes.solution_.n_passes,
            "in_passes_processor": taken["processor"],
            "z": nrmse(model.embedding_, passes.embedding_),
        }
    return row


#: At this bandwidth a quarter of all pairs in the box are near: no sparse kernel, and a few passes.
WIDE = 0.01


def streamed_3d(n: int) -> dict:
    """The exact map of points in a box at an ε that makes no kernel sparse, in passes; up to 20,000 also stored."""
    from ldmaps import DiffusionMap, Limits
    from ldmaps.validation.fidelity import nrmse

    points = box(n)
    model = DiffusionMap(2, WIDE, solver="streamed", limits=Limits(max_passes=20)).fit(
        points[:3000]
    )  # warm up
    row = {**measured(lambda: model.fit(points) and None), **solution(model)}
    if n <= 20_000:
        stored = DiffusionMap(2, WIDE, solver="stored").fit(points[:3000])
        stored.fit(points)
        row |= {"z": nrmse(stored.embedding_, model.embedding_)}
    return row


def connected_rmsd(n: int) -> dict:
    """ε at which all frames hang together, without most of their distances."""
    from ldmaps.diffusion.walk import connecting_tree
    from ldmaps.metrics import RMSD

    data, masses = frames(n)
    metric = RMSD(weights=masses)
    points = metric.prepare(data)
    connecting_tree(metric, points.take(slice(0, 3000)))  # warm up
    return measured(lambda: {"epsilon": connecting_tree(metric, points).connecting_epsilon})


def per_point(m: int) -> dict:
    """Batch transform on one thread against M, 22 atoms and 3-D; landmarks as they come and shuffled."""
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.metrics import RMSD

    out = {}
    data, masses = frames(20_000)
    roll = swiss(20_000)
    for name, points, epsilon, metric in (
        ("rmsd", data, 1.36e-3, RMSD(weights=masses)),
        ("3-D", roll, 1.0, "euclidean"),
    ):
        grouped = LandmarkDiffusionMap(
            2, epsilon, metric=metric, n_landmarks=m, extension="nystrom", landmarks="uniform"
        ).fit(points)
        mixed = np.random.default_rng(0).permutation(grouped.landmark_indices_)
        shuffled = LandmarkDiffusionMap(2, epsilon, metric=metric, landmarks=mixed, extension="nystrom").fit(
            points
        )
        new = [model.embedder_.prepare(points[:2000]) for model in (grouped, shuffled)]
        a, b = turns(
            [lambda: grouped.embedder_.extend(new[0], 1), lambda: shuffled.embedder_.extend(new[1], 1)],
            rounds=7,
        )
        out[name] = {
            "grouped": float(np.median(a)) / 2000,
            "shuffled": float(np.median(b)) / 2000,
            "ratio": float(np.median(np.array(b) / np.array(a))),
        }
    return out


def passing_over(m: int) -> dict:
    """Batch transform on one thread in 3-D with and without boxes that tell which landmarks cannot matter."""
    from ldmaps import kernels
    from ldmaps.diffusion.pairwise import extend
    from ldmaps.landmarks.base import neighbour_order
    from ldmaps.metrics import euclidean
    from ldmaps.metrics.base import squared_matrix

    class Plain(euclidean.Euclidean):
        def extension_scan(self, landmarks, rate):
            return None

    limit, euclidean.MAX_NEAR_SHARE = euclidean.MAX_NEAR_SHARE, 1.0  # boxes even where they do not pay
    boxed, plain = euclidean.Euclidean(), Plain()
    points = boxed.prepare(swiss(20_000))
    landmarks = points.take(slice(0, m))
    landmarks = landmarks.take(neighbour_order(squared_matrix(boxed, landmarks)))
    new = points.take(slice(15_000, 17_000))
    rng = np.random.default_rng(0)
    weights, coefficients = rng.gamma(2.0, size=m), rng.normal(size=(2, m))
    out = {}
    for epsilon in EPSILONS:
        without, with_boxes = turns(
            [
                lambda metric=metric, epsilon=epsilon: extend(
                    metric, new, landmarks, epsilon, weights, coefficients, 1
                )
                for metric in (plain, boxed)
            ],
            rounds=9,
        )
        reach = kernels.NEGLIGIBLE64 * 2.0 * epsilon
        share = landmarks.near_share(landmarks.boxes_within(reach), reach)
        out[f"{epsilon:g}"] = {
            "share": share,
            "taken": share <= limit,
            "boxes": float(np.median(with_boxes)) / len(new),
            "ratio": float(np.median(np.array(without) / np.array(with_boxes))),
        }
    return out


CASES = {
    case.__name__: case
    for case in (
        landmark_fit,
        landmark_fit_rmsd,
        tree_landmarks,
        tree_landmarks_rmsd,
        exact_rmsd,
        streamed_rmsd,
        exact_3d,
        streamed_3d,
        connected_rmsd,
        per_point,
        passing_over,
    )
}
SIZES = {
    "landmark_fit": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "landmark_fit_rmsd": (10_000, 50_000, 200_000),
    "tree_landmarks": (100_000, 1_000_000),
    "tree_landmarks_rmsd": (25_000, 100_000),
    "exact_rmsd": (5_000, 10_000, 20_000),
    "streamed_rmsd": (20_000, 100_000),
    "exact_3d": (20_000, 100_000),
    "streamed_3d": (20_000, 100_000),
    "connected_rmsd": (20_000, 100_000),
    "per_point": (400, 800, 1600, 3200, 6400),
    "passing_over": (400, 1600, 6400),
}

#: Sizes that are measured only if asked for (``scale.py --full``).
LONG = {"exact_3d": (300_000,), "streamed_3d": (300_000,)}


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](int(sys.argv[2]))))
