"""A map's coordinates and wall as forces of OpenMM's own: no Python runs while they are computed.

Squared distances to the landmarks are made of RMSDForce, or of sums of CustomTorsionForce and its like. A
CustomCVForce computes ψ = Σ s_j B_j e_j / Σ s_j e_j of them, with e_j = exp(m − d_j²/(2h)) and m = ⌊min_i d_i²/(2h)⌋,
so that nothing underflows. m cancels; OpenMM takes its derivative for 0, which keeps the formula's derivatives short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


class MapPart(NamedTuple):
    """What a variable of metadynamics is: a coordinate of a map, of some particles."""

    embedder: Embedder
    digest: str
    particles: NDArray[np.intp]
    n_particles: int | None  # of the system, None where that is not known
    coordinate: int
    is_native: bool


class NativeDistances(NamedTuple):
    """Forces whose energies make up the squared distances to the landmarks."""

    forces: dict[str, Any]  # by the name of the variable
    terms: list[tuple[str, ...]]  # the variables that d_j² is a sum of, for each landmark
    power: int  # of each variable in that sum

    def formulas(self) -> list[str]:
        """Return d_j² of all landmarks as formulas of the variables."""
        power = f"^{self.power}" if self.power != 1 else ""
        return ["+".join(f"{name}{power}" for name in names) for names in self.terms]

    def squared(self, energies: Sequence[float]) -> NDArray[np.float64]:
        """Return d_j² of all landmarks, (M,), from the energies of the forces."""
        value = dict(zip(self.forces, energies, strict=True))
        return np.array([sum(value[name] ** self.power for name in names) for names in self.terms])


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
    return NativeDistances(forces, [(name,) for name in forces], 2)


def _feature_distances(
    embedder: Embedder, particles: NDArray[np.intp], kinds: Sequence[str]
) -> NativeDistances:
    import openmm

    metric, landmarks = embedder.metric, embedder.landmarks
    # OpenMM's word for a term of each kind, as in CustomBondForce.addBond and addPerBondParameter.
    terms = {"dihedral": "Torsion", "angle": "Angle", "distance": "Bond", "contact": "Bond"}
    scales = metric.parameters()["scales"]
    values = landmarks.values.astype(np.float64) / scales  # type: ignore[attr-defined]
    forces, sums = {}, []
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
        sums.append(tuple(names))
    return NativeDistances(forces, sums, 1)


def native_coordinate(embedder: Embedder, coordinate: int, distances: NativeDistances) -> Any:
    """Return a CustomCVForce whose energy is one coordinate of a map."""
    return _of_variables(["psi", *_coordinates(embedder, {"psi": coordinate})], distances, "CoordinateValue")


def native_wall(embedder: Embedder, strength: float, margin: float, distances: NativeDistances) -> Any:
    """Return a CustomCVForce with the energy of :class:`~ldmaps.openmm.forces.WallEnergy`."""
    return _of_variables(["wall", *_wall(embedder, strength, margin)], distances, "WallEnergy")


def native_bias(
    embedder: Embedder, coordinates: Sequence[int], strength: float, margin: float, distances: NativeDistances
) -> Any:
    """Return a CustomCVForce whose energy is a tabulated function "table" of some coordinates, and the wall's."""
    named = {f"psi{place}": coordinate for place, coordinate in enumerate(coordinates)}
    parts = [f"table({','.join(named)})", *_coordinates(embedder, named)]
    if strength:
        parts = [f"{parts[0]}+wall", *parts[1:], *_wall(embedder, strength, margin)]
    return _of_variables(parts, distances, "MapMetadynamics")


def _coordinates(embedder: Embedder, named: Mapping[str, int]) -> list[str]:
    """Return the definitions of coordinates under such names."""
    weights = embedder.source_weights.astype(np.float64)
    texts = [
        f"{name}=({_weighted_sum('e', weights * embedder.coefficients[coordinate].astype(np.float64))})/total"
        for name, coordinate in named.items()
    ]
    rate = 0.5 / embedder.bandwidth
    exponents = [f"{rate!r}*u{number}" for number in range(1, len(weights) + 1)]
    return [*texts, f"total={_weighted_sum('e', weights)}", *_shares("e", "low", exponents)]


def _wall(embedder: Embedder, strength: float, margin: float) -> list[str]:
    """Return the definitions of the wall's energy; ``margin`` is in the unit of distances."""
    rate, epsilon = 0.5 / (SOFTNESS * embedder.epsilon), embedder.epsilon
    radii = enumerate(embedder.squared_radii.astype(np.float64), 1)
    exponents = [f"{rate!r}*(u{number}-{float(radius)!r})" for number, radius in radii]
    total = "+".join(f"w{number}" for number in range(1, len(exponents) + 1))
    return [
        f"wall={0.5 * strength!r}*stretch^2",
        # OpenMM differentiates max by a step, so the root must not vanish inside: it is √ε there.
        f"stretch=max(0,sqrt(smooth+{epsilon!r})-{math.sqrt(epsilon) + margin!r})",
        f"smooth=max(0,(edge-log({total}))/{rate!r})",
        *_shares("w", "edge", exponents),
    ]


def _weighted_sum(share: str, factors: NDArray[np.float64]) -> str:
    return "+".join(f"({float(factor)!r})*{share}{number}" for number, factor in enumerate(factors, 1))


def _shares(share: str, lowest: str, exponents: Sequence[str]) -> list[str]:
    """Return the definitions of exp(lowest − exponent), a share of each landmark, and of the lowest exponent."""
    texts = [f"{share}{number}=exp({lowest}-{exponent})" for number, exponent in enumerate(exponents, 1)]
    return [*texts, f"{lowest}=floor({_smallest([f'({exponent})' for exponent in exponents])})"]


def _smallest(terms: Sequence[str]) -> str:
    """Return the smallest of terms as a formula; halves of halves, whose derivative is short."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"min({_smallest(terms[:middle])},{_smallest(terms[middle:])})"


def _of_variables(parts: Sequence[str], distances: NativeDistances, name: str) -> Any:
    """Return a force of a formula's parts: the energy, then definitions; those of d_j², u1 and so on, are added."""
    import openmm

    squares = (f"u{number}={formula}" for number, formula in enumerate(distances.formulas(), 1))
    force = openmm.CustomCVForce("; ".join([*parts, *squares]))
    for variable, inner in distances.forces.items():
        force.addCollectiveVariable(variable, inner)
    force.setName(name)
    return force
