"""Figure 4: predicted against measured error of every point."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning
from ldmaps.validation.fidelity import column_matching, nrmse
from ldmaps.validation.perturbation import CollapsedWalk, perturb
from reproduction.drawing import BLACK, MARKERS, SERIES, new_figure, save
from reproduction.laboratory import Laboratory, Method
from reproduction.landmark_maps import nystrom_map
from reproduction.pieces import Arrays, Piece
from reproduction.plan import CONNECTED, DataPlan
from reproduction.table1 import plain_title
from reproduction.tables import Table

__all__ = ["NAME", "TITLE", "make_parity", "pieces", "results", "write"]

NAME = "figure4"
TITLE = "Figure 4: predicted and measured errors"
#: Points drawn for each M.
DRAWN_POINTS = 400


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the figure is made of."""
    for data in lab.plan.sets:
        for m in data.parity_landmarks:
            yield _piece(lab, data, m)


def _piece(lab: Laboratory, data: DataPlan, m: int) -> Piece:
    return lab.piece("parity", data, 0, width=CONNECTED.key, m=m, n_modes=data.n_modes)


def make_parity(lab: Laboratory, piece: Piece) -> Arrays:
    """Compare predicted with true δψ of all training points for one M."""
    data, exact, k = lab.data(piece), lab.exact_of(piece), lab.n_components(piece)
    points = data.metric.prepare(data.points[lab.split(piece)[0]])
    model = nystrom_map(lab, piece, Method("kmedoids", piece["m"]))
    truth = exact["train"][:, :k].astype(np.float64)
    order, signs = column_matching(truth, model.embedding_)
    at_landmarks = model.landmark_embedding_[model.labels_]
    measured = {
        "point": np.linalg.norm(model.embedding_[:, order] * signs - truth, axis=1),
        "landmark": np.linalg.norm(at_landmarks[:, order] * signs - truth, axis=1),
    }
    walk = Walk(data.metric, points, np.ones(len(points)), model.epsilon_, n_threads=lab.n_threads)
    collapsed = CollapsedWalk(walk, points.take(model.landmark_indices_), model.labels_)
    drawn = np.sort(lab.rng(piece).permutation(len(points))[:DRAWN_POINTS])
    result: Arrays = {"z": np.array(nrmse(truth, model.embedding_))}
    for name in ("paper", "biorthogonal"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            expansion = perturb(collapsed, exact["eigenvalues"], exact["train"], k, method=name)
        for place, predicted in (("point", expansion.sigma), ("landmark", expansion.sigma_at_landmarks)):
            true = measured[place]
            result[f"{name}_{place}_ratio"] = np.array(_rms(predicted) / _rms(true))
            result[f"{name}_{place}_correlation"] = np.array(_log_correlation(predicted, true))
            result[f"{name}_{place}"] = predicted[drawn]
            result[f"true_{place}"] = true[drawn]
        result["distance"] = np.array(expansion.rms_distance)
        result[f"z_{name}"] = np.array(expansion.nrmse)
    return result


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _log_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    both = (a > 0) & (b > 0)
    return float(np.corrcoef(np.log(a[both]), np.log(b[both]))[0, 1])


def results(lab: Laboratory) -> list[tuple[DataPlan, int, Arrays]]:
    """Return what is finished, data set by data set, M rising."""
    return [
        (data, m, lab.get(_piece(lab, data, m)))
        for data in lab.plan.sets
        for m in data.parity_landmarks
        if lab.store.has(_piece(lab, data, m))
    ]


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Draw the figure; return its part of the page."""
    comparisons = results(lab)
    if not comparisons:
        return "*Not computed yet.*"
    picture, vector = save(_draw(comparisons), folder, NAME, remark)
    csv_table = Table(
        (
            *("data", "M", "rms_distance", "paper_point_ratio", "paper_point_correlation"),
            *(
                "second_point_ratio",
                "second_point_correlation",
                "paper_landmark_ratio",
                "paper_landmark_correlation",
            ),
            *("second_landmark_ratio", "second_landmark_correlation", "Z", "Z_paper", "Z_second"),
        )
    )
    for data, m, entry in comparisons:
        pairs = [
            (float(entry[f"{method}_{place}_ratio"]), float(entry[f"{method}_{place}_correlation"]))
            for place in ("point", "landmark")
            for method in ("paper", "biorthogonal")
        ]
        z = [float(entry[name]) for name in ("z", "z_paper", "z_biorthogonal")]
        distance = float(entry["distance"])
        csv_table.rows.append((data.key, m, distance, *(value for pair in pairs for value in pair), *z))
    csv_table.write_csv(folder / "figure4.csv", remark)
    return "\n\n".join(
        [
            f"![Six panels: predicted against measured error, a colour for each M]({picture})",
            "Each training point's error σ, predicted against measured: k-medoids, smallest connected ε, one fold. "
            'Top: the paper\'s first-order formula (`method="paper"`). Bottom: second order, the default of '
            "`ldmaps.validation.predict_errors` ([error estimates](../error_estimates.md)). Units in which a "
            "coordinate has mean square 1; predictions beyond a panel are drawn at its edge. [Vector "
            f"version]({vector}), [numbers](figure4.csv).",
        ]
    )


def _draw(comparisons: list[tuple[DataPlan, int, Arrays]]) -> Any:
    sets = list({data.key: data for data, _, _ in comparisons}.values())
    rows = (("paper", "paper's formula"), ("biorthogonal", "second order"))
    figure = new_figure(2.75 * len(sets) + 0.5, 5.9)
    panels = figure.subplots(len(rows), len(sets), squeeze=False)
    for column, data in enumerate(sets):
        own = [(m, entry) for other, m, entry in comparisons if other is data]
        scale = math.sqrt(data.n_points * 0.8)
        everything = [
            entry[name] * scale for _, entry in own for name in ("true_point", "biorthogonal_point")
        ]
        low, high = np.quantile(np.concatenate(everything), [0.005, 0.9995])
        low, high = low / 2.0, high * 2.0
        for row, (method, title) in enumerate(rows):
            panel = panels[row, column]
            for (m, entry), colour, marker in zip(own, SERIES, MARKERS, strict=False):
                panel.scatter(
                    entry["true_point"] * scale,
                    np.clip(entry[f"{method}_point"] * scale, low, high),
                    s=9,
                    color=colour,
                    marker=marker,
                    alpha=0.5,
                    linewidths=0,
                    rasterized=True,
                    label=f"M = {m:,}",
                )
            panel.plot([low, high], [low, high], color=BLACK, linewidth=0.9)
            panel.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
            panel.tick_params(labelsize=8)
            letter = "abcdefgh"[row * len(sets) + column]
            panel.set_title(f"({letter}) {plain_title(data)}, {title}", loc="left", fontsize=8.5)
            if row == 1:
                panel.set_xlabel(r"measured $\sigma_\mathrm{expt}\,\sqrt{N}$", fontsize=9)
            if column == 0:
                panel.set_ylabel(r"predicted $\sigma_\mathrm{pred}\,\sqrt{N}$", fontsize=9)
            if row == 0:
                panel.legend(fontsize=7, frameon=False, loc="upper left", handletextpad=0.1, markerscale=1.6)
    return figure
