"""Which atoms of a simulation a map was fitted on, their positions, and settings with units."""

from __future__ import annotations

import logging
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AtomOrderWarning, InvalidInputError
from ldmaps.inputs.atom_matching import AtomMatch, described, match_atoms
from ldmaps.inputs.topology import atom_indices
from ldmaps.point_faults import wrong_width
from ldmaps.settings import is_whole_number
from ldmaps.user_warnings import warn

_log = logging.getLogger("ldmaps")
#: Between these, in nm, are bonds of atoms, and lines from one Cα or P to the next; bonds in Å are not.
BOND_LENGTHS = 0.05, 0.8


def fitted_on_frames(model: Any) -> Any:
    """Return a fitted map of molecular frames in nm, read from its file where a path is given, or raise."""
    if isinstance(model, (str, Path)):
        from ldmaps.maps.loading import load

        model = load(model)
    if not hasattr(model, "embedder_"):
        raise InvalidInputError(f"a simulation needs a fitted map, got {model!r}; call fit first")
    if not model.metric_.takes_frames:
        raise InvalidInputError(
            f"the map's metric {model.metric_!r} does not compare molecular frames; fit one with RMSD or Features"
        )
    if model.units_ not in (None, "nm"):
        raise InvalidInputError(
            f"the map was fitted on coordinates in {model.units_}, and OpenMM gives nm; fit the map on frames in nm"
        )
    return model


class FrameReporter:
    """What reporters of a map share: when a report is due, and where the map's atoms are then."""

    def __init__(self, model: Any, report_interval: int, atoms: ArrayLike | None, ignore_names: bool) -> None:
        if not is_whole_number(report_interval) or report_interval < 1:
            raise InvalidInputError(
                f"report_interval must be a whole number of steps, at least 1, got {report_interval!r}"
            )
        self.report_interval = int(report_interval)
        self.ignore_names = bool(ignore_names)
        self._model = fitted_on_frames(model)
        self._given_atoms = None if atoms is None else atom_indices(atoms)
        self._atoms = self._given_atoms  # None: all, in order
        self._checked: Any = None
        self._n_atoms = 0
        self._request = {"steps": 0, "periodic": False, "include": ["positions"]}

    def describeNextReport(self, simulation: Any) -> dict[str, Any]:  # noqa: N802 - OpenMM's name
        """Tell OpenMM in how many steps the next report is due, and that it needs positions, not wrapped.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            The run.
        """
        if self._checked is not simulation.topology:
            self._n_atoms = simulation.system.getNumParticles()
            found = simulated_atoms(self._model, simulation.topology, self._given_atoms, self.ignore_names)
            self._atoms = None if np.array_equal(found, np.arange(self._n_atoms)) else found
            self._checked = simulation.topology
        self._request["steps"] = self.report_interval - simulation.currentStep % self.report_interval
        return self._request

    def _frame(self, simulation: Any, state: Any) -> NDArray[np.float64]:
        self._n_atoms = self._n_atoms or simulation.system.getNumParticles()
        positions = positions_in_nm(state, self._n_atoms)
        return (positions if self._atoms is None else positions[self._atoms])[None]


def simulated_atoms(
    model: Any, topology: Any, atoms: NDArray[np.intp] | None, ignore_names: bool
) -> NDArray[np.intp]:
    """Return which atoms of a simulation a model was fitted on, or raise; checks names and the unit of length, too.

    By default these are all atoms, or those that have the residues and names of the model's.
    """
    total, n_atoms = topology.getNumAtoms(), int(model.n_features_in_) // 3
    indices = np.arange(total) if atoms is None else atoms
    if atoms is None and not ignore_names:
        names = (model.source_ or {}).get("atom_names")
        here = [atom.name.upper() for atom in topology.atoms()] if names is not None else []
        if names is not None and here != [name.upper() for name in names]:
            indices = _matched(model, topology, n_atoms)
    if len(indices) and indices.max() >= total:
        most = indices.max()
        raise InvalidInputError(
            f"atoms holds index {most}, but the simulation has {total} atoms, counted from 0"
        )
    fault = wrong_width((len(indices), 3), int(model.n_features_in_), takes_frames=True)
    if fault is not None:
        remedy = "choose the same ones, in the model's order, with atoms="
        raise InvalidInputError(f"the simulation has {fault}; {remedy}")
    if model.units_ is None:
        _check_bonds(model, topology, indices)
    if not ignore_names:
        _check_names(model, topology, indices)
    return indices


def _matched(model: Any, topology: Any, n_atoms: int) -> NDArray[np.intp]:
    """Return the atoms that have the residues and names of a model's, and report them; or raise."""
    labels = model.source_.get("atom_labels") or ()
    system = [f"{atom.residue.name}{atom.residue.id}-{atom.name}" for atom in topology.atoms()]
    match = (
        match_atoms(labels, system)
        if labels
        else "the model file does not record the residues of the map's atoms"
    )
    if not isinstance(match, AtomMatch):
        count = wrong_width((len(system), 3), 3 * n_atoms, takes_frames=True)
        raise InvalidInputError(
            f"the simulation has {count or 'atoms of other names than the map'}, and matching them by residue and name "
            f"failed: {match}; choose the map's atoms, in its order, with atoms=, or pass ignore_names=True if only "
            "the naming differs"
        )
    if match.is_exact:
        _log.info("atoms of the map in the simulation, %s: %s", match.rule, described(match, labels))
    else:
        warn(
            AtomOrderWarning(
                f"the simulation numbers its residues differently; the map's atoms were {match.rule}: "
                f"{described(match, labels)}, counted from 0. If these are others, choose them with atoms="
            )
        )
    return match.indices


def _check_names(model: Any, topology: Any, indices: NDArray[np.intp]) -> None:
    """Raise where an atom of the simulation has another name than that of the model in its place."""
    facts = model.source_ or {}
    names = facts.get("atom_names")
    if names is None:
        return
    everything = list(topology.atoms())
    for place, (name, index) in enumerate(zip(names, indices, strict=True)):
        atom = everything[index]
        if name.upper() != atom.name.upper():
            label = (facts.get("atom_labels") or names)[place]
            raise InvalidInputError(
                f"atom {index} of the simulation is {atom.residue.name}{atom.residue.id}-{atom.name}, where the "
                f"model was fitted on {label}; choose the same atoms in the same order with atoms=, or pass "
                "ignore_names=True if only the naming differs"
            )


def _check_bonds(model: Any, topology: Any, indices: NDArray[np.intp]) -> None:
    """Raise when the landmarks' bonds cannot be in nm; arrays carry no unit."""
    n_atoms = len(indices)
    kept = model.metric_.weighed_atoms(n_atoms).kept
    place = {int(indices[atom]): column for column, atom in enumerate(kept)}
    # Coarse-grained beads have no element, and bonds of any length.
    ends = [
        (left.index, right.index) for left, right, *_ in topology.bonds() if left.element and right.element
    ]
    pairs = [(place[first], place[second]) for first, second in ends if first in place and second in place]
    if not pairs:
        return
    frame = model.metric_.structures(model.map_.landmark_points.take(np.array([0])), n_atoms)[0]
    first, second = np.transpose(pairs)
    length = float(np.median(np.linalg.norm(frame[first] - frame[second], axis=1)))
    if not BOND_LENGTHS[0] < length < BOND_LENGTHS[1]:
        raise InvalidInputError(
            f"bonds are {length:.3g} long in the map's landmarks, and in OpenMM's nm they are 0.1 to 0.2; fit the map "
            "on frames in nm"
        )


def positions_in_nm(state: Any, n_atoms: int) -> NDArray[np.float64]:
    """Return a state's positions in nm."""
    fill = getattr(state, "_getVectorAsNumpy", None)
    if fill is None:
        return np.asarray(state.getPositions(asNumpy=True)._value)
    # What getPositions does, without its units, which take longer than the embedding.
    positions = np.empty((n_atoms, 3))
    fill(type(state).Positions, positions)
    return positions


def number_in_unit(name: str, value: Any, wanted: Any = None, *, positive: bool = False) -> float:
    """Return a setting that must not be negative (nor 0), in the wanted unit where it has one."""
    from openmm import unit

    if wanted is not None and unit.is_quantity(value):
        try:
            value = value.value_in_unit(wanted)
        except TypeError as error:
            raise InvalidInputError(f"{name} must be in {wanted}, got {value}") from error
    number = float(value) if isinstance(value, Real) else np.nan
    if not 0 <= number < np.inf or (positive and number == 0):
        rule = "a positive number" if positive else "a number of at least 0"
        raise InvalidInputError(f"{name} must be {rule}, got {value!r}")
    return number
