"""Exact maps without the N×N kernel: passes, seconds, peak memory, and how far they are from the stored solution.

    python benchmarks/exact.py              all cases, docs/benchmarks/exact.md
    python benchmarks/exact.py CASE ARGS    one case in this process, as JSON

Every case runs in a process of its own, because peak memory cannot be reset.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from harness import DOCS, peak_memory, provenance
from scale import frames, swiss

#: Data, how many points, vectors of a block, coordinates, and landmarks of the start (0: a random one).
PASSES = [
    *(("c24h50", 8_000, 16, 3, m) for m in (0, 100, 400)),
    *(("alanine", 20_000, 8, 2, m) for m in (0, 100, 400)),
    *(("roll", 16_000, 32, 2, m) for m in (0, 500, 2_000)),
]
#: Maps at sizes from where the kernel can be stored to where it cannot; b = 16, two coordinates, M = 1,000.
SIZES = {
    "alanine": (20_000, 50_000, 100_000),
    "roll": (30_000, 100_000, 300_000),
}
TOLERANCE = 1e-3


def problem(name: str, n: int):
    """Return metric, points and ε: that at which the data hang together, at the size where it was found."""
    from ldmaps.datasets import c24h50
    from ldmaps.metrics import RMSD, Euclidean

    if name == "alanine":
        data, masses = frames(n)
        return RMSD(weights=masses), RMSD(weights=masses).prepare(data), 1.323e-3
    if name == "c24h50":
        return RMSD(), RMSD().prepare(c24h50().frames[:n]), 2.6496e-2
    return Euclidean(), Euclidean().prepare(swiss(n).astype(np.float32)), 0.713


def medoid_start(kernel, n_landmarks: int, n_vectors: int):
    from ldmaps.diffusion.landmark_start import landmark_start
    from ldmaps.diffusion.walk import Walk
    from ldmaps.landmarks import KMedoids

    weights = np.ones(len(kernel))
    walk = Walk(kernel.metric, kernel.points, weights, kernel.epsilon)
    chosen = KMedoids(n_landmarks, max_iter=3).select(walk, np.random.default_rng(0))
    spread = float(chosen.squared_distances.mean())
    return landmark_start(kernel, chosen.indices, chosen.multiplicities, spread, n_vectors)


def stored_spectrum(kernel, count: int):
    from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
    from ldmaps.diffusion.spectrum import solve_spectrum

    matrix = gaussian_kernel(squared_matrix(kernel.metric, kernel.points), kernel.epsilon)
    return solve_spectrum(matrix, np.ones(len(kernel)), count)


def passes(name: str, n: int, block: int, k: int, m: int) -> dict:
    """Z after each pass, against the stored kernel."""
    import tempfile

    from ldmaps.diffusion.block_solver import solve_streamed
    from ldmaps.diffusion.streamed_kernel import StreamedKernel
    from ldmaps.errors import ConvergenceWarning
    from ldmaps.quality.fidelity import rms_error

    kernel = StreamedKernel(*problem(name, n))
    exact = stored_spectrum(kernel, k)
    start = medoid_start(kernel, m, block) if m else np.random.default_rng(1).normal(size=(n, block))
    rows, seconds = [], 0.0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for count in range(1, 31):
            # The state of the last pass is in the file, so each call makes one more.
            began = time.perf_counter()
            found = solve_streamed(
                kernel,
                np.ones(n),
                k,
                start,
                block_size=block,
                tolerance=1e-4,
                max_passes=count,
                state_file=Path(folder) / "state",
            )
            seconds += time.perf_counter() - began
            rows.append(
                {
                    "Z": rms_error(exact.vectors, found.spectrum.vectors),
                    "bound": float(found.angle_errors.max()),
                    "eigenvalue": float(np.abs(found.spectrum.eigenvalues / exact.eigenvalues - 1.0).max()),
                }
            )
            if found.converged:
                break
    return {"eigenvalues": exact.eigenvalues.tolist(), "passes": rows, "seconds": seconds / len(rows)}


def solved(name: str, n: int) -> dict:
    """One map with everything, on one core: start, passes, peak memory."""
    from ldmaps.diffusion.block_solver import solve_streamed
    from ldmaps.diffusion.sparse_kernel import near_fraction
    from ldmaps.diffusion.streamed_kernel import StreamedKernel

    small = StreamedKernel(*problem(name, 3_000))
    solve_streamed(small, np.ones(3_000), 2, medoid_start(small, 100, 16), block_size=16)  # compiles
    kernel = StreamedKernel(*problem(name, n))
    before = peak_memory()
    began = time.perf_counter()
    start = medoid_start(kernel, 1_000, 16)
    started = time.perf_counter()
    processor = time.thread_time()
    found = solve_streamed(kernel, np.ones(n), 2, start, block_size=16, tolerance=TOLERANCE, n_threads=1)
    processor = time.thread_time() - processor
    return {
        "start": started - began,
        "seconds": time.perf_counter() - started,
        "passes": found.n_passes,
        "pairs": n * n / 2 * found.n_passes / processor,
        "bound": float(found.angle_errors.max()),
        "peak": peak_memory(),
        "before": before,
        "near": near_fraction(kernel.metric, kernel.points, kernel.epsilon, np.random.default_rng(0)),
    }


def stored(name: str, n: int) -> dict:
    """The same map by the stored kernel, and Z between the two."""
    from ldmaps.diffusion.block_solver import solve_streamed
    from ldmaps.diffusion.streamed_kernel import StreamedKernel
    from ldmaps.quality.fidelity import rms_error

    kernel = StreamedKernel(*problem(name, n))
    stored_spectrum(StreamedKernel(*problem(name, 2_000)), 2)  # compiles
    began = time.perf_counter()
    exact = stored_spectrum(kernel, 2)
    seconds, peak = time.perf_counter() - began, peak_memory()
    found = solve_streamed(
        kernel, np.ones(n), 2, medoid_start(kernel, 1_000, 16), block_size=16, tolerance=TOLERANCE
    )
    return {"seconds": seconds, "peak": peak, "Z": rms_error(exact.vectors, found.spectrum.vectors)}


CASES = {case.__name__: case for case in (passes, solved, stored)}


def run(*arguments: object) -> dict:
    print("...", *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, __file__, *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def first_below(rows: list[dict], limit: float) -> str:
    """Return after how many passes Z fell below a limit, in percent."""
    return next((str(count) for count, row in enumerate(rows, 1) if row["Z"] < limit), "more")


def main() -> None:
    provenance()  # asked before anything is written, so that the commit is clean if it was
    lines = [
        "# Exact maps without the kernel matrix",
        "",
        f"`python benchmarks/exact.py` on {provenance()}.",
        "",
        "## Passes over all pairs until Z falls below a limit, against the stored kernel",
        "",
        "b vectors in a block, k coordinates; the start is the map of M medoids, or random. The bound is the solver's own,",
        "of the sine between its worst coordinate and the exact one, at the last pass.",
        "",
        "| data | N | b | k | start | < 1 % | < 0.1 % | < 0.01 % | seconds a pass | last Z, % | bound | eigenvalues to |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, n, block, k, m in PASSES:
        result = run("passes", name, n, block, k, m)
        rows = result["passes"]
        counts = " | ".join(first_below(rows, limit) for limit in (1.0, 0.1, 0.01))
        lines.append(
            f"| {name} | {n:,} | {block} | {k} | {f'M = {m:,}' if m else 'random'} | {counts} | "
            f"{result['seconds']:.1f} | {rows[-1]['Z']:.1g} | {rows[-1]['bound']:.1g} | {rows[-1]['eigenvalue']:.0e} |"
        )
    lines += [
        "",
        f"## Whole solves on one core: M = 1,000 medoids, b = 16, two coordinates, errors below {TOLERANCE:g}",
        "",
        "| data | N | near pairs | start, s | passes | solve, s | M pairs/s/core | peak memory, MB | before it, MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, sizes in SIZES.items():
        for n in sizes:
            row = run("solved", name, n)
            lines.append(
                f"| {name} | {n:,} | {100 * row['near']:.2g} % | {row['start']:.1f} | {row['passes']} | "
                f"{row['seconds']:.0f} | {row['pairs'] / 1e6:.0f} | {row['peak'] / 1e6:.0f} | {row['before'] / 1e6:.0f} |"
            )
    lines += ["", "## By the stored kernel, two threads", ""]
    lines += ["| data | N | seconds | peak memory, MB | Z between the two, % |", "|---|---|---|---|---|"]
    for name, n in (("alanine", 20_000), ("roll", 20_000)):
        row = run("stored", name, n)
        lines.append(f"| {name} | {n:,} | {row['seconds']:.1f} | {row['peak'] / 1e6:.0f} | {row['Z']:.1g} |")
    (DOCS / "exact.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        case, name, *numbers = sys.argv[1:]
        print(json.dumps(CASES[case](name, *map(int, numbers))))
    else:
        main()
