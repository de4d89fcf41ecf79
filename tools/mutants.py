"""Break the library one line at a time and see that a test notices: ``make mutants``.

tools/mutants.toml lists the mutants: a file of src/ldmaps, a snippet that stands in it exactly once, what takes its
place, and the tests that must fail then. Where no test can fail, because the two snippets mean the same, ``equivalent``
says why. Mutants that a seed draws (random_mutants.py) show what the list forgot. The sources are copied to a temporary
folder, so the working tree is never touched; kernels (C++) are compiled there, for the least instruction set.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the tests, which import this file as tools.mutants
import random_mutants

__all__ = ["LIST", "Mutant", "MutantError", "drawn_mutants", "main", "read_mutants", "verdict"]

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutants.toml")
#: Seconds that the tests of one mutant may take; a mutant that never ends is noticed, too.
PATIENCE = 600.0
#: What pytest's exit status says: some test failed, or a module could not be imported.
_NOTICED = (1, 2)
#: Seconds that the tests of a mutant that a seed drew take together, at most, without it.
BUDGET = 60.0
#: How all tests are run to see which lines each reaches.
_ALL_TESTS = ("-n", "auto", "--dist", "worksteal", "-m", "not slow", "tests")
#: Of the mutants that a seed draws, this share must be noticed once the equivalent ones are listed.
LEAST_NOTICED = 0.9
#: Ends of the names of files that are compiled.
_COMPILED = (".cpp", ".h")


class MutantError(Exception):
    """An entry of the list is not as it must be."""


@dataclass(frozen=True)
class Mutant:
    """One line to break.

    Attributes
    ----------
    name : str
        What is broken, in a few words.
    file : str
        Below src/ldmaps.
    old, new : str
        The snippet and what takes its place.
    tests : tuple of str
        Test ids below tests/; at least one of them must fail.
    equivalent : str
        Why no test can fail; empty where one must.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str

    def applied(self, source: Path) -> str:
        """Return the file's text with the mutant in it, or raise if the snippet is gone."""
        path = source / "ldmaps" / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        count = text.count(self.old)
        if count != 1:
            raise MutantError(
                f"{self.name}: the snippet stands {count} times in {self.file}, expected once; "
                f"bring tools/mutants.toml up to date\n{self.old}"
            )
        return text.replace(self.old, self.new)


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the list, or raise if an entry is incomplete or a name stands twice."""
    mutants = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        unknown = set(entry) - {"name", "file", "old", "new", "tests", "equivalent"}
        if unknown or not {"name", "file", "old", "new"} <= set(entry):
            raise MutantError(f"an entry needs name, file, old and new, and has {', '.join(sorted(entry))}")
        if ("tests" in entry) == ("equivalent" in entry):
            raise MutantError(f"{entry['name']}: name the tests that notice it, or why none can (equivalent)")
        mutants.append(
            Mutant(
                entry["name"],
                entry["file"],
                entry["old"],
                entry["new"],
                tuple(entry.get("tests", ())),
                entry.get("equivalent", ""),
            )
        )
    names = [mutant.name for mutant in mutants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MutantError(f"names must differ, but {', '.join(twice)} stands twice")
    return mutants


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """Copy the sources, with the kernels as they are compiled."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(source, copy)
        yield copy


def compile_kernels(copy: Path, root: Path = ROOT) -> None:
    """Compile what changed in the kernels of a copy, or raise with what the compiler says."""
    home, build = copy.parent, copy.parent / "build"
    shutil.copy(root / "CMakeLists.txt", home)
    python = f"-DPython_EXECUTABLE={sys.executable}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # ninja lies beside Python
    for step in (
        ["-S", str(home), "-B", str(build), "-G", "Ninja", "-DSKBUILD_STATE=editable", python],
        ["--build", str(build), "--target", "_baseline", "_processor"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "cmake", *step],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise MutantError(f"the kernels do not compile\n{done.stdout}{done.stderr}")


def run_tests(
    copy: Path,
    tests: Sequence[str],
    root: Path = ROOT,
    instruction_set: str = "",
    patience: float | None = PATIENCE,
) -> tuple[int, str]:
    """Run tests against a copy of the sources; return pytest's exit status and output."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        # A mutant and its original may have the same size and, to the second, the same time.
        "PYTHONDONTWRITEBYTECODE": "1",
        "LDMAPS_INSTRUCTION_SET": instruction_set,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
    command += [] if patience else ["-n", "auto"]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"not ended after {patience:.0f} s"
    return done.returncode, done.stdout + done.stderr


def verdict(mutant: Mutant, copy: Path, root: Path = ROOT) -> str:
    """Put a mutant into the copy, run its tests, and take it out again."""
    if mutant.equivalent:
        mutant.applied(copy)
        return "equivalent"
    path = copy / "ldmaps" / mutant.file
    is_compiled = path.suffix in _COMPILED
    files = [path, *(path.parent.glob("_baseline.*") if is_compiled else ())]
    originals = {file: file.read_bytes() for file in files}
    try:
        path.write_text(mutant.applied(copy), encoding="utf-8")
        if is_compiled:
            compile_kernels(copy, root)
        status, output = run_tests(copy, mutant.tests, root, "baseline" if is_compiled else "")
    finally:
        for file, original in originals.items():
            file.write_bytes(original)
    if status == 0:
        return "survived"
    if status in _NOTICED:
        return "killed"
    raise MutantError(f"{mutant.name}: pytest ended with status {status}\n{output}")


def drawn_mutants(
    count: int, seed: int, only: str = "", root: Path = ROOT, known: Path | None = None
) -> list[Mutant]:
    """Draw mutants of the library, each with the tests that reach its line; those listed as equivalent are marked."""
    source = root / "src"
    drawn = random_mutants.sample(source, count, seed, only)
    with tempfile.TemporaryDirectory(prefix="reached-") as folder:
        record = known or Path(folder) / "reached.tsv"
        if not record.exists():
            note_reached(drawn, record, root)
        found = tests_by_probe(record, [change.file for change in drawn], root / "tests")
    listed = {
        mutant.applied(source): mutant.equivalent
        for mutant in read_mutants()
        if mutant.equivalent and root == ROOT
    }
    mutants = []
    for change, tests in zip(drawn, found, strict=True):
        text = (source / "ldmaps" / change.file).read_text(encoding="utf-8")
        new = change.applied(text)
        mutants.append(Mutant(change.describe(text), change.file, text, new, tests, listed.get(new, "")))
    return mutants


def note_reached(drawn: Sequence[random_mutants.Change], record: Path, root: Path = ROOT) -> None:
    """Run all tests over sources with probes at the lines that were drawn, and write who came by."""
    with copied(root / "src") as copy:
        for file, text in random_mutants.probed(copy, drawn).items():
            (copy / "ldmaps" / file).write_text(text, encoding="utf-8")
        shutil.copy(Path(__file__).with_name("reached.py"), copy)
        record.touch()
        # Those of a pytest around this one, as of make test-slow, would be taken for its own.
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        # Tests that look at the sources may fail here; what fails without a mutant judges none.
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "reached", *_ALL_TESTS],
            cwd=root,
            env={
                **outside,
                "PYTHONPATH": str(copy),
                "LDMAPS_REACHED": str(record),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def tests_by_probe(record: Path, files: Sequence[str], tests: Path) -> list[tuple[str, ...]]:
    """Return the tests that reach each probe, those named after its file first, then the shortest.

    As many as take :data:`BUDGET` seconds together; where none reaches it, those of its package.
    """
    seconds: dict[str, float] = {}
    failed, reached = set(), [set[str]() for _ in files]
    for line in record.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 3:
            seconds[fields[0]] = seconds.get(fields[0], 0.0) + float(fields[1])
            failed |= {fields[0]} if fields[2] == "failed" else set()
        elif fields[1].startswith("tests/"):
            test, _, phase = fields[1].rpartition(" ")
            # What a fixture does first for one test, others of its file rely on.
            reached[int(fields[0])].add(test if phase == "(call)" else test.partition("::")[0])
    chosen = []
    for file, found in zip(files, reached, strict=True):
        whole = {test for test in found if "::" not in test}
        every = [test for test in seconds if test in found or test.partition("::")[0] in whole]
        own, left, named = f"test_{Path(file).stem}.py", BUDGET, []
        passed = [test for test in every if test not in failed]  # in the order that they ran in
        for test in sorted(passed, key=lambda one: (own not in one, seconds[one])):
            left -= seconds[test]
            if left > 0:
                named.append(test.removeprefix("tests/"))
        chosen.append(tuple(named) or random_mutants.tests_of(file, tests))
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the list, then what the seed draws; return 1 if one of the list or too many of the drawn survive."""
    parser = argparse.ArgumentParser(
        prog="mutants", description="Break one line at a time; tests must notice."
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="those with this in their name or file")
    parser.add_argument(
        "--random", type=int, metavar="N", default=0, help="draw N of the library too (default: %(default)s)"
    )
    parser.add_argument(
        "--reached",
        metavar="FILE",
        type=Path,
        help="keep there which tests reach what was drawn, which all tests are run for, and use it the next time",
    )
    parser.add_argument("--seed", type=int, default=0, help="decides what is drawn (default: %(default)s)")
    parser.add_argument("--random-only", action="store_true", help="leave the list out")
    options = parser.parse_args(arguments)
    listed = [mutant for mutant in read_mutants() if options.only in f"{mutant.file} {mutant.name}"]
    listed = [] if options.random_only else listed
    drawn = (
        drawn_mutants(options.random, options.seed, options.only, known=options.reached)
        if options.random
        else []
    )
    if not listed and not drawn:
        print(f"no mutant has {options.only!r} in its name or file", file=sys.stderr)
        return 1
    with copied(ROOT / "src") as copy:
        tests = sorted({test for mutant in listed if not mutant.equivalent for test in mutant.tests})
        # All of them take longer than one mutant's; what was drawn is judged by tests that have just passed.
        status, output = run_tests(copy, tests, patience=None) if tests else (0, "")
        if status != 0:
            print(f"the tests fail without any mutant:\n{output}", file=sys.stderr)
            return 1
        counts = counted(listed, copy)
        by_chance = counted(drawn, copy)
    if drawn:
        judged = by_chance["killed"] + by_chance["survived"]
        share = by_chance["killed"] / judged if judged else 1.0
        print(
            f"of {judged} drawn with --seed {options.seed}, {share:.0%} noticed (at least {LEAST_NOTICED:.0%} wanted)"
        )
        if share < LEAST_NOTICED or by_chance["stale"]:
            return 1
    return 1 if counts["survived"] or counts["stale"] else 0


def counted(mutants: Sequence[Mutant], copy: Path) -> dict[str, int]:
    """Try mutants one after the other, and count what became of them."""
    counts = dict.fromkeys(("killed", "survived", "equivalent", "stale"), 0)
    for mutant in mutants:
        try:
            result = verdict(mutant, copy)
        except MutantError as error:
            result = "stale"
            print(error, file=sys.stderr)
        counts[result] += 1
        print(f"{result:10} {mutant.file}: {mutant.name}", flush=True)
    if mutants:
        print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return counts


if __name__ == "__main__":
    sys.exit(main())
