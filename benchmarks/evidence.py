"""Measure the numbers of the pages with the code of one commit, one benchmark after another.

    python -m benchmarks.evidence                 runs what was not yet measured with this code; resumes if interrupted
    python -m benchmarks.evidence --list          lists what was measured with which commit, and how long it took
    python -m benchmarks.evidence --only speed    runs the benchmarks whose name has this text
    python -m benchmarks.evidence --hours 2       begins no benchmark after so long
    python -m benchmarks.evidence --jobs 2        runs two at once, one thread each, of those that time nothing
    python -m benchmarks.evidence --full          all folds, sizes and seeds: most of a day

What was measured is kept in ``docs/evidence.json``: a benchmark counts as done if neither the package nor the
benchmarks have changed since its commit. Each benchmark writes its own page when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from benchmarks.harness import CODE, commit, is_changed, machine
from ldmaps import __version__

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STORE = DOCS / "evidence.json"
#: Of the file, which benchmarks that run at once write.
LOCK = threading.Lock()


@dataclass(frozen=True)
class Benchmark:
    """A question, the pages that answer it, and the commands that measure the answer."""

    name: str
    question: str
    #: file name under docs (it is there once) and title of each page
    pages: Mapping[str, str]
    commands: tuple[str, ...]
    #: what a first run adds to the last command, for benchmarks that resume by themselves
    afresh: str = ""
    #: what ``--full`` runs instead: more folds, sizes or seeds
    full: tuple[str, ...] = ()
    #: whether wall time is among its answers, so that it must run alone
    times: bool = False


BENCHMARKS = (
    Benchmark(
        "numbers",
        "What does the demo find, and how fast?",
        {},
        ("-m tools.page_numbers",),
        times=True,
    ),
    Benchmark(
        "paper",
        "Does it reproduce the paper's results?",
        {"paper/README.md": "Table 1, Figures 2–5"},
        ("-m reproduction --output docs/paper --cache build/paper-{commit} --folds 1",),
        full=("-m reproduction --output docs/paper --cache build/paper-{commit}",),
    ),
    Benchmark(
        "accuracy",
        "How close are landmark maps to the exact one?",
        {"accuracy.md": "accuracy"},
        ("benchmarks/accuracy.py --folds 2",),
        "--again",
        full=("benchmarks/distilling_ideas.py", "benchmarks/accuracy.py --full"),
    ),
    Benchmark(
        "errors",
        "Can errors be predicted?",
        {"error_estimates.md": "error estimates"},
        ("benchmarks/perturbation.py", "benchmarks/estimate_search.py"),
        "--again",
        full=("benchmarks/perturbation.py", "benchmarks/estimate_search.py --seeds 2"),
    ),
    Benchmark(
        "speed",
        "How fast is it?",
        {"benchmarks/speed.md": "speed"},
        ("benchmarks/run.py",),
        times=True,
    ),
    Benchmark(
        "stream",
        "How fast are streams, and how late?",
        {"benchmarks/stream.md": "streams"},
        ("benchmarks/stream.py",),
        times=True,
    ),
    Benchmark(
        "embedding",
        "How near is embedding to the speed of memory?",
        {"benchmarks/embedding.md": "embedding"},
        ("benchmarks/embedding.py",),
        times=True,
    ),
    Benchmark(
        "gradient",
        "What do gradients cost?",
        {"benchmarks/gradient.md": "gradients"},
        ("benchmarks/gradient.py",),
        times=True,
    ),
    Benchmark(
        "features",
        "What do internal coordinates cost?",
        {"benchmarks/features.md": "internal coordinates"},
        ("benchmarks/features.py",),
        times=True,
    ),
    Benchmark(
        "surroundings",
        "What does everything around a map cost?",
        {"benchmarks/surroundings.md": "overheads"},
        ("benchmarks/surroundings.py",),
        times=True,
    ),
    Benchmark(
        "scale",
        "How do time and memory grow?",
        {"benchmarks/scale.md": "scale"},
        ("benchmarks/scale.py",),
        "--again",
        full=("benchmarks/scale.py --full",),
        times=True,
    ),
    Benchmark(
        "cluster",
        "How do fits on several processes scale?",
        {"benchmarks/cluster.md": "clusters"},
        ("benchmarks/cluster.py",),
        full=("benchmarks/cluster.py --points 10000000 --frames 2000000 --turns 3",),
        times=True,
    ),
    Benchmark(
        "planning",
        "Does `plan` predict time and memory?",
        {"benchmarks/planning.md": "planning"},
        ("benchmarks/planning.py",),
        times=True,
    ),
    Benchmark(
        "bandwidth",
        "Does any half of the data give the same ε?",
        {"benchmarks/bandwidth.md": "bandwidth"},
        ("benchmarks/bandwidth.py",),
        full=("benchmarks/bandwidth.py --full",),
    ),
    Benchmark(
        "alarms",
        "Are false alarms as rare as promised?",
        {"benchmarks/alarms.md": "alarms"},
        ("benchmarks/alarms.py",),
    ),
    Benchmark(
        "anomalies",
        "Which anomalies are found?",
        {"benchmarks/anomalies.md": "anomalies"},
        ("benchmarks/anomalies.py",),
    ),
    Benchmark(
        "coordinates",
        "Are states and coordinates counted right?",
        {"benchmarks/coordinates.md": "coordinates"},
        ("benchmarks/coordinates.py",),
    ),
    Benchmark(
        "kinetics",
        "Are time scales, committors and rates right?",
        {"benchmarks/kinetics.md": "kinetics"},
        ("benchmarks/kinetics.py",),
        "--again",
    ),
    Benchmark(
        "states",
        "Are rare states kept, at the same ε?",
        {"benchmarks/states.md": "states"},
        ("benchmarks/real_tables.py", "benchmarks/states.py"),
    ),
    Benchmark(
        "sampling",
        "Do error bars from resampling hold?",
        {"benchmarks/sampling.md": "sampling"},
        ("benchmarks/sampling.py",),
    ),
    Benchmark(
        "certificates",
        "Do certificates hold?",
        {"benchmarks/certificates.md": "certificates"},
        ("benchmarks/certificates.py",),
        "--again",
    ),
    Benchmark(
        "fewest-landmarks",
        "How many landmarks does a tolerance take, over seeds and instruction sets?",
        {"benchmarks/fewest_landmarks.md": "fewest landmarks"},
        ("benchmarks/fewest_landmarks.py",),
        "--again",
    ),
    Benchmark(
        "error-bounds",
        "Which bound does a certificate rest on?",
        {"benchmarks/error_bounds.md": "error bounds"},
        ("benchmarks/error_bounds.py",),
    ),
    Benchmark(
        "compare",
        "Do other packages agree?",
        {"benchmarks/compare.md": "side by side"},
        ("benchmarks/compare.py",),
        times=True,
    ),
    Benchmark("quotes", "What do the commands of the pages print?", {}, ("tools/quotes.py",)),
)


@dataclass(frozen=True)
class Measured:
    """A benchmark's last run."""

    commit: str
    version: str
    date: str
    machine: str
    seconds: float
    #: False while it runs, and after an interruption
    is_whole: bool

    @property
    def is_current(self) -> bool:
        """Whether it ended, and nothing that it measures has changed since."""
        return self.is_whole and not is_changed(self.commit)


def read_store() -> dict[str, Measured]:
    """Return what was measured, by the name of the benchmark."""
    if not STORE.exists():
        return {}
    entries = json.loads(STORE.read_text(encoding="utf-8"))
    return {name: Measured(**entry) for name, entry in entries.items()}


def write_store(store: Mapping[str, Measured]) -> None:
    """Write what was measured, whole or not at all."""
    beside = STORE.with_suffix(".new")
    entries = {name: asdict(measured) for name, measured in store.items()}
    beside.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(STORE)


def releases_behind(measured: str, releases: Iterable[str]) -> int:
    """Return how many releases came after the version that was measured.

    >>> releases_behind("0.1.0", ["0.3.0", "0.2.0", "0.1.0"])
    2
    """
    return list(releases).index(measured)


def stale(store: Mapping[str, Measured], changelog: str) -> list[str]:
    """Return benchmarks that are older than the release before the last, or were never run when a version is released.

    A version is being released, or was, if nothing is listed as unreleased.
    """
    releases = re.findall(r"^## \[(\d[\w.]*)\]", changelog, re.MULTILINE)
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    is_release = unreleased is None or not unreleased[1].strip()
    names = [benchmark.name for benchmark in BENCHMARKS]
    missing = [name for name in names if name not in store or not store[name].is_whole]
    old = [name for name in names if name in store and releases_behind(store[name].version, releases) > 1]
    return old + (missing if is_release else [])


def run(
    benchmark: Benchmark, store: dict[str, Measured], *, full: bool = False, threads: int | None = None
) -> None:
    """Run the commands of a benchmark, and write down how long it took; one that was interrupted resumes."""
    before = store.get(benchmark.name)
    resumes = before is not None and not before.is_whole and before.commit == commit()
    spent = before.seconds if before is not None and resumes else 0.0
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    }
    if threads:
        env |= dict.fromkeys(("LDMAPS_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    commands = (full and benchmark.full) or benchmark.commands
    for place, command in enumerate(commands, start=1):
        is_last = place == len(commands)
        words = shlex.split(command.format(commit=commit()))
        if is_last and not resumes:
            words += shlex.split(benchmark.afresh)
        print(f"evidence: {benchmark.name}: python {shlex.join(words)}", flush=True)
        start, ended = time.monotonic(), False
        try:
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True, env=env)
            ended = is_last
        finally:
            spent += time.monotonic() - start
            measured = Measured(
                commit(), __version__, date.today().isoformat(), machine(), round(spent, 1), ended
            )
            with LOCK:
                store[benchmark.name] = measured
                write_store(store)


def run_all(
    wanted: Sequence[Benchmark], store: dict[str, Measured], jobs: int, hours: float, *, full: bool
) -> list[str]:
    """Run benchmarks, several at once if they time nothing; return the names of those that failed."""
    end, failed = time.monotonic() + 3600 * hours, list[str]()

    def one(benchmark: Benchmark, threads: int | None = None) -> None:
        if time.monotonic() > end:
            print(f"evidence: {benchmark.name} is left for another run")
            return
        try:
            run(benchmark, store, full=full, threads=threads)
        except subprocess.CalledProcessError as error:
            print(f"evidence: {benchmark.name} failed with status {error.returncode}", flush=True)
            failed.append(benchmark.name)

    alone = [benchmark for benchmark in wanted if benchmark.times or jobs == 1]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda benchmark: one(benchmark, 1), [each for each in wanted if each not in alone]))
    for benchmark in alone:
        one(benchmark)
    return failed


def duration(seconds: float) -> str:
    """Return a time as a page shows it.

    >>> duration(40), duration(754), duration(9000)
    ('40 s', '13 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def page_of(name: str) -> Path:
    """Return where a page is; its name is there once."""
    found = [path for path in DOCS.rglob(name) if "_build" not in path.parts]
    if len(found) != 1:
        raise SystemExit(f"evidence: {len(found)} pages under docs are called {name}, expected one")
    return found[0]


def table(store: Mapping[str, Measured], beside: Path) -> str:
    """Return the table of the page on evidence: question, page, command, and commit and time of the last run."""
    lines = ["| question | page | command | commit | time |", "|---|---|---|---|---|"]
    for benchmark in BENCHMARKS:
        pages = {title: os.path.relpath(page_of(name), beside) for name, title in benchmark.pages.items()}
        links = ", ".join(f"[{title}]({path})" for title, path in pages.items()) or "README and others"
        commands = "; ".join(f"`python {command}`" for command in benchmark.commands)
        measured = store.get(benchmark.name)
        last = (
            (measured.commit, duration(measured.seconds))
            if measured and measured.is_whole
            else ("on its page", "–")
        )
        lines.append(f"| {benchmark.question} | {links} | {commands} | {' | '.join(last)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="run nothing, list what was measured")
    parser.add_argument("--only", default="", help="benchmarks whose name has this text (all)")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--jobs", type=int, default=1, help="at once, of those that time nothing (1)")
    parser.add_argument("--full", action="store_true", help="all folds, sizes and seeds: most of a day")
    options = parser.parse_args()
    chosen = [benchmark for benchmark in BENCHMARKS if options.only in benchmark.name]
    if not chosen:
        parser.error(
            f"no benchmark has {options.only!r} in its name: {', '.join(b.name for b in BENCHMARKS)}"
        )
    store = read_store()
    if options.list:
        for benchmark in chosen:
            measured = store.get(benchmark.name)
            state = "current" if measured and measured.is_current else "to be measured"
            last = f", last {measured.commit} in {duration(measured.seconds)}" if measured else ""
            print(f"{benchmark.name:<18} {state}{last}")
        return
    if is_changed("HEAD"):
        raise SystemExit(
            f"evidence: there are uncommitted changes in {', '.join(CODE)}; "
            "commit them, so that the pages can name a commit"
        )
    current = [name for name, measured in store.items() if measured.is_current]
    for benchmark in chosen:
        if benchmark.name in current:
            print(f"evidence: {benchmark.name} was measured with this code")
    wanted = [benchmark for benchmark in chosen if benchmark.name not in current]
    failed = run_all(wanted, store, options.jobs, options.hours, full=options.full)
    subprocess.run([sys.executable, "-m", "tools.page_numbers", "--fill"], cwd=ROOT, check=True)
    if failed:
        raise SystemExit(
            f"evidence: {', '.join(failed)} failed; see the output above, and run the same again"
        )


if __name__ == "__main__":
    main()
