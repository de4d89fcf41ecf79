"""``ldmaps kinetics``: learn slow modes, a committor, a passage time or an observable."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options
from ldmaps.cli.session import check_output, opened_map, shown_progress, tell
from ldmaps.errors import InvalidInputError

if TYPE_CHECKING:
    from ldmaps.inputs import PointSource
    from ldmaps.inputs.source import FrameChunk
    from ldmaps.maps.function_map import FunctionMap

SHOWN = "output learn lag modes source target values name tolerance plot top force"
EPILOG = """\
What is learned is a map itself, in a file that all other commands take: its
coordinates are called slow1, slow2, ..., q, mfpt, or the name of the column.

examples:
  ldmaps kinetics map.ldm run*.xtc -t top.pdb --lag 10ps -o slow.ldm
                          slow modes and their time scales; each file is a run
  ldmaps kinetics map.ldm rows.csv --lag 2s -o slow.ldm --plot times.png
                          with a picture of the time scales and of the
                          Chapman-Kolmogorov check over lags
  ldmaps kinetics map.ldm run.xtc -t top.pdb --learn committor --source 1 \\
      --target 2 --lag 1ps -o q.ldm
                          committor from basin 1 to basin 2, and the rate
  ldmaps kinetics map.ldm run.xtc -t top.pdb --learn passage_time --target 2 \\
      --lag 1ps -o mfpt.ldm
  ldmaps kinetics map.ldm run.xtc -t top.pdb --learn observable \\
      --values COLVAR:dist -o dist.ldm
  ldmaps frames q.ldm run.xtc -t top.pdb --committor 0.45..0.55 -o ts.xtc
                          the transition state ensemble

SET is one of: a basin by its number or name (those that ldmaps basins lists), a
region of --regions, bounds such as psi2=0.01:, or a table of frames (columns
frame and file, as ldmaps embed writes). A lag may have a unit: 10ps, 0.5ns, 2s,
5frames; without one it is in ps for trajectories, in s for tables with times,
and in frames or rows for files without times. A committor without --lag is that
of the random walk alone, which knows no time.

Trajectories are read once, in chunks. Tables of --values, --weights or frames
are matched with them in a pass of its own.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = f"""
        model MODEL        file that ldmaps fit wrote
        inputs INPUT+      trajectories or tables in the order of time; each file is a run
        -o --output FILE!  file of the new map, such as slow.ldm
        --learn slow_modes|committor|passage_time|observable=slow_modes  what to learn
        --lag TIME         time over which frames are compared, such as 10ps
        --modes N          how many slow modes (as many as outlast the lag, up to 5)
        --source SET       where processes begin
        --target SET       where they end
        --values FILE[:COLUMN]  the observable at each frame: a column of a table or a PLUMED COLVAR
        --name NAME        what the coordinate is called (q, mfpt, or the column)
        --least-r2 R2=0.3  R2 on held-out frames below which an observable is an error
        --tolerance PERCENT  keep only as many landmarks as this error, in percent of the range, allows; certified
        --regions FILE     regions file that --source and --target name regions of
        --n-basins N       how many basins to look for
        {options.ENTER}
        --plot FILE        draw time scales and the Chapman-Kolmogorov check over lags: .png, .svg or .pdf
        --weights FILE[:COLUMN]  statistical weight of each frame
        --kt KT            the weights are a bias energy V, and the weight is exp(V/KT); 2.494 is 300 K in kJ/mol
    """
    options.add(parser, table, kt=float, tolerance=float, lag=lag, least_r2=float)
    options.add_input_options(parser)
    options.add(parser.add_argument_group("atoms"), f"{options.NAMING}\n{options.MATCHING}")
    options.add_common(parser)


#: What a lag is read as: a number and the name of a unit, empty for that of the times.
Lag = tuple[float, str]


def lag(text: str) -> Lag:
    """Read a lag.

    >>> lag("10ps"), lag("5")
    ((10.0, 'ps'), (5.0, ''))
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+?)\s*([a-zA-Zµ]*)\s*", text)
    try:
        return float(match[1]), match[2]  # type: ignore[index]
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(
            f"a time such as 10ps, 2s or 5frames is needed, got {text!r}"
        ) from None


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.progress import reporting

    _check_options(arguments)
    if arguments.plot is not None:
        _check_picture(arguments)
    model = opened_map(arguments)
    if not hasattr(model, "slow_modes"):
        raise InvalidInputError(
            f"{arguments.model} is a {model.map_.record.kind} already; name the map that it was learned on"
        )
    source = options.open_files(arguments, arguments.inputs, model.source_)
    import_module("ldmaps.kinetics")  # where it is missing, that is said before tables are read
    with reporting(shown_progress(arguments)):
        learned = _learned(arguments, model, source)
        if arguments.tolerance is not None:
            learned = learned.distil(source, tolerance=arguments.tolerance)
    learned.save(arguments.output)
    record = learned.record_
    if arguments.plot is not None:
        _draw(arguments, learned)
    facts = {
        "output": arguments.output,
        "kind": record.kind,
        "coordinates": list(record.names),
        **record.facts,
        "lines": list(record.lines),
    }
    names = ", ".join(record.names)
    tell(arguments, facts, "\n".join([f"{arguments.output}: {record.kind} ({names})", *record.lines]))


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise where an option is missing, or is of something else than what is learned."""
    kind = arguments.learn
    needed = {
        "slow_modes": "lag",
        "committor": "source target",
        "passage_time": "target lag",
        "observable": "values",
    }
    allowed = {
        "slow_modes": "lag modes plot weights kt",
        "committor": "source target lag name regions n_basins weights kt",
        "passage_time": "source target lag name regions n_basins weights kt",
        "observable": "values name weights kt",
    }
    for name in needed[kind].split():
        if getattr(arguments, name) is None:
            raise InvalidInputError(f"--learn {kind} needs --{name}")
    for name in ["lag", "modes", "source", "target", "values", "name", "regions", "n_basins", "plot"]:
        if getattr(arguments, name) is not None and name not in allowed[kind].split():
            raise InvalidInputError(
                f"--{name.replace('_', '-')} cannot be combined with --learn {kind}; leave it out, or choose "
                "another --learn"
            )


def _learned(arguments: argparse.Namespace, model: Any, source: PointSource) -> FunctionMap:
    """Learn what was asked for."""
    tables = _Tables(source)
    weights = None if source.weights is None else source.weights.of(tables.index, source.files)
    more: dict[str, Any] = {} if arguments.name is None else {"name": arguments.name}
    learned: FunctionMap
    if arguments.learn == "observable":
        name, values = tables.column(arguments.values)
        more.setdefault("name", re.sub(r"\W", "_", name))
        learned = model.function(source, values, least_r2=arguments.least_r2, sample_weight=weights, **more)
        return learned
    time = None if arguments.lag is None else _in_unit(arguments.lag, model, source)
    if arguments.learn == "slow_modes":
        learned = model.slow_modes(source, lag=time, n_modes=arguments.modes, sample_weight=weights)
        return learned
    sets = {
        end: _set(arguments, model, tables, getattr(arguments, end))
        for end in ("source", "target")
        if getattr(arguments, end) is not None
    }
    learned = getattr(model, arguments.learn)(source, lag=time, sample_weight=weights, **sets, **more)
    return learned


def _in_unit(lag: Lag, model: Any, source: PointSource) -> float:
    """Return a lag in the unit of the times of a source, or in frames where it has none."""
    from ldmaps.kinetics.time_series import TimeSeries
    from ldmaps.time_units import LENGTHS

    number, unit = lag
    if not unit:
        return number
    series = TimeSeries(model, source)
    if unit in ("frames", "frame", "rows", "row", "steps"):
        return number if series.interval is None else number * series.interval
    known = LENGTHS.get(series.unit or "", {})
    if unit not in known:
        units = ", ".join(known) if known else ""
        has = (
            f"its times are in {series.unit}: use {units} or frames"
            if known
            else f"it has no times: use {series.unit}"
        )
        raise InvalidInputError(
            f"--lag {number:g}{unit}: {source.describe()} has no such unit of time; {has}"
        )
    return number * known[unit]


def _set(arguments: argparse.Namespace, model: Any, tables: _Tables, text: str) -> Any:
    """Return the region or the frames that a SET names."""
    import os

    from ldmaps.regions import Box, find_basins, load_regions

    if os.path.isfile(text):
        return tables.frames(text)
    if "=" in text:
        try:
            return Box(options.bounds(text))
        except argparse.ArgumentTypeError as error:
            raise InvalidInputError(str(error)) from None
    if arguments.regions is not None:
        regions = load_regions(arguments.regions, model)
    else:
        regions = dict(find_basins(model, arguments.n_basins, enter=arguments.enter).regions)
    if text.isdigit() and 1 <= int(text) <= len(regions):
        text = list(regions)[int(text) - 1]
    if text not in regions:
        raise InvalidInputError(
            f"there is no set {text!r}: it is neither a file nor one of {', '.join(regions)}; bounds such as "
            "psi2=0.01: are another way to name a set"
        )
    return regions[text]


class _Tables:
    """What tables say of the frames of a source, which are read once for all of them."""

    def __init__(self, source: PointSource) -> None:
        self._source = source
        self._index: FrameChunk | None = None

    @property
    def index(self) -> FrameChunk:
        """Numbers, times and files of all frames, without their coordinates."""
        if self._index is None:
            self._index = _index(self._source)
        return self._index

    def column(self, what: str) -> tuple[str, Any]:
        """Return the name and the values of a column that ``FILE`` or ``FILE:COLUMN`` names."""
        from ldmaps.inputs.weights import WeightTable, split_column

        path, column = split_column(what)
        if path is None:
            raise InvalidInputError(f"there is no table {what!r}; name it as FILE:COLUMN")
        table = WeightTable.read(path, column, are_weights=False)
        name = table.name.rpartition(":")[2] if ":" in table.name else "observable"
        return name, table.values_of(self.index, self._source.files)

    def frames(self, path: str) -> Any:
        """Return which frames a table lists."""
        import numpy as np

        from ldmaps.analysis.frames import read_picks

        index, files = self.index, self._source.files
        picks = read_picks(path, files)
        places = np.array(
            [files.index(name) if name in files else -1 for name in picks.files], dtype=np.int64
        )
        file_of = (
            np.zeros(len(index), dtype=np.int64) if index.files is None else index.files.astype(np.int64)
        )
        span = int(max(index.numbers.max(), picks.numbers.max(initial=0))) + 1
        wanted = places[picks.file_of] * span + picks.numbers
        return np.isin(file_of * span + index.numbers, wanted)


def _index(source: PointSource) -> FrameChunk:
    import numpy as np

    from ldmaps.inputs.source import FrameChunk
    from ldmaps.progress import is_shown, stage

    numbers, times, files = [], [], []
    with stage("matching tables", source.n_frames if is_shown() else None, source.item) as progress:
        for chunk in source:
            numbers.append(chunk.numbers)
            times.append(chunk.times)
            files.append(np.full(len(chunk), source.files.index(chunk.file), np.int32))
            progress.advance(len(chunk))
    if not numbers:
        raise InvalidInputError(
            f"there are no frames in {source.describe()}; check --start, --stop and the files"
        )
    told = [one for one in times if one is not None]
    count = sum(map(len, numbers))
    # Of no size in memory: what matches tables asks for the number of axes only.
    nothing = np.broadcast_to(
        np.zeros((1,) * (1 + len(source.shape)), dtype=np.float32), (count, *source.shape)
    )
    return FrameChunk(
        nothing,
        np.concatenate(numbers),
        np.concatenate(told) if len(told) == len(times) else None,
        source.files[0] if len(source.files) == 1 else "",
        np.concatenate(files) if len(source.files) > 1 else None,
    )


def _check_picture(arguments: argparse.Namespace) -> None:
    if not arguments.plot.lower().endswith(options.PICTURES):
        raise InvalidInputError(
            f"the picture {arguments.plot} must end in one of {', '.join(options.PICTURES)}"
        )
    check_output(arguments.plot, arguments.force)


def _draw(arguments: argparse.Namespace, learned: FunctionMap) -> None:
    from ldmaps.analysis.plot import import_pyplot
    from ldmaps.files import written_whole

    pyplot = import_pyplot()
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        matplotlib.use("Agg")
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
        learned.plot.timescales(ax=left)
        learned.plot.chapman_kolmogorov(ax=right)
        with written_whole(arguments.plot) as stream:
            figure.savefig(stream, format=arguments.plot.rpartition(".")[2].lower(), dpi=200)
