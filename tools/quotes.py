"""Run the commands that pages quote, and write down what they print.

    python tools/quotes.py [PAGE...]           writes what is printed now into the pages
    python tools/quotes.py --check [PAGE...]   says which quotes are out of date

A quote is a ``console`` block: lines that begin with ``$`` are commands, run by bash in a folder that holds
what ``ldmaps demo --files`` writes; the others are what they print. Blocks of a page go on from one another.
Progress is left out, which a terminal shows as bars, and times and rates may differ. Messages (stderr) come
before data (stdout): in which order two processes of a pipe print is chance.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Lines of stages that end or take long: on a terminal these are bars, and gone.
PROGRESS = re.compile(r"^ldmaps: [\w ]+: (([\d,]+ \w+ in )?[\d.]+ s( \(.*\))?|\d+ s so far.*)$")
#: What differs from run to run: times, rates, sizes of files.
VARIES = re.compile(r"\d[\d,.]*(?:/s| (?:s|ms|µs|[kMG]?B))\b|\([\d,.]+ [\w/]+\)")
NUMBER = re.compile(r"(?<![\w.)])[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?|\d+(?:\.\d+)?")
#: How far numbers may be apart, as a share: fits differ a little from processor to processor.
ROUNDING = 0.05
#: Loops that every processor runs: from one set of instructions to another a tolerance may find other landmarks.
SAME_EVERYWHERE = {
    "LDMAPS_INSTRUCTION_SET": os.environ.get("LDMAPS_INSTRUCTION_SET") or "baseline",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_NUM_THREADS": "1",
}
#: Long lists are cut in the pages.
MOST_LINES = 30


def pages() -> list[Path]:
    """Return all pages that quote commands."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if BLOCK.search(path.read_text(encoding="utf-8"))]


def commands_of(block: str) -> list[str]:
    """Return the commands of a block, those on several lines joined.

    >>> commands_of("$ ldmaps info map.ldm" + chr(10) + "model ...")
    ['ldmaps info map.ldm']
    """
    commands: list[str] = []
    continues = False
    for line in block.splitlines():
        if continues:
            commands[-1] += "\n" + line
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        continues = line.endswith("\\")
    return commands


def run(command: str, folder: Path) -> str:
    """Run a command and return what it prints, as a page shows it."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        **SAME_EVERYWHERE,
    }
    environment.pop("PYTHONWARNINGS", None)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    messages = [line for line in done.stderr.splitlines() if not PROGRESS.match(line)]
    lines = [*messages, *done.stdout.splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "..."]
    return "".join(f"{line}\n" for line in lines)


def quoted(text: str, files: Path) -> str:
    """Return a page with what its commands print now; ``files`` is what they are run on."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(files, folder, dirs_exist_ok=True)

        def renewed(match: re.Match[str]) -> str:
            parts = [f"$ {command}\n{run(command, Path(folder))}" for command in commands_of(match[1])]
            return "```console\n" + "".join(parts) + "```"

        return BLOCK.sub(renewed, text)


def differences(old: str, new: str) -> list[str]:
    """Return the lines that two pages quote differently, each run of them after its command.

    Times may differ, and numbers by what another processor rounds otherwise.

    >>> differences("in 0.1 s (812 frames/s)", "in 12.0 s (3 frames/s)"), differences("Z = 0.353 %", "Z = 0.355 %")
    ([], [])
    >>> differences("$ fit" + chr(10) + "Z = 0.3 %", "$ fit" + chr(10) + "Z = 0.4 %")
    ['$ fit', '- Z = 0.3 %', '+ Z = 0.4 %']
    >>> differences("kept 2", "left 2")
    ['- kept 2', '+ left 2']
    """
    before, after = old.splitlines(), new.splitlines()
    shapes = [[NUMBER.sub("#", VARIES.sub("~", line)) for line in lines] for lines in (before, after)]
    found: list[str] = []
    command = ""
    matcher = difflib.SequenceMatcher(None, shapes[0], shapes[1], autojunk=False)
    for tag, a, end_a, b, end_b in matcher.get_opcodes():
        runs = [((a, end_a), (b, end_b))]
        if tag == "equal":
            runs = [((a + i, a + i + 1), (b + i, b + i + 1)) for i in range(end_a - a)]
        for ours, theirs in runs:
            lines, others = before[slice(*ours)], after[slice(*theirs)]
            if tag != "equal" or not _close(lines[0], others[0]):
                heading = [command] if command and command not in found else []
                found += [*heading, *(f"- {line}" for line in lines), *(f"+ {line}" for line in others)]
            command = next((line for line in reversed(lines) if line.startswith("$ ")), command)
    return found


def _close(one: str, other: str) -> bool:
    """Say whether the numbers of two lines of one shape agree but for rounding."""
    pairs = zip(*(NUMBER.findall(VARIES.sub("~", line)) for line in (one, other)), strict=True)
    return all(_agree(a.replace(",", ""), b.replace(",", "")) for a, b in pairs)


def _agree(one: str, other: str) -> bool:
    a, b = (float(number.replace("−", "-")) for number in (one, other))
    digits = one.partition("e")[0].lstrip("-−0.")
    last = 10.0 ** -len(one.partition(".")[2]) if len(digits) > 2 and "e" not in one else 0.0
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=max(1e-4, 1.01 * last))


def make_files(folder: Path) -> None:
    """Write the files that pages use: those of the demo, and links to adenylate kinase where it is installed."""
    print(run("ldmaps demo --files . --force --quiet", folder), end="")
    found = find_spec("MDAnalysisTests")
    if found is None or found.origin is None:
        return
    data = Path(found.origin).parent / "data"
    for name in ("adk.psf", "adk_dims.dcd", "adk_dims2.dcd", "adk_oplsaa.gro", "adk_oplsaa.xtc"):
        shutil.copy(data / name, folder / name)


def main() -> int:
    """Renew or check the quotes of some pages, or of all."""
    parser = argparse.ArgumentParser(description="Renew what pages quote of the command line.")
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; status 1 if a quote is out of date"
    )
    arguments = parser.parse_args()
    old = 0
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        for path in arguments.pages or pages():
            text = path.read_text(encoding="utf-8")
            new = quoted(text, Path(folder))
            changed = differences(text, new)
            if not changed:
                continue
            old += 1
            print(f"{path}: {'out of date' if arguments.check else 'renewed'}", *changed, sep="\n")
            if not arguments.check:
                path.write_text(new, encoding="utf-8")
    return 1 if arguments.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
