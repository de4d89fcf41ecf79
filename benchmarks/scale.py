"""What grows with N and M: peak memory, time, fitted exponents, and where passing landmarks over pays.

    python benchmarks/scale.py              all cases, docs/benchmarks/scale.md and figures
    python benchmarks/scale.py CASE ARGS    one case in this process, as JSON

Every case runs in a process of its own, because peak memory cannot be reset.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from harness import DOCS, peak_memory, provenance, turns

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
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=M, extension="nystrom").fit(points[:8000])  # compile
    return measured(lambda: model.fit(points) and None)


def landmark_fit_rmsd(n: int) -> dict:
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.metrics import RMSD

    points, masses = frames(n)
    metric = RMSD(weights=masses)
    model = LandmarkDiffusionMap(2, 1.36e-3, metric=metric, n_landmarks=M, extension="nystrom")
    model.fit(points[:8000])  # compile
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
    from ldmaps import DiffusionMap
    from ldmaps.metrics import RMSD
    from ldmaps.quality.fidelity import rms_error

    points, masses = frames(n)
    metric = RMSD(weights=masses)
    settings = {"metric": metric, "memory_limit": 2e9}
    model = DiffusionMap(2, "connected", solver="streamed", **settings).fit(points[:3000])  # compile
    row = {**measured(lambda: model.fit(points) and None), **solution(model)}
    if n <= 20_000:
        stored = DiffusionMap(2, "connected", solver="stored", **settings).fit(points[:3000])
        processor = measured(lambda: stored.fit(points) and None)["processor"]
        row |= {"z": rms_error(stored.embedding_, model.embedding_), "stored": processor}
    return row


def exact_3d(n: int) -> dict:
    """The exact map of points in a box, as many near each at any N, by whichever solver keeps the memory limit."""
    from ldmaps import DiffusionMap

    points = (np.random.default_rng(0).random((n, 3)) * [2.0, 1.4, 1.0]).astype(np.float32)
    model = DiffusionMap(2, 2e-4 * (300_000 / 10_000) ** (2 / 3)).fit(points[:10_000])  # compile
    model.set_params(epsilon=2e-4 * (300_000 / n) ** (2 / 3))
    return {**measured(lambda: model.fit(points) and None), **solution(model)}


def connected_rmsd(n: int) -> dict:
    """ε at which all frames hang together, without most of their distances."""
    from ldmaps.diffusion.connectivity import connecting_tree
    from ldmaps.metrics import RMSD

    data, masses = frames(n)
    metric = RMSD(weights=masses)
    points = metric.prepare(data)
    connecting_tree(metric, points.take(slice(0, 3000)))  # compile
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
    from ldmaps import compiled
    from ldmaps.diffusion.pairwise import extend, squared_matrix
    from ldmaps.landmarks.grouping import neighbour_order
    from ldmaps.metrics import euclidean

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
        share = landmarks.near_share(landmarks.boxes(), compiled.rows.NEGLIGIBLE64 * 2.0 * epsilon)
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
    "exact_3d": (100_000, 300_000),
    "connected_rmsd": (20_000, 100_000),
    "per_point": (400, 800, 1600, 3200, 6400),
    "passing_over": (400, 1600, 6400),
}


def exponent(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def main() -> None:
    provenance()  # asked before anything is written, so that the commit is clean if it was
    store = DOCS / "scale.json"
    known = json.loads(store.read_text()) if store.exists() and "--again" not in sys.argv else {}
    results: dict[str, dict[int, dict]] = {
        name: {int(size): row for size, row in rows.items()} for name, rows in known.items()
    }
    for name, sizes in SIZES.items():
        for size in sizes:
            if size in results.get(name, {}):  # an interrupted run goes on; --again begins anew
                continue
            print(f"... {name} {size:,}", file=sys.stderr, flush=True)
            answer = subprocess.run(
                [sys.executable, __file__, name, str(size)], capture_output=True, text=True, check=True
            )
            row = json.loads(answer.stdout.splitlines()[-1])
            row["on"] = f"{provenance()}; load {os.getloadavg()[0]:.1f}"
            found = {**results.get(name, {}), size: row}
            results[name] = dict(sorted(found.items()))
            write(results)


def write(results: dict[str, dict[int, dict]]) -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "scale.json").write_text(json.dumps(results, indent=1))
    lines = ["# Scale: what grows with N and with M", "", "`make bench-scale`, on:", ""]
    places = list(dict.fromkeys(row["on"] for rows in results.values() for row in rows.values()))
    lines += [f"{number}. {place}" for number, place in enumerate(places, 1)] + [""]
    titles = {
        "landmark_fit": "Landmark fit and embedding of all points, 3-D, ε given, M = 400",
        "landmark_fit_rmsd": "The same, 22-atom frames with RMSD",
        "tree_landmarks": "Pruned spanning tree through a radius tree, 3-D, ε = 0.25",
        "tree_landmarks_rmsd": "Pruned spanning tree row by row, 22-atom frames with RMSD, ε = 1.6e-3 nm²",
        "exact_rmsd": "Exact map, 22-atom frames with RMSD, connected ε",
        "streamed_rmsd": "The same without the kernel matrix: ε, start and passes over all pairs",
        "exact_3d": "Exact map, 3-D in single precision, ε falling with N, 4 GB at most",
        "connected_rmsd": "Connected ε alone, 22-atom frames with RMSD",
    }
    for name, title in titles.items():
        if name not in results:
            continue
        rows = results[name]
        lines += [
            f"## {title}",
            "",
            "| N | seconds | peak memory, MB | of which before, MB | |",
            "|---|---|---|---|---|",
        ]
        for n, row in rows.items():
            note = (
                f"{row['landmarks']:,} landmarks, all points covered: {row['covered']}"
                if "landmarks" in row
                else f"ε = {row['epsilon']:.6g} nm²"
                if "epsilon" in row
                else solved_note(row)
            )
            note = f"on {places.index(row['on']) + 1}" + (f"; {note}" if note else "")
            if "processor" in row:
                # What other work on the machine cannot change.
                note = f"{row['processor']:.1f} s of processor time; {note}"
            lines.append(
                f"| {n:,} | {row['seconds']:.1f} | {row['peak'] / 1e6:.0f} | {row['before'] / 1e6:.0f} | {note} |"
            )
        if len(rows) > 1:
            lines += [
                "",
                f"Time grows as N^{exponent(list(rows), [row['seconds'] for row in rows.values()]):.2f}.",
            ]
        lines.append("")
    if "per_point" in results:
        lines += [
            "## Batch transform of one point against M, one thread",
            "",
            "Landmarks stand in groups of neighbours; groups too far to matter are passed over once their distances",
            "are known, or by their boxes, without any. The ratio is the time with the same landmarks in random order,",
            "where none can be.",
            "",
            "| M | RMSD, µs | ratio | 3-D, µs | ratio |",
            "|---|---|---|---|---|",
        ]
        rows = results["per_point"]
        for m, row in rows.items():
            cells = " | ".join(
                f"{row[name]['grouped'] * 1e6:.2f} | {row[name]['ratio']:.2f}" for name in ("rmsd", "3-D")
            )
            lines.append(f"| {m:,} | {cells} |")
        if len(rows) > 2:
            grown = [
                exponent(list(rows), [row[name]["grouped"] for row in rows.values()])
                for name in ("rmsd", "3-D")
            ]
            lines += [
                "",
                f"Time grows as M^{grown[0]:.2f} (RMSD) and M^{grown[1]:.2f} (3-D); theory without groups: M^1.",
            ]
    if "passing_over" in results:
        lines += [
            "",
            "## Passing landmarks over by their boxes, 3-D, one thread",
            "",
            "µs a point with boxes; how many times as long without; and the share of boxes within reach of a landmark.",
            "Boxes are used where that share is at most 0.35 (bold); the results are the same to the last bit. With RMSD",
            "at the usual bandwidths every landmark is within reach, and nothing of the kind is tried.",
            "",
            "| M | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
            "|---|" + "---|" * len(EPSILONS),
        ]
        for m, row in results["passing_over"].items():
            cells = []
            for epsilon in EPSILONS:
                cell = row[f"{epsilon:g}"]
                text = f"{cell['boxes'] * 1e6:.2f} µs, {cell['ratio']:.2f}×, {cell['share']:.2f}"
                cells.append(f"**{text}**" if cell["taken"] else text)
            lines.append(f"| {m:,} | " + " | ".join(cells) + " |")
    (DOCS / "scale.md").write_text("\n".join(lines) + "\n")
    draw(results)


def solved_note(row: dict) -> str:
    """How an exact map was solved, and how exact it is."""
    if not row.get("passes"):
        return f"{row['solver']} kernel" if "solver" in row else ""
    note = f"{row['passes']} pass{'es' if row['passes'] > 1 else ''}; errors at most {row['bound']:.2g} % of the range"
    if "z" in row:
        note += f"; Z = {row['z']:.1g} % against the stored kernel, which took {row['stored']:.1f} s"
    return note


def draw(results: dict[str, dict[int, dict]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, label, marker in (
        ("landmark_fit", "landmark map, 3-D", "o"),
        ("landmark_fit_rmsd", "landmark map, 22 atoms", "s"),
        ("exact_rmsd", "exact map, 22 atoms", "^"),
        ("streamed_rmsd", "exact map, streamed, 22 atoms", "v"),
    ):
        if name in results:
            sizes = list(results[name])
            left.loglog(
                sizes, [row["peak"] / 1e9 for row in results[name].values()], marker=marker, label=label
            )
    grid = np.array([1e4, 3e4])
    left.loglog(grid, 4 * grid**2 / 1e9, "k:", label="N × N of float32")
    left.set(xlabel="N", ylabel="peak memory, GB", title="Memory of a fit")
    left.legend(frameon=False)
    if "per_point" in results:
        rows = results["per_point"]
        for name, marker in (("rmsd", "s"), ("3-D", "o")):
            for kind, style in (("grouped", "-"), ("shuffled", "--")):
                label = f"{'22 atoms, RMSD' if name == 'rmsd' else name}, {kind} landmarks"
                right.loglog(
                    list(rows),
                    [row[name][kind] * 1e6 for row in rows.values()],
                    style,
                    marker=marker,
                    label=label,
                )
        right.set(xlabel="landmarks M", ylabel="µs a point, one thread", title="Batch transform")
        right.legend(frameon=False)
        right.set_xticks(list(rows), [f"{m:,}" for m in rows], minor=False)
        right.xaxis.set_minor_formatter(NullFormatter())
    for axes in (left, right) if "per_point" in results else (left,):
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    for suffix in ("png", "svg"):
        figure.savefig(DOCS / f"scale.{suffix}", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.path.insert(0, str(Path(__file__).parent))
        print(json.dumps(CASES[sys.argv[1]](int(sys.argv[2]))))
    else:
        main()
