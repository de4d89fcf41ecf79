"""Count the path of a fit through the package: files, functions, and how often it switches between files.

    python tools/trace_fit.py
    python tools/trace_fit.py --case roll --inside fit maps --count solve_spectrum KMedoids.select

Which version of the package is traced depends on the interpreter alone. The fits are default ones, on one thread, each
done once before it is counted, so that nothing is imported while counting.

What is counted, for Python functions of the package alone (everything between them is looked through):

- **crossings**: calls from a function in one file to a function in another. A return is no crossing.
- **switches inside** some packages: follow execution through calls and returns, look only at the moments at which a
  file of these packages runs, and count how often this file is another one than before. A function of one such file
  that calls another file and gets its answer therefore counts twice; a call of a file elsewhere counts nothing.
- **functions**: different ones, without lambdas and comprehensions.
- **calls** of the functions named with ``--count``, by their qualified name or the end of it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll

__all__ = ["CASES", "Trace", "main", "trace"]

PACKAGE = Path(ldmaps.__file__).resolve().parent


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


#: What is fitted: clean data, data with a few points apart, heavy tails, and points that are each near the one before.
CASES: dict[str, Callable[[], NDArray[Any]]] = {
    "roll": lambda: swiss_roll(2000).points,
    "gaussian": lambda: _random(0).standard_normal((2000, 3)),
    "t(1.5)": lambda: _random(1).standard_t(1.5, size=(2000, 3)),
    "cauchy": lambda: _random(1).standard_cauchy((2000, 3)),
    "random walk": lambda: np.cumsum(_random(2).standard_normal((600, 3)), axis=0),
}
#: Functions that are counted unless others are named: fits, eigenproblems, selections, spanning trees.
COUNTED = (
    "_fit_training",
    "fit_map",
    "solve_spectrum",
    "KMedoids.select",
    "minimum_spanning_tree",
    "fitted_modes",
)


@dataclass
class Trace:
    """The path of one fit; a function that ``sys.setprofile`` takes."""

    inside: tuple[str, ...]  # packages within ldmaps
    files: set[str] = field(default_factory=set)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)  # by file and qualified name
    crossings: int = 0
    switches: Counter[str] = field(default_factory=Counter)  # inside, by the file that is switched to
    _running: list[str] = field(default_factory=list)  # files of the functions that have not returned
    _last_inside: str | None = None
    _names: dict[str, str | None] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call or a return."""
        file = self._name_of(frame.f_code.co_filename)
        if file is None:
            return
        if event == "call":
            self.files.add(file)
            self.calls[file, frame.f_code.co_qualname] += 1
            if self._running and self._running[-1] != file:
                self.crossings += 1
            self._running.append(file)
            self._runs(file)
        elif event == "return" and self._running:
            self._running.pop()
            if self._running:
                self._runs(self._running[-1])

    def _runs(self, file: str) -> None:
        """Note that a file runs, and whether this is a switch inside the chosen packages."""
        if not file.startswith(self.inside):
            return
        if self._last_inside not in (None, file):
            self.switches[file] += 1
        self._last_inside = file

    def _name_of(self, filename: str) -> str | None:
        """Return a file's path inside the package, or None if it is elsewhere."""
        if filename not in self._names:
            path = Path(filename)
            is_ours = path.is_relative_to(PACKAGE)
            self._names[filename] = path.relative_to(PACKAGE).as_posix() if is_ours else None
        return self._names[filename]

    @property
    def n_functions(self) -> int:
        """Number of different functions, without lambdas and comprehensions."""
        return sum(not name.endswith(">") for _, name in self.calls)

    def count(self, function: str) -> int:
        """Return how often functions with this name, or the end of it, were called."""
        return sum(
            calls
            for (_, name), calls in self.calls.items()
            if name == function or name.endswith(f".{function}")
        )


def trace(X: NDArray[Any], inside: Sequence[str]) -> tuple[Trace, str]:
    """Return the path of a default fit, and how it ended."""
    found = Trace(tuple(f"{package}/" for package in inside))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for profile in (None, found):
            model = LandmarkDiffusionMap(n_threads=1)
            sys.setprofile(profile)
            try:
                model.fit(X)
                ending = ""
            except Exception as error:  # the path to an error is a path, too
                ending = f"{type(error).__name__}: {error}"
            finally:
                sys.setprofile(None)
    if not ending:
        n_left_out = len(model.diagnosis_.left_out) if model.diagnosis_ else 0
        ending = f"epsilon {model.epsilon_:.6g}, {n_left_out} points left out"
    return found, ending


def report(name: str, found: Trace, ending: str, counted: Sequence[str]) -> str:
    """Return what was counted, as lines of text."""
    n_inside = len([file for file in found.files if file.startswith(found.inside)])
    lines = [
        f"{name}: {ending}",
        f"  {len(found.files)} files, {found.n_functions} functions, {sum(found.calls.values())} calls",
        f"  {found.crossings} crossings between files",
        f"  {found.switches.total()} switches inside {' '.join(found.inside)} ({n_inside} files)",
    ]
    lines += [f"    {count:5} to {file}" for file, count in found.switches.most_common()]
    lines.append("  calls: " + ", ".join(f"{function} {found.count(function)}" for function in counted))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Trace fits and print what was counted."""
    parser = argparse.ArgumentParser(description="Count the path of a fit through the package.")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), help="which data to fit")
    parser.add_argument(
        "--inside", nargs="+", default=["fit", "maps"], help="packages whose switches are counted"
    )
    parser.add_argument("--count", nargs="+", default=list(COUNTED), help="functions whose calls are counted")
    arguments = parser.parse_args(argv)
    for name in arguments.case:
        found, ending = trace(CASES[name](), arguments.inside)
        print(report(name, found, ending, arguments.count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
