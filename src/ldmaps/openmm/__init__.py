"""OpenMM simulations: a reporter that embeds frames and acts on events, and forces along a map's coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.openmm.biased_runs import BiasLog as BiasLog
    from ldmaps.openmm.biased_runs import effective_sample_size as effective_sample_size
    from ldmaps.openmm.biased_runs import metadynamics_weights as metadynamics_weights
    from ldmaps.openmm.forces import bias_variable as bias_variable
    from ldmaps.openmm.forces import boundary_restraint as boundary_restraint
    from ldmaps.openmm.forces import coordinate_force as coordinate_force
    from ldmaps.openmm.forces import exploration_force as exploration_force
    from ldmaps.openmm.metadynamics import MapMetadynamics as MapMetadynamics
    from ldmaps.openmm.reporter import Branch as Branch
    from ldmaps.openmm.reporter import LandmarkReporter as LandmarkReporter
    from ldmaps.openmm.reporter import Save as Save
    from ldmaps.openmm.reporter import Snapshot as Snapshot
    from ldmaps.openmm.reporter import Stop as Stop
    from ldmaps.openmm.reporter import StopSimulation as StopSimulation
    from ldmaps.openmm.reporter import run_until as run_until

load_on_first_use(
    __name__,
    {
        "biased_runs": "BiasLog effective_sample_size metadynamics_weights",
        "forces": "bias_variable coordinate_force boundary_restraint exploration_force",
        "metadynamics": "MapMetadynamics",
        "reporter": "Branch LandmarkReporter Save Snapshot Stop StopSimulation run_until",
    },
)
