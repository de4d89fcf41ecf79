"""The atoms of a map by their numbers in the engine's full system."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.atom_order import atom_indices, atom_order
from ldmaps.inputs.source import Reading
from ldmaps.inputs.topology import load_topology, select_atoms
from ldmaps.point_faults import wrong_width

__all__ = ["EngineAtoms", "engine_atoms"]


class EngineAtoms(NamedTuple):
    """All atoms of the map's frames: numbers from 1 in the engine's system, labels ("ALA2-CB"), who says so."""

    numbers: NDArray[np.intp]
    labels: list[str]
    origin: str


def engine_atoms(model: Any, top: Any, select: str | None, atoms: ArrayLike | None) -> EngineAtoms:
    """Find the map's atoms in the engine's system, or raise where they are others or not known."""
    facts = model.source_ or {}
    n_atoms = int(model.n_features_in_) // 3
    select = select or facts.get("select")
    if atoms is not None:
        indices, origin = atom_indices(atoms), "the indices that were given"
    elif top is not None:
        name = top if isinstance(top, str) else "the topology"
        selection = select_atoms(load_topology(top, ""), Reading(select=select, periodic="keep"), name)
        indices, origin = selection.chosen, f"{name}, {f'selected by {select!r}' if select else 'all atoms'}"
        if facts.get("atom_names") is not None and len(indices) == n_atoms:
            order = atom_order(facts, selection.atoms, name, match=False)
            indices = indices if order is None else indices[order]
    elif facts.get("atom_indices") is not None:
        indices, origin = np.asarray(facts["atom_indices"]), "the topology of the fit"
    else:
        raise InvalidInputError(
            "the map does not know which atoms of the engine's system it was fitted on; give that system with ",
            Named("top", "system.gro"),
            " and the atoms with ",
            Named("select", ...),
            ", or in Python atoms=[...], their indices from 0",
        )
    fault = wrong_width((len(indices), 3), 3 * n_atoms, takes_frames=True)
    if fault is not None:
        raise InvalidInputError(
            f"{origin}: {fault}; choose the same atoms, in the map's order, with ", Named("select", ...)
        )
    labels = facts.get("atom_labels") or facts.get("atom_names") or ["X"] * n_atoms
    return EngineAtoms(indices.astype(np.intp) + 1, list(labels), origin)
