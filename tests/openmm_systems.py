"""Alanine dipeptide as an OpenMM system, and what a context computes."""

from __future__ import annotations

import numpy as np
import openmm
from openmm import app, unit

from ldmaps.datasets import alanine_dipeptide


def topology_of(molecule):
    """Return the topology of a molecule that ships with the package, as OpenMM has it."""
    topology = app.Topology()
    chain = topology.addChain()
    residues = [topology.addResidue(name, chain) for name in ("ACE", "ALA", "NME")]
    atoms = [
        topology.addAtom(name, app.Element.getBySymbol(element), residues[number - 1])
        for name, element, number in zip(
            molecule.atom_names, molecule.elements, molecule.residue_numbers, strict=True
        )
    ]
    for first, second in molecule.bonds:
        topology.addBond(atoms[first], atoms[second])
    return topology


def new_simulation(seed=1, temperature=300):
    """Return a simulation in vacuum, ready to step."""
    molecule = alanine_dipeptide(stride=50)
    topology = topology_of(molecule)
    system = app.ForceField("amber99sbildn.xml").createSystem(topology, constraints=app.HBonds)
    integrator = openmm.LangevinMiddleIntegrator(temperature, 1.0, 0.002)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(molecule.frames[0])
    simulation.minimizeEnergy(maxIterations=10)
    simulation.context.setVelocitiesToTemperature(temperature, seed)
    return simulation


def context_of(force, positions, platform="Reference", masses=None):
    """Return a context in which one force acts on free particles."""
    system = openmm.System()
    for mass in np.ones(len(positions)) if masses is None else masses:
        system.addParticle(mass)
    system.addForce(force)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName(platform)
    )
    context.setPositions(positions)
    return context


def energy_and_forces(context):
    """Return the potential energy in kJ/mol and the forces in kJ/mol/nm."""
    state = context.getState(energy=True, forces=True)
    forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoules_per_mole / unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(unit.kilojoules_per_mole), np.array(forces)
