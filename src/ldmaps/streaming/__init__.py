"""Embedding records as they come: sources, the engine, sinks.

    from ldmaps.streaming import OutputFile, StreamEmbedder

    StreamEmbedder("map.ldm").run("measurements.csv", [OutputFile("psi.csv")], checkpoint="psi.checkpoint")

The names below load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldmaps.streaming.records import Embedded, Event, Records, Rejected
    from ldmaps.streaming.sinks.base import Sink
    from ldmaps.streaming.sinks.callback import CallbackSink
    from ldmaps.streaming.sinks.files import EventsFile, OutputFile, QuarantineFile
    from ldmaps.streaming.sources import open_source
    from ldmaps.streaming.sources.base import Source
    from ldmaps.streaming.stream_embedder import StreamEmbedder
    from ldmaps.streaming.summary import StreamSummary

__all__ = [
    "CallbackSink",
    "Embedded",
    "Event",
    "EventsFile",
    "OutputFile",
    "QuarantineFile",
    "Records",
    "Rejected",
    "Sink",
    "Source",
    "StreamEmbedder",
    "StreamSummary",
    "open_source",
]

_HOMES = {
    "CallbackSink": "sinks.callback",
    "Embedded": "records",
    "Event": "records",
    "EventsFile": "sinks.files",
    "OutputFile": "sinks.files",
    "QuarantineFile": "sinks.files",
    "Records": "records",
    "Rejected": "records",
    "Sink": "sinks.base",
    "Source": "sources.base",
    "StreamEmbedder": "stream_embedder",
    "StreamSummary": "summary",
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
