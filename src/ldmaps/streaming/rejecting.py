"""Separates the records that cannot be embedded from those that can."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import BadRecordError, InvalidInputError, one_line
from ldmaps.extension.embedder import Embedder
from ldmaps.metrics.base import Points
from ldmaps.streaming.records import Embedded, Records, Rejected

__all__ = ["judged", "repaired"]


def repaired(records: Records, embedder: Embedder, width: int | None) -> tuple[Records, Points | None]:
    """Set aside the records that cannot be embedded; return the others, also prepared.

    Parameters
    ----------
    width : int or None
        Numbers that a point has, if the map knows.
    """
    points = np.asarray(records.points)
    reasons = _wrong_shape(points, width) or _not_finite(points)
    kept = _without(records, reasons)
    if not len(kept):
        return kept, None
    try:
        return kept, embedder.prepare(kept.points)
    except InvalidInputError:  # the metric has a rule of its own: find out who breaks it
        for row in range(len(points)):
            if row in reasons:
                continue
            try:
                embedder.prepare(points[row : row + 1])
            except InvalidInputError as error:
                reasons[row] = one_line(error)
    kept = _without(records, reasons)
    return kept, embedder.prepare(kept.points) if len(kept) else None


def judged(embedded: Embedded, bad_records: str) -> tuple[Embedded, BadRecordError | None]:
    """Return what may be passed on, and the error that the first bad record is, if it is one.

    Parameters
    ----------
    bad_records : {"count", "quarantine", "raise"}
        As of StreamEmbedder.
    """
    if bad_records != "raise" or not embedded.rejected:
        return embedded, None
    first = min(embedded.rejected, key=lambda one: one.number)
    received = f" (received {first.raw[:80]!r})" if first.raw else ""
    error = BadRecordError(f"record {first.number} cannot be embedded: {first.reason}{received}")
    return embedded.take(embedded.numbers < first.number), error


def _wrong_shape(points: NDArray[Any], width: int | None) -> dict[int, str]:
    shape = points.shape[1:]
    if width is None or math.prod(shape) == width:
        return {}
    if len(shape) == 2:
        reason = f"{shape[0]} atoms, but the map takes {width // 3}"
    else:
        reason = f"{math.prod(shape)} numbers, but the map takes {width}"
    return dict.fromkeys(range(len(points)), reason)


def _not_finite(points: NDArray[Any]) -> dict[int, str]:
    if points.dtype.kind != "f":
        return {}
    rows = points.reshape(len(points), -1)
    reasons = {}
    for row in np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
        place = int(np.flatnonzero(~np.isfinite(rows[row]))[0])
        where = f"atom {place // 3}" if points.ndim == 3 else f"column {place + 1}"
        reasons[row] = f"{rows[row, place]} at {where} is not a finite number"
    return reasons


def _without(records: Records, reasons: dict[int, str]) -> Records:
    """Return records without some of their rows, which become rejected ones."""
    keep = np.ones(len(records), dtype=bool)
    keep[list(reasons)] = False
    bad = [
        Rejected(int(records.numbers[row]), reason, _excerpt(records.points[row]))
        for row, reason in reasons.items()
    ]
    rejected = sorted((*records.rejected, *bad), key=lambda one: one.number)
    return records.take(keep, tuple(rejected), records.position)


def _excerpt(point: NDArray[Any]) -> str:
    values = np.asarray(point).ravel()
    return ", ".join(f"{value:.6g}" for value in values[:12].tolist()) + (", ..." if len(values) > 12 else "")
