"""Fit the same data with other packages, convert their conventions, and compare: docs/benchmarks/compare.md.

    make bench                              # this page among others; installs the other packages
    python benchmarks/compare.py            # this page alone
    python benchmarks/compare.py --quick    # few points, once, printed only: does everything run?

Each package runs in a process of its own (``compare_contestant.py``), datafold in ``.venv-peers``. Times are processor time, all threads together, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from harness import DOCS, provenance

from ldmaps.datasets import alanine_dipeptide, swiss_roll

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
ROUNDS = 2

INTRODUCTION = """\
Do other packages give the same map, and at what cost? All fit the same points with the same kernel, converted to ours, and α = 0
([how to convert, and what differs](../background/comparison.md)). The reference is `DiffusionMap`.

- **Off**: the largest difference of three eigenvalues; the worst coordinate's root mean square deviation in percent of its range, after
  the best sign and scale.
- **Embedded again**: training points through `transform`, divided by what `fit` gave them; 1 is right.
- **Fit, new point**: processor time, all threads together. **Memory**: what the fit added to the peak.
"""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    data: str
    package: str
    eigenvalues_off: str
    coordinates_off: str
    embedded_again: str
    fit: str
    memory: str
    new_point: str


HEADINGS = ("package", "λ off", "coordinates off", "embedded again", "fit", "memory", "new point")


@dataclass(frozen=True)
class Data:
    """Points to fit, points to embed, ε, and who takes part; the first is the reference."""

    name: str
    points: np.ndarray
    new: np.ndarray
    epsilon: float
    contestants: dict[str, str]


def data_sets(n_points: int, stride: int) -> list[Data]:
    n_new = n_points // 4
    points = swiss_roll(n_points + n_new).points
    frames = alanine_dipeptide(stride=stride)
    heavy = frames.frames[:, frames.heavy_atoms].astype(np.float64)
    return [
        Data(
            f"Swiss roll, N = {n_points:,}",
            points[:n_points],
            points[n_points:],
            2.0,
            {
                "Ldmaps": "ldmaps {}, `DiffusionMap`",
                "LdmapsLandmarks": "ldmaps {}, `LandmarkDiffusionMap`, M = 400",
                "LdmapsDistilled": "the same, distilled",
                "PyDiffMapWhole": "pyDiffMap {}, k = N",
                "PyDiffMap": "pyDiffMap {}, k = 64 (default)",
                "Datafold": "datafold {}, `DiffusionMaps`",
                "Roseland": "datafold {}, `Roseland`, M = 400",
                "SpectralEmbedding": 'scikit-learn {}, `SpectralEmbedding(affinity="rbf")`',
            },
        ),
        Data(
            f"Alanine dipeptide, {len(heavy)} frames, heavy atoms, RMSD",
            heavy,
            heavy[:100],
            1e-3,
            {
                "LdmapsFrames": "ldmaps {}, `DiffusionMap`",
                "MDAnalysisMap": "MDAnalysis {}, `DiffusionMap`",
                "MDAnalysisColumns": "MDAnalysis {}, its matrix, columns sorted",
            },
        ),
    ]


def run(name: str, data: Path, folder: Path) -> dict[str, np.ndarray] | None:
    """Run one contestant; None where its environment is missing."""
    interpreter = str(PEERS) if name in ("Datafold", "Roseland") else sys.executable
    if not Path(interpreter).exists():
        print(f"{name} left out: there is no {interpreter}", file=sys.stderr)
        return None
    out = folder / f"{name}.npz"
    subprocess.run([interpreter, str(HERE / "compare_contestant.py"), name, str(data), str(out)], check=True)
    with np.load(out) as stored:
        return {key: stored[key] for key in stored.files}


def worst_deviation(reference: np.ndarray, coordinates: np.ndarray) -> float:
    """Return the largest deviation of any coordinate after its best scale, in percent of its range."""
    centred, other = reference - reference.mean(axis=0), coordinates - coordinates.mean(axis=0)
    scale = np.einsum("ij,ij->j", centred, other) / np.einsum("ij,ij->j", other, other)
    deviation = np.sqrt(np.mean((centred - scale * other) ** 2, axis=0))
    return float(np.max(100 * deviation / np.ptp(reference, axis=0)))


def short(value: float) -> str:
    """Return two digits, without an exponent where the number is not tiny."""
    return f"{value:.0e}" if value < 0.001 else f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def again(results: dict[str, np.ndarray]) -> str:
    """Return the factors between the training points as new points and as fitted."""
    if "again" not in results:
        return "no `transform`"
    fitted, embedded = results["coordinates"][:-1], results["again"]
    factors = np.einsum("ij,ij->j", fitted, embedded) / np.einsum("ij,ij->j", fitted, fitted)
    if np.allclose(factors, 1, atol=5e-4):
        return "1"
    return ", ".join(f"{factor:.3f}" for factor in factors)


def lines_of(data: Data, rounds: int) -> list[Line]:
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "data.npz"
        np.savez(path, points=data.points, new=data.new, epsilon=data.epsilon)
        reference = None
        for contestant, title in data.contestants.items():
            print(f"... {contestant}", file=sys.stderr, flush=True)
            runs = [run(contestant, path, folder) for _ in range(rounds)]
            if runs[0] is None:
                continue
            results = runs[0]
            reference = reference or results
            eigenvalues = results["eigenvalues"]
            off = np.max(np.abs(eigenvalues - reference["eigenvalues"])) if eigenvalues.size else None
            seconds = min(float(each["fit_seconds"]) for each in runs)
            new_point = "–"
            if "new" in results:
                new_point = short(1e6 * min(float(each["new_seconds"]) for each in runs)) + " µs"
            is_reference = results is reference
            deviation = worst_deviation(reference["coordinates"], results["coordinates"])
            lines.append(
                Line(
                    data.name,
                    title.format(results["version"]),
                    "" if is_reference else "not returned" if off is None else short(off),
                    "" if is_reference else short(deviation) + " %",
                    again(results),
                    f"{short(seconds)} s",
                    short(max(float(each["memory"]) for each in runs) / 1e6) + " MB",
                    new_point,
                )
            )
    return lines


def tables(lines: list[Line]) -> list[str]:
    """Return a table for each data set, under its name."""
    page = []
    for data in dict.fromkeys(line.data for line in lines):
        page += [f"## {data}", "", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        page += ["| " + " | ".join(astuple(line)[1:]) + " |" for line in lines if line.data == data]
        page.append("")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0])
    parser.add_argument(
        "--quick", action="store_true", help="few points, once; print the table, write no page"
    )
    is_quick = parser.parse_args().quick
    # Landmark maps take 400 points, of half of them in the warm-up.
    sizes = {"n_points": 1000, "stride": 500} if is_quick else {"n_points": 4000, "stride": 50}
    lines = [line for data in data_sets(**sizes) for line in lines_of(data, 1 if is_quick else ROUNDS)]
    page = ["# Side by side with other packages", ""]
    page += [INTRODUCTION, f"`python benchmarks/compare.py` on {provenance()}.", ""]
    page += tables(lines)
    print("\n".join(page[2:]))
    if is_quick:
        return
    (DOCS / "compare.md").write_text("\n".join(page))
    with (DOCS / "compare.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([[field.name for field in fields(Line)], *map(astuple, lines)])


if __name__ == "__main__":
    main()
