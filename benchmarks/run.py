"""Run the speed benchmarks; write docs/benchmarks/speed.md, .csv and the figure.

    python benchmarks/run.py [subject ...]     subjects: rmsd euclidean online batch k_medoids threads

Subjects run again replace their rows of the last table and leave the others.
"""

from __future__ import annotations

import importlib
import re
import sys

from harness import DOCS, Row, stored, with_rows, write_table

INTRODUCTION = """\
How fast is it? *Ratio* says how many times as fast as the other contestant we are; above 1 we are faster. Both take turns in
one run and the median of the ratios counts, because machines differ and are shared."""

SUBJECTS = ("rmsd", "euclidean", "online", "batch", "k_medoids", "threads")


def draw(rows: list[Row]) -> None:
    """Draw every ratio as a bar, with its target as a mark."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 0.36 * len(rows) + 1), layout="constrained")
    for place, row in enumerate(reversed(rows)):
        axes.barh(place, row.ratio, color="#0072B2", height=0.7)
        # The number before "×" is the target; where there is none, none is drawn.
        found = re.search(r"([\d.]+)×", row.target)
        target = float(found[1]) if found else 0.0
        if found:
            axes.plot([target] * 2, [place - 0.45, place + 0.45], color="#D55E00", linewidth=2.5)
        # Beside the mark, not under it, where the bar ends just before it.
        end = target if row.ratio < target < 1.6 * row.ratio else row.ratio
        axes.text(end * 1.05, place, f"{row.ratio:.3g}×", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{row.what}  |  {row.against}" for row in reversed(rows)], fontsize=7)
    axes.set(xscale="log", xlabel="times faster, in one run (orange: target)", xlim=(0.5, None))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for suffix in ("png", "svg"):
        figure.savefig(DOCS / f"speed.{suffix}", dpi=130)
    plt.close(figure)


def main(names: list[str]) -> None:
    rows = stored("speed")
    for name in names or SUBJECTS:
        print(f"... {name}", file=sys.stderr, flush=True)
        rows = with_rows(rows, importlib.import_module(name).run())
    write_table("speed", "Speed: ratios measured in one run", "make bench", INTRODUCTION, rows)
    with (DOCS / "speed.md").open("a") as stream:
        stream.write("\n![Ratios as bars](speed.png)\n")
    draw(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
