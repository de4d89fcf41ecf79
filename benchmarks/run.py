"""Run the speed benchmarks and write docs/benchmarks/speed.md.

python benchmarks/run.py [subject ...]     subjects: rmsd euclidean online batch k_medoids threads
"""

from __future__ import annotations

import importlib
import sys

from harness import write_table

SUBJECTS = ("rmsd", "euclidean", "online", "batch", "k_medoids", "threads")


def main(names: list[str]) -> None:
    rows = []
    for name in names or SUBJECTS:
        print(f"... {name}", file=sys.stderr, flush=True)
        rows += importlib.import_module(name).run()
    command = "make bench" if not names else "python benchmarks/run.py " + " ".join(names)
    write_table("speed" if not names else "_".join(names), "Speed: ratios measured in one run", command, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
