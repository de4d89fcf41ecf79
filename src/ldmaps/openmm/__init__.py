"""OpenMM simulations: a reporter that embeds frames and acts on events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.openmm.actions import Branch, Save, Snapshot, Stop, StopSimulation
    from ldmaps.openmm.reporter import LandmarkReporter, run_until

__all__ = [
    "Branch",
    "LandmarkReporter",
    "Save",
    "Snapshot",
    "Stop",
    "StopSimulation",
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
        "run_until": "reporter",
    },
)
