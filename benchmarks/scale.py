"""What grows with N and M: peak memory, time, fitted exponents, and where passing landmarks over pays.

    python benchmarks/scale.py                                 what docs/benchmarks/scale.json lacks
    python benchmarks/scale.py --only streamed_3d --again      one section, measured again
    python benchmarks/scale.py --only streamed_3d --most 20000 its smaller sizes alone

Writes docs/benchmarks/scale.json, a row as soon as it is known, with its commit, and from
it scale.md and figures. The cases are in scale_cases.py; each runs in a process of its own,
because peak memory cannot be reset.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from harness import DOCS, provenance
from scale_cases import CASES, EPSILONS, LONG, SIZES

INTRODUCTION = """\
How do time and memory grow with the number of points N and of landmarks M? Each size runs in a process of its own; memory is the peak of
the whole process."""

STORE = DOCS / "scale.json"


def exponent(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--again", action="store_true", help="measure again what is known already")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="largest size (all)")
    parser.add_argument("--full", action="store_true", help="the sizes that take several minutes each, too")
    arguments = parser.parse_args()
    provenance()  # asked before anything is written, so that the commit is clean if it was
    is_new = arguments.again and arguments.only == list(CASES)
    known = json.loads(STORE.read_text()) if STORE.exists() and not is_new else {}
    results: dict[str, dict[int, dict]] = {
        name: {int(size): row for size, row in rows.items()} for name, rows in known.items()
    }
    for name in arguments.only:
        for size in SIZES[name] + (LONG.get(name, ()) if arguments.full else ()):
            if size > arguments.most or (size in results.get(name, {}) and not arguments.again):
                continue
            print(f"... {name} {size:,}", file=sys.stderr, flush=True)
            row = run(name, size)
            row["on"] = f"{provenance()}; load {os.getloadavg()[0]:.1f}"
            found = {**results.get(name, {}), size: row}
            results[name] = dict(sorted(found.items()))
            write(results)
    write(results)


def run(name: str, size: int) -> dict:
    """Measure a case in a process of its own."""
    script = Path(__file__).with_name("scale_cases.py")
    answer = subprocess.run(
        [sys.executable, script, name, str(size)], capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SystemExit(f"{name} {size:,} failed:\n{answer.stderr}")
    row: dict = json.loads(answer.stdout.splitlines()[-1])
    return row


def write(results: dict[str, dict[int, dict]]) -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    STORE.write_text(json.dumps(results, indent=1))
    every = [row for found in results.values() for row in found.values()]
    machines = ", ".join(dict.fromkeys(re.sub(r"; .*", "", row["on"]) for row in every))
    lines = ["# Scale: what grows with N and with M", "", INTRODUCTION, ""]
    lines += [
        f"`python benchmarks/scale.py` on {machines}; [sizes between, commit and load of each](scale.json).",
        "",
    ]
    titles = {
        "landmark_fit": "landmark fit, 3-D, ε given, M = 400",
        "landmark_fit_rmsd": "the same, 22 atoms, RMSD",
        "tree_landmarks": "pruned spanning tree, 3-D, ε = 0.25",
        "tree_landmarks_rmsd": "the same, 22 atoms, ε = 1.6e-3 nm²",
        "exact_rmsd": "exact map, 22 atoms, connected ε",
        "streamed_rmsd": "the same without the kernel matrix",
        "exact_3d": "exact map, 3-D, float32, ε falling with N, 4 GB at most",
        "streamed_3d": "exact map without the kernel matrix, 3-D, float32, ε = 0.01",
        "connected_rmsd": "connected ε alone, 22 atoms",
    }
    lines += [
        "| what | N | seconds | memory, MB | time grows as | |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in titles.items():
        rows = results.get(name, {})
        times = [row["seconds"] for row in rows.values()]
        grows = f"N^{exponent(list(rows), times):.2f}" if len(rows) > 1 else ""
        for n in sorted({min(rows, default=0), max(rows, default=0)} & set(rows)):
            row = rows[n]
            note = (
                f"{row['landmarks']:,} landmarks"
                if "landmarks" in row
                else ""
                if "epsilon" in row
                else solved_note(row)
            )
            lines.append(
                f"| {title} | {n:,} | {row['seconds']:.1f} | {row['peak'] / 1e6:.0f} | {grows} | {note} |"
            )
            title = grows = ""
    lines.append("")
    if "per_point" in results:
        lines += [
            "## Time per point against M, batches, one thread",
            "",
            "Groups of landmarks that are too far to matter are skipped. *Ratio*: the time with landmarks in random order, where none can be, over "
            "this.",
            "",
            "| M | RMSD, µs | ratio | 3-D, µs | ratio |",
            "|---|---|---|---|---|",
        ]
        rows = results["per_point"]
        for m, row in list(rows.items())[::2]:
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
                f"Time grows as M^{grown[0]:.2f} (RMSD) and M^{grown[1]:.2f} (3-D).",
            ]
    if "passing_over" in results:
        lines += [
            "",
            boxes_note(results["passing_over"]),
        ]
    (DOCS / "scale.md").write_text("\n".join(lines) + "\n")
    draw(results)


def boxes_note(results: dict[int, dict]) -> str:
    """Say what skipping landmarks by their bounding boxes gains where it is done, and at most."""
    taken = [
        (cell["ratio"], m, epsilon)
        for m, row in results.items()
        for epsilon in EPSILONS
        for cell in [row[f"{epsilon:g}"]]
        if cell["taken"]
    ]
    if not taken:
        return "Bounding boxes skip nothing."
    (least, _, _), (most, m, epsilon) = min(taken), max(taken)
    return (
        f"Where bounding boxes are used in 3-D, they gain {least:.1f} to {most:.1f} times (M = {m:,}, ε = {epsilon:g}), to the same "
        "bits. With RMSD at the usual ε every landmark is within reach, and none is skipped."
    )


def solved_note(row: dict) -> str:
    """How an exact map was solved, and how exact it is."""
    if not row.get("passes"):
        note = f"{row['solver']} kernel" if "solver" in row else ""
        if "in_passes" in row:
            note += (
                f"; streamed at the same ε: {row['in_passes']} passes, {row['in_passes_processor']:.0f} s of processor "
                f"time, Z = {row['z']:.1g} % between the two"
            )
        return note
    note = f"{row['passes']} pass{'es' if row['passes'] > 1 else ''}, error ≤ {row['bound']:.2g} %"
    if "z" in row:
        note += f"; Z = {row['z']:.1g} % against the stored kernel"
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
        ("streamed_3d", "exact map, streamed, 3-D", "D"),
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
    main()
