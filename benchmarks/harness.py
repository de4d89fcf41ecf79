"""What every benchmark shares: interleaved timing, the machine, and the table that is written.

Machines are shared and noisy, so no figure here is a time alone: contestants take
turns in one run, and what is reported is the median of the ratios of their turns.
"""

from __future__ import annotations

import csv
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "benchmarks"
#: What the numbers of a page depend on.
CODE = ("src", "benchmarks", "reproduction", "CMakeLists.txt", "pyproject.toml")


#: Columns of a page, and what they are called there.
SHOWN = {name: name for name in ("what", "against", "ours", "theirs", "ratio")}


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ratio`` is how many times better than ``against`` we are."""

    what: str
    against: str
    ours: str
    theirs: str
    ratio: float
    target: str
    note: str = ""


def turns(
    contestants: Sequence[Callable[[], object]],
    rounds: int = 7,
    repeats: int = 1,
    clock: Callable[[], float] = time.thread_time,
) -> list[list[float]]:
    """Let contestants take turns; return seconds per call, one list per contestant.

    The default clock counts this thread's time on the processor, so that others on
    the machine do not count; what runs on several threads needs ``time.perf_counter``.
    """
    for contestant in contestants:
        contestant()
    seconds: list[list[float]] = [[] for _ in contestants]
    for _ in range(rounds):
        for place, contestant in enumerate(contestants):
            start = clock()
            for _ in range(repeats):
                contestant()
            seconds[place].append((clock() - start) / repeats)
    return seconds


def median_ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def peak_memory() -> int:
    """Return this process's highest resident memory so far, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # On Linux ru_maxrss begins with the size of the process that started this one.
    highest = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(highest.split()[1])


def machine() -> str:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
        flags = next(line for line in lines if line.startswith("flags"))
        model += " (AVX-512)" if "avx512f" in flags else " (AVX2)" if "avx2" in flags else ""
    except (OSError, StopIteration):
        pass
    return f"{os.cpu_count()} cores of {model}, {platform.system()}"


def commit() -> str:
    """Return the commit of the code; pages that an earlier benchmark has written do not make it dirty."""
    answer = _git("describe", "--always")
    mark = "-dirty" if is_changed("HEAD") else ""
    return f"{answer.stdout.strip()}{mark}" if answer.returncode == 0 else "unknown"


def is_changed(since: str) -> bool:
    """Say whether what is measured, or what measures, has changed since a commit (or that commit is not known here)."""
    return _git("diff", "--quiet", since, "--", *CODE).returncode != 0


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)


@cache
def provenance() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scikit-learn"))
    return f"{machine()}; Python {platform.python_version()}, {packages}; commit {commit()}"


def stored(name: str) -> list[Row]:
    """Return the rows of a table's last run."""
    path = DOCS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        lines: list[dict[str, Any]] = list(csv.DictReader(stream))
    return [Row(**{**line, "ratio": float(line["ratio"])}) for line in lines]


def with_rows(rows: Sequence[Row], fresh: Sequence[Row]) -> list[Row]:
    """Return a table in which fresh rows stand where the old ones of the same comparison did."""
    known = {(row.what, row.against) for row in fresh}
    places = [place for place, row in enumerate(rows) if (row.what, row.against) in known]
    others = [row for row in rows if (row.what, row.against) not in known]
    first = min(places, default=len(others))
    return [*others[:first], *fresh, *others[first:]]


def write_table(
    name: str,
    title: str,
    command: str,
    introduction: str,
    rows: Sequence[Row],
    shown: Mapping[str, str] = SHOWN,
    closing: str = "",
    hidden: Sequence[str] = (),
) -> None:
    """Write rows as Markdown and CSV under docs/benchmarks, and print them.

    The page has the columns in ``shown`` (with the names that it gives them) of all rows but those whose ``what`` has a
    ``hidden`` text, and ``closing`` after the table. The CSV has every row and column.
    """
    DOCS.mkdir(parents=True, exist_ok=True)
    head = [field.name for field in fields(Row)]
    cells = [
        [f"{value:.3g}" if isinstance(value, float) else str(value) for value in astuple(row)] for row in rows
    ]
    lines = [f"# {title}", "", introduction, "", f"`{command}` on {provenance()}.", ""]
    lines += ["| " + " | ".join(shown.values()) + " |", "|" + "---|" * len(shown)]
    before = [""] * len(head)
    for cell in cells:
        if any(text in cell[0] for text in hidden):
            continue
        # What a line repeats of the one above is left out.
        told = {
            name
            for name, value, above in zip(head, cell, before, strict=True)
            if value == above and name in ("what", "against")
        }
        values = dict(zip(head, cell, strict=True))
        lines.append("| " + " | ".join("" if name in told else values[name] for name in shown) + " |")
        before = cell
    if closing:
        lines += ["", closing]
    (DOCS / f"{name}.md").write_text("\n".join(lines) + "\n")
    with (DOCS / f"{name}.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([head, *cells])
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    for line in [head, *cells]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip(),
            flush=True,
        )
