"""Where the atoms that a map was fitted on are in a larger system: found by residue and name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: How many atoms a message lists.
LISTED = 8


class AtomMatch(NamedTuple):
    """Atoms of a system that are those of a map."""

    indices: NDArray[np.intp]  # in the map's order, from 0
    rule: str  # how they were found, for people
    is_exact: bool  # whether residues have the same names and numbers


class _Residue(NamedTuple):
    name: str
    number: int
    atoms: Mapping[str, list[int]]  # places of the atoms of each name


def match_atoms(wanted: Sequence[str], system: Sequence[str]) -> AtomMatch | str:
    """Return which atoms of a system have a map's labels ("ALA2-CB"), or what is wrong.

    Residues may be numbered differently: then there must be one place only where residues of the same names, with
    atoms of the same names, follow each other as those of the map do.
    """
    ours, theirs = [label.upper() for label in wanted], [label.upper() for label in system]
    doubled = [label for label, count in Counter(ours).items() if count > 1]
    if doubled:
        return f"the map has {ours.count(doubled[0])} atoms called {doubled[0]}, so matching by name is ambiguous"
    places: dict[str, list[int]] = {label: [] for label in ours}
    for place, label in enumerate(theirs):
        if label in places:
            places[label].append(place)
    several = next((label for label in ours if len(places[label]) > 1), None)
    missing = next((label for label in ours if not places[label]), None)
    if missing is None and several is None:
        indices = np.array([places[label][0] for label in ours], dtype=np.intp)
        return AtomMatch(indices, "matched by residue and name", True)
    if missing is None and several is not None:
        first, second = places[several][:2]
        return (
            f"{several} is atom {first} and atom {second}, counted from 0, so matching by name is ambiguous"
        )
    shifted = _renumbered(_residues(ours), _residues(theirs))
    if not shifted:
        return f"there is no {missing}, and no other residues of the same names contain the map's atoms"
    (start, found), *others = shifted
    first_label = ours[0].rpartition("-")[0]
    if others:
        starts = ", ".join(name for name, _ in shifted[:LISTED])
        return (
            f"residues numbered differently fit in several places: {first_label} of the map may be {starts}"
        )
    order = {label: place for place, label in enumerate(_in_residue_order(ours))}
    indices = np.array([found[order[label]] for label in ours], dtype=np.intp)
    return AtomMatch(indices, f"matched by name, with {first_label} of the map as {start}", False)


def described(match: AtomMatch, wanted: Sequence[str]) -> str:
    """Return the first atoms of a match with their indices, for people."""
    pairs = [f"{label} = {index}" for label, index in zip(wanted, match.indices, strict=True)]
    more = f", … ({len(pairs)} in all)" if len(pairs) > LISTED else ""
    return ", ".join(pairs[:LISTED]) + more


def _residues(labels: Sequence[str]) -> list[_Residue]:
    """Return the residues in the order of the atoms; one whose atoms are not together is several."""
    residues = []
    pairs = [(*label.rpartition("-")[::2], place) for place, label in enumerate(labels)]
    for residue, members in groupby(pairs, key=lambda pair: pair[0]):
        name = residue.rstrip("0123456789")
        atoms: dict[str, list[int]] = {}
        for _, atom, place in members:
            atoms.setdefault(atom, []).append(place)
        residues.append(_Residue(name, int(residue[len(name) :] or 0), atoms))
    return residues


def _in_residue_order(labels: Sequence[str]) -> list[str]:
    """Return labels in the order in which :func:`_renumbered` returns their atoms."""
    return [labels[place] for residue in _residues(labels) for (place,) in residue.atoms.values()]


def _renumbered(ours: Sequence[_Residue], theirs: Sequence[_Residue]) -> list[tuple[str, list[int]]]:
    """Return every place where the map's residues fit by name and distance: its first residue, and the atoms."""
    found = []
    for start, first in enumerate(theirs):
        if first.name != ours[0].name:
            continue
        atoms: list[int] = []
        for residue in ours:
            at = start + residue.number - ours[0].number
            there = theirs[at] if 0 <= at < len(theirs) else None
            if there is None or there.name != residue.name:
                break
            places = [there.atoms.get(atom, []) for atom in residue.atoms]
            if any(len(place) != 1 for place in places):
                break
            atoms += [place for (place,) in places]
        else:
            found.append((f"{first.name}{first.number}", atoms))
    return found
