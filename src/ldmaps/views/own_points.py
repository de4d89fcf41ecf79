"""The points a map is looked at by: its training points, or rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.views.point_tables import read_table

__all__ = ["PointsOfMap"]


@dataclass(frozen=True)
class PointsOfMap:
    """Coordinates of points, and what is known of each.

    Attributes
    ----------
    coordinates : ndarray of shape (n, k)
    times : ndarray of shape (n,) or None
        In ps.
    files : ndarray of shape (n,) or None
    columns : dict of str to ndarray
        Numbers of the table's own.
    """

    coordinates: NDArray[Any]
    times: NDArray[np.float64] | None = None
    files: NDArray[Any] | None = None
    columns: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, table: str | None = None) -> Self:
        """Return a map's training points, or those that a table of ``ldmaps embed`` brings; its columns in any case."""
        told = {} if table is None else read_table(table, model)
        columns = {}
        for name, values in told.get("columns", {}).items():
            try:
                columns[name] = np.asarray(values, dtype=np.float64)
            except ValueError:
                continue  # words have no order
        if "points" in told:
            return cls(told["points"], told.get("times"), told.get("files"), columns)
        if not hasattr(model, "embedding_"):
            raise InvalidInputError(
                "the model file holds no training points; embed frames with ldmaps embed and give its table with --data"
            )
        record = model.training_
        if record is None or len(record.rows) == len(model.embedding_):
            times, files = (None, None) if record is None else (record.times, record.files)
            return cls(model.embedding_, times, files, columns)
        rows = record.rows
        thinned = {name: values[rows] for name, values in columns.items()}
        return cls(model.embedding_[rows], record.times, record.files, thinned)
