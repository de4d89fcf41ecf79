"""Separates the records that cannot be embedded from those that can."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import BadRecordError, InvalidInputError, one_line
from ldmaps.extension.embedder import Embedder
from ldmaps.point_faults import bad_value, wrong_width
from ldmaps.streaming.records import Embedded, Records, Rejected


def repaired(records: Records, embedder: Embedder, width: int | None) -> Records:
    """Set aside the records that cannot be embedded; return the others."""
    points = np.asarray(records.points)
    reasons = _wrong_shape(points, width, embedder.metric.takes_frames) or _not_finite(points)
    kept = _without(records, reasons)
    if not len(kept):
        return kept
    try:
        embedder.prepare(kept.points)
    except InvalidInputError:  # the metric has a rule of its own: find out who breaks it
        for row in range(len(points)):
            if row in reasons:
                continue
            try:
                embedder.prepare(points[row : row + 1])
            except InvalidInputError as error:
                reasons[row] = one_line(error)
        kept = _without(records, reasons)
    return kept


def whole_rows(records: Records, width: int) -> Records:
    """Set aside the records that are no rows of so many finite numbers; return the others."""
    points = np.asarray(records.points)
    return _without(records, _wrong_shape(points, width, False) or _not_finite(points))


def judged(
    embedded: Embedded, bad_records: str, missing: str = "drop"
) -> tuple[Embedded, BadRecordError | None]:
    """Return what may be passed on, and the error that the first bad record is where such a one ends the stream."""
    fatal = [
        one for one in embedded.rejected if bad_records == "raise" or (one.missing and missing == "error")
    ]
    if not fatal:
        return embedded, None
    first = min(fatal, key=lambda one: one.number)
    received = f" (received {first.raw[:80]!r})" if first.raw else ""
    error = BadRecordError(f"record {first.number} cannot be embedded: {first.reason}{received}")
    return embedded.take(embedded.numbers < first.number), error


def _wrong_shape(points: NDArray[Any], width: int | None, takes_frames: bool) -> dict[int, str]:
    reason = None if width is None else wrong_width(points.shape[1:], width, takes_frames=takes_frames)
    return {} if reason is None else dict.fromkeys(range(len(points)), reason)


def _not_finite(points: NDArray[Any]) -> dict[int, str]:
    if points.dtype.kind != "f":
        return {}
    rows = points.reshape(len(points), -1)
    reasons = {}
    for row in np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
        value, place = bad_value(points[row])
        reasons[row] = f"{value} at {place} is not a finite number"
    return reasons


def _without(records: Records, reasons: dict[int, str]) -> Records:
    """Return records without some of their rows, which become rejected ones."""
    keep = np.ones(len(records), dtype=bool)
    keep[list(reasons)] = False
    bad = [
        Rejected(
            int(records.numbers[row]),
            reason,
            _excerpt(records.points[row]),
            bool(np.isnan(records.points[row]).any()),
        )
        for row, reason in reasons.items()
    ]
    rejected = sorted((*records.rejected, *bad), key=lambda one: one.number)
    return records.take(keep, tuple(rejected), records.position)


def _excerpt(point: NDArray[Any]) -> str:
    values = np.asarray(point).ravel()
    return ", ".join(f"{value:.6g}" for value in values[:12].tolist()) + (", ..." if len(values) > 12 else "")
