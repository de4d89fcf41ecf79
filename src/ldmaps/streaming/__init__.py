"""Embedding records as they arrive: sources, the engine, sinks.

from ldmaps.streaming import OutputFile, StreamEmbedder

StreamEmbedder("map.ldm").run("measurements.csv", [OutputFile("psi.csv")], checkpoint="psi.checkpoint")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.streaming.records import Embedded as Embedded
    from ldmaps.streaming.records import Records as Records
    from ldmaps.streaming.records import Rejected as Rejected
    from ldmaps.streaming.reservoir import Reservoir as Reservoir
    from ldmaps.streaming.sinks import open_sink as open_sink
    from ldmaps.streaming.sinks.base import CallbackSink as CallbackSink
    from ldmaps.streaming.sinks.base import Sink as Sink
    from ldmaps.streaming.sinks.files import EventsFile as EventsFile
    from ldmaps.streaming.sinks.files import OutputFile as OutputFile
    from ldmaps.streaming.sinks.files import QuarantineFile as QuarantineFile
    from ldmaps.streaming.sinks.redis import RedisSink as RedisSink
    from ldmaps.streaming.sources import open_source as open_source
    from ldmaps.streaming.sources.base import Source as Source
    from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory as GrowingTrajectory
    from ldmaps.streaming.sources.imd import IMDSource as IMDSource
    from ldmaps.streaming.sources.redis import RedisSource as RedisSource
    from ldmaps.streaming.sources.tables import GrowingTable as GrowingTable
    from ldmaps.streaming.stream_embedder import StreamEmbedder as StreamEmbedder
    from ldmaps.streaming.summary import StreamSummary as StreamSummary

load_on_first_use(
    __name__,
    {
        "records": "Embedded Records Rejected",
        "reservoir": "Reservoir",
        "sinks": "open_sink",
        "sinks.base": "CallbackSink Sink",
        "sinks.files": "EventsFile OutputFile QuarantineFile",
        "sinks.redis": "RedisSink",
        "sources": "open_source",
        "sources.base": "Source",
        "sources.growing_trajectory": "GrowingTrajectory",
        "sources.imd": "IMDSource",
        "sources.redis": "RedisSource",
        "sources.tables": "GrowingTable",
        "stream_embedder": "StreamEmbedder",
        "summary": "StreamSummary",
    },
)
