"""``ldmaps frames``: write the frames of a part of the map."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options
from ldmaps.cli.session import check_output, opened_map, tell
from ldmaps.errors import InvalidInputError

if TYPE_CHECKING:
    from ldmaps.analysis import FramePicks
    from ldmaps.inputs import FrameSource
    from ldmaps.regions import Region

SHOWN = "output along box region basin committor picks landmarks representatives regions top force"
EPILOG = """\
examples:
  ldmaps frames map.ldm run.xtc -t top.pdb --basin 2 -o basin2.dcd
  ldmaps frames map.ldm run.xtc -t top.pdb --box psi2=0.01: -o part.xtc
  ldmaps frames map.ldm run.xtc -t top.pdb --picks picks.csv -o picks.pdb
  ldmaps frames map.ldm run.xtc -t top.pdb --representatives -o basins.pdb
  ldmaps frames map.ldm run.xtc -t top.pdb --along psi2 -n 40 -o movie.xtc
  ldmaps frames q.ldm run.xtc -t top.pdb --committor 0.45..0.55 -o ts.xtc
  ldmaps frames map.ldm --landmarks -o landmarks.pdb
                          without a trajectory: the map's own atoms, superposed

Frames are written with all atoms of the topology (or --atoms), coordinates,
times and boxes as in the files; velocities are not. They stay in the files'
order, but --along puts them in that of the coordinate, each near the one before
and superposed on it: the map's molecules (or --atoms), whole, without boxes.
Landmarks and representatives are frames of the files the map was fitted
on: name the same ones. A PDB says in its remarks where each model is from;
--table writes that for any format.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL        file that ldmaps fit wrote
        inputs INPUT*      trajectories to take frames from
        -o --output FILE!  file to write: .xtc, .trr, .dcd or .pdb
    """
    options.add(parser, table)
    table = """
        --box BOX            those within bounds; a bound may be left open
        --region NAME        those in a region of --regions
        --basin NUMBER|NAME  those in a learned basin; 1 has the most points
        --committor LOW..HIGH  those with a committor in this range, on a map that ldmaps kinetics wrote: 0.45..0.55 is
                             the transition state ensemble
        --picks TABLE        rows with columns frame and file, as ldmaps embed writes
        --landmarks N,N,...?  the frames that are landmarks: all, or some by their numbers from 0
        --along COORDINATE   frames in order along psi2, slow1, q, ...: one per interval, each near its neighbours
        --representatives    one landmark per basin, or per region of --regions: the one in its middle
    """
    group = parser.add_argument_group("which frames").add_mutually_exclusive_group(required=True)
    box = {"metavar": "psi2=LOW:HIGH,...", "type": options.bounds}
    options.add(group, table, box=box, landmarks={"const": "all"}, committor=_range)
    table = f"""
        --regions FILE  regions file for --region and --representatives
        --n-basins N    how many basins to look for
        -n --n-frames N=40  how many intervals --along cuts the coordinate's range into
        --weights FILE[:COLUMN]  of --along: statistical weight of each frame; those of 0 are left out
        --atoms ATOMS   atoms to write, in mdtraj's language (all)
        --table FILE    also write a .csv that says where each frame is from
        {options.ENTER}
    """
    options.add(parser, table)
    options.add_input_options(parser, tables=False)
    options.add(parser.add_argument_group("atoms"), f"{options.NAMING}\n{options.MATCHING}")
    options.add_common(parser)


def _range(text: str) -> tuple[float, float]:
    """Read a range: "0.45..0.55"."""
    try:
        low, high = map(float, text.split(".."))
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high:
        raise argparse.ArgumentTypeError(f"a range such as 0.45..0.55 is needed, got {text!r}")
    return low, high


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.analysis.frames import rows_of, summary_of
    from ldmaps.files import written_whole
    from ldmaps.inputs.formats import output_format
    from ldmaps.progress import Progress, reporting
    from ldmaps.text_rows import WHOLE, csv_table

    output_format(arguments.output, "frames")
    if arguments.table is not None:
        check_output(arguments.table, arguments.force)
    model = opened_map(arguments)
    if not arguments.inputs and arguments.picks is None:
        _from_the_map_alone(arguments, model)
        return
    if arguments.along is not None:
        _along(arguments, model)
        return
    with reporting(Progress(False if arguments.quiet else None)):
        picks = _picks(arguments, model)
        times = picks.write(arguments.output, arguments.top, atoms=arguments.atoms)
    count = len(picks.numbers)
    if arguments.table is not None:
        table: dict[str, Any] = {
            "number": (WHOLE, range(1, count + 1)),
            "file": (picks.files, picks.file_of),
            "frame": (WHOLE, picks.numbers),
            "time": (10, times),
            "label": (picks.labels, range(count)),
        }
        with written_whole(arguments.table) as stream:
            stream.write(csv_table(table))
    files = [picks.files[place] for place in picks.file_of]
    known = [None] * count if times is None else times.tolist()
    rows = zip(files, picks.numbers.tolist(), known, picks.labels, strict=True)
    frames = [dict(zip(("file", "frame", "time", "label"), row, strict=True)) for row in rows]
    labelled = any(picks.labels)
    lines = rows_of(picks, times)[:40] if labelled else summary_of(picks)
    if labelled and count > 40:
        lines.append(f"and {count - 40:,} more; --table writes them all")
    if arguments.basin is not None and arguments.regions is None:
        lines.append(
            f"These are its core: membership of at least {arguments.enter:g}. Its population counts all frames by "
            "membership; --enter 0.5 writes every frame that belongs to it more than to the others"
        )
    text = "\n".join([f"{arguments.output}: {count:,} frame{'s' * (count > 1)}", *lines])
    tell(arguments, {"output": arguments.output, "frames": frames}, text)


def _along(arguments: argparse.Namespace, model: Any) -> None:
    """Write frames in order along a coordinate."""
    from ldmaps.analysis import frames_along
    from ldmaps.files import written_whole
    from ldmaps.progress import Progress, reporting
    from ldmaps.text_rows import WHOLE, csv_table

    with reporting(Progress(False if arguments.quiet else None)):
        found = frames_along(model, _opened(arguments, model), arguments.along, arguments.n_frames)
        times = found.write(arguments.output, atoms=arguments.atoms)
    count = len(found.values)
    from_before = [None, *found.steps.tolist()]
    if arguments.table is not None:
        table: dict[str, Any] = {
            "number": (WHOLE, range(1, count + 1)),
            "file": (found.files, found.file_of),
            "frame": (WHOLE, found.numbers),
            "time": (10, times),
            found.coordinate: (10, found.values),
            "from_before": (6, [float("nan"), *found.steps.tolist()]),
        }
        with written_whole(arguments.table) as stream:
            stream.write(csv_table(table))
    columns = {
        "file": [found.files[place] for place in found.file_of],
        "frame": found.numbers.tolist(),
        "time": [None] * count if times is None else times.tolist(),
        "value": found.values.tolist(),
        "from_before": from_before,
    }
    frames = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    facts = {
        "output": arguments.output,
        "coordinate": found.coordinate,
        "empty": found.n_empty,
        "frames": frames,
    }
    unit = model.metric_.distance_unit(model.units_)
    rows = found.rows(times)
    if count > 40:
        rows = [*rows[:40], f"and {count - 40:,} more; --table writes them all"]
    tell(arguments, facts, "\n".join([f"{arguments.output}: {count:,} frames", *found.summary(unit), *rows]))


def _opened(arguments: argparse.Namespace, model: Any) -> FrameSource:
    """Return the trajectories, with the atoms of the model."""
    from ldmaps.inputs import FrameSource

    source = options.open_files(arguments, arguments.inputs, model.source_)
    if not isinstance(source, FrameSource):
        along = "; in Python, ldmaps.analysis.frames_along returns rows" if arguments.along else ""
        raise InvalidInputError(f"{source.describe()} is a table, which has no frames to write{along}")
    return source


def _picks(arguments: argparse.Namespace, model: Any) -> FramePicks:
    from ldmaps.analysis.frames import FramePicks, read_picks
    from ldmaps.inputs.opening import expanded

    if arguments.picks is not None:
        return read_picks(arguments.picks, expanded(arguments.inputs) if arguments.inputs else ())
    # Opened in any case, so that a trajectory of other atoms is refused.
    source = _opened(arguments, model)
    if arguments.landmarks is not None or arguments.representatives:
        numbers, labels = _landmarks(arguments, model)
        return FramePicks.of_landmarks(model, numbers, source.files, labels)
    return FramePicks.in_region(model, source, _region(arguments, model))


def _from_the_map_alone(arguments: argparse.Namespace, model: Any) -> None:
    from ldmaps.analysis import write_landmarks

    if arguments.landmarks is None and not arguments.representatives:
        raise InvalidInputError(
            "a model file holds no frames but its landmarks; name the trajectory to take them from"
        )
    if arguments.atoms is not None:
        raise InvalidInputError(
            "the model file holds the atoms that the map was fitted on; for --atoms name the trajectory"
        )
    numbers, labels = _landmarks(arguments, model)
    write_landmarks(model, arguments.output, numbers, labels)
    count = len(model.landmark_indices_) if numbers is None else len(numbers)
    tell(
        arguments,
        {"output": arguments.output, "landmarks": numbers, "labels": labels},
        f"{arguments.output}: {count:,} landmarks as the model holds them ({model.n_features_in_ // 3} atoms each, "
        "superposed); name the trajectory for all atoms as they were",
    )


def _landmarks(arguments: argparse.Namespace, model: Any) -> tuple[list[int] | None, list[str] | None]:
    """Return the landmarks that are asked for, None for all, and what each is."""
    from ldmaps.regions import representatives

    wanted = options.names(arguments.landmarks or "")
    if not arguments.representatives:
        if wanted == ["all"]:
            return None, None
        if not all(part.isdigit() for part in wanted):
            raise InvalidInputError(
                f"landmarks are numbers from 0 such as 3,17,20, got {arguments.landmarks!r}; put them after INPUT"
            )
        return [int(part) for part in wanted], None
    middles = representatives(model, _regions(arguments, model))
    return list(middles.values()), [f"{name} (landmark {number})" for name, number in middles.items()]


def _regions(arguments: argparse.Namespace, model: Any) -> dict[str, Region]:
    from ldmaps.regions import find_basins, load_regions

    if arguments.regions is not None:
        return load_regions(arguments.regions, model)
    return dict(find_basins(model, arguments.n_basins, enter=arguments.enter).regions)


def _between(model: Any, committor: tuple[float, float]) -> Region:
    """Return where a committor has values in a range."""
    from ldmaps.regions import Box

    record = model.map_.record
    if record is None or record.kind != "committor":
        found = "eigenvectors" if record is None else record.kind
        raise InvalidInputError(
            f"--committor needs the map of a committor, and this one is of {found}; write one with ldmaps kinetics "
            "--learn committor"
        )
    return Box({record.names[0]: committor})


def _region(arguments: argparse.Namespace, model: Any) -> Region:
    from ldmaps.regions import Box

    if arguments.box is not None:
        return Box(arguments.box)
    if arguments.committor is not None:
        return _between(model, arguments.committor)
    if arguments.region is not None and arguments.regions is None:
        raise InvalidInputError(
            f"--region {arguments.region} is looked up in a regions file; name that with --regions FILE"
        )
    regions = _regions(arguments, model)
    wanted = arguments.region if arguments.region is not None else arguments.basin
    if arguments.basin is not None and wanted.isdigit() and 1 <= int(wanted) <= len(regions):
        wanted = list(regions)[int(wanted) - 1]
    if wanted not in regions:
        raise InvalidInputError(f"there is no region {wanted!r}; there are {', '.join(regions)}")
    return regions[wanted]
