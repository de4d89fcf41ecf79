"""The atoms of a model among those of a file: the same ones in the same order, in another one, or others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, Named

#: Molecules of fewer atoms are not told apart by the names of residues.
FEW_ATOMS = 5


@dataclass(frozen=True)
class Atoms:
    """What is known of the atoms of a source, in its order.

    Attributes
    ----------
    names : tuple of str
        As the topology spells them.
    labels : tuple of str
        Residue and atom, for messages: "ALA2-CB".
    masses : ndarray of shape (atoms,) or None
        In amu: of the file, else of the element; 0 for virtual sites, NaN for atoms of neither; None if none is known.
    elements : tuple of str or None
        Symbols ("C", "Cl"), empty for an atom that is of none; None where unknown.
    bonds : ndarray of shape (bonds, 2) or None
        Pairs of these atoms, by their places here; None where unknown.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    masses: NDArray[np.float64] | None
    elements: tuple[str, ...] | None = None
    bonds: NDArray[np.intp] | None = None

    def take(self, order: NDArray[np.intp]) -> Atoms:
        """Return these atoms, or some of them, in another ``order``, which says where each stands now."""
        return Atoms(
            tuple(self.names[place] for place in order),
            tuple(self.labels[place] for place in order),
            None if self.masses is None else self.masses[order],
            None if self.elements is None else tuple(self.elements[place] for place in order),
            None if self.bonds is None else bonds_among(self.bonds, order, len(self.names)),
        )


def bonds_among(bonds: NDArray[np.intp], chosen: NDArray[np.intp], n_atoms: int) -> NDArray[np.intp]:
    """Return the bonds between chosen atoms, by their places among the chosen."""
    place = np.full(n_atoms, -1, dtype=np.intp)
    place[chosen] = np.arange(len(chosen))
    pairs = place[bonds.reshape(-1, 2)]
    return np.asarray(pairs[(pairs >= 0).all(axis=1)])


def atom_indices(atoms: ArrayLike) -> NDArray[np.intp]:
    """Return indices that a user names atoms of a model by, in its order, or raise."""
    indices = np.asarray(atoms)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not len(indices) or indices.min() < 0:
        raise InvalidInputError(f"atoms must be indices from 0, one per atom of the model, got {atoms!r}")
    if len(np.unique(indices)) != len(indices):
        raise InvalidInputError("atoms holds an index twice; name each atom of the model once")
    return indices.astype(np.intp)


def atom_order(facts: Mapping[str, Any], atoms: Atoms, file: str, *, match: bool) -> NDArray[np.intp] | None:
    """Return where each atom of a model stands among others, None where they are in order already."""
    names = [name.upper() for name in facts["atom_names"]]
    labels = [label.upper() for label in facts.get("atom_labels") or ()]
    here, here_labels = [name.upper() for name in atoms.names], [label.upper() for label in atoms.labels]
    if labels == here_labels:
        return None
    # Labels ("ALA2-CB") that are the same, each once, give the order.
    if len(set(labels)) == len(labels) and set(labels) == set(here_labels):
        return _places(here_labels, labels)
    if names == here:  # a renumbered file
        _check_residues(facts, atoms, file)
        return None
    by_residue = _places_by_residue(labels, here_labels)
    if match and by_residue is not None:
        return by_residue
    place = next(place for place, (old, new) in enumerate(zip(names, here, strict=True)) if old != new)
    expected = (facts.get("atom_labels") or facts["atom_names"])[place]
    said = f"atom {place} of {file} is {atoms.labels[place]}, but {expected} in the frames the model was fitted on; "
    if by_residue is None:
        raise InvalidInputError(
            f"{said}choose the same atoms in the same order (if only the naming differs, pass the coordinates as an "
            "array, or --ignore-names)"
        )
    raise InvalidInputError(
        f"{said}the atoms of each residue are the same in another order: have them matched with ",
        Named("match_atoms", True),
    )


def _check_residues(facts: Mapping[str, Any], atoms: Atoms, file: str) -> None:
    """Raise where names agree, as those of Cα always do, but most residues are others: another protein."""
    ours, theirs = (
        [label.rpartition("-")[0].rstrip("0123456789").rstrip("-") for label in labels]
        for labels in (facts.get("atom_labels") or (), atoms.labels)
    )
    differing = [place for place, (old, new) in enumerate(zip(ours, theirs, strict=False)) if old != new]
    # A mutant is welcome, and so are other names for protonated residues or for a single molecule.
    if len(set(facts.get("atom_labels") or ())) < FEW_ATOMS or len(set(ours)) < 2:
        return
    if 2 * len(differing) > len(theirs):
        place = differing[0]
        raise InvalidInputError(
            f"{file} is of another molecule: {len(differing)} of its {len(theirs)} atoms are of other residues than in "
            f"the frames the model was fitted on (atom {place} is {atoms.labels[place]}, there "
            f"{facts['atom_labels'][place]}); if only the naming differs, pass the coordinates as an array, or "
            "--ignore-names"
        )


def _places(here: Sequence[str], wanted: Sequence[str]) -> NDArray[np.intp]:
    place = {label: number for number, label in enumerate(here)}
    return np.asarray([place[label] for label in wanted], dtype=np.intp)


def _places_by_residue(labels: Sequence[str], here: Sequence[str]) -> NDArray[np.intp] | None:
    """Match the first residue with the first and so on, atoms by name; None where that cannot be done."""
    ours, theirs = (
        # Cut where the residue changes, into atoms' names: [["N", "CA"], ["N"]].
        [[name for _, name in atoms] for _, atoms in groupby(cut, key=lambda pair: pair[0])]
        for cut in ([label.partition("-")[::2] for label in listed] for listed in (labels, here))
    )
    if len(ours) != len(theirs):
        return None
    order: list[NDArray[np.intp]] = []
    begin = 0
    for wanted, given in zip(ours, theirs, strict=True):
        if len(set(wanted)) < len(wanted) or sorted(wanted) != sorted(given):
            return None
        order.append(begin + _places(given, wanted))
        begin += len(given)
    return np.concatenate(order) if order else None
