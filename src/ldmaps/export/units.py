"""Units that engines count in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ldmaps.errors import InvalidInputError, Named

__all__ = ["EngineUnits", "engine_units", "length_factor"]

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


_UNITS = {
    "nm": EngineUnits("nm", "nm", 1.0, "kJ/mol", 2.494339, 300.0),
    "real": EngineUnits("real", "Å", 0.1, "kcal/mol", 0.596161, 300.0),
    "metal": EngineUnits("metal", "Å", 0.1, "eV", 0.0258520, 300.0),
    "lj": EngineUnits("lj", "σ", 0.1, "ε", 1.0, 1.0),
}
#: Those of each library; the first of PLUMED's is what it counts in whatever the engine does.
_CHOICES = {"plumed": ("nm", "lj"), "colvars": ("real", "metal", "lj")}


def engine_units(name: str | None, to: str) -> EngineUnits:
    """Return the units that a setting means, or raise where the library does not count in them."""
    choices = _CHOICES[to]
    chosen = "nm" if name is None and to == "plumed" else name
    if chosen not in choices:
        what = "; ".join(f"{one}: {_UNITS[one].length}, {_UNITS[one].energy}" for one in choices)
        raise InvalidInputError(
            f"an export to {to} must know the engine's units, got {name!r}: choose one with ",
            Named("units", choices[0]),
            f" ({what})",
        )
    return _UNITS[chosen]


def length_factor(model: Any, units: EngineUnits) -> float:
    """Return what turns the map's lengths into the engine's, or raise where the map's unit is not known."""
    if model.units_ is None and units.name == "lj":
        return 1.0  # numbers as they are
    nm = _MAP_UNITS.get(str(model.units_).lower())
    if nm is None:
        raise InvalidInputError(
            f"the map's unit of length is {model.units_ or 'not known'}, so it cannot be turned into {units.length}; "
            'set model.units_ = "nm" (or "angstrom"), what its frames were in, and save it again'
        )
    return nm / units.nm
