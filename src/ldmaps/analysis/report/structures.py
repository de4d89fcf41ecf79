"""The landmarks' shapes in three dimensions, recovered from what a model of frames stores, with elements and bonds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.topology import bonds_among
from ldmaps.metrics import Metric

#: Covalent radii in nm (Cordero et al., Dalton Trans. 2008, 2832), and masses, of what molecules are made of.
RADII = {
    "H": 0.031, "B": 0.084, "C": 0.076, "N": 0.071, "O": 0.066, "F": 0.057, "Na": 0.166, "Mg": 0.141,
    "Si": 0.111, "P": 0.107, "S": 0.105, "Cl": 0.102, "K": 0.203, "Ca": 0.176, "Fe": 0.132, "Cu": 0.132,
    "Zn": 0.122, "Se": 0.120, "Br": 0.120, "I": 0.139,
}  # fmt: skip
MASSES = {
    "H": 1.008, "B": 10.81, "C": 12.011, "N": 14.007, "O": 15.999, "F": 18.998, "Na": 22.990, "Mg": 24.305,
    "Si": 28.085, "P": 30.974, "S": 32.06, "Cl": 35.45, "K": 39.098, "Ca": 40.078, "Fe": 55.845, "Cu": 63.546,
    "Zn": 65.38, "Se": 78.971, "Br": 79.904, "I": 126.90,
}  # fmt: skip
#: Hydrogens that a united atom may carry, added to carbon's mass.
_UNITED = (13.019, 14.027, 15.035, 16.043)
#: A bond is at most this much longer than the sum of its radii.
_STRETCH = 1.22
#: Most numbers (three per atom) that a page carries.
MAX_VALUES = 4_000_000
#: Above so many atoms, balls and sticks are a tangle, and the backbone says more.
MAX_BALLS = 400
#: Landmarks that bonds are judged by.
_WITNESSES = 15
NM_PER_UNIT = {"nm": 1.0, "Å": 0.1, "A": 0.1, "angstrom": 0.1, "pm": 1e-3}


@dataclass(frozen=True)
class Molecule:
    """What is known of the atoms of a map's frames; ``from_files`` if from a topology, which may leave gaps."""

    elements: Sequence[str] | None = None
    bonds: NDArray[np.intp] | None = None
    names: Sequence[str] | None = None
    from_files: bool = False


@dataclass(frozen=True)
class Structures:
    """Shapes of landmarks, superposed, in nm where the unit is known; elements are "X" where they are not."""

    coordinates: NDArray[np.float32]
    elements: tuple[str, ...]
    names: tuple[str, ...]
    bonds: NDArray[np.intp]
    is_trace: bool
    note: str


def landmark_structures(model: Any, wanted: NDArray[np.intp], molecule: Any = None) -> Structures | None:
    """Return the shapes of landmarks, the first ones if all were too much; None unless they are molecules."""
    metric, points = model.metric_, model.map_.landmark_points
    if not metric.has_structures:
        return None
    n_atoms = model.n_features_in_ // 3
    facts = _told(molecule, getattr(model, "source_", None), n_atoms)
    kept = metric.weighed_atoms(n_atoms).kept
    choice, thinned = _affordable(facts.names, kept, len(wanted))
    wanted = wanted[: max(1, MAX_VALUES // (3 * len(choice)))]
    frames = metric.structures(points.take(wanted), n_atoms)[:, choice]
    unit, unit_known = _unit(model.units_, frames[0])
    frames = superposed(frames * unit)

    elements, origin = _elements(facts, metric, n_atoms)
    # Neighbours this far apart are beads of a chain.
    is_trace = thinned or (len(choice) > 2 and _nearest_distance(frames[0]) > 0.25)
    if is_trace:
        bonds, bond_origin = _trace_bonds(frames[0]), "a line through the backbone"
    else:
        witnesses = frames[:: max(1, len(frames) // _WITNESSES)]
        bonds, bond_origin = _bonds(facts, witnesses, elements[kept][choice], kept, n_atoms)
    drawn = kept[choice]
    names = facts.names if facts.names is not None else range(n_atoms)
    note = "; ".join(filter(None, (origin, bond_origin, "" if unit_known else "unit of length guessed")))
    labels = tuple(str(names[index]) for index in drawn)
    symbols = tuple(elements[drawn].tolist())
    return Structures(frames.astype(np.float32), symbols, labels, bonds, is_trace, note)


def superposed(frames: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre frames, turn the first to its principal axes and the others onto it (Kabsch)."""
    centred = frames - frames.mean(axis=1, keepdims=True)
    axes = np.linalg.svd(centred[0], full_matrices=True)[2]
    if np.linalg.det(axes) < 0:
        axes[2] *= -1.0
    target = centred[0] @ axes.T
    u, _, vt = np.linalg.svd(np.einsum("nai,aj->nij", centred, target))
    # A reflection would be a better fit to a mirror image, and no structure.
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    turned: NDArray[np.float64] = centred @ (u @ vt)
    return turned


def guess_bonds(frames: NDArray[np.float64], elements: Sequence[str] | NDArray[Any]) -> NDArray[np.intp]:
    """Return pairs of atoms that are within bonding distance in most of the frames; coordinates in nm.

    >>> water = np.array([[[0, 0, 0], [0.096, 0, 0], [-0.024, 0.093, 0]]])
    >>> guess_bonds(water, ["O", "H", "H"]).tolist()
    [[0, 1], [0, 2]]
    """
    radii = np.array([RADII.get(str(element), 0.08) for element in elements])
    votes: Counter[tuple[int, int]] = Counter()
    for frame in frames:
        left, right = cKDTree(frame).query_pairs(2 * _STRETCH * float(radii.max()), output_type="ndarray").T
        near = np.linalg.norm(frame[left] - frame[right], axis=1) < _STRETCH * (radii[left] + radii[right])
        votes.update(zip(left[near].tolist(), right[near].tolist(), strict=True))
    hydrogen = np.asarray(elements) == "H"
    # Two hydrogens of one methyl group are near, but no molecule.
    bonds = [pair for pair, count in votes.items() if 2 * count > len(frames) and not hydrogen[[*pair]].all()]
    return np.asarray(sorted(bonds), dtype=np.intp).reshape(-1, 2)


def elements_from_masses(masses: NDArray[np.float64]) -> NDArray[Any] | None:
    """Return the elements that weigh this much, or None unless all do.

    >>> elements_from_masses(np.array([1.008, 12.01, 15.999])).tolist()
    ['H', 'C', 'O']
    """
    symbols = np.array([*MASSES, *(["C"] * len(_UNITED))])
    values = np.array([*MASSES.values(), *_UNITED])
    nearest = np.argmin(np.abs(masses[:, None] - values), axis=1)
    elements: NDArray[Any] = symbols[nearest]
    return None if (np.abs(masses - values[nearest]) > 0.06).any() else elements


# -- pieces -------------------------------------------------------------------


def _told(molecule: Any, source: Mapping[str, Any] | None, n_atoms: int) -> Molecule:
    """Gather what a molecule given by hand, or the model's memory of its files, say about the atoms."""
    given = molecule if molecule is not None else source or {}

    def look(name: str) -> Any:
        return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)

    labels = look("atom_labels")
    elements, names = look("elements"), look("atom_names") if labels is None else labels
    for what, values in (("elements", elements), ("atom names", names)):
        if values is not None and len(values) != n_atoms:
            raise InvalidInputError(
                f"the molecule has {len(values)} {what}, but the map was fitted on frames of {n_atoms} atoms; "
                "describe the atoms that were selected"
            )
    bonds = look("bonds")
    if bonds is not None:
        bonds = np.asarray(bonds, dtype=np.intp).reshape(-1, 2)
        if bonds.size and not (bonds.min() >= 0 and bonds.max() < n_atoms):
            raise InvalidInputError(
                f"bonds name atom {int(bonds.max())}, but the map was fitted on frames of {n_atoms} atoms"
            )
    return Molecule(elements, bonds, names, molecule is None)


def _bonds(
    molecule: Molecule,
    frames: NDArray[np.float64],
    elements: NDArray[Any],
    kept: NDArray[np.intp],
    n_atoms: int,
) -> tuple[NDArray[np.intp], str]:
    """Return the bonds between the kept atoms, those of the topology where it has any, and where they come from."""
    if molecule.bonds is None:
        return guess_bonds(frames, elements), "bonds guessed from distances"
    told = bonds_among(molecule.bonds, kept, n_atoms)
    if not molecule.from_files:
        return told, "bonds as given"
    # A topology often knows the bonds of proteins and water, and none of a ligand's.
    bonded = np.zeros(n_atoms, dtype=bool)
    bonded[molecule.bonds] = True
    loose = ~bonded[kept]
    guessed = guess_bonds(frames, elements) if loose.any() else np.empty((0, 2), dtype=np.intp)
    guessed = guessed[loose[guessed].any(axis=1)]
    if not len(guessed):
        return told, "bonds of the topology"
    if not len(told):
        return guessed, "bonds guessed from distances"
    return np.concatenate([told, guessed]), "bonds of the topology, others guessed from distances"


def _elements(molecule: Molecule, metric: Metric, n_atoms: int) -> tuple[NDArray[Any], str]:
    if molecule.elements is not None:
        symbols = [str(symbol or "") for symbol in molecule.elements]
        if molecule.from_files and molecule.names is not None:
            pairs = zip(symbols, molecule.names, strict=True)
            symbols = [symbol or _element_of(str(name)) for symbol, name in pairs]
        return np.array([symbol or "X" for symbol in symbols]), ""
    if metric.weights is not None:
        masses = np.asarray(metric.weights, dtype=np.float64)
        weighed = elements_from_masses(masses) if masses.shape == (n_atoms,) else None
        if weighed is not None:
            return weighed, "elements read from the masses"
    if molecule.names is not None:
        return np.array([_element_of(str(name)) for name in molecule.names]), "elements read from atom names"
    return np.full(n_atoms, "X"), "elements unknown"


def _element_of(label: str) -> str:
    """Guess an element from an atom's name in a residue, as in ALA2-CB, HB1 or 1HB.

    >>> [_element_of(name) for name in ("ALA2-CA", "1HB", "CL", "CA2-CA", "NA1-NA", "OXT", "?")]
    ['C', 'H', 'Cl', 'Ca', 'Na', 'O', 'X']
    """
    residue, _, name = label.rpartition("-")
    residue, letters = (re.sub(r"[^A-Za-z]", "", part).capitalize() for part in (residue, name))
    two, one = letters[:2], letters[:1]
    if len(two) == 2 and two in RADII and (residue == letters or two in ("Cl", "Br", "Zn", "Fe", "Mg", "Se")):
        return two
    return one if one in RADII else "X"


def _affordable(
    names: Sequence[str] | None, kept: NDArray[np.intp], n_landmarks: int
) -> tuple[NDArray[np.intp], bool]:
    """Return which of the kept atoms to show: all, or one per residue where all would be too many."""
    everyone = np.arange(len(kept))
    if names is None or (len(kept) <= MAX_BALLS and 3 * len(kept) * n_landmarks <= MAX_VALUES):
        return everyone, False
    plain = [str(names[index]).rpartition("-")[2].upper() for index in kept]
    backbone = np.array([name in ("CA", "P") for name in plain])
    return (everyone[backbone], True) if backbone.sum() >= 20 else (everyone, False)


def _unit(units: str | None, frame: NDArray[np.float64]) -> tuple[float, bool]:
    """Return nm per unit of length, and whether the unit is known."""
    if units in NM_PER_UNIT:
        return NM_PER_UNIT[units], True
    # Atoms next to each other are 0.1 to 0.4 nm apart whatever they are.
    return (0.1 if 0.6 < _nearest_distance(frame) < 6.0 else 1.0), False


def _nearest_distance(frame: NDArray[np.float64]) -> float:
    if len(frame) < 2:
        return 0.15
    return float(np.median(cKDTree(frame).query(frame, k=2)[0][:, 1]))


def _trace_bonds(frame: NDArray[np.float64]) -> NDArray[np.intp]:
    steps = np.linalg.norm(np.diff(frame, axis=0), axis=1)
    joined = np.flatnonzero(steps < 1.3 * np.median(steps))
    return np.column_stack([joined, joined + 1]).astype(np.intp)
