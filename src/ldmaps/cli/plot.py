"""``ldmaps plot``: draw a map as PNG, SVG or PDF."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli import options
from ldmaps.cli.session import opened_map, tell
from ldmaps.errors import InvalidInputError

#: What two methods of ``model.plot`` may be called as well.
_SHORT = {"map": "embedding", "energy": "free_energy"}

SHOWN = "output kind x y data colour weights no_landmarks title force"
EPILOG = """\
examples:
  ldmaps plot map.ldm -o map.png
  ldmaps plot map.ldm --kind free_energy -x psi2 -y psi4 -o energy.pdf
  ldmaps plot map.ldm --kind profile -o profile.svg
  ldmaps plot map.ldm --data psi.csv --colour rg -o coloured.png

Energies are -ln p in units of k_BT, with the weights of the fit where it had
any; the errors of a profile are those over blocks of the trajectory.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL        file that ldmaps fit or model.save wrote
        -o --output FILE!  picture: .png, .svg or .pdf
        --kind embedding|free_energy|profile|spectrum|timescales|chapman_kolmogorov=embedding  what to draw
        -x NAME            coordinate across, such as psi2 or slow1 (the first)
        -y NAME            coordinate upwards (the next one)
        --data TABLE       rows of ldmaps embed to draw instead of the map's own points, or columns for these
        --colour --color COLUMN  column of --data to colour the map by
        --weights COLUMN   column of --data with the points' weights
        --blocks N=5       blocks for the errors of a profile
        --no-landmarks     leave the landmarks' circles out
        --title TEXT       heading of the picture
        --dpi N=200        dots per inch of a .png
    """
    options.add(parser, table, kind=lambda text: _SHORT.get(text, text))
    options.add_common(parser, "threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.analysis.plot import import_pyplot
    from ldmaps.files import written_whole

    form = next((one for one in options.PICTURES if arguments.output.lower().endswith(one)), None)
    if form is None:
        raise InvalidInputError(
            f"the picture {arguments.output} must end in one of {', '.join(options.PICTURES)}"
        )
    model = opened_map(arguments)
    import_pyplot()
    import matplotlib

    # Without a display, and with letters that programs for drawings can edit.
    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        matplotlib.use("Agg")
        axes = _drawn(arguments, model)
        if arguments.title is not None:
            axes.set_title(arguments.title)
        with written_whole(arguments.output) as stream:
            axes.figure.savefig(stream, format=form[1:], dpi=arguments.dpi)
    facts = {"output": arguments.output, "kind": arguments.kind}
    tell(arguments, facts, f"{arguments.output}: {arguments.kind} of {arguments.model}")


def _drawn(arguments: argparse.Namespace, model: Any) -> Any:
    from ldmaps.analysis.own_points import read_table
    from ldmaps.embedded_rows import place_of

    table = {} if arguments.data is None else read_table(arguments.data, model)
    known = {"time": "times", "frame": "frames", "distance": "distance", "file": "files"}
    columns = {name: table[argument] for name, argument in known.items() if argument in table}
    columns |= table.get("columns", {})
    points = table.get("points")

    def named(name: str | None) -> Any:
        if name is None:
            return None
        if arguments.data is None:
            raise InvalidInputError(f"{name!r} is a column of a table; name the table with --data")
        if name not in columns:
            raise InvalidInputError(f"{arguments.data} has no column {name!r}; it has {', '.join(columns)}")
        return columns[name]

    if arguments.kind in ("spectrum", "timescales", "chapman_kolmogorov"):
        return getattr(model.plot, arguments.kind)()
    x = 0 if arguments.x is None else place_of(arguments.x, model.coordinate_names_)
    y = x + 1 if arguments.y is None else place_of(arguments.y, model.coordinate_names_)
    if arguments.kind == "embedding":
        colours = {"colour": named(arguments.colour), "label": arguments.colour}
        return model.plot.embedding(x, y, points=points, landmarks=not arguments.no_landmarks, **colours)
    weights = named(arguments.weights)
    if arguments.kind == "profile":
        return model.plot.profile(x, points=points, weights=weights, blocks=arguments.blocks)
    return model.plot.free_energy(x, y, points=points, weights=weights)
