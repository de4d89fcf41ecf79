"""Measure the numbers that several pages say, and write them into these pages.

    python tools/page_numbers.py            measures, and writes docs/numbers.json and the pages
    python tools/page_numbers.py --fill     writes docs/numbers.json, as it is, into the pages

A page says where a number stands: ``<!--=demo.speed_up-->570<!--/-->``. What is between the two comments comes from
``docs/numbers.json``, from the tables of benchmarks, or from ``docs/evidence.json``, and from nowhere else; a test
compares. ``demo.table`` is what ``ldmaps demo`` prints.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path

from benchmarks import evidence
from benchmarks.harness import DOCS, commit, machine
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.demo import comparison

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "docs" / "numbers.json"
#: The command, and how much memory it had: what ``getrusage`` says of a child includes the process that started it.
EMBED = """
import sys
from ldmaps.cli import main
main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
"""
PLACE = re.compile(r"(<!--=([\w.]+)-->)(.*?)(<!--/-->)", re.DOTALL)


#: Numbers that are a benchmark's ratio: its table, and the two columns that name the row.
TABLED = {
    "speed.rmsd": ("speed.csv", "RMSD of all pairs, 22 atoms", "mdtraj.rmsd"),
    "speed.frame.pydiffmap": ("speed.csv", "one point, M = 400, 22 atoms, RMSD", "pyDiffMap (k = 64), all N"),
    "speed.frame.datafold": (
        "speed.csv",
        "one point, M = 400, 22 atoms, RMSD",
        "datafold DiffusionMaps, all N",
    ),
    "speed.point.pydiffmap": ("speed.csv", "one point, M = 400, 3-D", "pyDiffMap (k = 64), all N"),
    "speed.point.datafold": ("speed.csv", "one point, M = 400, 3-D", "datafold DiffusionMaps, all N"),
}


def known() -> dict[str, str]:
    """Return every number that a page may say, as it is stored."""
    numbers: dict[str, str] = json.loads(STORE.read_text(encoding="utf-8"))
    numbers |= {name: tabled(*row) for name, row in TABLED.items()}
    numbers |= of_scale() | of_accuracy() | of_predictions() | of_certificates()
    beside = evidence.page_of("validation.md").parent
    return numbers | {"evidence.table": f"\n\n{evidence.table(evidence.read_store(), beside)}\n\n"}


def tabled(file: str, what: str, against: str) -> str:
    """Return the ratio in a row of a benchmark's table."""
    with (DOCS / file).open(newline="", encoding="utf-8") as stream:
        found = [
            row["ratio"] for row in csv.DictReader(stream) if (row["what"], row["against"]) == (what, against)
        ]
    if len(found) != 1:
        raise SystemExit(f"{file} has {len(found)} rows of {what!r} against {against!r}, expected one")
    return found[0]


def of_scale() -> dict[str, str]:
    """Return seconds and memory of the largest fits."""
    cases = json.loads((DOCS / "scale.json").read_text(encoding="utf-8"))
    million, frames = cases["landmark_fit"]["1000000"], cases["streamed_rmsd"]["100000"]
    return {
        "scale.million": f"{million['seconds']:.1f} s, {million['peak'] / 1e6:.0f} MB",
        "scale.frames": f"{frames['seconds']:.0f} s on two cores, {frames['peak'] / 1e6:.0f} MB, errors at most "
        f"{frames['bound']:.1g} % of the range",
    }


def of_accuracy() -> dict[str, str]:
    """Return how many times smaller the errors of distilled maps are, and over how many maps that is."""
    errors = defaultdict[tuple[str, str, str], list[float]](list)
    for file in ("table1.csv", "draws.csv"):
        for row in _rows(DOCS.parent / "accuracy" / file):
            errors[row["data"], row["m"], row.get("extension", "nystrom")].append(float(row["z_test"]))
    means = {key: statistics.mean(found) for key, found in errors.items()}
    gains = [means[data, m, "nystrom"] / z for (data, m, how), z in means.items() if how == "distilled"]
    sets = len({data for data, _, _ in errors})
    return {
        "accuracy.gain": f"{min(gains):.0f} to {max(gains):.0f} times smaller ({sets} data sets, {len(gains)} maps)"
    }


def of_predictions() -> dict[str, str]:
    """Return predicted over measured errors of each data set at its largest M: ours, and the paper's formula."""
    last = {row["data"]: row for row in _rows(DOCS.parent / "paper" / "figure4.csv")}
    ours, theirs = (
        ", ".join(f"{float(row[f'{name}_point_ratio']):.2f}" for row in last.values())
        for name in ("second", "paper")
    )
    return {"predictions": f"{ours}; the paper's formula {theirs}"}


def of_certificates() -> dict[str, str]:
    """Return what became of certificates when they were tested with fresh points."""
    rows = [row for row in _rows(DOCS / "certificates.csv") if row["regime"] == "N = 1,000"]
    count = Counter(row["outcome"] for row in rows)
    exceeded = count["exceeded"] + count["broken"]
    issued = count["kept"] + exceeded
    return {
        "certificates.kinds": f"{len({row['data'] for row in rows})}",
        "certificates": f"{issued} issued, {exceeded} bounds ({100 * exceeded / issued:.1f} %) exceeded at 95 % "
        "confidence, of these "
        f"{count['broken']} tolerances ({100 * count['broken'] / issued:.1f} %) broken, {count['refused']} refused",
    }


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, without its remarks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def pages() -> list[Path]:
    """Return all pages that say a number of the file."""
    found = [ROOT / "README.md", ROOT / "paper" / "paper.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if PLACE.search(path.read_text(encoding="utf-8"))]


def filled(text: str, numbers: dict[str, str]) -> str:
    """Return a page with the numbers of the file.

    >>> filled("in <!--=demo.seconds-->9<!--/--> s", {"demo.seconds": "16"})
    'in <!--=demo.seconds-->16<!--/--> s'
    """
    return PLACE.sub(lambda place: f"{place[1]}{numbers[place[2]]}{place[4]}", text)


def measured() -> dict[str, str]:
    """Run the demo and a small command; return what pages say of them, as they say it."""
    start_up, memory = _start_up()
    began = time.perf_counter()
    demonstration = comparison.run()
    seconds = time.perf_counter() - began
    exact, distilled = demonstration.exact, demonstration.distilled
    if distilled is None:
        raise SystemExit("the demo certified no distilled map: nothing to write")
    return {
        "made": f"{machine()}, {date.today().isoformat()}, commit {commit()}",
        "demo.frames": f"{exact.n_landmarks:,}",
        "demo.landmarks": f"{distilled.n_landmarks}",
        "demo.seconds": f"{seconds:.0f}",
        "demo.speed_up": f"{float(f'{distilled.frames_per_second / exact.frames_per_second:.2g}'):,.0f}",
        "demo.z_test": f"{distilled.z_held_out:.2f}",
        "demo.table": f"\n\n```\n{comparison.table(demonstration)}\n```\n\n",
        "start_up.megabytes": f"{memory:.0f}",
        "start_up.seconds": f"{start_up:.1f}",
    }


def _start_up() -> tuple[float, float]:
    """Return the least seconds and the most memory, in MB, of a command that embeds one row."""
    with tempfile.TemporaryDirectory() as folder:
        points = swiss_roll(500).points
        LandmarkDiffusionMap(2, 4.0, n_landmarks=100).fit(points).save(f"{folder}/map.ldm")
        Path(folder, "row.csv").write_text(",".join(map(str, points[0])) + "\n", encoding="utf-8")
        command = [sys.executable, "-c", EMBED, "embed", "map.ldm", "row.csv", "-o", "-", "-q"]
        seconds, peaks = [], []
        for _ in range(7):
            began = time.perf_counter()
            done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - began)
            peaks.append(int(done.stderr.split()[-1]) / 1e3)
    return min(seconds), max(peaks)


def main() -> None:
    """Measure and write, or only write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fill", action="store_true", help="measure nothing")
    if not parser.parse_args().fill:
        STORE.write_text(json.dumps(measured(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    numbers = known()
    for path in pages():
        path.write_text(filled(path.read_text(encoding="utf-8"), numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
