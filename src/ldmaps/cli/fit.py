"""``ldmaps fit``: learn a map from trajectories or tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common, add_input_options, epsilon, n_components, positive

if TYPE_CHECKING:
    from ldmaps.cli.inputs import Source
    from ldmaps.progress import Progress

__all__ = ["add_command", "run"]

METRIC_NAMES = ("rmsd", "euclidean", "hamming", "earth_mover", "periodic", "precomputed")
EXTENSION_NAMES = ("distilled", "nystrom")
LANDMARK_NAMES = ("kmedoids", "pst", "uniform", "farthest")

_EPILOG = """\
inputs: trajectories (xtc, trr, dcd, h5, pdb, and others that mdtraj reads) or tables (.csv, .tsv, .npy, .npz,
.parquet; - is CSV from stdin); several, and patterns such as 'run*.xtc', are read one after the other.

examples:
  ldmaps fit traj.xtc -t top.pdb --select "protein and not element H" -m 400 -o map.ldm
  ldmaps fit traj.xtc -t top.pdb --mass-weighted --landmarks pst -o map.ldm
  ldmaps fit sensors.csv --columns temp,flow,load --components 3 -o map.ldm

Landmarks cost time when points are embedded and buy accuracy: 400 suit most molecules. Hydrogens that spin hide
slow motions in a plain RMSD: leave them out with --select, or use --mass-weighted.
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands, "fit", "learn a map from trajectories or tables", "Learn a map and save it.", _EPILOG
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="trajectories or tables")
    parser.add_argument(
        "-o", "--output", required=True, metavar="MODEL", help="model file to write, such as map.ldm"
    )
    group = parser.add_argument_group("the map")
    group.add_argument(
        "--metric", choices=METRIC_NAMES, help="distance (rmsd for trajectories, euclidean for tables)"
    )
    group.add_argument("--mass-weighted", action="store_true", help="weigh atoms by their masses in the RMSD")
    group.add_argument("--period", type=float, metavar="P", help="period of --metric periodic (2π)")
    group.add_argument(
        "--epsilon",
        type=epsilon,
        default="connected",
        metavar="E",
        help="bandwidth, a squared distance: a number, 'connected' (smallest that joins all points) or 'coifman'",
    )
    group.add_argument(
        "--components",
        type=n_components,
        default="gap",
        metavar="K",
        help="number of coordinates, or 'gap' (those before the largest drop of the spectrum)",
    )
    group.add_argument(
        "--landmarks", choices=LANDMARK_NAMES, default="kmedoids", help="how to choose them (kmedoids)"
    )
    group.add_argument(
        "-m", "--n-landmarks", type=positive, metavar="M", help="how many (400; pst finds its own)"
    )
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="Z",
        help="choose as many landmarks as keep the error below Z percent",
    )
    group.add_argument(
        "--extension",
        choices=EXTENSION_NAMES,
        help="how points between landmarks get coordinates (distilled with --tolerance, else nystrom)",
    )
    group.add_argument(
        "--alpha", type=float, default=0.0, metavar="A", help="density normalisation, 0 to 1 (0)"
    )
    group.add_argument("--time", type=float, default=0.0, metavar="T", help="diffusion time (0)")
    group.add_argument(
        "--no-embedding",
        action="store_true",
        help="leave the training points' coordinates out of the model file",
    )
    add_input_options(parser)
    add_common(parser, seed=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from dataclasses import asdict

    from ldmaps.cli.info import facts_of
    from ldmaps.cli.inputs import open_inputs
    from ldmaps.cli.session import check_output, say, write_json
    from ldmaps.errors import InvalidInputError
    from ldmaps.inputs import FrameSource
    from ldmaps.progress import Progress, reporting

    if arguments.output == "-":
        raise InvalidInputError("a model file cannot go to stdout; name a file with -o map.ldm")
    check_output(arguments.output, arguments.force)
    source = open_inputs(arguments)
    model = _estimator(arguments, source)
    progress = Progress(False if arguments.quiet else None)
    points, numbers, times = _read(source, progress)
    with reporting(progress):
        model.fit(points)
    if isinstance(source, FrameSource):
        model.units_ = source.units
    model.source_ = {**source.facts(), "n_points": len(points)}
    model.training_ = model.training_.with_frames(numbers, times)
    model.save(arguments.output, include_embedding=not arguments.no_embedding)
    if arguments.json:
        facts = facts_of(arguments.output)
        certificate = getattr(model, "certificate_", None)
        if certificate is not None:
            facts["certificate"] = asdict(certificate)
        write_json({"output": arguments.output, **facts})
    else:
        say(arguments, _summary(arguments.output, model, len(points)))


def _estimator(arguments: argparse.Namespace, source: Source) -> Any:
    import inspect

    from ldmaps.errors import InvalidInputError
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

    settings: dict[str, Any] = {
        "n_components": arguments.components,
        "epsilon": arguments.epsilon,
        "metric": _metric(arguments, source),
        "landmarks": arguments.landmarks,
        "n_landmarks": arguments.n_landmarks,
        "alpha": arguments.alpha,
        "t": arguments.time,
        "random_state": arguments.seed,
        "n_threads": arguments.threads,
    }
    known = inspect.signature(LandmarkDiffusionMap).parameters
    for name in ("extension", "tolerance"):
        value = getattr(arguments, name)
        if value is None:
            continue
        if name not in known:
            raise InvalidInputError(f"this version of ldmaps has no --{name}; leave it out")
        settings[name] = value
    return LandmarkDiffusionMap(**settings)


def _metric(arguments: argparse.Namespace, source: Source) -> Any:
    from ldmaps.errors import InvalidInputError
    from ldmaps.inputs import FrameSource
    from ldmaps.metrics import RMSD, Periodic

    frames = isinstance(source, FrameSource) or len(source.shape) == 2
    name = arguments.metric or ("rmsd" if frames else "euclidean")
    if frames and name != "rmsd":
        raise InvalidInputError(
            f"--metric {name} compares rows of numbers, but the input is frames; use rmsd"
        )
    if arguments.period is not None:
        if name != "periodic":
            raise InvalidInputError(f"--period belongs to --metric periodic, got --metric {name}")
        return Periodic(arguments.period)
    if not arguments.mass_weighted:
        return name
    if name != "rmsd" or not isinstance(source, FrameSource):
        raise InvalidInputError(
            "--mass-weighted belongs to --metric rmsd on trajectories, whose topology tells masses"
        )
    if source.atoms is None or source.atoms.masses is None:
        raise InvalidInputError(
            "the topology does not tell the elements of all atoms, so their masses are unknown; leave --mass-weighted "
            "out, or give a topology with elements"
        )
    return RMSD(weights=source.atoms.masses)


def _read(source: Source, progress: Progress) -> tuple[Any, Any, Any]:
    """Read all points into one array, in the precision of the file; return it, frame numbers and times (or None)."""
    import numpy as np

    from ldmaps.errors import InvalidInputError
    from ldmaps.inputs import check_frames_finite

    total = source.n_frames if progress.visible else None
    parts = []
    with progress.stage("reading", total, "frames") as stage:
        for chunk in source:
            check_frames_finite(chunk)
            parts.append(chunk)
            stage.advance(len(chunk))
    if not parts:
        raise InvalidInputError(f"there is nothing to read in {source.describe()}")
    times = [chunk.times for chunk in parts if chunk.times is not None]
    return (
        parts[0].frames if len(parts) == 1 else np.concatenate([chunk.frames for chunk in parts]),
        np.concatenate([chunk.numbers for chunk in parts]),
        np.concatenate(times) if len(times) == len(parts) else None,
    )


def _summary(path: str, model: Any, n_points: int) -> str:
    squared = f" {model.units_}²" if model.units_ else ""
    leading = " ".join(f"{value:.4f}" for value in model.eigenvalues_[:6])
    following = " ".join(f"{value:.4f}" for value in model.spectrum_[model.n_components_ :][:3])
    certificate = getattr(model, "certificate_", None)
    promise = ""
    if certificate is not None:
        promise = (
            f"\nZ = {certificate.held_out_z:.3g} % on {certificate.n_held_out:,} held-out points; "
            f"below {certificate.upper_bound:.3g} % with {100 * certificate.confidence:.0f} % confidence"
        )
    return (
        f"{path}: {model.n_components_} coordinates of {n_points:,} points from "
        f"{model.embedder_.n_landmarks:,} landmarks\n"
        f"epsilon {model.epsilon_:.6g}{squared} ({model.bandwidth_.rule}); eigenvalues {leading} | {following}{promise}"
    )
