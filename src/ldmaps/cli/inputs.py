"""From the inputs on the command line to one source of points."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ldmaps.inputs import PointSource
from ldmaps.inputs import open as open_points

__all__ = ["named_facts", "open_inputs", "reading_settings"]

_SETTINGS = (
    "top",
    "select",
    "columns",
    "array",
    "missing",
    "window",
    "step",
    "stride",
    "start",
    "stop",
    "chunk",
    "periodic",
)


def open_inputs(
    arguments: argparse.Namespace, inputs: Sequence[str], model_facts: Mapping[str, Any] | None = None
) -> PointSource:
    """Open all inputs as one source; ``model_facts`` as in :func:`ldmaps.inputs.open`."""
    return open_points(inputs, **reading_settings(arguments, model_facts))


def reading_settings(
    arguments: argparse.Namespace, model_facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of :func:`ldmaps.inputs.open` that options stand for."""
    return {
        **{name: getattr(arguments, name, None) for name in _SETTINGS},
        "model_facts": named_facts(arguments, model_facts),
        "match_atoms": getattr(arguments, "match_atoms", False),
        "weights": getattr(arguments, "weights", None),
        "kt": getattr(arguments, "kt", None),
    }


def named_facts(
    arguments: argparse.Namespace, model_facts: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return what a model knows of its inputs, without the names of atoms where --ignore-names says so."""
    if model_facts and model_facts.get("kind") == "frames" and getattr(arguments, "ignore_names", False):
        return {**model_facts, "atom_names": None}
    return model_facts
