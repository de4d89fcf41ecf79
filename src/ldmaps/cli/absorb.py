"""``ldmaps absorb``: extend a map by what a stream found outside of it."""

from __future__ import annotations

import argparse

from ldmaps.cli.options import add_common, not_negative, option, positive
from ldmaps.cli.session import check_output, say, write_json
from ldmaps.errors import InvalidInputError

SHOWN = ""
EPILOG = """\
example:
  ldmaps stream map.ldm run.xtc -t top.pdb -o psi.csv --outside outside.npz
  ldmaps absorb map.ldm outside.npz -o larger.ldm

The new map keeps the old landmarks and gets further ones where the records are.
Its coordinates are matched to the old ones, so that they do not jump; the
summary says how far old points moved.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("model", metavar="MODEL", help="the map that the stream was run with")
    parser.add_argument("outside", metavar="OUTSIDE", help="what ldmaps stream --outside wrote")
    option(parser, "-o --output FILE", "the new map, .ldm", required=True)
    option(parser, "--max-landmarks N", "most landmarks of the new map (as many as needed)", positive)
    option(
        parser,
        "--unreachable",
        "records too far for the random walk: an error, or left out (raise)",
        dest="disconnected",
        choices=("raise", "leave"),
        default="raise",
    )
    option(
        parser,
        "--new-components N",
        "further coordinates, for motions that the old map did not know (0)",
        not_negative,
        default=0,
    )
    add_common(parser, threads=False)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.maps.absorbing import absorb
    from ldmaps.maps.loading import load
    from ldmaps.streaming.reservoir import read_outside

    check_output(arguments.output, arguments.force)
    model = load(arguments.model)
    outside = read_outside(arguments.outside, model)
    if not len(outside.points):
        raise InvalidInputError(f"{arguments.outside} holds no records: the map covered all of the stream")
    new = absorb(
        model,
        outside.points,
        outside.weights,
        counts=outside.counts,
        max_landmarks=arguments.max_landmarks,
        disconnected=arguments.disconnected,
        new_components=arguments.new_components,
    )
    new.save(arguments.output)
    done = new.absorption_
    facts = {
        "output": arguments.output,
        "absorbed": int(done.absorbed.sum()),
        "left_out": int((~done.absorbed).sum()),
        "new_landmarks": done.n_new_landmarks,
        "landmarks": len(new.multiplicities_),
        "moved": done.z,
    }
    if arguments.json:
        write_json(facts)
        return
    say(
        arguments,
        f"{arguments.output}: {facts['absorbed']} records absorbed by {facts['new_landmarks']} new landmarks "
        f"({facts['landmarks']} in all), {facts['left_out']} left out; old points moved by "
        f"{facts['moved']:.2g} % of the map's range",
    )
