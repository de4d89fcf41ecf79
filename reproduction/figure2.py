"""Figure 2: the Swiss roll in exact and landmark coordinates, by position and by error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.drawing import new_figure, save
from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Arrays, Piece
from reproduction.plan import CONNECTED
from reproduction.printed import FIGURE_2
from reproduction.tables import Table, percent

__all__ = ["NAME", "TITLE", "pieces", "write"]

NAME = "figure2"
TITLE = "Figure 2: the Swiss roll's landmark embedding"
_METHOD = Method("adopting")


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the figure is made of."""
    yield _piece(lab)


def _piece(lab: Laboratory) -> Piece:
    return lab.piece("embeddings", lab.plan.of("swiss_roll"), 0, width=CONNECTED.key, method=_METHOD.key)


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Draw the figure; return its part of the page."""
    maps = lab.get(_piece(lab))
    points = lab.data(_piece(lab)).points
    heights = [points[part, 1] for part in lab.split(_piece(lab))]
    picture, vector = save(_draw(maps, heights), folder, NAME, remark)
    z_train, z_test = (float(np.sqrt(np.mean(maps[name] ** 2))) for name in ("zeta", "new_zeta"))
    largest = float(maps["zeta"].max()), float(maps["new_zeta"].max())
    numbers = Table(
        ("M", "largest_zeta_train", "largest_zeta_test", "Z_train", "Z_test"),
        [(int(maps["m"]), *largest, z_train, z_test)],
    )
    numbers.write_csv(folder / "figure2.csv", remark)
    return "\n\n".join(
        [
            f"![Six panels: exact and landmark coordinates, and errors on the unrolled strip]({picture})",
            "One fold. (a, b) Exact map of training and test points, coloured by the angle t along the spiral. (c, "
            "d) The landmark map (adopting PST), coloured by the error ζ. (e, f) The same errors on the unrolled "
            f"strip, not in the paper. M = {int(maps['m']):,} (paper {FIGURE_2.n_landmarks:,}); of test points, Z = "
            f"{percent(z_test)} % (paper {FIGURE_2.z_test}), largest ζ = {percent(largest[1])} % (paper below "
            f"{FIGURE_2.largest_zeta}). [Vector version]({vector}), [numbers](figure2.csv).",
        ]
    )


def _draw(maps: Arrays, heights: Sequence[NDArray[np.float64]]) -> Any:
    figure = new_figure(7.4, 7.8)
    panels = figure.subplots(3, 2, sharex="row", sharey="row")
    scale = math.sqrt(len(maps["truth"]))  # ψᵀψ = 1 makes entries of order 1/√N
    angles = maps["position"] / math.pi, maps["new_position"] / math.pi
    errors = maps["zeta"], maps["new_zeta"]
    ceiling = max(float(np.percentile(values, 99.5)) for values in errors)
    m, who = int(maps["m"]), ("training", "test")
    for column, (truth, landmark) in enumerate((("truth", "train"), ("new_truth", "test"))):
        error, angle = errors[column], angles[column]
        largest, z = error.max(), math.sqrt(float(np.mean(error**2)))
        rows: tuple[tuple[Any, NDArray[Any], str], ...] = (
            ((maps[truth] * scale).T, angle, f"exact map, {len(error):,} {who[column]} points"),
            ((maps[landmark] * scale).T, error, f"landmark map, M = {m:,}, {who[column]}"),
            ((angle, heights[column]), error, f"unrolled: Z = {z:.2f} %, largest ζ = {largest:.2f} %"),
        )
        for row, (points, colours, title) in enumerate(rows):
            panel = panels[row, column]
            is_error = row > 0
            drawn = panel.scatter(
                *points,
                c=colours,
                s=4.0 if row < 2 else 2.0 + 2000.0 / len(error),
                linewidths=0,
                rasterized=True,
                cmap="cividis" if is_error else "viridis",
                vmin=0.0 if is_error else 1.5,
                vmax=ceiling if is_error else 4.5,
            )
            panel.set_title(f"({'abcdef'[2 * row + column]}) {title}", loc="left", fontsize=8.5)
            panel.set_xlabel(r"$\sqrt{N}\,\psi_2$" if row < 2 else "angle t (units of π)", fontsize=9)
            panel.tick_params(labelsize=8)
            if column == 0:
                panel.set_ylabel(r"$\sqrt{N}\,\psi_3$" if row < 2 else "height on the roll", fontsize=9)
            elif row < 2:
                label = "error ζ (% of range)" if is_error else "angle t along the spiral (units of π)"
                beside = panels[1:, :] if is_error else panels[0, :]
                extend = "max" if is_error else "neither"
                bar = figure.colorbar(drawn, ax=beside, pad=0.02, aspect=22 * (1 + is_error), extend=extend)
                bar.set_label(label, fontsize=9)
                bar.ax.tick_params(labelsize=8)
    return figure
