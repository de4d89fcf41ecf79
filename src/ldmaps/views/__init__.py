"""Figures, free energies, the report and the live page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.views.frames import FramePicks, write_landmarks
    from ldmaps.views.free_energy import (
        FreeEnergy,
        FreeEnergyProfile,
        free_energy_profile,
        free_energy_surface,
    )
    from ldmaps.views.live.sink import LivePage
    from ldmaps.views.observables import correlations
    from ldmaps.views.plot import MapPlots
    from ldmaps.views.report.page import write_report

__all__ = [
    "FramePicks",
    "FreeEnergy",
    "FreeEnergyProfile",
    "LivePage",
    "MapPlots",
    "correlations",
    "free_energy_profile",
    "free_energy_surface",
    "write_landmarks",
    "write_report",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "FramePicks": "frames",
        "FreeEnergy": "free_energy",
        "FreeEnergyProfile": "free_energy",
        "LivePage": "live.sink",
        "MapPlots": "plot",
        "correlations": "observables",
        "free_energy_profile": "free_energy",
        "free_energy_surface": "free_energy",
        "write_landmarks": "frames",
        "write_report": "report.page",
    },
)
