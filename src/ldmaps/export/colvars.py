"""A map in Colvars' language, for engines whose Colvars has custom functions (LAMMPS, NAMD).

Colvars' own RMSD has no weights. With weights w that sum to 1, N atoms and a landmark z that w centres,
the component "eigenvector" whose reference and vector both are v_i = N w_i z_i is a maximum over rotations,

    p = max_R Σ_i v_i·(R x_i − v_i) = N Σ_i w_i x_i·R z_i − |v|²,

so that d² = |x|² + |z|² − 2(p + |v|²)/N with |x|² = Σ w_i |x_i|² and |z|² likewise. |x|² is the same for all
landmarks and cancels in ψ. Exponents are relative to that of one landmark r, the best for all: g_j = e_j/e_r.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.export.definition import Columns, Definition, Frames, exact
from ldmaps.metrics.features import CONTACT_POWER

RADIAN = 180 / np.pi
#: Colvars differentiates its functions when it starts, which takes a minute at 50 landmarks.
MAX_LANDMARKS = 30
#: Exponents are cut off here (exp(±700) would make forces NaN); landmarks must leave room for what lies around them.
LIMIT, MAX_EXPONENT = 300, 250.0
#: Above, the function of all places that the wall needs for a map with weights takes too long to set up.
MAX_WALL_ATOMS = 30
#: Features in a function.
MOST_VARIABLES = 3


def map_files(definition: Definition) -> dict[str, str]:
    """Return the file that defines the coordinates, and the same with a bias: the text by the file's name."""
    origin = _origin(definition)
    shares, components = _shares(definition, origin)
    text = f"# Coordinates of the map {definition.digest}, written by ldmaps.\n"
    if definition.units.name != "lj":  # Colvars knows no name for those
        text += f"units {definition.units.name}\n"
    below = "+".join(f"{exact(s)}*g{j}" for j, s in enumerate(definition.weights, 1))
    for name, row, (low, high), bump in zip(
        definition.names, definition.coefficients, definition.limits, definition.bumps, strict=True
    ):
        above = "+".join(f"({exact(value)})*g{j}" for j, value in enumerate(definition.weights * row, 1))
        text += definition.filled_in(
            "coordinate.colvars",
            name=name,
            width=_width(bump),
            # As many digits as a restart keeps of a grid's ends; limits have room for such rounding.
            low=f"{low:.6g}",
            high=f"{high:.6g}",
            function=f"({above})/({below}); {shares}",
            components=components,
        )
    # In one file: LAMMPS' restart does not reach what fix_modify adds later.
    files = {"map.colvars": text, "run.colvars": text + _example(definition, origin, shares, components)}
    geometry = definition.geometry
    if isinstance(geometry, Columns) and geometry.of_table:
        # Colvars prints no components, so the check needs each column as a variable.
        files["columns.colvars"] = "".join(
            f"colvar {{\n  name {name}\n  customFunction {name}\n{_indented(geometry.text, 2)}}}\n"
            for name in geometry.names
        )
    return files


def feature(kind: str, name: str, atoms: list[str], radius: str) -> tuple[str, str]:
    """Return what defines an internal coordinate, and what formulas call it."""
    groups = "".join(f"  group{place} {{ atomNumbers {atom} }}\n" for place, atom in enumerate(atoms, 1))
    text = f"{'distance' if kind == 'contact' else kind} {{\n  name {name}\n{groups}}}\n"
    return text, f"(1/(1+({name}/{radius})^{CONTACT_POWER}))" if kind == "contact" else name


def check_files(
    definition: Definition, numbers: NDArray[np.intp], frames: NDArray[np.float64]
) -> dict[str, str]:
    """Return what LAMMPS needs to compute frames, (n, atoms, 3): the text by the file's name."""
    edge = 4 * float(np.abs(frames).max()) + 10
    box, order = f"{-edge:.6g} {edge:.6g}", np.argsort(numbers)
    rows = [[(numbers[a], " ".join(map(exact, frame[a]))) for a in order] for frame in frames]
    dump = "".join(
        f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(numbers)}\nITEM: BOX BOUNDS pp pp pp\n"
        f"{box}\n{box}\n{box}\nITEM: ATOMS id x y z\n"
        + "".join(f"{number} {place}\n" for number, place in places)
        for step, places in enumerate(rows)
    )
    linear = "".join(  # Colvars divides the energy by the variable's width
        f"linear {{\n  colvars {name}\n  centers 0\n  forceConstant {_width(bump)}\n}}\n"
        for name, bump in zip(definition.names, definition.bumps, strict=True)
    )
    atoms = "\n".join(f"{number} 1 {place}" for number, place in rows[0])
    return {
        "check.data": definition.filled_in("check.data", count=len(numbers), box=box, atoms=atoms),
        "check.dump": dump,
        "check.colvars": f"colvarsTrajFrequency 1\n# The energy is the sum of the coordinates.\n{linear}",
        "in.check": definition.filled_in("in.check"),
    }


def _origin(definition: Definition) -> int:
    """Return the landmark that exponents are relative to; raise where Colvars could not compute the map."""
    geometry, count = definition.geometry, len(definition.weights)
    plumed = Named("to", "plumed")
    if isinstance(geometry, Frames) and geometry.fit_weights is not None:
        fault = "a map whose RMSD is superposed on some atoms and measured on others cannot be exported to "
        raise InvalidInputError(fault, "Colvars, whose superposition has no weights; use ", plumed)
    if isinstance(geometry, Columns) and not geometry.text:
        raise InvalidInputError(
            "Colvars cannot refer to other variables by name; give the components that compute the columns, such as "
            "dihedral { name phi ... }, with ",
            Named("define_columns", ...),
        )
    if count > MAX_LANDMARKS:
        raise InvalidInputError(
            f"the map has {count} landmarks, and Colvars needs minutes to set up more than {MAX_LANDMARKS}; fit with ",
            Named("tolerance", ...),
            ", which finds the fewest landmarks, or use ",
            plumed,
        )
    relative = 0.5 * (definition.between[:, :, None] - definition.between[:, None, :]) / definition.bandwidth
    highest = np.abs(relative).max(axis=(0, 2))
    if highest.min() > MAX_EXPONENT:
        raise InvalidInputError(
            f"the map's kernel is too narrow for the number range of Colvars: weights span exp({highest.min():.0f}), "
            f"but at most exp({MAX_EXPONENT:.0f}) is allowed; export with ",
            plumed,
            ", or fit again with a larger epsilon",
        )
    return int(np.argmin(highest))


def _shares(definition: Definition, origin: int) -> tuple[str, str]:
    """Return g_j of all landmarks as a function's definitions, and the components they are made of."""
    geometry, width = definition.geometry, 2 * definition.bandwidth
    if isinstance(geometry, Frames):
        constants = _constants(geometry) / width
        rate = exact(2 / (len(geometry.weights) * width))
        exponents = [
            f"{rate}*(p{j}-p{origin + 1})+({exact(constants[origin] - constant)})"
            for j, constant in enumerate(constants, 1)
        ]
        components = "".join(_projection(geometry, j) for j in range(len(constants)))
    else:
        count = len(definition.weights)
        exponents = [f"{exact(1 / width)}*(u{origin + 1}-u{j})" for j in range(1, count + 1)]
        # d² of each landmark by itself: Colvars would take minutes to differentiate all in one function.
        components = "".join(_indented(_squared(geometry, j), 2) for j in range(count))
    exponents[origin] = "0"
    texts = (f"g{j}=exp(min({LIMIT},max(-{LIMIT},{text})))" for j, text in enumerate(exponents, 1))
    return "; ".join(texts), components


def _example(definition: Definition, origin: int, shares: str, components: str) -> str:
    """Return a bias: metadynamics along the first coordinate, and a wall at the border of the map's domain."""
    text = definition.filled_in("metadynamics.colvars")
    geometry = definition.geometry
    nearest = f"u{origin + 1}"
    if isinstance(geometry, Frames):
        if np.ptp(geometry.weights) < 1e-12:
            size, component = "rg^2", "gyration {\n    name rg"
        elif len(geometry.weights) <= MAX_WALL_ATOMS:
            size, component = _weighted_size(geometry), "cartesian {\n    name c"
        else:
            count = len(geometry.weights)
            return f"{text}# No wall at the domain: with weights it would be a function of {count} places.\n"
        components += f"  {component}\n{_atoms(geometry)}  }}\n"
        rate = exact(2 / len(geometry.weights))
        nearest = f"{size}+({exact(_constants(geometry)[origin])})-{rate}*p{origin + 1}"
    total = "+".join(f"g{j}" for j in range(1, len(definition.weights) + 1))
    away = f"{nearest}-{exact(2 * definition.bandwidth)}*log({total})"
    spring = f"{2 * definition.wall_factor:.6g}"  # Colvars' walls are ½kx²
    return text + definition.filled_in(
        "wall.colvars", away=away, shares=shares, components=components, spring=spring
    )


def _squared(columns: Columns, landmark: int) -> str:
    """Return the component u, d² of a landmark."""
    # Colvars differentiates a function by each of its K variables, which takes K³ time at the start.
    places, step = range(len(columns.names)), len(columns.names) if columns.of_table else MOST_VARIABLES
    parts = []
    for chunk in (places[begin : begin + step] for begin in range(0, len(places), step)):
        variables = [columns.variables[place] for place in chunk]
        text = columns.text if columns.of_table else "".join(columns.texts[place] for place in chunk)
        parts.append(f"  customFunction {columns.squares(variables, landmark, chunk)}\n{_indented(text, 2)}")
    name = f"  name u{landmark + 1}\n"
    if len(parts) == 1:
        return f"customColvar {{\n{name}{parts[0]}}}\n"
    nested = "".join(_indented(f"customColvar {{\n{part}}}\n", 2) for part in parts)
    return f"linearCombination {{\n{name}{nested}}}\n"


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.strip().splitlines())


def _width(bump: float) -> str:
    """Return the step of the grid that bumps are added to."""
    return f"{bump / 2:.6g}"


def _constants(frames: Frames) -> NDArray[np.float64]:
    """Return |z|² − 2|v|²/N of all landmarks: d² less what depends on the frame."""
    n, weights = len(frames.weights), frames.weights
    squares = (frames.landmarks**2).sum(axis=2)
    return np.asarray(squares @ weights - 2 * n * squares @ weights**2)


def _weighted_size(frames: Frames) -> str:
    """Return |x|² as a formula of the places, c1 to c3N in the order of the atoms' numbers."""
    weights = [exact(weight) for weight in frames.weights[np.argsort(frames.numbers)]]
    squares = "+".join(
        f"{weight}*(c{3 * a + 1}^2+c{3 * a + 2}^2+c{3 * a + 3}^2)" for a, weight in enumerate(weights)
    )
    means = ("+".join(f"{weight}*c{3 * a + axis}" for a, weight in enumerate(weights)) for axis in (1, 2, 3))
    return squares + "".join(f"-({mean})^2" for mean in means)


def _projection(frames: Frames, landmark: int) -> str:
    """Return the component p of a landmark."""
    order = np.argsort(frames.numbers)
    vectors = len(order) * frames.weights[order, None] * frames.landmarks[landmark, order]
    rows = " ".join(f"({exact(x)}, {exact(y)}, {exact(z)})" for x, y, z in vectors)
    return (
        f"  eigenvector {{\n    name p{landmark + 1}\n{_atoms(frames)}    refPositions {rows}\n    vector {rows}\n"
        "    differenceVector off\n    normalizeVector off\n  }\n"
    )


def _atoms(frames: Frames) -> str:
    return f"    atoms {{\n      atomNumbers {' '.join(map(str, np.sort(frames.numbers)))}\n    }}\n"
