"""``ldmaps fit``: learn a map from trajectories or tables."""

from __future__ import annotations

import argparse
import math
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options
from ldmaps.cli.session import check_output, complain, say, shown_progress, write_json
from ldmaps.errors import InvalidInputError, LdmapsError, LdmapsWarning, one_line
from ldmaps.settings import LANDMARK_FIT, LIMITS
from ldmaps.text_layout import wrapped

if TYPE_CHECKING:
    from ldmaps.inputs import PointSource

#: Settings that are not about the map, and have their options elsewhere.
_AMONG_GENERAL = ("random_state", "n_threads")
#: A fit on fewer points gets a warning.
FEW_POINTS = 10
#: A column that makes up more of d² than this is all that a map shows.
MOST_OF_DISTANCE = 0.95
#: The trial takes every so many-th frame, at most and at least so many, so that it costs a few percent of the fit.
STRIDE, MOST_FRAMES, FEWEST_FRAMES = 5, 1000, 200
#: With 60 landmarks nine torsions that turn freely hide a tenth that is slow; with 100 they do not.
N_LANDMARKS, N_RESAMPLES = 100, 10
#: A coordinate is slower that remembers so many times as long, beyond two standard errors.
SLOWER = 1.5

SHOWN = "output top select columns stride metric features epsilon n_components tolerance n_landmarks force"
EPILOG = """\
inputs: trajectories (xtc, trr, dcd, h5, pdb, and others that mdtraj or
MDAnalysis reads) or tables (.csv, .tsv, .npy, .npz, .parquet; - is CSV from
stdin); several, and patterns such as 'run*.xtc', are read one after the other.

examples:
  ldmaps fit traj.xtc -t top.pdb --tolerance 1 -o map.ldm
  ldmaps fit traj.xtc -t top.pdb --select "protein and not element H" \\
         --tolerance 1 -o map.ldm
  ldmaps fit traj.xtc -t top.pdb --features dihedrals --tolerance 1 -o map.ldm
  ldmaps fit sensors.csv --columns temp,flow,load --tolerance 1 -o map.ldm
  ldmaps fit metad.xtc -t top.pdb --weights COLVAR:metad.rbias --kt 2.494 \\
         -o map.ldm

--tolerance 1 finds the fewest landmarks that keep Z of 99 % of new points below
1 %, certified on points that were held out; the model file has the certificate.
Without it, 400 landmarks are used and the accuracy is not certified.
Rotating hydrogens hide slow motions in a plain RMSD: leave them out with
--select, or use --mass-weighted. So do the ends of a flexible chain: --features
dihedrals compares torsions instead of superposed atoms.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        inputs INPUT+       trajectories or tables
        -o --output MODEL!  model file to write, such as map.ldm
        --no-embedding      do not store the training points' coordinates in the model file
        --lag TIME          lag time for autocorrelations, in ps, seconds, frames or rows (the longest correlation time
                            of any coordinate)
    """
    options.add(parser, table, lag=float)
    options.add_setting(parser, LIMITS["resume"])
    add_map_options(parser)
    options.add_input_options(parser)
    table = """
        --weights COLUMN|FILE[:COLUMN]  statistical weight of each point: a column of the input tables, or of another
                                        table, an array or a PLUMED COLVAR
        --kt KT  the column of weights is a bias energy V, and the weight is exp(V/KT); 2.494 is 300 K in kJ/mol
    """
    options.add(parser.add_argument_group("weights"), table, kt=float)
    options.add_worker_options(parser)
    options.add_common(parser, "")


def add_map_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which map to fit."""
    group = parser.add_argument_group("the map")
    options.add_setting(group, LANDMARK_FIT["metric"], default=None)  # which the inputs decide
    table = """
        --features WHAT  compare frames by internal coordinates: dihedrals, chi, distances, contacts, angles (several
                         with commas), or a file that lists some
        --mass-weighted  weight atoms by their masses in the RMSD
        --period P       period of --metric periodic (2 pi)
        --scale standard|robust|none  divide columns of a table by their standard deviation, by their interquartile
                         range, or not at all (standard if columns have names and no --metric is given)
        --window W       points are windows of W consecutive rows of a table; auto chooses the length from their
                         autocorrelation
    """
    options.add(group, table, period=float, window=options.window)
    for setting in LANDMARK_FIT.values():
        if setting.option and setting.name not in ("metric", *_AMONG_GENERAL):
            options.add_setting(group, setting)
    options.add_setting(group, LIMITS["max_passes"])


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from dataclasses import asdict

    from ldmaps.cli import workers
    from ldmaps.maps.summary import summary_lines
    from ldmaps.progress import reporting
    from ldmaps.validation.sampling import N_RESAMPLES

    if arguments.output == "-":
        raise InvalidInputError("a model file cannot go to stdout; name a file with -o map.ldm")
    check_output(arguments.output, arguments.force)
    source = options.open_files(arguments, arguments.inputs)
    model = estimator_of(arguments, metric_of(arguments, source))
    has_workers = options.asks_for_workers(arguments)
    with (
        reporting(shown_progress(arguments)),
        workers.workers_of(arguments) if has_workers else nullcontext(),
    ):
        model.fit(workers.in_blocks(arguments, source) if has_workers else source)
        if not has_workers and (model.sampling_ is None or arguments.lag is not None):
            model.resample(N_RESAMPLES, lag=arguments.lag)
        model.save(arguments.output, include_embedding=not arguments.no_embedding)
    n_points = model.diagnosis_.n_points
    if n_points < FEW_POINTS and not arguments.quiet:
        complain(
            f"warning: {n_points} {source.item} are too few for a map: its coordinates only order these points. Use "
            "hundreds or more; if the input has them, check --stride, --start and --stop"
        )
    if arguments.quiet and not arguments.json:
        return
    representation = said_of_representation(arguments, source, model)
    if arguments.json:
        from ldmaps.cli.info import facts_of

        facts = facts_of(arguments.output) | {"representation": representation}
        facts |= {name: getattr(model.diagnosis_, name).tolist() for name in ("participation", "left_out")}
        if model.certificate_ is not None:
            facts["certificate"] = asdict(model.certificate_)
        write_json({"output": arguments.output, **facts})
    else:
        weights, constant = model.training_.weights, (model.source_ or {}).get("constant")
        lines = []
        if weights is not None and arguments.weights is not None:
            worth = float(weights.sum()) ** 2 / float((weights**2).sum())
            lines.append(f"weights: effective sample size {worth:,.0f} of {len(weights):,} points")
        lines += [*source.remarks, _said_of_time(source, model), representation]
        if constant:
            lines.append(f"constant columns ignored: {', '.join(constant)}")
        first, *others = summary_lines(model)
        say(arguments, "\n".join([f"{arguments.output}: {first}", *others]))
        for line in wrapped(filter(None, (*lines, _said_of_scale(model)))):
            say(arguments, line)


def estimator_of(arguments: argparse.Namespace, metric: Any) -> Any:
    """Return the estimator that options ask for."""
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

    return LandmarkDiffusionMap(**{**options.fit_settings(arguments), "metric": metric})


def metric_of(arguments: argparse.Namespace, source: PointSource) -> Any:
    """Return the metric that options and input ask for."""
    import numpy as np

    from ldmaps.inputs import FrameSource
    from ldmaps.metrics import RMSD, Features, Periodic, StandardizedEuclidean

    frames = len(source.shape) == 2
    if arguments.features is not None:
        if not isinstance(source, FrameSource):
            raise InvalidInputError(
                "--features requires a trajectory, but the input is a table; leave it out"
            )
        if arguments.metric or arguments.mass_weighted or arguments.period is not None or arguments.scale:
            raise InvalidInputError(
                "--features defines the distance between frames, so it cannot be combined with --metric, "
                "--mass-weighted, --period or --scale; leave those out"
            )
        return Features.of(source, arguments.features)
    name = arguments.metric or ("rmsd" if frames else "euclidean")
    if frames and name != "rmsd":
        raise InvalidInputError(
            f"--metric {name} compares rows of numbers, but the input is a trajectory; use rmsd"
        )
    if arguments.scale is not None and name != "euclidean":
        raise InvalidInputError(f"--scale belongs to --metric euclidean, got --metric {name}")
    # Columns with names have units of their own; an array without any is one quantity in many places.
    has_names = arguments.metric is None and len(getattr(source, "columns", None) or ()) > 1
    scale = arguments.scale or ("standard" if has_names else "none")
    if name == "euclidean" and scale != "none" and not arguments.mass_weighted and arguments.period is None:
        return StandardizedEuclidean(scale)
    if arguments.period is not None:
        if name != "periodic":
            raise InvalidInputError(f"--period belongs to --metric periodic, got --metric {name}")
        return Periodic(arguments.period)
    if not arguments.mass_weighted:
        return name
    if name != "rmsd" or not isinstance(source, FrameSource):
        raise InvalidInputError(
            "--mass-weighted belongs to --metric rmsd on trajectories, whose topology has masses"
        )
    labels = () if source.atoms is None else source.atoms.labels
    masses = None if source.atoms is None else source.atoms.masses
    unknown = list(labels) if masses is None else [labels[at] for at in np.flatnonzero(np.isnan(masses))]
    if unknown or not labels:
        shown = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6:,} more" if len(unknown) > 6 else "")
        raise InvalidInputError(
            f"the topology has neither masses nor elements for {shown or 'the atoms'}; leave --mass-weighted out, or "
            "give a topology with masses (PSF, prmtop, TPR, LAMMPS data) or elements"
        )
    return RMSD(weights=masses)


def _said_of_time(source: PointSource, model: Any) -> str:
    """Say which column of a table is the time, or what follows from there being none."""
    if len(source.shape) != 1:
        return ""
    if source.time_column is not None:
        is_used = model.sampling_ is None or model.sampling_.kind != "rows"
        return f"time: {source.time_column}" + (
            "" if is_used else ", which does not increase from row to row, so rows are treated as independent"
        )
    return (
        "time: none, so rows are treated as independent; if they are consecutive in time, name the column of times "
        "with --time"
    )


def _said_of_scale(model: Any) -> str:
    """Say that columns were scaled, or that one of them is all that counts."""
    import numpy as np

    metric = model.metric_
    if not metric.is_euclidean or model.n_features_in_ < 2:
        return ""
    if not metric.has_units:
        return "scale: columns standardised, so that units do not matter (disable with --scale none)"
    places, weights = metric.places(model.embedder_.landmarks).values, model.multiplicities_
    shares = weights @ (places - weights @ places / weights.sum()) ** 2
    columns, windows = (model.source_ or {}).get("columns"), (model.source_ or {}).get("windows")
    if windows is not None:
        shares = shares.reshape(windows["length"], -1).sum(axis=0)
    largest = int(np.argmax(shares))
    if shares[largest] <= MOST_OF_DISTANCE * shares.sum():
        return ""
    name = columns[largest] if columns else str(largest + 1)
    share = f"{shares[largest] / shares.sum():.1%}"
    return (
        f"warning: column {name} contributes {share} of the squared distance and dominates the map; consider "
        "--scale standard"
    )


def said_of_representation(arguments: argparse.Namespace, source: PointSource, model: Any) -> str:
    """Say by what frames were compared, and whether dihedrals (or RMSD) would have shown a slower coordinate."""
    from ldmaps.metrics import RMSD, Features, Metric
    from ldmaps.validation.sampling_words import with_error

    if len(source.shape) != 2:
        return ""
    n_frames, ours = model.diagnosis_.n_points, model.metric_
    used = f"representation: {ours.describe() or f'RMSD of {source.shape[0]} atoms'}"
    others, advice = "RMSD", "leave out --features"
    other: Metric = RMSD()
    if arguments.features is None:
        others, advice = "dihedrals", "--features dihedrals"
        try:
            other = Features.of(source, "dihedrals")
        except InvalidInputError:
            return f"{used}; dihedrals were not compared, because these atoms have no torsions"
    if options.asks_for_workers(arguments) or arguments.weights or n_frames < STRIDE * FEWEST_FRAMES:
        return (
            f"{used}; {others} not compared (needs at least {STRIDE * FEWEST_FRAMES:,} frames without weights, and no "
            "--workers or --scheduler)"
        )
    stride = max(STRIDE, n_frames // MOST_FRAMES)
    n_landmarks = min(N_LANDMARKS, n_frames // stride // 10)
    try:
        known, tried = (_remembers(arguments, one, stride, n_landmarks) for one in (ours, other))
    except LdmapsError as error:  # the map is written already
        return f"{used}; {others} could not be compared ({one_line(error, 120)})"
    theirs_in_words, ours_in_words = (
        "none" if one is None else f"{with_error(one[0], one[1], 2)} {one[2]}" for one in (tried, known)
    )
    shown = (
        f"(longest reproducible correlation time: {theirs_in_words}, compared with {ours_in_words}; tested on "
        f"{n_frames // stride:,} frames)"
    )
    if tried is None or (known is not None and tried[0] <= SLOWER * known[0]):
        return f"{used}; {others} would not resolve a slower motion {shown}"
    if known is not None and tried[0] <= known[0] + 2 * math.hypot(known[1], tried[1]):
        return f"{used}; {others} may resolve a slower motion, but within two standard errors {shown}"
    return f"{used}; {others} would resolve a slower motion {shown}: try it, {advice}"


def _remembers(
    arguments: argparse.Namespace, metric: Any, stride: int, n_landmarks: int
) -> tuple[float, float, str] | None:
    """Return the correlation time of the slowest reproducible coordinate of some frames, its error and unit."""
    from ldmaps.inputs import open_files
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

    settings = options.reading_settings(arguments)
    source: Any = open_files(arguments.inputs, **{**settings, "stride": stride * settings["stride"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)  # of a map that nobody sees
        # The share of points that "bulk" reaches is too few of these.
        model = LandmarkDiffusionMap(
            2, "connected", metric, n_landmarks=n_landmarks, landmarks="uniform", calibration=0
        ).fit(source)
        found = model.resample(N_RESAMPLES)
    good = found.is_reproducible.nonzero()[0]
    if found.times is None or not len(good):
        return None
    slowest = good[found.times[good, 0].argmax()]
    return float(found.times[slowest, 0]), float(found.times[slowest, 1]), found.unit
