"""Predicted against measured errors of landmark maps; fills docs/error_estimates.md and draws its figure.

    python benchmarks/perturbation.py [--fraction 0.25] [--threads 2] [--output docs]

Data are split as in the paper (16,000 and 4,000 points of the Swiss roll, 8,000 and
2,000 frames of C24H50, 20,000 and 5,000 of alanine dipeptide); ``--fraction`` takes
only part of each. Bandwidths are the smallest connected ones, landmarks k-medoids.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from harness import provenance

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.errors import AccuracyWarning
from ldmaps.metrics import RMSD, Euclidean, Metric
from ldmaps.validation.fidelity import column_matching, nrmse
from ldmaps.validation.perturbation import predict_errors

#: Okabe and Ito's colours, told apart with every kind of colour vision, and a marker each.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
SHOWN = 500
#: In units of √ε: second-order predictions hold if landmarks are no farther than this.
NEAR = 0.7
#: The estimate from all training points.
ALL = "estimate"


@dataclass
class DataSet:
    name: str
    points: np.ndarray
    metric: Metric
    n_train: int
    n_components: int
    n_landmarks: tuple[int, ...]
    sparse: bool
    n_modes: int


def data_sets(fraction: float) -> list[Callable[[], DataSet]]:
    """Return functions that load each set, so that one at a time is in memory."""

    def shuffled(frames: np.ndarray) -> np.ndarray:
        order = np.random.default_rng(0).permutation(len(frames))
        return frames[order[: round(fraction * len(frames))]]

    def count(n: int) -> int:
        return round(fraction * n)

    def roll() -> DataSet:
        points = shuffled(swiss_roll(20_000).points)
        return DataSet(
            "Swiss roll", points, Euclidean(), count(16_000), 2, (500, 1000, 2000, 4000), True, 300
        )

    def chain() -> DataSet:
        frames = shuffled(c24h50().frames[:10_000])
        return DataSet("C24H50", frames, RMSD(), count(8_000), 4, (100, 300, 1000, 3000), False, 40)

    def alanine() -> DataSet:
        molecule = alanine_dipeptide()
        metric = RMSD(weights=molecule.masses)
        frames = shuffled(molecule.frames[:25_000])
        return DataSet(
            "Alanine dipeptide", frames, metric, count(20_000), 2, (100, 400, 1000, 4000), False, 40
        )

    return [roll, chain, alanine]


@dataclass
class Result:
    m: int
    reach: float
    #: name -> (ratio at landmarks, correlation, ratio at points, correlation)
    methods: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)
    shifts: dict[str, float] = field(default_factory=dict)
    z: dict[str, float] = field(default_factory=dict)
    clouds: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    seconds: float = 0.0


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def log_correlation(a: np.ndarray, b: np.ndarray) -> float:
    both = (a > 0) & (b > 0)
    return float(np.corrcoef(np.log(a[both]), np.log(b[both]))[0, 1])


def measure(data: DataSet, exact: DiffusionMap, m: int, threads: int) -> Result:
    train, test, k = data.points[: data.n_train], data.points[data.n_train :], data.n_components
    truth = exact.embedding_[:, :k].astype(np.float64)
    model = LandmarkDiffusionMap(
        k, exact.epsilon_, data.metric, n_landmarks=m, extension="nystrom", n_threads=threads
    ).fit(train)
    order, signs = column_matching(truth, model.embedding_)
    embedded = model.embedding_[:, order] * signs
    at_points = np.linalg.norm(embedded - truth, axis=1)
    collapsed = model.landmark_embedding_[model.labels_][:, order] * signs
    at_landmarks = np.linalg.norm(collapsed - truth, axis=1)
    result = Result(m, 0.0)
    worst = int(np.argmax(np.abs(model.eigenvalues_[order] - exact.eigenvalues_[:k])))
    result.shifts["measured"] = float(model.eigenvalues_[order][worst] - exact.eigenvalues_[worst])
    for name, method in (("paper", "paper"), ("second order", "biorthogonal")):
        found = predict_errors(exact, model, train, n_threads=threads, method=method)
        result.reach = found.rms_distance
        result.methods[name] = (
            rms(found.sigma_at_landmarks) / rms(at_landmarks),
            log_correlation(found.sigma_at_landmarks, at_landmarks),
            rms(found.sigma) / rms(at_points),
            log_correlation(found.sigma, at_points),
        )
        result.shifts[name] = float(found.eigenvalue_changes[worst])
        result.z[name] = found.nrmse
        result.clouds[name] = (found.sigma, at_points)
        result.clouds[name + " at landmarks"] = (found.sigma_at_landmarks, at_landmarks)
    result.z["train"] = nrmse(truth, embedded, matched=True)
    reference = exact.transform(test)[:, :k].astype(np.float64)
    new = model.transform(test)[:, order] * signs
    result.z["test"] = nrmse(reference, new, ranges=np.ptp(truth, axis=0), matched=True)
    start = time.perf_counter()
    estimate = model.error_estimate(test)
    result.seconds = time.perf_counter() - start
    result.z["estimated"] = estimate.nrmse
    sampled = model.error_estimate(test, reference=train[: data.n_train // 4])
    result.z["sampled"] = sampled.nrmse
    measured = np.linalg.norm(new - reference, axis=1)
    result.clouds["estimate"] = (estimate.sigma, measured)
    for name, found in ((ALL, estimate), ("sampled", sampled)):
        result.methods[name] = (
            np.nan,
            np.nan,
            rms(found.sigma) / rms(measured),
            log_correlation(found.sigma, measured),
        )
    return result


# -- the page ------------------------------------------------------------------


def table(every: list[tuple[DataSet, list[Result]]]) -> str:
    lines = [
        "| data | M | rms d/√ε | Z, % | paper | second order | from N/4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for data, results in every:
        title = f"{data.name}, N = {data.n_train:,}, k = {data.n_components}, p = {data.n_modes}"
        for r in results:
            cells = [f"{found[2]:.2f} ({found[3]:.2f})" for name, found in r.methods.items() if name != ALL]
            lines.append(f"| {title} | {r.m:,} | {r.reach:.2f} | {r.z['test']:.3g} | {' | '.join(cells)} |")
            title = ""
    own = [r.methods[ALL] for _, results in every for r in results]
    ratios, correlations = [found[2] for found in own], [found[3] for found in own]
    ends = dict.fromkeys(f"{end:.2f}" for end in (min(ratios), max(ratios)))
    near = [r.methods["second order"][2] for _, results in every for r in results if r.reach < NEAR]
    missed = [1 / r.methods["paper"][2] for r in every[-1][1]]
    lines += [
        "",
        f"`error_estimate` with all training points: {' to '.join(ends)} ({min(correlations):.2f} or more) in every line.",
        "",
        f"- **Second order** is {min(near):.2f} to {max(near):.2f} where the rms distance to the landmark is below {NEAR} √ε.",
        f"- **The paper's formula** underestimates the errors of {every[-1][0].name.lower()}, which lie outside its two coordinates, by a factor of "
        f"{min(missed):.0f} to {max(missed):.0f}.",
        "- **`error_estimate`** from a quarter of the training points contains its own sampling error, which dominates where errors are small; it warns.",
        "",
        f"`python benchmarks/perturbation.py` on {provenance()}.",
    ]
    return "\n".join(lines)


def draw(every: list[tuple[DataSet, list[Result]]], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"font.size": 9, "svg.fonttype": "none"}
    rows = (
        ("paper at landmarks", "paper: $\\sigma_\\mathrm{pred}$"),
        ("second order", "second order: $\\sigma_\\mathrm{pred}$"),
        ("estimate", "error_estimate, new points: $\\sigma$"),
    )
    figure, axes = plt.subplots(len(rows), len(every), figsize=(9.6, 9.0), layout="constrained")
    rng = np.random.default_rng(0)
    for column, (data, results) in enumerate(every):
        for row, (key, label) in enumerate(rows):
            axis = axes[row, column]
            everything = []
            for r, colour, marker in zip(results, COLOURS, MARKERS, strict=False):
                predicted, measured = r.clouds[key]
                pick = rng.choice(len(measured), min(SHOWN, len(measured)), replace=False)
                pick = pick[(measured[pick] > 0) & (predicted[pick] > 0)]
                scale = np.sqrt(data.n_train)
                x, y = measured[pick] * scale, predicted[pick] * scale
                everything.append(np.concatenate([x, y]))
                axis.scatter(
                    x,
                    y,
                    s=6,
                    c=colour,
                    marker=marker,
                    alpha=0.45,
                    linewidths=0,
                    rasterized=True,
                    label=f"M = {r.m:,}",
                )
            low, high = np.quantile(np.concatenate(everything), [0.002, 0.9995])
            low, high = low / 1.5, high * 1.5
            axis.plot([low, high], [low, high], color="black", linewidth=0.8)
            axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
            axis.set_xlabel("measured $\\sigma_\\mathrm{expt}\\,\\sqrt{N}$")
            if column == 0:
                axis.set_ylabel(f"{label}$\\,\\sqrt{{N}}$")
            if row == 0:
                axis.set_title(data.name)
                axis.legend(loc="upper left", fontsize=7, handletextpad=0.1, markerscale=2)
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"error_estimates.{suffix}", dpi=130)
    plt.close(figure)


def fill(page: Path, text: str, name: str = "measured") -> None:
    """Replace what stands between the page's two markers of this name."""
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(before):
        raise SystemExit(f"{page} has lost its markers <!-- {name} --> and <!-- end -->")
    page.write_text(pattern.sub(lambda m: m[1] + text + "\n" + m[2], before), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fraction", type=float, default=1.0, help="part of each data set to use")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", AccuracyWarning)
    provenance()  # while the tree is as it was committed
    every = []
    for load in data_sets(arguments.fraction):
        data = load()
        start = time.perf_counter()
        exact = DiffusionMap(
            data.n_modes,
            "connected",
            data.metric,
            solver="sparse" if data.sparse else "stored",
            n_threads=arguments.threads,
        ).fit(data.points[: data.n_train])
        print(f"{data.name}: exact map in {time.perf_counter() - start:.0f} s", flush=True)
        results = []
        for m in data.n_landmarks:
            if m < data.n_train:
                results.append(measure(data, exact, m, arguments.threads))
                print(f"  M = {m}: {time.perf_counter() - start:.0f} s", flush=True)
        data.points = np.empty(0)
        every.append((data, results))
        print(table(every), flush=True)
    draw(every, arguments.output / "images")
    fill(arguments.output / "error_estimates.md", table(every))


if __name__ == "__main__":
    main()
