"""OpenMM simulations: a reporter that embeds frames and acts on events, and forces along a map's coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.openmm.actions import Branch, Save, Snapshot, Stop, StopSimulation
    from ldmaps.openmm.forces import bias_variable, coordinate_force, domain_wall
    from ldmaps.openmm.reporter import LandmarkReporter, run_until

__all__ = [
    "Branch",
    "LandmarkReporter",
    "Save",
    "Snapshot",
    "Stop",
    "StopSimulation",
    "bias_variable",
    "coordinate_force",
    "domain_wall",
    "run_until",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "Branch": "actions",
        "LandmarkReporter": "reporter",
        "Save": "actions",
        "Snapshot": "actions",
        "Stop": "actions",
        "StopSimulation": "actions",
        "bias_variable": "forces",
        "coordinate_force": "forces",
        "domain_wall": "forces",
        "run_until": "reporter",
    },
)
