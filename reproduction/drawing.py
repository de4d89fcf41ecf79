"""How every figure looks, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ldmaps.analysis.plot import import_pyplot
from ldmaps.files import written_whole

__all__ = [
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "MARKERS",
    "ORANGE",
    "PURPLE",
    "SERIES",
    "YELLOW",
    "new_figure",
    "plain_ticks",
    "save",
]

#: Okabe and Ito's colours, told apart with every kind of colour vision.
BLACK, GREY = "#000000", "#999999"
BLUE, ORANGE, GREEN, PURPLE, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SERIES = (BLUE, YELLOW, GREEN, PURPLE)
MARKERS = ("o", "s", "^", "D")


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure; sizes in inches."""
    figure = import_pyplot().Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04, hspace=0.06)
    return figure


def plain_ticks(panel: Any) -> None:
    """Label logarithmic axes at 1, 2, 5, 10 … with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def save(figure: Any, folder: Path, name: str, remark: str) -> tuple[str, str]:
    """Write a PNG and an SVG, each with a note of what made it; return their names."""
    import matplotlib

    names = (f"{name}.png", f"{name}.svg")
    # Text stays text, and two runs that draw the same write the same.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ldmaps"}):
        for file_name in names:
            kind = file_name.rpartition(".")[2]
            note: dict[str, Any] = {"Description": remark}
            if kind == "svg":
                note["Date"] = None
            with written_whole(folder / file_name) as stream:
                figure.savefig(stream, format=kind, dpi=180, metadata=note)
    return names
