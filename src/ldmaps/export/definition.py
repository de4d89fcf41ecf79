"""What an engine's input must say of a map: the numbers of the online step in float64 and the engine's units.

ψ(x) = Σ_j s_j B_j e_j / Σ_j s_j e_j        with  e_j = exp(−d_j²/(2h))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AtomOrderWarning, InvalidInputError, Named
from ldmaps.export.hills import hills_of
from ldmaps.inputs.atom_matching import AtomMatch, described, match_atoms
from ldmaps.inputs.selection import Selection, select_atoms
from ldmaps.inputs.source import Reading
from ldmaps.inputs.topology import atom_indices, atom_order, load_topology
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.features import CONTACT_RADIUS
from ldmaps.point_faults import wrong_width
from ldmaps.user_warnings import warn

#: nm per unit that a map may be in.
_MAP_UNITS = {"nm": 1.0, "å": 0.1, "a": 0.1, "angstrom": 0.1, "angstroms": 0.1}


class EngineUnits(NamedTuple):
    """An engine's units of length and energy."""

    name: str
    length: str
    nm: float  # a length of 1; LAMMPS' files are read as Å whatever their units are, so this is that of lj, too
    energy: str
    kt: float
    temperature: float


_LJ = EngineUnits("lj", "σ", 0.1, "ε", 1.0, 1.0)
#: Those of each library; nm is what PLUMED counts in whatever the engine does.
_UNITS = {
    "plumed": (EngineUnits("nm", "nm", 1.0, "kJ/mol", 2.494339, 300.0), _LJ),
    "colvars": (
        EngineUnits("real", "Å", 0.1, "kcal/mol", 0.596161, 300.0),
        EngineUnits("metal", "Å", 0.1, "eV", 0.0258520, 300.0),
        _LJ,
    ),
}


def engine_units(name: str | None, to: str) -> EngineUnits:
    """Return the units that a setting means, or raise where the library does not count in them."""
    choices, wanted = _UNITS[to], "nm" if name is None and to == "plumed" else name
    if found := [one for one in choices if one.name == wanted]:
        return found[0]
    raise InvalidInputError(
        f"an export to {to} needs the units of the engine, got {name!r}; choose them with ",
        Named("units", choices[0].name),
        f" ({'; '.join(f'{one.name}: {one.length}, {one.energy}' for one in choices)})",
    )


def _length_factor(model: Any, units: EngineUnits) -> float:
    """Return what turns the map's lengths into the engine's, or raise where the map's unit is not known."""
    if model.units_ is None and units.name == "lj":
        return 1.0  # numbers as they are
    return map_unit_in_nm(model) / units.nm


def map_unit_in_nm(model: Any) -> float:
    """Return the map's unit of length, or raise where it is not known."""
    nm = _MAP_UNITS.get(str(model.units_).lower())
    if nm is None:
        raise InvalidInputError(
            f"the map's unit of length is {model.units_ or 'not known'}, so it cannot be converted to that of an "
            'engine; set model.units_ = "nm" (or "angstrom"), what its frames were in, and save it again'
        )
    return nm


class EngineAtoms(NamedTuple):
    """All atoms of the map's frames: numbers from 1 in the engine's system, labels ("ALA2-CB"), who says so."""

    numbers: NDArray[np.intp]
    labels: list[str]
    origin: str


def engine_atoms(model: Any, top: Any, select: str | None, atoms: ArrayLike | None) -> EngineAtoms:
    """Find the map's atoms in the engine's system, or raise where they are others or not known."""
    facts = model.source_ or {}
    n_atoms = int(model.n_features_in_) // 3
    if atoms is not None:
        indices, origin = atom_indices(atoms), "the indices that were given"
    elif top is not None:
        indices, origin = _found_in(facts, n_atoms, top, select)
    elif facts.get("atom_indices") is not None:
        indices, origin = np.asarray(facts["atom_indices"]), "the topology of the fit"
    else:
        raise InvalidInputError(
            "the model file does not record which atoms of the engine's system the map uses; give that system with ",
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


def _found_in(
    facts: Mapping[str, Any], n_atoms: int, top: Any, select: str | None
) -> tuple[NDArray[np.intp], str]:
    """Return the map's atoms in a topology, or in a selection of it, and how they were found there; or raise."""
    name, topology = top if isinstance(top, str) else "the topology", load_topology(top, "")
    chosen = select_atoms(topology, Reading(select=select, periodic="keep"), name)
    among = f"{name}, selected by {select!r}" if select else name
    labels = facts.get("atom_labels") or ()
    match = (
        match_atoms(labels, chosen.atoms.labels)
        if labels
        else "the model file does not record the residues of the map's atoms"
    )
    if isinstance(match, AtomMatch) and match.is_exact:
        return chosen.chosen[match.indices], f"{among}, {match.rule}"
    # Residues of other names or numbers: all atoms that are selected as in the fit, residue by residue.
    if select is None and facts.get("select") is not None:
        chosen_as_fitted = _selected(topology, str(facts["select"]), name)
    else:
        chosen_as_fitted = chosen
    if chosen_as_fitted is not None and len(chosen_as_fitted.chosen) == n_atoms:
        order = None
        if facts.get("atom_names") is not None:
            order = atom_order(facts, chosen_as_fitted.atoms, name, match=True)
        indices, used = chosen_as_fitted.chosen, select or facts.get("select")
        return indices if order is None else indices[order], (
            f"{name}, {f'selected by {used!r}' if used else 'all atoms'}"
        )
    if isinstance(match, AtomMatch):
        warn(
            AtomOrderWarning(
                f"{among} numbers its residues differently; the map's atoms were {match.rule}: "
                f"{described(match, labels)}, counted from 0. Check the export with a run of the engine"
            )
        )
        return chosen.chosen[match.indices], f"{among}, {match.rule}"
    count = wrong_width((len(chosen.chosen), 3), 3 * n_atoms, takes_frames=True)
    raise InvalidInputError(
        f"{among}: {f'{count}; ' if count else ''}{match}; choose the map's atoms, in its order, with ",
        Named("select", ...),
        ", or in Python atoms=[...], their indices from 0",
    )


def _selected(topology: Any, select: str, name: str) -> Selection | None:
    """Return the atoms that a selection of another system finds here, or None where it finds none."""
    try:
        return select_atoms(topology, Reading(select=select, periodic="keep"), name)
    except InvalidInputError:
        return None


@dataclass(frozen=True)
class Frames:
    """Landmarks of an RMSD map: atoms with a weight only, centred by the weights that superpose them."""

    numbers: NDArray[np.intp]
    labels: list[str]
    landmarks: NDArray[np.float64]  # (M, a, 3), the engine's length
    weights: NDArray[np.float64]  # (a,), sum 1: how much an atom counts in d²
    fit_weights: NDArray[np.float64] | None  # (a,), sum 1: in the superposition, where that differs
    length: float  # what turns the map's lengths into the engine's

    @property
    def area(self) -> float:
        """What turns the map's d² into the engine's."""
        return self.length**2

    @property
    def largest_gap(self) -> float:
        """The farthest that two atoms which follow each other in the list are apart in a landmark."""
        return float(np.linalg.norm(np.diff(self.landmarks, axis=1), axis=2).max(initial=0.0))


@dataclass(frozen=True)
class Columns:
    """Landmarks of a map of features: d² = Σ_k c_k (x_k − z_k)², the shorter way round where there is a period."""

    names: list[str]  # what the engine calls them
    landmarks: NDArray[np.float64]  # (M, K)
    periods: NDArray[np.float64]  # (K,), 0 where there is none
    texts: list[str]  # what defines them, in the engine's language: each, or all of a table's at once
    factors: NDArray[np.float64]  # c, (K,)
    variables: list[str]  # what a formula calls them
    meanings: list[str]  # what people call them; empty where that is the same
    length: float = 1.0
    area = 1.0

    @property
    def text(self) -> str:
        """What defines all of them."""
        return "".join(self.texts)

    @property
    def of_table(self) -> bool:
        """Whether they are columns of a table, whose names and atoms are the user's to know."""
        return not self.meanings

    def squares(self, variables: Sequence[str], landmark: int, places: Sequence[int] | None = None) -> str:
        """Return d² to a landmark, or what some columns contribute to it, as a formula of such variables."""
        chosen = slice(None) if places is None else list(places)
        return "+".join(
            map(
                _square,
                variables,
                self.landmarks[landmark, chosen],
                self.periods[chosen],
                self.factors[chosen],
            )
        )


class Definition:
    """A map in an engine's units."""

    def __init__(self, model: Any, units: EngineUnits, geometry: Frames | Columns, digest: str) -> None:
        embedder, area = model.embedder_, geometry.area
        self.units, self.geometry, self.digest = units, geometry, digest
        self.names = model.coordinate_names_
        self.coefficients = embedder.coefficients.astype(np.float64)  # B, (k, M)
        self.weights = embedder.source_weights.astype(np.float64)  # s, (M,)
        self.bandwidth = area * embedder.bandwidth  # h
        self.reach = area * float(embedder.squared_radii.max())  # largest d² within the domain of a landmark
        #: d² of landmarks, (M, M).
        self.between = area * squared_matrix(embedder.metric, embedder.landmarks).astype(np.float64)
        #: Widths for metadynamics, and the share of points within one of them of an end, (k,).
        self.bumps, self.at_ends = hills_of(model)
        low, high = self.coefficients.min(axis=1), self.coefficients.max(axis=1)
        slack = 1e-3 * (high - low)
        #: Values that no coordinate goes beyond, with room for rounding, (k, 2).
        self.limits = np.stack([low - slack, high + slack], axis=1)
        #: κ of a wall κx² on d² that costs 4 kT where a frame is 10 % beyond the reach: 1.1² = 1 + 0.21.
        self.wall_factor = 4 * units.kt / (0.21 * self.reach) ** 2

    def filled_in(self, asset: str, **more: object) -> str:
        """Return a text of ``assets`` with numbers of the map, and more, in place of $names."""
        (low, high), bump, units = self.limits[0], self.bumps[0], self.units
        values = {
            "names": ",".join(self.names),
            "first": self.names[0],
            "units": units.name,
            "temperature": f"{units.temperature:g}",
            "bias_temperature": f"{7 * units.temperature:g}",  # of bias factor 8
            "height": f"{0.2 * units.kt:.3g}",
            "bump": f"{bump:.4g}",
            "low": f"{low:.6g}",
            "high": f"{high:.6g}",
            "bins": f"{5 * (high - low) / bump:.0f}",
            "inner_low": f"{low + bump:.6g}",
            "inner_high": f"{high - bump:.6g}",
            "at_ends": "An unknown share" if np.isnan(self.at_ends[0]) else f"{100 * self.at_ends[0]:.0f} %",
            "reach": f"{self.reach:.6g}",
        }
        text = files("ldmaps.export").joinpath("assets", asset).read_text(encoding="utf-8")
        return Template(text).substitute(values | more)


def frames_of(model: Any, atoms: EngineAtoms, units: EngineUnits) -> Frames:
    """Return the landmarks' structures."""
    n_atoms, factor = len(atoms.numbers), _length_factor(model, units)
    kept, roots, fitted, fit_roots = model.metric_.weighed_atoms(n_atoms)
    structures = factor * model.metric_.structures(model.embedder_.landmarks, n_atoms)
    centring, fit_weights = roots**2, None
    if fitted is not None:
        centring = fit_weights = np.zeros(len(kept))
        fit_weights[np.searchsorted(kept, fitted)] = fit_roots**2
    structures -= np.einsum("a,max->mx", centring, structures)[:, None]
    labels = [atoms.labels[atom] for atom in kept]
    return Frames(atoms.numbers[kept], labels, structures, roots**2, fit_weights, factor)


def column_names(model: Any, names: Sequence[str] | None) -> list[str]:
    """Return what the engine calls the columns of a map of a table, by default as the table; raise if it cannot."""
    count = len(model.metric_.places(model.embedder_.landmarks)[1])
    known: Any = (model.source_ or {}).get("columns") or getattr(model, "feature_names_in_", ())
    given = [str(name) for name in names or known]
    taken = {*model.coordinate_names_, "away", "wall", "metad"}
    if len(given) != count or not all(
        name.replace("_", "").replace(".", "").isalnum() and name not in taken and name[:4] != "map_"
        for name in given
    ):
        raise InvalidInputError(
            f"the map has {count} columns, and the engine must know each by a name of letters, digits, _ and . "
            f"that is none of {', '.join(sorted(taken))}; got "
            f"{', '.join(given) or 'none'}: say what your input calls them with ",
            Named("names", ...),
        )
    return given


def columns_of_table(model: Any, names: Sequence[str] | None, text: str) -> Columns:
    """Return the landmarks' features under the engine's names for them."""
    given, (landmarks, scales) = column_names(model, names), model.metric_.places(model.embedder_.landmarks)
    count = len(scales)
    periods = np.broadcast_to(np.asarray(getattr(model.metric_, "period", 0.0)), count)
    kept = np.flatnonzero(scales)  # what never varied is left out of the distance
    names = [given[column] for column in kept]
    return Columns(names, landmarks[:, kept], periods[kept], [text], scales[kept] ** 2, names, [])


def columns_of_features(model: Any, atoms: EngineAtoms, units: EngineUnits, library: Any) -> Columns:
    """Return the landmarks' internal coordinates, computed by the engine from the atoms of its system."""
    metric, length = model.metric_, _length_factor(model, units)
    scales = metric.parameters()["scales"]
    values = model.embedder_.landmarks.values.astype(np.float64) / scales
    engine = {"dihedral": library.RADIAN, "angle": library.RADIAN, "distance": length, "contact": 1.0}
    factors = np.array([engine[kind] for kind in metric.kinds])
    names = [f"f{place}" for place in range(1, len(scales) + 1)]
    texts, variables, meanings = [], [], []
    for place, (kind, members) in enumerate(zip(metric.kinds, metric.atoms, strict=True)):
        numbers = [str(atoms.numbers[atom]) for atom in members]
        text, variable = library.feature(kind, names[place], numbers, exact(CONTACT_RADIUS * length))
        texts.append(text)
        variables.append(variable)
        called = f"{metric.names[place]}, " if metric.names is not None else ""
        meanings.append(f"{names[place]} = {called}{kind} of atoms {' '.join(numbers)}")
    periods = np.where(np.array(metric.kinds) == "dihedral", 2 * np.pi * library.RADIAN, 0.0)
    squares = (scales / factors) ** 2
    return Columns(names, values * factors, periods, texts, squares, variables, meanings, length)


def exact(value: float) -> str:
    """Write a number so that it is read back bit by bit, a whole one without a point."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e9 else repr(value)


def _square(variable: str, value: float, period: float, factor: float) -> str:
    """Write c(x − z)², for a period P with x − z − P·floor((x − z)/P + ½) in place of x − z."""
    times = "" if factor == 1 else f"{exact(factor)}*"
    difference = f"({variable}{'-' if value >= 0 else '+'}{exact(abs(value))})"
    if not period:
        return f"{times}{difference}^2"
    return f"{times}({difference}-{exact(period)}*floor({difference}/{exact(period)}+0.5))^2"
