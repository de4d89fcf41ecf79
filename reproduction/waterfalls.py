"""Figure 3: error against number of landmarks at several bandwidths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction.drawing import BLACK, new_figure, plain_ticks, save
from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Piece
from reproduction.plan import DataPlan, Width
from reproduction.table1 import plain_title
from reproduction.tables import Table, mean_and_spread

__all__ = ["NAME", "TITLE", "Curve", "curves", "pieces", "write"]

NAME = "figure3"
TITLE = "Figure 3: error against landmarks and bandwidth"


class Curve(NamedTuple):
    """Errors at one bandwidth, means over folds; NaN where the landmarks were not connected."""

    data: DataPlan
    width: Width
    epsilon: float
    m: list[int]
    z_train: list[float]
    z_test: list[float]
    tree_m: float
    tree_train: float
    tree_test: float
    n_folds: int


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the figure is made of; a whole fold of every set before the next fold."""
    for fold in range(lab.plan.waterfall_folds):
        for data in lab.plan.sets:
            for width in data.widths:
                for method in _methods(data):
                    yield lab.errors(data, fold, method, width)


def _methods(data: DataPlan) -> list[Method]:
    return [Method("adopting"), *(Method("kmedoids", m) for m in data.waterfall_landmarks)]


def curves(lab: Laboratory) -> list[Curve]:
    """Average over the folds that are finished."""
    averages = []
    for data in lab.plan.sets:
        for width in data.widths:
            folds = [
                fold
                for fold in range(lab.plan.waterfall_folds)
                if all(lab.store.has(lab.errors(data, fold, method, width)) for method in _methods(data))
            ]
            if not folds:
                continue
            tree, *medoids = (
                [lab.get(lab.errors(data, fold, method, width)) for fold in folds]
                for method in _methods(data)
            )

            def mean(entries: list[dict[str, Any]], name: str) -> float:
                return mean_and_spread(float(entry[name]) for entry in entries)[0]

            epsilon = mean([lab.get(lab.exact(data, fold, width)) for fold in folds], "epsilon")
            averages.append(
                Curve(
                    data,
                    width,
                    epsilon,
                    [int(entries[0]["m"]) for entries in medoids],
                    [mean(entries, "z_train") for entries in medoids],
                    [mean(entries, "z_test") for entries in medoids],
                    mean(tree, "m"),
                    mean(tree, "z_train"),
                    mean(tree, "z_test"),
                    len(folds),
                )
            )
    return averages


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Draw the figure; return its part of the page."""
    averages = curves(lab)
    if not averages:
        return "*Not computed yet.*"
    table = Table(("data", "epsilon", "epsilon_rule", "landmarks", "M", "Z_train", "Z_test", "folds"))
    for curve in averages:
        same = (curve.data.key, curve.epsilon, curve.width.key)
        table.rows.append(
            (*same, "PST, adopting", curve.tree_m, curve.tree_train, curve.tree_test, curve.n_folds)
        )
        for m, train, test in zip(curve.m, curve.z_train, curve.z_test, strict=True):
            table.rows.append((*same, "k-medoids", m, train, test, curve.n_folds))
    table.write_csv(folder / "figure3.csv", remark)
    picture, vector = save(_draw(averages), folder, NAME, remark)
    folds = sorted({curve.n_folds for curve in averages})
    counts = " or ".join(map(str, folds))
    return "\n\n".join(
        [
            f"![Six panels: Z against M, one line per bandwidth]({picture})",
            "Z against M for k-medoids (lines) and adopting PST (crosses in the same colour). The lowest ε of each "
            "set is the smallest connected one. Where a line begins later, fewer medoids are not connected. Lines "
            f"of C₂₄H₅₀ need not fall steadily: its modes mix. Means over {counts} "
            f"fold{'s' if folds[-1] > 1 else ''} (the paper: 5). [Vector version]({vector}), [numbers](figure3.csv).",
        ]
    )


def _draw(averages: list[Curve]) -> Any:
    import matplotlib

    sets = list({curve.data.key: curve.data for curve in averages}.values())
    figure = new_figure(8.2, 2.75 * len(sets) + 0.3)
    panels = figure.subplots(len(sets), 2, squeeze=False, sharex="row", sharey="row")
    for row, data in enumerate(sets):
        own = [curve for curve in averages if curve.data is data]
        # The brightest end of the map is too pale for lines on white.
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(own)))
        for curve, colour in zip(own, colours, strict=True):
            unit = f" {data.unit}" if data.unit else ""
            label = f"ε = {curve.epsilon:.3g}{unit}"
            for column, (line, cross) in enumerate(
                ((curve.z_train, curve.tree_train), (curve.z_test, curve.tree_test))
            ):
                panel = panels[row, column]
                panel.plot(curve.m, line, "o-", color=colour, markersize=3.5, linewidth=1.2, label=label)
                panel.plot(
                    *(curve.tree_m, cross), "X", color=colour, markersize=9, markeredgecolor=BLACK, zorder=5
                )
        for column, who in enumerate(("training points", "test points")):
            panel = panels[row, column]
            panel.set(xscale="log", yscale="log")
            letter = "abcdefgh"[2 * row + column]
            panel.set_title(f"({letter}) {plain_title(data)}, {who}", loc="left", fontsize=9)
            panel.grid(True, which="major", linewidth=0.4, alpha=0.5)
            panel.tick_params(labelsize=8)
            plain_ticks(panel)
            if column == 0:
                panel.set_ylabel("Z (% of range)", fontsize=9)
                panel.plot([], [], "X", color="white", markeredgecolor=BLACK, markersize=8, label="PST")
                panel.legend(fontsize=7.5, frameon=False)
            if row == len(sets) - 1:
                panel.set_xlabel("landmarks M", fontsize=9)
    return figure
