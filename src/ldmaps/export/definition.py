"""What an engine's input must say of a map: the numbers of the online step in float64 and the engine's units.

ψ(x) = Σ_j s_j B_j e_j / Σ_j s_j e_j        with  e_j = exp(−d_j²/(2h))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import coordinate_names
from ldmaps.errors import InvalidInputError, Named
from ldmaps.export.atoms import EngineAtoms
from ldmaps.export.units import EngineUnits, length_factor
from ldmaps.extension.domain import BUMP_SHARE
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.features import CONTACT_RADIUS

__all__ = [
    "Columns",
    "Definition",
    "Frames",
    "columns_of_features",
    "columns_of_table",
    "define",
    "exact",
    "frames_of",
]


@dataclass(frozen=True)
class Frames:
    """Landmarks of an RMSD map: atoms with a weight only, centred by the weights that superpose them."""

    numbers: NDArray[np.intp]
    labels: list[str]
    landmarks: NDArray[np.float64]  # (M, a, 3), the engine's length
    weights: NDArray[np.float64]  # (a,), sum 1: how much an atom counts in d²
    fit_weights: NDArray[np.float64] | None  # (a,), sum 1: in the superposition, where that differs
    area: float  # what turns the map's d² into the engine's

    @property
    def largest_gap(self) -> float:
        """The farthest that two atoms which follow each other in the list are apart in a landmark."""
        steps = np.diff(self.landmarks, axis=1)
        return float(np.linalg.norm(steps, axis=2).max(initial=0.0))


@dataclass(frozen=True)
class Columns:
    """Landmarks of a map of features: d² = Σ_k c_k (x_k − z_k)², the shorter way round where there is a period."""

    names: list[str]  # what the engine calls them
    landmarks: NDArray[np.float64]  # (M, K)
    periods: NDArray[np.float64]  # (K,), 0 where there is none
    text: str  # what defines them, in the engine's language
    factors: NDArray[np.float64]  # c, (K,)
    variables: list[str]  # what a formula calls them
    meanings: list[str]  # what people call them; empty where that is the same
    area: float = 1.0

    def squares(self, variables: Sequence[str], landmark: int) -> str:
        """Return d² to a landmark as a formula of such variables."""
        return "+".join(map(_square, variables, self.landmarks[landmark], self.periods, self.factors))


@dataclass(frozen=True)
class Definition:
    """A map in an engine's units."""

    names: list[str]
    coefficients: NDArray[np.float64]  # B, (k, M)
    weights: NDArray[np.float64]  # s, (M,)
    bandwidth: float  # h
    reach: float  # the largest d² within the domain of a landmark
    between: NDArray[np.float64]  # d² of landmarks, (M, M)
    bumps: NDArray[np.float64]  # widths for metadynamics, (k,)
    limits: NDArray[np.float64]  # values that no coordinate goes beyond, with room for rounding, (k, 2)
    units: EngineUnits
    digest: str
    geometry: Frames | Columns

    @property
    def spring(self) -> float:
        """Strength of a wall on d² that costs 4 kT where a frame is 10 % beyond the reach."""
        return 8 * self.units.kt / (0.21 * self.reach) ** 2


def define(model: Any, units: EngineUnits, geometry: Frames | Columns, digest: str) -> Definition:
    """Collect a map's numbers."""
    embedder, area = model.embedder_, geometry.area
    coefficients = embedder.coefficients.astype(np.float64)
    low, high = coefficients.min(axis=1), coefficients.max(axis=1)
    slack = 1e-3 * (high - low)
    return Definition(
        names=coordinate_names(embedder.n_components),
        coefficients=coefficients,
        weights=embedder.source_weights.astype(np.float64),
        bandwidth=area * embedder.bandwidth,
        reach=area * float(embedder.squared_radii.max()),
        between=area * squared_matrix(embedder.metric, embedder.landmarks).astype(np.float64),
        bumps=BUMP_SHARE * np.ptp(model.landmark_embedding_.astype(np.float64), axis=0),
        limits=np.stack([low - slack, high + slack], axis=1),
        units=units,
        digest=digest,
        geometry=geometry,
    )


def frames_of(model: Any, atoms: EngineAtoms, units: EngineUnits) -> Frames:
    """Return the landmarks' structures."""
    n_atoms, factor = len(atoms.numbers), length_factor(model, units)
    kept, roots, fitted, fit_roots = model.metric_.weighed_atoms(n_atoms)
    structures = factor * model.metric_.structures(model.embedder_.landmarks, n_atoms)
    centring, fit_weights = roots**2, None
    if fitted is not None:
        fit_weights = np.zeros(len(kept))
        fit_weights[np.searchsorted(kept, fitted)] = fit_roots**2
        centring = fit_weights
    structures -= np.einsum("a,max->mx", centring, structures)[:, None]
    labels = [atoms.labels[atom] for atom in kept]
    return Frames(atoms.numbers[kept], labels, structures, roots**2, fit_weights, factor**2)


def columns_of_table(model: Any, names: Sequence[str] | None, text: str) -> Columns:
    """Return the landmarks' features under the engine's names for them."""
    landmarks, scales = model.metric_.places(model.embedder_.landmarks)
    count = len(scales)
    known: Any = (model.source_ or {}).get("columns") or getattr(model, "feature_names_in_", ())
    given = [str(name) for name in names or known]
    taken = {*coordinate_names(model.n_components_), "away", "wall", "metad"}
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
    periods = np.broadcast_to(np.asarray(getattr(model.metric_, "period", 0.0)), count)
    kept = np.flatnonzero(scales)  # what never varied is left out of the distance
    names = [given[column] for column in kept]
    return Columns(names, landmarks[:, kept], periods[kept], text, scales[kept] ** 2, names, [])


def columns_of_features(model: Any, atoms: EngineAtoms, units: EngineUnits, library: Any) -> Columns:
    """Return the landmarks' internal coordinates, computed by the engine from the atoms of its system."""
    metric, length = model.metric_, length_factor(model, units)
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
    return Columns(
        names, values * factors, periods, "".join(texts), (scales / factors) ** 2, variables, meanings
    )


def exact(value: float) -> str:
    """Write a number so that it is read back bit by bit.

    >>> exact(360.0), exact(0.1), exact(-2.5e-7)
    ('360', '0.1', '-2.5e-07')
    """
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e9 else repr(value)


def _square(variable: str, value: float, period: float, factor: float) -> str:
    """Write c(x − z)², for a period P with x − z − P·floor((x − z)/P + ½) in place of x − z.

    >>> _square("x1", -0.5, 0.0, 4.0), _square("x1", 1.0, 360.0, 1.0)
    ('4*(x1+0.5)^2', '((x1-1)-360*floor((x1-1)/360+0.5))^2')
    """
    times = "" if factor == 1 else f"{exact(factor)}*"
    difference = f"({variable}{'-' if value >= 0 else '+'}{exact(abs(value))})"
    if not period:
        return f"{times}{difference}^2"
    return f"{times}({difference}-{exact(period)}*floor({difference}/{exact(period)}+0.5))^2"
