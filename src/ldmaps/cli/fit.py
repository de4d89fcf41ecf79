"""``ldmaps fit``: learn a map from trajectories or tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import (
    add_common,
    add_input_options,
    add_setting,
    add_weight_options,
    fit_settings,
)
from ldmaps.cli.workers import add_worker_options
from ldmaps.settings import LANDMARK_FIT

if TYPE_CHECKING:
    from ldmaps.inputs import PointSource

__all__ = ["add_command", "add_map_options", "estimator_of", "metric_of", "run"]

#: Settings that are not about the map, and have their options elsewhere.
_ELSEWHERE = ("resume", "random_state", "n_threads")
#: A fit on fewer points gets a warning.
FEW_POINTS = 10

_EPILOG = """\
inputs: trajectories (xtc, trr, dcd, h5, pdb, and others that mdtraj or MDAnalysis reads) or tables (.csv, .tsv, .npy,
.npz, .parquet; - is CSV from stdin); several, and patterns such as 'run*.xtc', are read one after the other.

examples:
  ldmaps fit traj.xtc -t top.pdb --select "protein and not element H" -o map.ldm
  ldmaps fit traj.xtc -t top.pdb --mass-weighted --landmarks pst -o map.ldm
  ldmaps fit sensors.csv --columns temp,flow,load --components 3 -o map.ldm
  ldmaps fit metad.xtc -t top.pdb --weights COLVAR:metad.rbias --kt 2.494 -o map.ldm

More landmarks are more accurate and cost more time per embedded point; 400 suit most molecules.
Hydrogens that spin hide slow motions in a plain RMSD: leave them out with --select, or use --mass-weighted.
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
    parser.add_argument(
        "--no-embedding",
        action="store_true",
        help="leave the training points' coordinates out of the model file",
    )
    add_setting(parser, LANDMARK_FIT["resume"])
    add_map_options(parser)
    add_input_options(parser)
    add_weight_options(parser)
    add_worker_options(parser)
    add_common(parser, seed=True)
    parser.set_defaults(run=run)


def add_map_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which map to fit."""
    group = parser.add_argument_group("the map")
    add_setting(group, LANDMARK_FIT["metric"], default=None)  # which the inputs decide
    group.add_argument(
        "--mass-weighted", action="store_true", help="weight atoms by their masses in the RMSD"
    )
    group.add_argument("--period", type=float, metavar="P", help="period of --metric periodic (2 pi)")
    for setting in LANDMARK_FIT.values():
        if setting.option and setting.name not in ("metric", *_ELSEWHERE):
            add_setting(group, setting)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from dataclasses import asdict

    from ldmaps.cli.info import facts_of
    from ldmaps.cli.inputs import open_inputs, reading_settings
    from ldmaps.cli.session import check_output, complain, say, shown_progress, write_json
    from ldmaps.cli.workers import in_blocks, workers_of
    from ldmaps.errors import InvalidInputError
    from ldmaps.progress import reporting

    if arguments.output == "-":
        raise InvalidInputError("a model file cannot go to stdout; name a file with -o map.ldm")
    check_output(arguments.output, arguments.force)
    source = open_inputs(arguments, arguments.inputs)
    model = estimator_of(arguments, metric_of(arguments, source))
    with reporting(shown_progress(arguments)), workers_of(arguments):
        model.fit(in_blocks(arguments, source, reading_settings(arguments)))
        model.save(arguments.output, include_embedding=not arguments.no_embedding)
    n_points = model.diagnosis_.n_points
    if n_points < FEW_POINTS and not arguments.quiet:
        complain(
            f"warning: {n_points} {source.item} are too few for a map: its coordinates only order these points. Use "
            "hundreds or more; if the input has them, check --stride, --start and --stop"
        )
    if arguments.json:
        facts = facts_of(arguments.output)
        facts["participation"] = model.diagnosis_.participation.tolist()
        facts["left_out"] = model.diagnosis_.left_out.tolist()
        if model.certificate_ is not None:
            facts["certificate"] = asdict(model.certificate_)
        write_json({"output": arguments.output, **facts})
    else:
        say(arguments, _summary(arguments.output, model, arguments.weights is not None))


def estimator_of(arguments: argparse.Namespace, metric: Any) -> Any:
    """Return the estimator that options ask for."""
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

    return LandmarkDiffusionMap(**{**fit_settings(arguments), "metric": metric})


def metric_of(arguments: argparse.Namespace, source: PointSource) -> Any:
    """Return the metric that options and input ask for."""
    from ldmaps.errors import InvalidInputError
    from ldmaps.inputs import FrameSource
    from ldmaps.metrics import RMSD, Periodic

    frames = len(source.shape) == 2
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
            "--mass-weighted belongs to --metric rmsd on trajectories, whose topology has masses"
        )
    if source.atoms is None or source.atoms.masses is None:
        raise InvalidInputError(
            "the topology lacks the elements of some atoms, so their masses are unknown; leave --mass-weighted "
            "out, or give a topology with elements"
        )
    return RMSD(weights=source.atoms.masses)


def _summary(path: str, model: Any, weighted: bool) -> str:
    from ldmaps.diffusion.spectrum import reason_for_kept

    squared = f" {model.units_}²" if model.units_ else ""
    leading = " ".join(f"{value:.4f}" for value in model.eigenvalues_[:6]) + " ..." * (
        model.n_components_ > 6
    )
    following = " ".join(f"{value:.4f}" for value in model.spectrum_[model.n_components_ :][:3])
    certificate = model.certificate_
    promise = ""
    if certificate is not None:
        promise = (
            f"\nZ = {certificate.held_out_z:.3g} % on {certificate.n_held_out:,} held-out points; "
            f"below {certificate.upper_bound:.3g} % with {100 * certificate.confidence:.0f} % confidence"
        )
    diagnosis = model.diagnosis_
    carried = ", ".join(f"{number:.0f}" for number in diagnosis.participation[:6]) + ", ..." * (
        model.n_components_ > 6
    )
    left_out = f"; {len(diagnosis.left_out):,} points left out as outliers" if len(diagnosis.left_out) else ""
    weights = model.training_.weights
    weighed = ""
    if weights is not None and weighted:
        worth = float(weights.sum()) ** 2 / float((weights**2).sum())
        weighed = f"\nweights: as good as {worth:,.0f} of {len(weights):,} points of equal weight"
    return (
        f"{path}: {model.n_components_} coordinate{'' if model.n_components_ == 1 else 's'} of "
        f"{len(model.embedding_):,} points from {model.embedder_.n_landmarks:,} landmarks\n"
        f"epsilon {model.epsilon_:.6g}{squared} ({model.bandwidth_.rule}); eigenvalues {leading} | {following}\n"
        f"kept: {reason_for_kept(model.spectrum_, model.n_components_, model.n_components)}\n"
        f"effective number of points that carry each coordinate: {carried} of {diagnosis.n_points:,}{left_out}"
        f"{weighed}{promise}"
    )
