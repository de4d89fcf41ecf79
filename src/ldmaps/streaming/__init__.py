"""Embedding records as they come: sources, the engine, sinks.

    from ldmaps.streaming import OutputFile, StreamEmbedder

    StreamEmbedder("map.ldm").run("measurements.csv", [OutputFile("psi.csv")], checkpoint="psi.checkpoint")

The names below load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldmaps.streaming.absorbing import absorb
    from ldmaps.streaming.basins import learn_basins
    from ldmaps.streaming.live import LivePage
    from ldmaps.streaming.openmm_reporter import LandmarkReporter
    from ldmaps.streaming.records import Embedded, Event, Records, Rejected
    from ldmaps.streaming.regions import Ball, Box, OutOfDomain, Polygon, load_regions
    from ldmaps.streaming.reservoir import Reservoir
    from ldmaps.streaming.river_adapter import RiverDiffusionMap
    from ldmaps.streaming.sinks.base import Sink
    from ldmaps.streaming.sinks.callback import CallbackSink
    from ldmaps.streaming.sinks.files import EventsFile, OutputFile, QuarantineFile
    from ldmaps.streaming.sources import open_source
    from ldmaps.streaming.sources.base import Source
    from ldmaps.streaming.stream_embedder import StreamEmbedder
    from ldmaps.streaming.summary import StreamSummary
    from ldmaps.streaming.tracker import RegionTracker

__all__ = [
    "Ball",
    "Box",
    "CallbackSink",
    "Embedded",
    "Event",
    "EventsFile",
    "LandmarkReporter",
    "LivePage",
    "OutOfDomain",
    "OutputFile",
    "Polygon",
    "QuarantineFile",
    "Records",
    "RegionTracker",
    "Rejected",
    "Reservoir",
    "RiverDiffusionMap",
    "Sink",
    "Source",
    "StreamEmbedder",
    "StreamSummary",
    "absorb",
    "learn_basins",
    "load_regions",
    "open_source",
]

_HOMES = {
    "Ball": "regions",
    "Box": "regions",
    "CallbackSink": "sinks.callback",
    "Embedded": "records",
    "Event": "records",
    "EventsFile": "sinks.files",
    "LandmarkReporter": "openmm_reporter",
    "LivePage": "live",
    "OutOfDomain": "regions",
    "OutputFile": "sinks.files",
    "Polygon": "regions",
    "QuarantineFile": "sinks.files",
    "Records": "records",
    "RegionTracker": "tracker",
    "Rejected": "records",
    "Reservoir": "reservoir",
    "RiverDiffusionMap": "river_adapter",
    "Sink": "sinks.base",
    "Source": "sources.base",
    "StreamEmbedder": "stream_embedder",
    "StreamSummary": "summary",
    "absorb": "absorbing",
    "learn_basins": "basins",
    "load_regions": "regions",
    "open_source": "sources",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
