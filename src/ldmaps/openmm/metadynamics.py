"""Metadynamics along coordinates of a map, and the restraint at its domain, from one set of distances to landmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import openmm
from numpy.typing import NDArray
from openmm import app, unit

from ldmaps.errors import InvalidInputError
from ldmaps.extension.domain import excess_of_squares
from ldmaps.openmm.atoms import number_in_unit
from ldmaps.openmm.native import MapPart, NativeDistances, native_bias, native_distances


class MapMetadynamics(app.Metadynamics):
    """OpenMM's metadynamics along coordinates of one map that OpenMM computes by itself.

    ``openmm.app.Metadynamics`` measures the distances to the landmarks for each variable, and a
    :func:`~ldmaps.openmm.boundary_restraint` measures them again. Here they are measured once in a step. The bias is
    the same, its files (``biasDir``) can be read by either, and all methods are those of ``openmm.app.Metadynamics``.

    Parameters
    ----------
    system : openmm.System
        The system to simulate; the force is added to it.
    variables : list of BiasVariable
        From :func:`~ldmaps.openmm.bias_variable`, of one map and the same atoms.
    temperature, biasFactor, height, frequency, saveFrequency, biasDir
        As for ``openmm.app.Metadynamics``.
    restraint : float or Quantity
        Strength in kJ/mol/nm² of a restraint at the border of the map's domain, as
        :func:`~ldmaps.openmm.boundary_restraint` has it. It is no part of the bias: neither heights of hills nor
        :class:`~ldmaps.openmm.BiasLog` count it. By default there is none.
    margin : float
        How far beyond the domain, in units of √ε, frames may go freely.

    Raises
    ------
    InvalidInputError
        For variables that OpenMM does not compute by itself, or that are not of one map and the same atoms.
    """

    _table: Any
    _force: Any

    def __init__(
        self,
        system: Any,
        variables: Sequence[Any],
        temperature: Any,
        biasFactor: float,
        height: Any,
        frequency: int,
        saveFrequency: int | None = None,
        biasDir: str | None = None,
        *,
        restraint: Any = 0.0,
        margin: float = 0.0,
    ) -> None:
        parts = _parts(variables)
        self._embedder, self._distances = parts[0].embedder, _shared_distances(parts)
        self._coordinates = [part.coordinate for part in parts]
        self._strength = number_in_unit("restraint", restraint, unit.kilojoules_per_mole / unit.nanometer**2)
        self._margin = number_in_unit("margin", margin) * math.sqrt(self._embedder.epsilon)
        # OpenMM adds a force with the variables as they are; here to a system that nobody simulates.
        self._set_aside = openmm.System()
        bias = temperature, biasFactor, height, frequency, saveFrequency, biasDir
        super().__init__(self._set_aside, list(variables), *bias)
        self._table = openmm.XmlSerializer.clone(self._table)
        settings = self._coordinates, self._strength, self._margin
        self._force = native_bias(self._embedder, *settings, self._distances)
        self._force.addTabulatedFunction("table", self._table)
        free = set(range(32)) - {force.getForceGroup() for force in system.getForces()}
        if not free:
            raise InvalidInputError(
                "all 32 force groups of the system are taken; the bias needs one of its own"
            )
        self._force.setForceGroup(max(free))
        system.addForce(self._force)

    def getCollectiveVariables(self, simulation: Any) -> tuple[float, ...]:  # noqa: N802 - OpenMM's name
        """Return the current values of the biased coordinates.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            The run.
        """
        return self._values(self._squared(simulation.context))

    def bias_energy(self, context: Any) -> float:
        """Return the energy of the bias in kJ/mol, without that of the restraint.

        Parameters
        ----------
        context : openmm.Context
            That of the run.
        """
        state = context.getState(energy=True, groups={self._force.getForceGroup()})
        return float(state.getPotentialEnergy()._value) - self._wall(self._squared(context))

    def _addGaussian(self, position: Any, height: Any, context: Any) -> None:  # noqa: N802 - OpenMM's name
        # OpenMM gives the force's variables, which are not the coordinates here, and a height by the force's energy,
        # which has the restraint in it.
        squared = self._distances.squared(position)
        kt = unit.MOLAR_GAS_CONSTANT_R * self._deltaT
        height = self.height * np.exp(-self.bias_energy(context) * unit.kilojoules_per_mole / kt)
        super()._addGaussian(self._values(squared), height, context)

    def _squared(self, context: Any) -> NDArray[np.float64]:
        return self._distances.squared(self._force.getCollectiveVariableValues(context))

    def _values(self, squared: NDArray[np.float64]) -> tuple[float, ...]:
        embedder = self._embedder
        shares = np.exp((squared.min() - squared) / (2 * embedder.bandwidth)) * embedder.source_weights
        values = embedder.coefficients[self._coordinates].astype(np.float64) @ (shares / shares.sum())
        return tuple(values.tolist())

    def _wall(self, squared: NDArray[np.float64]) -> float:
        stretch = max(excess_of_squares(self._embedder, squared) - self._margin, 0.0)
        return 0.5 * self._strength * stretch**2


def _parts(variables: Sequence[Any]) -> list[MapPart]:
    """Return what variables compute, or raise where OpenMM cannot compute all of them from the same distances."""
    found = [getattr(variable, "map_part", None) for variable in variables]
    parts = [part for part in found if part is not None and part.is_native]
    if not found or len(parts) < len(found):
        raise InvalidInputError(
            "MapMetadynamics takes one to three variables from bias_variable, of a map that OpenMM computes by itself; "
            "bias_variable(..., native=True) reports why it cannot. Use openmm.app.Metadynamics for other variables"
        )
    for part in parts[1:]:
        if part.digest != parts[0].digest or not np.array_equal(part.particles, parts[0].particles):
            raise InvalidInputError(
                "the variables of MapMetadynamics must be coordinates of one map and the same atoms; use "
                "openmm.app.Metadynamics for these"
            )
    return parts


def _shared_distances(parts: Sequence[MapPart]) -> NativeDistances:
    first = parts[0]
    distances = native_distances(first.embedder, first.particles, first.n_particles)
    if isinstance(distances, str):
        raise InvalidInputError(distances)
    return distances
