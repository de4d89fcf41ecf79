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
*Ratio* is the time of the other package over the time of ldmaps: the median over turns that the two take in one run. One thread, unless
two are named; times per point; [more rows, and notes](speed.csv)."""
CLOSING = """\
- mdtraj gets centred frames. From 100 atoms on, the matrix product alone takes {least} to {most} % of our time.
- Largest relative error of d² in float32: ours {ours}, scikit-learn's {theirs}.
- Z is measured against our exact map; pyDiffMap's coordinates are scaled to fit it best.
- The sum of distances to our medoids is {loss} times that of kmedoids. Maps on two threads have M = 1,000, and are equal to those of one thread to
  the last bit.

![Ratios as bars](speed.png)"""

#: Rows that the CSV alone has.
HIDDEN = (", 24 atoms", ", 300 atoms", "3-D, N = 200,000")
SUBJECTS = ("rmsd", "euclidean", "online", "batch", "k_medoids", "threads")


def closing(rows: list[Row]) -> str:
    """Return the notes below the table, with numbers from the notes of its rows."""
    notes = {(row.what, row.against): row.note for row in rows}
    shares = [
        float(note.split(" of the sgemm")[0])
        for (what, _), note in notes.items()
        if re.fullmatch(r"RMSD of all pairs, [\d,]{3,} atoms", what)
    ]
    errors = re.match(
        r"error of d² (\S+), theirs ([^;]+)",
        notes["Gaussian kernel rows, 3-D, float32", "scikit-learn rbf_kernel"],
    )
    (loss,) = (
        re.match(r"loss ([\d.]+)", note) for (what, _), note in notes.items() if what.startswith("k-medoids")
    )
    assert errors is not None
    assert loss is not None
    return CLOSING.format(
        least=f"{100 * min(shares):.0f}",
        most=f"{100 * max(shares):.0f}",
        ours=errors[1],
        theirs=errors[2],
        loss=loss[1],
    )


def draw(rows: list[Row]) -> None:
    """Draw every ratio as a bar."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 0.36 * len(rows) + 1), layout="constrained")
    for place, row in enumerate(reversed(rows)):
        axes.barh(place, row.ratio, color="#0072B2", height=0.7)
        axes.text(row.ratio * 1.05, place, f"{row.ratio:.3g}×", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{row.what}  |  {row.against}" for row in reversed(rows)], fontsize=7)
    axes.set(xscale="log", xlabel="times faster, in one run", xlim=(0.5, None))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for suffix in ("png", "svg"):
        figure.savefig(DOCS / f"speed.{suffix}", dpi=130)
    plt.close(figure)


def main(names: list[str]) -> None:
    rows = stored("speed") if names else []
    for name in names or SUBJECTS:
        print(f"... {name}", file=sys.stderr, flush=True)
        rows = with_rows(rows, importlib.import_module(name).run())
    write_table(
        "speed", "Speed", "python benchmarks/run.py", INTRODUCTION, rows, closing=closing(rows), hidden=HIDDEN
    )
    draw(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
