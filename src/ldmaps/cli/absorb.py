"""``ldmaps absorb``: extend a map with records that a stream found outside it."""

from __future__ import annotations

import argparse

from ldmaps.cli import options
from ldmaps.cli.session import opened_map, tell
from ldmaps.errors import InvalidInputError

SHOWN = ""
EPILOG = """\
example:
  ldmaps stream map.ldm run.xtc -t top.pdb -o psi.csv --outside outside.npz
  ldmaps absorb map.ldm outside.npz -o larger.ldm

The new map keeps the old landmarks and gets further ones where the records are.
Its coordinates are matched to the old ones, so that they do not jump; the
summary reports how far the old landmarks moved. Points between them can move
several times as far: absorb() in Python measures that on old_points.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL                      the map that the stream was run with
        outside OUTSIDE                  what ldmaps stream --outside wrote
        -o --output FILE!                the new map, .ldm
        --max-landmarks N                most landmarks of the new map (as many as needed)
        --disconnected raise|leave=raise  records too far for the random walk: an error, or left out
        --new-components N=0             further coordinates, for motions that the old map did not know
    """
    options.add(parser, table, new_components=options.not_negative)
    options.add_common(parser, "threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.absorbing import absorb
    from ldmaps.streaming.reservoir import read_outside

    model = opened_map(arguments)
    outside = read_outside(arguments.outside, model)
    if not len(outside["points"]):
        raise InvalidInputError(f"{arguments.outside} holds no records: the map covered all of the stream")
    new = absorb(
        model,
        outside["points"],
        outside["weights"],
        counts=outside["counts"],
        **options.chosen(arguments, "max_landmarks disconnected new_components"),
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
        "measured_on": done.measured_on,
    }
    words = (
        "{output}: {absorbed} records absorbed by {new_landmarks} new landmarks ({landmarks} in all), {left_out} left "
        "out; old {measured_on} moved by {moved:.2g} % of the map's range"
    )
    tell(arguments, facts, words.format_map(facts))
