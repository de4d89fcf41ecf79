"""Figures, free energies, the report and the live page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.analysis.frame_order import FramesAlong as FramesAlong
    from ldmaps.analysis.frame_order import frames_along as frames_along
    from ldmaps.analysis.frames import FramePicks as FramePicks
    from ldmaps.analysis.frames import write_landmarks as write_landmarks
    from ldmaps.analysis.free_energy import FreeEnergy as FreeEnergy
    from ldmaps.analysis.free_energy import FreeEnergyProfile as FreeEnergyProfile
    from ldmaps.analysis.free_energy import free_energy_profile as free_energy_profile
    from ldmaps.analysis.free_energy import free_energy_surface as free_energy_surface
    from ldmaps.analysis.live.sink import LivePage as LivePage
    from ldmaps.analysis.observables import correlations as correlations
    from ldmaps.analysis.plot import MapPlots as MapPlots
    from ldmaps.analysis.report.page import write_report as write_report

load_on_first_use(
    __name__,
    {
        "frames": "FramePicks write_landmarks",
        "frame_order": "FramesAlong frames_along",
        "free_energy": "FreeEnergy FreeEnergyProfile free_energy_profile free_energy_surface",
        "live.sink": "LivePage",
        "observables": "correlations",
        "plot": "MapPlots",
        "report.page": "write_report",
    },
)
