"""Where embedded records go; one kind of sink per file, and the table of those that an address names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import output_format, suffixes

if TYPE_CHECKING:
    from ldmaps.streaming.sinks.base import Sink

__all__ = ["SINKS", "as_sink", "open_sink"]

#: What an address ends in, or begins with where it is no file, and the module and class of the sink for it.
SINKS: dict[str, str] = {
    **dict.fromkeys(suffixes(written_by="stream"), "files.OutputFile"),
    "redis://": "redis.RedisSink",
}


def open_sink(
    address: str | os.PathLike[str], *, regions: Sequence[str] = (), overwrite: bool = False
) -> Sink:
    """Return the sink that an address names; nothing is opened before a run.

    Parameters
    ----------
    address : str or path
        A file (.csv, .tsv, .ndjson, .jsonl), ``-`` (CSV on stdout) or ``redis://host:port/database/stream``.
    regions : sequence of str
        The tracker's ``names``; without them regions are numbers.
    overwrite : bool
        Whether an existing file may be replaced; what is no file must always be new.

    Examples
    --------
    >>> open_sink("psi.csv").durable
    True
    """
    text = os.fspath(address)
    scheme, separator, _ = text.partition("://")
    key = scheme + separator if separator else output_format(text, "stream").suffixes[0]
    if key not in SINKS:
        kinds = ", ".join(name for name in SINKS if "://" in name)
        raise InvalidInputError(
            f"there is no output {key}; name a file, or a stream of {kinds}, got {text!r}"
        )
    module, _, kind = SINKS[key].partition(".")
    settings: dict[str, Any] = (
        {"regions": regions} if separator else {"regions": regions, "overwrite": overwrite}
    )
    sink: Sink = getattr(import_module(f"{__name__}.{module}"), kind)(text, **settings)
    return sink


def as_sink(sink: Any) -> Sink:
    """Return a sink: itself, the one that an address names, or one around a function."""
    from ldmaps.streaming.sinks.base import CallbackSink, Sink

    if isinstance(sink, Sink):
        return sink
    if isinstance(sink, (str, os.PathLike)):
        return open_sink(sink)
    if callable(sink):
        return CallbackSink(sink)
    raise InvalidInputError(
        f"{sink!r} is not a sink; pass a Sink, a name such as psi.csv, or a function that takes embedded records"
    )
