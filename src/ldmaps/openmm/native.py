"""A map's coordinates and wall as forces of OpenMM's own: no Python runs while they are computed.

Squared distances to the landmarks are made of RMSDForce, or of sums of CustomTorsionForce and its like. A
CustomCVForce computes ψ = Σ s_j B_j e_j / Σ s_j e_j of them, with e_j = exp(−(d_j² − min_i d_i²)/(2h)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.domain import SOFTNESS
from ldmaps.metrics.features import CONTACT_POWER, CONTACT_RADIUS

if TYPE_CHECKING:
    from ldmaps.extension.embedder import Embedder

#: Above, OpenMM takes many seconds to differentiate the formula when a context is made; up to here, about one. Each
#: kind of features (dihedrals, distances, …) is a variable of each landmark.
MOST_LANDMARKS, MOST_VARIABLES = 8, 16
#: The internal coordinate x as OpenMM's forces call it; z is that of the landmark, c its factor.
_WRAPPED = "theta-z-{period}*floor((theta-z)/{period}+0.5)".format(period=repr(2 * np.pi))
_CONTACT = f"1/(1+(r/{CONTACT_RADIUS!r})^{CONTACT_POWER})"
_DIFFERENCES = {"dihedral": _WRAPPED, "angle": "theta-z", "distance": "r-z", "contact": f"{_CONTACT}-z"}


class NativeDistances(NamedTuple):
    """Forces whose energies make up the squared distances to the landmarks."""

    forces: dict[str, Any]  # by the name of the variable
    squares: list[str]  # (M,): d_j² as a formula of these


def native_distances(
    embedder: Embedder, particles: NDArray[np.intp], n_particles: int | None
) -> NativeDistances | str:
    """Return OpenMM's own forces for the distances to a map's landmarks, or why there are none.

    ``n_particles`` is how many the system has, None where that is not known.
    """
    count = embedder.n_landmarks
    if embedder.metric.has_local_scales:
        return "the map has a bandwidth for each point, which a formula of OpenMM does not have"
    if count > MOST_LANDMARKS:
        return (
            f"the map has {count} landmarks, and OpenMM differentiates its formula quickly for {MOST_LANDMARKS} at "
            "most (a fit with tolerance= finds the fewest)"
        )
    kinds: Sequence[str] = getattr(embedder.metric, "kinds", None) or ()
    if count * len(set(kinds)) > MOST_VARIABLES:
        return (
            f"{len(set(kinds))} kinds of features for each of {count} landmarks are {count * len(set(kinds))} forces, "
            f"and OpenMM differentiates a formula of {MOST_VARIABLES} at most quickly"
        )
    if kinds:
        return _feature_distances(embedder, particles, kinds)
    return _rmsd_distances(embedder, particles, n_particles)


def _rmsd_distances(
    embedder: Embedder, particles: NDArray[np.intp], n_particles: int | None
) -> NativeDistances | str:
    import openmm

    metric: Any = embedder.metric
    kept, roots, fitted, _ = metric.weighed_atoms(len(particles))
    if fitted is not None or np.ptp(roots) > 1e-9 * roots.max():
        return "OpenMM's RMSDForce has no weights, and the map's RMSD has"
    if n_particles is None:
        return "OpenMM's RMSDForce needs the number of particles in the system: pass topology="
    chosen = [int(particle) for particle in particles[kept]]
    forces = {}
    for number, structure in enumerate(metric.structures(embedder.landmarks, len(particles)), 1):
        reference = np.zeros((n_particles, 3))
        reference[chosen] = structure
        forces[f"r{number}"] = openmm.RMSDForce(reference, chosen)
    return NativeDistances(forces, [f"{name}^2" for name in forces])


def _feature_distances(
    embedder: Embedder, particles: NDArray[np.intp], kinds: Sequence[str]
) -> NativeDistances:
    import openmm

    metric, landmarks = embedder.metric, embedder.landmarks
    # OpenMM's word for a term of each kind, as in CustomBondForce.addBond and addPerBondParameter.
    terms = {"dihedral": "Torsion", "angle": "Angle", "distance": "Bond", "contact": "Bond"}
    scales = metric.parameters()["scales"]
    values = landmarks.values.astype(np.float64) / scales  # type: ignore[attr-defined]
    forces, squares = {}, []
    for number, row in enumerate(values, 1):
        names = []
        for kind in sorted(set(kinds)):
            term = terms[kind]
            force = getattr(openmm, f"Custom{term}Force")(f"c*({_DIFFERENCES[kind]})^2")
            for parameter in ("c", "z"):
                getattr(force, f"addPer{term}Parameter")(parameter)
            for place in np.flatnonzero(np.asarray(kinds) == kind):
                members = [int(particles[atom]) for atom in metric.atoms[place]]  # type: ignore[attr-defined]
                getattr(force, f"add{term}")(*members, [float(scales[place] ** 2), float(row[place])])
            names.append(f"{kind}{number}")
            forces[names[-1]] = force
        squares.append("+".join(names))
    return NativeDistances(forces, squares)


def native_coordinate(embedder: Embedder, coordinate: int, distances: NativeDistances) -> Any:
    """Return a CustomCVForce whose energy is one coordinate of a map."""
    weights = embedder.source_weights.astype(np.float64)
    above = _sum_of_shares(weights * embedder.coefficients[coordinate].astype(np.float64))
    shares = _shares(distances.squares, 0.5 / embedder.bandwidth)
    return _of_variables(f"({above})/({_sum_of_shares(weights)}); {shares}", distances, "CoordinateValue")


def native_wall(embedder: Embedder, strength: float, margin: float, distances: NativeDistances) -> Any:
    """Return a CustomCVForce with the energy of :class:`~ldmaps.openmm.forces.WallEnergy`."""
    rate, epsilon = 0.5 / (SOFTNESS * embedder.epsilon), embedder.epsilon
    beyond = [
        f"{square}-{float(radius)!r}"
        for square, radius in zip(distances.squares, embedder.squared_radii, strict=True)
    ]
    total = "+".join(f"e{number}" for number in range(1, len(beyond) + 1))
    # OpenMM differentiates max by a step, so the root must not vanish inside: it is √ε there.
    smooth = f"max(0,low-log({total})/{rate!r})"
    stretch = f"max(0,sqrt({smooth}+{epsilon!r})-{math.sqrt(epsilon) + margin!r})"
    formula = f"{0.5 * strength!r}*{stretch}^2; {_shares(beyond, rate)}"
    return _of_variables(formula, distances, "WallEnergy")


def _sum_of_shares(factors: NDArray[np.float64]) -> str:
    return "+".join(f"({float(factor)!r})*e{number}" for number, factor in enumerate(factors, 1))


def _shares(squares: Sequence[str], rate: float) -> str:
    """Return the definitions of e_j = exp(−rate (u_j − low)) and of low, the smallest u_j."""
    places = range(1, len(squares) + 1)
    lowest = _smallest([f"u{number}" for number in places])
    exponents = [f"e{number}=exp({rate!r}*(low-u{number}))" for number in places]
    return "; ".join(
        [*exponents, f"low={lowest}", *(f"u{n}={square}" for n, square in zip(places, squares, strict=True))]
    )


def _smallest(terms: Sequence[str]) -> str:
    """Return the smallest of terms as a formula; halves of halves, whose derivative is short."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"min({_smallest(terms[:middle])},{_smallest(terms[middle:])})"


def _of_variables(formula: str, distances: NativeDistances, name: str) -> Any:
    import openmm

    force = openmm.CustomCVForce(formula)
    for variable, inner in distances.forces.items():
        force.addCollectiveVariable(variable, inner)
    force.setName(name)
    return force
