"""Where records come from; one kind of source per file. Clients of servers are loaded when one connects."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ldmaps import door
from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs import as_source as as_points
from ldmaps.inputs import open_files
from ldmaps.inputs.formats import format_of
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory
from ldmaps.streaming.sources.imd import IMDSource
from ldmaps.streaming.sources.iterable import AsyncIterableSource, IterableSource, ReplayedSource
from ldmaps.streaming.sources.redis import RedisSource
from ldmaps.streaming.sources.tables import FileSource, GrowingTable, PipeSource

__all__ = ["as_source", "model_facts", "open_source"]


def model_facts(model: Any) -> dict[str, Any]:
    """Return what a source must know of a model's points: ``model.source_``, and how many numbers they have."""
    facts = dict(getattr(model, "source_", None) or {})
    names = getattr(model, "feature_names_in_", None)
    if not facts.get("columns") and names is not None:
        facts["columns"] = [str(name) for name in names]
    facts["takes_frames"] = model.metric_.takes_frames
    if not model.metric_.takes_distances:  # whose rows may have either of two lengths
        windows = facts.get("windows")  # which the engine cuts out of rows
        facts["n_features"] = model.n_features_in_ if windows is None else windows["width"]
    return facts


def open_source(
    spec: str | os.PathLike[str],
    *,
    model_facts: Mapping[str, Any] | None = None,
    form: str | None = None,
    columns: Sequence[str] | None = None,
    top: Any = None,
    select: str | None = None,
    periodic: str = "whole",
    follow: bool = False,
    idle_end: float | None = None,
    stride: int = 1,
    start: int | None = None,
    stop: int | None = None,
) -> Source:
    """Return the source that an address names.

    Parameters
    ----------
    spec : str or path
        ``-`` (stdin), a table (CSV, NDJSON, npy), a trajectory, ``imd://host:port`` or ``redis://host:port/stream``.
    model_facts : mapping, optional
        See :func:`model_facts`.
    form : {"csv", "ndjson", "npy"}, optional
        Of tables and stdin; by default the suffix or the first bytes decide.
    columns : sequence of str, optional
        Columns of tables to use, in place of the model's.
    top : path or topology, optional
        Names the atoms of frames, as in :func:`ldmaps.inputs.open_files`.
    select : str, optional
        Atoms to use; the model's by default.
    periodic : {"whole", "keep"}
        Whether molecules that a periodic box has split are joined.
    follow : bool
        Whether the file is still being written: the source then waits for more.
    idle_end : float, optional
        Seconds without growth after which a followed file, or a Redis stream, counts as finished.
    stride, start, stop : int, optional
        Which frames or rows of a finished file, as in :func:`ldmaps.inputs.open_files`.

    Returns
    -------
    Source
        Not opened yet; a :class:`StreamEmbedder` opens it.

    See Also
    --------
    StreamEmbedder : projects its records.
    """
    name = os.fspath(spec)
    part: dict[str, Any] = {"stride": stride, "start": start, "stop": stop}
    chosen = [Named(key, value) for key, value in part.items() if value != (1 if key == "stride" else None)]
    if chosen and (follow or name == "-" or "://" in name):
        raise InvalidInputError(
            chosen[0], f" chooses frames of a file that is finished; {name} is read as it comes: leave it out"
        )
    frames = {"top": top, "select": select, "model_facts": model_facts, "periodic": periodic}
    if name == "-":
        # What was redirected from a file can be read again.
        kind = FileSource if stat.S_ISREG(door.fstat(0).st_mode) else PipeSource
        return kind(0, form, model_facts, columns, name="stdin")
    if name.startswith("imd://"):
        return IMDSource(name, **frames)
    if name.startswith(("redis://", "rediss://", "unix://")):
        return RedisSource(name, model_facts=model_facts, columns=columns, idle_end=idle_end)
    named_form = format_of(name)
    if form is None and (top is not None or (named_form is not None and named_form.kind == "trajectory")):
        if follow:
            return GrowingTrajectory(name, **frames, idle_end=idle_end)
        return as_source(open_files(name, **frames, **part))
    if chosen:
        return as_source(open_files(name, columns=columns, model_facts=model_facts, **part))
    if follow:
        return GrowingTable(name, model_facts=model_facts, columns=columns, form=form, idle_end=idle_end)
    return FileSource(name, form, model_facts, columns)


def as_source(source: Any, facts: Mapping[str, Any] | None = None) -> Source:
    """Return as a Source: one, an address, points, a table or trajectory, an iterable or async iterable of points."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_source(source, model_facts=facts)
    if isinstance(source, (np.ndarray, list, tuple)):
        return ReplayedSource(source, facts)
    points = as_points(source)
    if points is not None:
        return ReplayedSource(points.matched(facts))
    if isinstance(source, AsyncIterable):
        return AsyncIterableSource(source, facts)
    if isinstance(source, Iterable):
        return IterableSource(source, facts)
    raise InvalidInputError(
        f"{type(source).__name__} is not a source; pass an array, an iterable of points, a path or a Source"
    )
