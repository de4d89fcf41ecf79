"""OpenMM simulations: a reporter that embeds frames and acts on events, and forces along a map's coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.openmm.actions import Branch, Save, Snapshot, Stop, StopSimulation
    from ldmaps.openmm.bias_log import BiasLog
    from ldmaps.openmm.forces import bias_variable, coordinate_force, domain_wall, outward_force
    from ldmaps.openmm.reporter import LandmarkReporter, run_until
    from ldmaps.openmm.reweighting import effective_number, metadynamics_weights

__all__ = [
    "BiasLog",
    "Branch",
    "LandmarkReporter",
    "Save",
    "Snapshot",
    "Stop",
    "StopSimulation",
    "bias_variable",
    "coordinate_force",
    "domain_wall",
    "effective_number",
    "metadynamics_weights",
    "outward_force",
    "run_until",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "BiasLog": "bias_log",
        "Branch": "actions",
        "LandmarkReporter": "reporter",
        "Save": "actions",
        "Snapshot": "actions",
        "Stop": "actions",
        "StopSimulation": "actions",
        "bias_variable": "forces",
        "coordinate_force": "forces",
        "domain_wall": "forces",
        "effective_number": "reweighting",
        "metadynamics_weights": "reweighting",
        "outward_force": "forces",
        "run_until": "reporter",
    },
)
