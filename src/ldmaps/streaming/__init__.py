"""Embedding records as they arrive: sources, the engine, sinks.

StreamEmbedder("map.ldm").run("measurements.csv", [OutputFile("psi.csv")], checkpoint="psi.checkpoint")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.streaming.records import Embedded, Records, Rejected
    from ldmaps.streaming.reservoir import Reservoir
    from ldmaps.streaming.sinks import open_sink
    from ldmaps.streaming.sinks.base import CallbackSink, Sink
    from ldmaps.streaming.sinks.files import EventsFile, OutputFile, QuarantineFile
    from ldmaps.streaming.sinks.redis import RedisSink
    from ldmaps.streaming.sources import open_source
    from ldmaps.streaming.sources.base import Source
    from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory
    from ldmaps.streaming.sources.imd import IMDSource
    from ldmaps.streaming.sources.redis import RedisSource
    from ldmaps.streaming.sources.tables import GrowingTable
    from ldmaps.streaming.stream_embedder import StreamEmbedder
    from ldmaps.streaming.summary import StreamSummary

__all__ = [
    "CallbackSink",
    "Embedded",
    "EventsFile",
    "GrowingTable",
    "GrowingTrajectory",
    "IMDSource",
    "OutputFile",
    "QuarantineFile",
    "Records",
    "RedisSink",
    "RedisSource",
    "Rejected",
    "Reservoir",
    "Sink",
    "Source",
    "StreamEmbedder",
    "StreamSummary",
    "open_sink",
    "open_source",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "CallbackSink": "sinks.base",
        "Embedded": "records",
        "EventsFile": "sinks.files",
        "GrowingTable": "sources.tables",
        "GrowingTrajectory": "sources.growing_trajectory",
        "IMDSource": "sources.imd",
        "OutputFile": "sinks.files",
        "QuarantineFile": "sinks.files",
        "Records": "records",
        "RedisSink": "sinks.redis",
        "RedisSource": "sources.redis",
        "Rejected": "records",
        "Reservoir": "reservoir",
        "Sink": "sinks.base",
        "Source": "sources.base",
        "StreamEmbedder": "stream_embedder",
        "StreamSummary": "summary",
        "open_sink": "sinks",
        "open_source": "sources",
    },
)
