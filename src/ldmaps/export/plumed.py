"""A map in PLUMED's language; only actions that are compiled in by default are used."""

# PROPERTYMAP computes Σ_j X_j e_j / Σ_j e_j for properties X_j of reference structures. The properties s and s·B of
# each landmark, divided by each other, are the coordinates.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.export.definition import Columns, Definition, Frames, exact
from ldmaps.metrics.features import CONTACT_POWER

RADIAN = 1.0
_FEATURES = {"dihedral": "TORSION", "angle": "ANGLE", "distance": "DISTANCE", "contact": "DISTANCE"}
_UNITS = {"nm": "UNITS LENGTH=nm ENERGY=kj/mol TIME=ps", "lj": "UNITS NATURAL"}
#: Variables of a CUSTOM function.
MOST_VARIABLES = 6
#: Per unit of length in a reference file: Å, or with natural units the number as it is.
_FILE_SCALE = {"nm": 10.0, "lj": 1.0}


def map_files(definition: Definition) -> dict[str, str]:
    """Return the files that define the coordinates and use them in an example: the text by the file's name."""
    head = f"# Coordinates of the map {definition.digest}, written by ldmaps. UNITS must come before this file.\n"
    # PLUMED's walls are κx², without ½.
    filling = {
        "units": _UNITS[definition.units.name],
        "kappa": f"{definition.wall_factor:.6g}",
        "columns": "",
    }
    if isinstance(definition.geometry, Columns) and definition.geometry.of_table:
        filling["columns"] = ",".join([*definition.geometry.names, ""])  # the check needs them, too
    files = {"plumed.dat": definition.filled_in("plumed.dat", **filling)}
    if isinstance(definition.geometry, Columns):
        return files | {"map.dat": head + _of_columns(definition, definition.geometry)}
    columns = [f"b{place}" for place in range(1, len(definition.names) + 1)]
    text = f"map: PROPERTYMAP REFERENCE=map.pdb PROPERTY=s,{','.join(columns)} "
    text += f"LAMBDA={exact(0.5 / definition.bandwidth)}\n"
    for name, column in zip(definition.names, columns, strict=True):
        text += f"{name}: CUSTOM ARG=map.{column},map.s FUNC=x/y PERIODIC=NO\n"
    text += "# A soft minimum of the squared RMSD to the landmarks: large where the map does not hold.\n"
    text += "away: COMBINE ARG=map.zzz PERIODIC=NO\n"
    return files | {"map.dat": head + text, "map.pdb": _reference(definition, definition.geometry)}


def feature(kind: str, name: str, atoms: list[str], radius: str) -> tuple[str, str]:
    """Return what defines an internal coordinate, and what formulas call it."""
    computed = f"{_FEATURES[kind]} ATOMS={','.join(atoms)}\n"
    if kind != "contact":
        return f"{name}: {computed}", name
    share = f"1/(1+(x/{radius})^{CONTACT_POWER})"
    return f"{name}_r: {computed}{name}: CUSTOM ARG={name}_r FUNC={share} PERIODIC=NO\n", name


def check_files(
    definition: Definition, numbers: NDArray[np.intp], frames: NDArray[np.float64]
) -> dict[str, str]:
    """Return what ``plumed driver`` needs to compute frames, (n, atoms, 3): the text by the file's name."""
    names = ",".join(definition.names)
    count, lines = int(numbers.max()), []
    for frame in frames:
        rows = ["X 0 0 0"] * count  # atoms that are not the map's
        for number, place in zip(numbers, frame, strict=True):
            rows[number - 1] = f"X {' '.join(map(exact, place))}"
        lines += [str(count), "0 0 0", *rows]  # the second line is the box: none
    return {
        # The energy is the sum of the coordinates.
        "check.dat": f"{_UNITS[definition.units.name]}\nINCLUDE FILE=map.dat\nenergy: BIASVALUE ARG={names}\n"
        f"PRINT ARG={names},away FILE=COLVAR FMT=%.12g\n",
        "check.xyz": "\n".join(lines) + "\n",
    }


def _of_columns(definition: Definition, columns: Columns) -> str:
    """Return the formula itself, relative to the nearest landmark so that nothing underflows."""
    landmarks = range(1, len(definition.weights) + 1)
    shares = ",".join(f"map_e{j}" for j in landmarks)
    lines = [columns.text.rstrip()] if columns.text else []
    for j in landmarks:
        lines += _exponent(columns, j, 0.5 / definition.bandwidth)
    lines.append(f"map_near: SORT ARG={','.join(f'map_u{j}' for j in landmarks)}")
    lines += [f"map_e{j}: CUSTOM ARG=map_u{j},map_near.1 FUNC=exp(y-x) PERIODIC=NO" for j in landmarks]
    products = definition.weights * definition.coefficients
    sums = {"sum": definition.weights, **dict(zip(definition.names, products, strict=True))}
    for name, factors in sums.items():
        written = ",".join(map(exact, factors))
        lines.append(f"map_{name}: COMBINE ARG={shares} COEFFICIENTS={written} PERIODIC=NO")
    lines += [f"{name}: CUSTOM ARG=map_{name},map_sum FUNC=x/y PERIODIC=NO" for name in definition.names]
    lines += [
        "# A soft minimum of the squared distance to the landmarks: large where the map does not hold.",
        f"map_plain: COMBINE ARG={shares} PERIODIC=NO",
        f"away: CUSTOM ARG=map_near.1,map_plain FUNC={exact(2 * definition.bandwidth)}*(x-log(y)) PERIODIC=NO",
    ]
    return "\n".join(lines) + "\n"


def _exponent(columns: Columns, landmark: int, rate: float) -> list[str]:
    """Return the lines that compute d²/(2h) of a landmark from the columns, under the label map_u."""
    # PLUMED differentiates each CUSTOM by each of its K variables, which takes K³ time at the start: a minute for 84.
    # COMBINE has formulas of its own. Where an argument is periodic it wraps differences in 2.10 and not before, so
    # it gets those alone that are known not to be; a column of a table may be anything.
    places = range(len(columns.names))
    plain = [] if columns.of_table else [place for place in places if not columns.periods[place]]
    others = [place for place in places if place not in plain]
    parts = []
    if plain:
        parameters = ",".join(map(exact, columns.landmarks[landmark - 1, plain]))
        coefficients = ",".join(map(exact, rate * columns.factors[plain]))
        powers = ",".join("2" for _ in plain)
        parts.append(
            f"COMBINE ARG={','.join(columns.names[place] for place in plain)} PARAMETERS={parameters} "
            f"POWERS={powers} COEFFICIENTS={coefficients} PERIODIC=NO"
        )
    for begin in range(0, len(others), MOST_VARIABLES):
        chunk = others[begin : begin + MOST_VARIABLES]
        variables = [f"x{number}" for number in range(1, len(chunk) + 1)]
        function = f"{exact(rate)}*({columns.squares(variables, landmark - 1, chunk)})"
        names = ",".join(columns.names[place] for place in chunk)
        parts.append(f"CUSTOM ARG={names} VAR={','.join(variables)} FUNC={function} PERIODIC=NO")
    if len(parts) == 1:
        return [f"map_u{landmark}: {parts[0]}"]
    labels = [f"map_u{landmark}_{number}" for number in range(1, len(parts) + 1)]
    lines = [f"{label}: {part}" for label, part in zip(labels, parts, strict=True)]
    return [*lines, f"map_u{landmark}: COMBINE ARG={','.join(labels)} PERIODIC=NO"]


def _reference(definition: Definition, frames: Frames) -> str:
    """Return the landmarks as structures with properties."""
    # PLUMED reads any number in a column, so all characters are used for digits.
    structures = frames.landmarks * _FILE_SCALE[definition.units.name]
    structures = structures - structures.min(axis=(1, 2), keepdims=True)  # no characters for signs
    beta = _whole_numbers(frames.weights)
    occupancy = beta if frames.fit_weights is None else _whole_numbers(frames.fit_weights)
    lines = []
    for s, row, structure in zip(definition.weights, definition.coefficients.T, structures, strict=True):
        written = "".join(f" b{place}={exact(s * value)}" for place, value in enumerate(row, 1))
        lines.append(f"REMARK s={exact(s)}{written}")
        for atom, place in enumerate(structure):
            residue, _, name = frames.labels[atom].rpartition("-")
            kind = residue.rstrip("0123456789")
            lines.append(
                f"ATOM  {coded_serial(int(frames.numbers[atom])):>5} {name[:4]:<4} {kind[:3]:<3}  "
                f"{residue[len(kind) :][-4:] or '1':>4}    {''.join(map(filled, place))}"
                f"{occupancy[atom]:>6}{beta[atom]:>6}"
            )
        lines.append("END")
    return "\n".join(lines) + "\n"


def _whole_numbers(weights: NDArray[np.float64]) -> list[str]:
    """Return weights in six digits: only their ratios matter."""
    return [f"{value:.0f}" for value in weights * (999_999 / weights.max())]


def filled(value: float) -> str:
    """Return a number that is not negative in eight characters, all of them used, or raise."""
    for digits in (6, 5, 4, 3, 2, 1):
        text = f"{value:.{digits}f}"
        if len(text) <= 8:
            return text
    raise InvalidInputError(
        f"landmarks extend over {value:.3g} Å, more than a PDB file holds; check the map's units"
    )


def coded_serial(number: int) -> str:
    """Return an atom's number in five characters, above 99,999 in hybrid-36 as PLUMED reads it."""
    if number < 100_000:
        return str(number)
    value = number - 100_000 + 10 * 36**4
    if value >= 36**5:
        raise InvalidInputError(f"atom number {number} does not fit into a PDB file, which PLUMED reads")
    return np.base_repr(value, 36)
