"""Record what many fits give, and compare two recordings: for changes that must not move a number.

Record before the change, again after each step, and compare::

    python tools/compare_fits.py record before.npz
    python tools/compare_fits.py record after.npz
    python tools/compare_fits.py compare before.npz after.npz

Which version of the package is recorded depends on the interpreter alone: call this file with the interpreter of the
environment that has it. ``--only TEXT`` (of either command, a part of the name or a pattern such as ``*: nystrom*``)
takes some of the cases, ``--list`` of ``record`` prints their names. The cases are in tools/fit_cases.py.

``compare`` prints a row for each quantity that differs, by how much, and a last line with how many cases are equal; it
returns 1 if one differs. Text, integers and shapes must be equal. Eigenvalues, bandwidths, multiplicities, scores and
p-values must agree to 1e-12, relative. Coordinates must agree to 1e-9 of their range (or a few units in the last place
of single precision), up to one sign per coordinate. What is computed from resamples or from differences of eigenvectors
must agree to 1e-9. A case that only one of the recordings has is a difference.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fit_cases import Case, all_cases

__all__ = ["Difference", "compare", "main", "record"]

Array = NDArray[Any]
Recording = dict[str, dict[str, Array]]

#: Between the case and the quantity in the name of an array.
SEPARATOR = " | "
#: Largest difference that counts as rounding: relative for numbers, in ranges for coordinates.
NUMBERS, COORDINATES, DERIVED = 1e-12, 1e-9, 1e-9
#: The same for what was stored in single precision, in units in its last place.
SINGLE_UNITS = 8
#: Quantities that have a sign per column, and those that carry the rounding of eigenvectors.
SIGNED = ("embedding", "new coordinates", "landmark embedding")
DERIVED_PREFIXES = ("sampling", "error estimate", "distillation", "certificate", "diagnosis participation")


# -- recording ---------------------------------------------------------------------


def text(value: object) -> Array:
    """Return text as an array that a file can hold."""
    return np.array(str(value))


def texts(values: Sequence[object]) -> Array:
    """Return several texts as an array that a file can hold."""
    return np.array([str(value) for value in values], dtype=np.str_)


def parts(prefix: str, value: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return some attributes of a result, or that there is none."""
    if value is None:
        return {prefix: text("none")}
    found = {f"{prefix} {name}": getattr(value, name, "no such attribute") for name in names}
    return {name: text("none") if part is None else np.asarray(part) for name, part in found.items()}


def fit_quantities(model: Any) -> dict[str, Array]:
    """Return what a fit has learned."""
    found = {
        "epsilon": np.asarray(model.epsilon_),
        "epsilon, the argument after the fit": text(model.epsilon),
        "number of coordinates": np.asarray(model.n_components_),
        "eigenvalues": np.asarray(model.eigenvalues_),
        "spectrum": np.asarray(model.spectrum_),
        "embedding": np.asarray(model.embedding_),
        "landmark embedding": np.asarray(model.landmark_embedding_),
        "landmark indices": np.asarray(model.landmark_indices_),
        "multiplicities": np.asarray(model.multiplicities_),
    }
    if hasattr(model, "labels_"):
        found["labels"] = np.asarray(model.labels_)
    found |= parts("bandwidth", model.bandwidth_, ["rule", "epsilon", "dimension", "lower_bound"])
    found |= diagnosis_quantities(model.diagnosis_)
    solution = ["solver", "n_passes", "error_bound"]
    found |= parts("solution", model.solution_, solution)
    calibration = ["scores", "n_points", "n_independent", "interval"]
    found |= parts("calibration", model.embedder_.calibration, calibration)
    sampling = ["eigenvalues", "errors", "intervals", "groups", "r2", "follows", "landmark_errors", "times"]
    sampling += ["lag", "unit", "kind", "n_resamples", "n_blocks", "block_length", "are_long_enough"]
    found |= parts("sampling", model.sampling_, sampling)
    certificate = ["tolerance", "held_out_z", "upper_bound", "confidence", "n_held_out", "n_landmarks"]
    certificate += ["reference", "reference_error"]
    found |= parts("certificate", getattr(model, "certificate_", None), certificate)
    distillation = ["held_out_z", "ridge", "is_tuned", "bandwidth"]
    found |= parts("distillation", getattr(model, "distillation_", None), distillation)
    training = ["rows", "distance", "nearest", "weights", "frames", "times", "files"]
    found |= parts("training", model.training_, training)
    found |= {"units": text(model.units_), "facts of the source": texts(sorted(model.source_ or {}))}
    return found


def diagnosis_quantities(diagnosis: Any) -> dict[str, Array]:
    """Return which points were left out, and which carry coordinates."""
    found = parts("diagnosis", diagnosis, ["participation", "isolated", "epsilon_without", "left_out"])
    carriers = {} if diagnosis is None else diagnosis.carriers
    for coordinate, which in carriers.items():
        found[f"diagnosis carriers of coordinate {coordinate}"] = np.asarray(which)
    return found


def new_quantities(model: Any, new: Array) -> dict[str, Array]:
    """Return what a fitted map says of new points."""
    coverage = model.coverage(new)
    found = {"new coordinates": np.asarray(model.transform(new))}
    found |= parts("coverage", coverage, ["distance", "inside", "nearest", "p_value"])
    if hasattr(model, "error_estimate"):
        estimated = guarded("error estimate", lambda: model.error_estimate(new[:3]))
        if isinstance(estimated, dict):
            return found | estimated
        found |= parts("error estimate", estimated, ["sigma", "point_errors", "sampling"])
    return found


def guarded(name: str, compute: Callable[[], Any]) -> Any:
    """Return what is computed, or the error as quantities."""
    try:
        return compute()
    except Exception as error:  # whatever was raised is the result
        return {f"{name} raised": texts([type(error).__name__, error])}


def record_case(case: Case) -> dict[str, Array]:
    """Return all quantities of a case: of the fit, of new points, and the warnings of both."""
    found: dict[str, Array] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = guarded("fit", case.fit)
        found |= warning_quantities("fit", caught)
    if isinstance(model, dict):
        return found | model
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, quantities in {
            "quantities of the fit": lambda: fit_quantities(model),
            "new points": lambda: new_quantities(model, case.new()),
        }.items():
            found |= guarded(name, quantities)
        found |= warning_quantities("new points", caught)
    return found


def warning_quantities(when: str, caught: Sequence[warnings.WarningMessage]) -> dict[str, Array]:
    """Return the warnings' categories and texts, and whether they point at the caller's line."""
    return {
        f"{when}: warnings": texts([warning.category.__name__ for warning in caught]),
        f"{when}: warnings' texts": texts([warning.message for warning in caught]),
        f"{when}: warnings name the caller's line": np.array(
            ["ldmaps" not in Path(warning.filename).parts for warning in caught], dtype=bool
        ),
    }


def record(only: str | None = None) -> Iterator[tuple[str, dict[str, Array], float]]:
    """Yield each case's name, quantities and seconds."""
    for case in all_cases():
        if is_wanted(case.name, only):
            start = time.perf_counter()
            with threadpool_limits(1):  # the number of threads changes how linear algebra rounds
                found = record_case(case)
            yield case.name, found, time.perf_counter() - start


def is_wanted(name: str, only: str | None) -> bool:
    """Return whether a case has a text in its name, or matches a pattern."""
    return only is None or only in name or fnmatchcase(name, only)


def save(path: Path, recording: Mapping[str, Mapping[str, Array]]) -> None:
    """Write a recording as numbers and text, which hold no code."""
    arrays = {
        case + SEPARATOR + name: value for case, found in recording.items() for name, value in found.items()
    }
    odd = [name for name, value in arrays.items() if value.dtype.hasobject]
    if odd:
        raise TypeError(f"these quantities are neither numbers nor text: {', '.join(odd)}")
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load(path: Path) -> Recording:
    """Read a recording."""
    recording: Recording = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            case, quantity = name.split(SEPARATOR)
            recording.setdefault(case, {})[quantity] = archive[name]
    return recording


# -- comparing ----------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A quantity of a case that is not the same in two recordings."""

    case: str
    quantity: str
    words: str

    def __str__(self) -> str:
        return f"{self.case}{SEPARATOR}{self.quantity}{SEPARATOR}{self.words}"


def compare(before: Recording, after: Recording, only: str | None = None) -> tuple[list[Difference], int]:
    """Return what differs, and how many cases were compared."""
    names = [name for name in [*before, *(set(after) - set(before))] if is_wanted(name, only)]
    differences: list[Difference] = []
    for case in names:
        if case not in before or case not in after:
            where = "first" if case in before else "second"
            differences.append(Difference(case, "all", f"only in the {where} recording"))
            continue
        differences += compare_case(case, before[case], after[case])
    return differences, len(names)


def compare_case(case: str, before: Mapping[str, Array], after: Mapping[str, Array]) -> Iterator[Difference]:
    """Yield the quantities of a case that differ."""
    for quantity in [*before, *sorted(set(after) - set(before))]:
        if quantity not in after:
            yield Difference(case, quantity, f"gone, was {shown(before[quantity])}")
        elif quantity not in before:
            yield Difference(case, quantity, f"new: {shown(after[quantity])}")
        else:
            words = difference(quantity, before[quantity], after[quantity])
            if words:
                yield Difference(case, quantity, words)


def difference(quantity: str, before: Array, after: Array) -> str:
    """Return in words how a quantity differs, nothing if it does not."""
    if before.dtype.kind != after.dtype.kind or before.shape != after.shape:
        return f"{shown(before)} became {shown(after)}"
    if before.dtype.kind != "f":
        return exact_difference(before, after)
    if before.dtype != after.dtype:
        return f"type {before.dtype} became {after.dtype}"
    return float_difference(quantity, before, after)


def exact_difference(before: Array, after: Array) -> str:
    """Return how text, integers or truth values differ."""
    differs = before != after
    if not differs.any():
        return ""
    if before.dtype.kind == "U" or before.size <= 8:
        return f"{shown(before)} became {shown(after)}"
    words = f"{np.count_nonzero(differs)} of {before.size} differ"
    if before.dtype.kind == "i" and before.ndim == 1:
        words += f", {len(np.setxor1d(before, after))} values are in one alone"
    return words


def float_difference(quantity: str, before: Array, after: Array) -> str:
    """Return how numbers differ beyond rounding."""
    if quantity in SIGNED:
        after = aligned(before, after)
    if (np.isfinite(before) != np.isfinite(after)).any():
        return f"{shown(before)} became {shown(after)}"
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
        return f"{shown(before)} became {shown(after)}"
    gap = np.abs(np.where(finite, before, 0.0) - np.where(finite, after, 0.0)).astype(np.float64)
    if quantity in SIGNED:
        scale, tolerance, unit = np.ptp(before, axis=0), COORDINATES, "of the range"
    elif quantity.startswith(DERIVED_PREFIXES):
        # Entries of an array share a scale: the error of one near zero is that of the others.
        largest = np.abs(before, where=finite, out=np.zeros_like(before)).max(initial=0.0)
        scale, tolerance, unit = largest, DERIVED, "of the largest"
    else:
        scale, tolerance, unit = np.abs(before), NUMBERS, "relative"
    if before.dtype == np.float32:
        tolerance = max(tolerance, SINGLE_UNITS * float(np.finfo(np.float32).eps))
    # No number is smaller than the smallest normal one, so that zeros must be equal but nothing is divided by zero.
    share = gap / np.maximum(scale, np.finfo(np.float64).tiny)
    worst = float(np.max(share, where=finite, initial=0.0))
    if worst <= tolerance:
        return ""
    words = f"{worst:.3g} {unit} (allowed {tolerance:.2g}), {gap.max():.3g} absolute"
    return f"{words}: {shown(before)} became {shown(after)}" if before.size <= 12 else words


def aligned(before: Array, after: Array) -> Array:
    """Return coordinates with the sign of each column that is nearest to another recording's."""
    products = np.sum(before.astype(np.float64) * after, axis=0)
    return np.asarray(after * np.where(products < 0, -1, 1).astype(after.dtype))


def shown(value: Array) -> str:
    """Return a quantity in few words."""
    if value.dtype.kind == "U":
        words = repr(value.tolist())
        return words if len(words) <= 400 else f"{words[:400]}…"
    if value.size <= 12:
        return np.array2string(value, precision=10, max_line_width=1000).replace("\n", " ")
    return f"{value.dtype} of shape {value.shape}"


# -- command line ---------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Record or compare; return the exit status."""
    parser = argparse.ArgumentParser(description="Record what many fits give, and compare two recordings.")
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run the cases with the installed package")
    recorder.add_argument("output", type=Path, nargs="?", help="file to write (.npz)")
    recorder.add_argument("--list", action="store_true", help="print the cases' names and run none")
    comparer = commands.add_parser("compare", help="print what differs between two recordings")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    for command in (recorder, comparer):
        command.add_argument(
            "--only", help="take cases with this text in their name, or that match this pattern"
        )
    arguments = parser.parse_args(argv)
    if arguments.command == "compare":
        return print_differences(load(arguments.before), load(arguments.after), arguments.only)
    if arguments.list:
        print(*(case.name for case in all_cases() if is_wanted(case.name, arguments.only)), sep="\n")
        return 0
    if arguments.output is None:
        parser.error("record needs a file to write")
    return write_recording(arguments.output, arguments.only)


def write_recording(path: Path, only: str | None) -> int:
    """Run the cases, print how long each took and whether it failed, and write the recording."""
    import ldmaps

    print(f"recording {Path(ldmaps.__file__).parent}", flush=True)
    recording: Recording = {}
    total = 0.0
    for name, found, seconds in record(only):
        recording[name] = found
        total += seconds
        failed = [quantity for quantity in found if quantity.endswith("raised")]
        ending = f"  {failed[0]}: {' '.join(found[failed[0]])[:100]}" if failed else ""
        print(f"{seconds:7.2f} s  {name}{ending}", flush=True)
    if not recording:
        print(f"no case has {only!r} in its name", file=sys.stderr)
        return 2
    save(path, recording)
    print(f"{len(recording)} cases in {total:.0f} s: {path}")
    return 0


def print_differences(before: Recording, after: Recording, only: str | None) -> int:
    """Print what differs and how many cases are equal; return the exit status."""
    differences, n_cases = compare(before, after, only)
    for each in differences:
        print(each)
    n_different = len({each.case for each in differences})
    print(f"{n_cases - n_different} of {n_cases} cases are equal; {len(differences)} quantities differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
