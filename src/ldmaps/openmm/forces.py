"""A map's coordinates, and the border of its domain, as forces of an OpenMM system."""

# Positions are as OpenMM integrates them, not wrapped into the box: map the atoms of one molecule.

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.embedded_rows import place_of
from ldmaps.errors import InvalidInputError
from ldmaps.extension.domain import BUMP_SHARE, excess_with_gradient, log_density_with_gradient
from ldmaps.inputs.topology import atom_indices
from ldmaps.maps.model_digest import model_digest
from ldmaps.metrics.base import squared_matrix
from ldmaps.openmm.atoms import fitted_on_frames, number_in_unit, positions_in_nm, simulated_atoms
from ldmaps.openmm.map_at_frame import MapAtFrame, map_at_frame
from ldmaps.openmm.native import MapPart, NativeDistances, native_coordinate, native_distances, native_wall
from ldmaps.point_faults import wrong_width
from ldmaps.settings import is_whole_number

if TYPE_CHECKING:
    from ldmaps.extension.embedder import Embedder


_log = logging.getLogger("ldmaps")


@dataclass
class CoordinateValue:
    """Computes one coordinate of a map, and the force of an energy equal to it; can be pickled."""

    frame: MapAtFrame
    column: int
    n_atoms: int

    def __call__(self, state: Any) -> tuple[float, NDArray[np.float64]]:
        """Return the coordinate and minus its gradient, (atoms, 3)."""
        return self.frame.coordinate(positions_in_nm(state, self.n_atoms), self.column)


@dataclass
class WallEnergy:
    """Computes ½ k (excess − margin)² beyond a map's domain, and its force; can be pickled."""

    embedder: Embedder
    frame: MapAtFrame
    strength: float
    margin: float
    n_atoms: int

    def __call__(self, state: Any) -> tuple[float, NDArray[np.float64]]:
        """Return the energy in kJ/mol and the force in kJ/mol/nm, (atoms, 3)."""
        positions = positions_in_nm(state, self.n_atoms)
        nearest = self.frame.nearest(positions)
        if nearest is not None and nearest[1] <= self.embedder.squared_radii[nearest[0]]:
            return 0.0, np.zeros((self.n_atoms, 3))
        excess, gradient = excess_with_gradient(self.embedder, positions[None])
        stretch = max(float(excess[0]) - self.margin, 0.0)
        if stretch == 0.0:
            return 0.0, np.zeros((self.n_atoms, 3))
        return 0.5 * self.strength * stretch**2, -self.strength * stretch * gradient[0]


@dataclass
class FloodEnergy:
    """Computes E ln(1 + ρ(x)), high where a map's points are dense, and its force; can be pickled."""

    embedder: Embedder
    strength: float
    multiplicities: NDArray[np.float64]
    n_atoms: int

    def __call__(self, state: Any) -> tuple[float, NDArray[np.float64]]:
        """Return the energy in kJ/mol and the force in kJ/mol/nm, (atoms, 3)."""
        frame = positions_in_nm(state, self.n_atoms)[None]
        logarithm, gradient = log_density_with_gradient(self.embedder, self.multiplicities, frame)
        energy = np.logaddexp(0.0, logarithm[0])
        share = np.exp(logarithm[0] - energy)  # ρ/(1 + ρ)
        return self.strength * float(energy), -self.strength * share * gradient[0]


def coordinate_force(
    model: Any,
    coordinate: int | str = 0,
    *,
    atoms: ArrayLike | None = None,
    topology: Any = None,
    ignore_names: bool = False,
    native: bool | None = None,
) -> Any:
    """Return an OpenMM force whose energy is one coordinate of a map.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        Fitted on frames in nm with RMSD or Features, or the ``.ldm`` file of such a map.
    coordinate : str or int
        Which coordinate: its name, such as "psi2", or its column of ``model.transform``, from 0.
    atoms : array-like of int, optional
        Which particles of the system the map was fitted on, in its order. By default the atoms of ``topology``
        that have the residues and names of the map's; the log "ldmaps" lists them (INFO). A map that does not
        know its atoms takes all.
    topology : openmm.app.Topology, optional
        The simulation's. Needed to check the atoms' names where the model knows them.
    ignore_names : bool
        Whether to accept atoms whose names are not those of the model's frames, or
        cannot be checked for want of a topology.
    native : bool, optional
        Whether to use OpenMM's own forces, which run on every platform without Python and are stored without
        pickles: a map by RMSD without weights or of internal coordinates, with eight landmarks at most. By default
        where that is possible; where it is not, the log "ldmaps" says why (INFO).

    Returns
    -------
    openmm.CustomCVForce or openmm.PythonForce
        For ``CustomCVForce.addCollectiveVariable`` or ``BiasVariable``. It can be serialized; reading a PythonForce
        needs ldmaps and a trusted file, because OpenMM stores Python objects as pickles.

    Raises
    ------
    InvalidInputError
        For atoms, units or coordinates that do not fit; ``GradientError`` for a map without gradients.
    """
    model = fitted_on_frames(model)
    column = place_of(coordinate, model.coordinate_names_)
    particles = _particles(model, atoms, topology, ignore_names)
    return _coordinate_force(model, column, particles, _own_distances(model, particles, topology, native))


def _coordinate_force(
    model: Any, column: int, particles: NDArray[np.intp], distances: NativeDistances | None
) -> Any:
    if distances is not None:
        return native_coordinate(model.embedder_, column, distances)
    return _python_force(CoordinateValue(_frame(model, particles), column, len(particles)), model, particles)


def boundary_restraint(
    model: Any,
    strength: Any,
    *,
    margin: float = 0.0,
    atoms: ArrayLike | None = None,
    topology: Any = None,
    ignore_names: bool = False,
    native: bool | None = None,
) -> Any:
    """Return an OpenMM force that keeps a simulation where a map is valid.

    Its energy is ½·strength·(excess − margin)² where the excess is how far the frame is
    beyond the reach of every landmark (:mod:`ldmaps.extension.domain`), and 0 inside.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        A fitted map of frames, or its file.
    strength : float or Quantity
        Spring constant in kJ/mol/nm², for the RMSD beyond the domain. A frame at
        300 K that pushes against the wall is then typically √(2.5/strength) nm beyond the border.
    margin : float
        How far beyond the domain, in units of √ε, frames may go freely.
    atoms, topology, ignore_names, native
        See :func:`coordinate_force`.

    Returns
    -------
    openmm.Force
        To add to the system.

    See Also
    --------
    exploration_force : drives a run beyond the map.
    bias_variable : a coordinate for metadynamics.
    """
    from openmm import unit

    model = fitted_on_frames(model)
    spring = number_in_unit("strength", strength, unit.kilojoules_per_mole / unit.nanometer**2)
    particles = _particles(model, atoms, topology, ignore_names)
    embedder = model.embedder_
    reach = number_in_unit("margin", margin) * float(np.sqrt(embedder.epsilon))
    distances = _own_distances(model, particles, topology, native)
    if distances is not None:
        return native_wall(embedder, spring, reach, distances)
    wall = WallEnergy(embedder, _frame(model, particles), spring, reach, len(particles))
    return _python_force(wall, model, particles)


def exploration_force(
    model: Any,
    strength: Any,
    *,
    reach: float = 3.0,
    atoms: ArrayLike | None = None,
    topology: Any = None,
    ignore_names: bool = False,
) -> Any:
    """Return an OpenMM force that drives a simulation to where a map has few points, and beyond.

    Its energy is strength·ln(1 + ρ(x)/ρ₀), where ρ is the map's own estimate of how often a place was visited
    and ρ₀ what its most isolated landmark contributes at the reach; beyond, the energy falls to 0. A strength
    of kT makes the known free energy landscape flat; above, rarely visited places are favoured. Coordinates
    alone cannot do this: at the border of the data their slope across it vanishes.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        A fitted map of frames, or its file.
    strength : float or Quantity
        In kJ/mol, per factor e of density.
    reach : float
        How far beyond the most isolated landmark, in units of √ε, the force keeps pushing;
        over this distance it does work of strength·reach²/2.
    atoms, topology, ignore_names
        See :func:`coordinate_force`.

    Returns
    -------
    openmm.Force
        To add to the system.

    See Also
    --------
    boundary_restraint : the opposite.
    ldmaps.absorbing.absorb : a map takes in the frames that were found.
    """
    from openmm import unit

    model = fitted_on_frames(model)
    energy = number_in_unit("strength", strength, unit.kilojoules_per_mole)
    particles = _particles(model, atoms, topology, ignore_names)
    embedder, counts = model.embedder_, model.multiplicities_
    squared = squared_matrix(embedder.metric, embedder.landmarks).astype(np.float64)
    densities = np.exp(-0.5 * squared / embedder.epsilon) @ counts
    # ρ in units of ρ₀: the density that the most isolated landmark contributes at the reach.
    unit_density = densities.min() * np.exp(-0.5 * number_in_unit("reach", reach) ** 2)
    flood = FloodEnergy(embedder, energy, counts / unit_density, len(particles))
    return _python_force(flood, model, particles)


def bias_variable(
    model: Any,
    coordinate: int | str = 0,
    width: float | None = None,
    *,
    limits: tuple[float, float] | None = None,
    grid_width: int | None = None,
    atoms: ArrayLike | None = None,
    topology: Any = None,
    ignore_names: bool = False,
    native: bool | None = None,
) -> Any:
    """Return one coordinate of a map as a variable of ``openmm.app.Metadynamics``.

    Parameters
    ----------
    model, coordinate, atoms, topology, ignore_names, native
        See :func:`coordinate_force`.
    width : float, optional
        Standard deviation of the Gaussian bumps, in the coordinate's units. By default
        1/30 of the range that the landmarks span.
    limits : (float, float), optional
        Where OpenMM's table of the bias begins and ends; beyond it the bias is 0, so a simulation must not get
        there. By default the range of the map's coefficients, which no point can exceed.
    grid_width : int, optional
        Points of the table; by default OpenMM's choice, five per width.

    Returns
    -------
    openmm.app.BiasVariable
        For ``openmm.app.Metadynamics``.

    See Also
    --------
    coordinate_force : the coordinate as a force, for other biases.
    boundary_restraint : keeps the run where the map is valid.
    metadynamics_weights : weights of the frames of such a run.
    """
    from openmm import app

    model = fitted_on_frames(model)
    column = place_of(coordinate, model.coordinate_names_)
    particles = _particles(model, atoms, topology, ignore_names)
    distances = _own_distances(model, particles, topology, native)
    force = _coordinate_force(model, column, particles, distances)
    if width is None:
        width = float(np.ptp(model.landmark_embedding_[:, column])) * BUMP_SHARE
    width = number_in_unit("width", width, positive=True)
    if grid_width is not None and not (is_whole_number(grid_width) and grid_width >= 2):
        raise InvalidInputError(f"grid_width must be a whole number of points, 2 or more, got {grid_width!r}")
    coefficients = model.embedder_.coefficients[column].astype(np.float64)
    # A little more than the coefficients' range, so that rounding cannot step over the end.
    slack = 1e-3 * float(np.ptp(coefficients))
    low, high = limits or (float(coefficients.min()) - slack, float(coefficients.max()) + slack)
    if not low < high:
        raise InvalidInputError(f"limits must be a lower and a higher number, got {limits!r}")
    variable = app.BiasVariable(force, low, high, width, False, grid_width)
    total, digest = _n_particles(topology), model_digest(model)
    variable.map_part = MapPart(model.embedder_, digest, particles, total, column, distances is not None)
    return variable


def _particles(model: Any, atoms: ArrayLike | None, topology: Any, ignore_names: bool) -> NDArray[np.intp]:
    """Return which particles the map was fitted on, checked as far as they can be."""
    indices = None if atoms is None else atom_indices(atoms)
    if topology is not None:
        return simulated_atoms(model, topology, indices, ignore_names)
    if indices is None:
        raise InvalidInputError(
            "neither atoms nor topology was given; pass topology=simulation.topology, and atoms= where the map "
            "was fitted on some of its atoms"
        )
    fault = wrong_width((len(indices), 3), int(model.n_features_in_), takes_frames=True)
    if fault is not None:
        raise InvalidInputError(f"atoms has {fault}; choose the same ones, in the model's order")
    if (model.source_ or {}).get("atom_names") is not None and not ignore_names:
        raise InvalidInputError(
            "the model knows its atoms' names, but no topology was given to compare them with; pass "
            "topology=simulation.topology, or ignore_names=True"
        )
    return indices


def _n_particles(topology: Any) -> int | None:
    return None if topology is None else topology.getNumAtoms()


def _own_distances(
    model: Any, particles: NDArray[np.intp], topology: Any, native: bool | None
) -> NativeDistances | None:
    """Return OpenMM's own forces for the distances of a map; None where Python must compute them, or should."""
    if native is False:
        return None
    distances = native_distances(model.embedder_, particles, _n_particles(topology))
    if isinstance(distances, NativeDistances):
        return distances
    if native:
        raise InvalidInputError(f"native=True is not possible: {distances}; leave native out")
    _log.info("the map is computed by Python in every step: %s", distances)
    return None


def _frame(model: Any, particles: NDArray[np.intp]) -> MapAtFrame:
    return map_at_frame(model.embedder_, f"{model_digest(model)} {particles.tolist()}")


def _python_force(computation: Any, model: Any, particles: NDArray[np.intp]) -> Any:
    import openmm

    if not hasattr(openmm, "PythonForce") or not hasattr(openmm.PythonForce, "setParticles"):
        raise InvalidInputError(
            f"forces of a map need OpenMM 8.6.1 or newer, which has PythonForce; this is "
            f"{openmm.version.version}: pip install --upgrade openmm"
        )
    model.embedder_.squares_gradient  # noqa: B018 - a map without gradients is refused here, not at step 1
    force = openmm.PythonForce(computation)
    force.setParticles([int(index) for index in particles])
    force.setName(type(computation).__name__)
    return force
