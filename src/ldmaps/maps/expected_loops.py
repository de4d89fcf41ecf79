"""Which compiled loops a fit will call, so that a first fit can have them compiled side by side.

A wrong list costs a first fit some seconds and nothing else: a loop that is missing here is
compiled when it is called. ``tests/maps/test_expected_loops.py`` compares the lists with fits.
"""

from __future__ import annotations

from ldmaps.landmarks import KMedoids, LandmarkSelector
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.euclidean import ColumnPoints, Euclidean, RowPoints
from ldmaps.metrics.rmsd import RMSD
from ldmaps.metrics.rmsd_panels import RMSDPoints

__all__ = ["exact_fit_loops", "landmark_fit_loops"]

#: Types of each loop's arguments. P is the precision of the points, I an integer of as many bytes.
_TYPES = {
    "blocks.extend": "P[:, ::1], P, P[::1], P[:, ::1], P[:, ::1], int64[::1], P[::1]",
    "blocks.extend_few": "P[:, ::1], P, P[::1], P[:, ::1], P[:, ::1], int64[::1], P[::1]",
    "blocks.gaussian": "P[:, ::1], P",
    "blocks.judge": "P[::1], int64[::1], float64[::1], float64, float64, P[::1], boolean[::1]",
    "blocks.nearest_in_rows": "P[:, ::1], int64[::1], P[::1]",
    "cells.best_of_cells": "int64[::1], int64[::1], float64[::1], int64[::1], float64",
    "cells.members_by_cell": "int64[::1], int64[::1], int64",
    "euclidean.centre_rows": "P[:, ::1], int64, int64, float64[::1], P[:, ::1], P[::1]",
    "euclidean.euclidean_group_sums": "P[:, ::1], int64[::1], float64[::1], float64[::1]",
    "euclidean.few_group_sums": "P[:, ::1], int64[::1], float64[::1], float64[::1]",
    "euclidean.finish_gram": "P[:, ::1], P[::1], P[::1], P, P[:, ::1], int64, P[:, ::1], int64",
    "euclidean.squared_euclidean_columns": "P[:, ::1], int64, int64, P[:, ::1], int64, int64, P[:, ::1]",
    "euclidean.squared_euclidean_few": "P[:, ::1], int64, int64, P[:, ::1], int64, int64, P[:, ::1]",
    "euclidean.squared_euclidean_rows": "P[:, ::1], int64, int64, P[:, ::1], int64, int64, P[:, ::1]",
    "euclidean_scans.nearest_euclidean_columns": (
        "P[:, ::1], int64, int64, P[:, ::1], int64[::1], P[::1], I[::1]"
    ),
    "euclidean_scans.squares_to_boxes": "P[::1], P[:, ::1], P[:, ::1], P[::1]",
    "gradient_features.vector_gradients": (
        "float64[:, ::1], float64[:, ::1], float64[::1], P[:, :, ::1], P[:, :, ::1]"
    ),
    "gradient_rmsd.rmsd_gradients": (
        "float64[:, :, ::1], int64[::1], float64[::1], P[:, ::1], P[::1], P[::1], P[:, ::1], P[:, :, ::1], "
        "P[:, :, :, ::1]"
    ),
    "graphs.all_within_hops": "P[:, ::1], float64, float64[::1]",
    "graphs.attach_nearest": "P[::1], int64, P[::1], int64[::1], boolean[::1]",
    "products.symmetric_matvec_band": "P[:, ::1], int64, int64, float64[::1], float64[::1]",
    "rmsd_blocks.group_distance_sums": "P[:, :, ::1], P[:, ::1], int64[::1], float64[::1], float64[::1]",
    "rmsd_blocks.squared_block": (
        "P[:, :, ::1], P[:, ::1], int64, int64, P[:, :, ::1], P[:, ::1], int64, int64, P[:, ::1]"
    ),
    "rmsd_frames.take_frames": "P[:, :, ::1], int64[::1], P[:, :, ::1]",
    "rows.distance_sums": "P[:, ::1], float64[::1], float64[::1]",
}
#: Solving for eigenvectors of a stored kernel.
_SOLVE = ["blocks.gaussian", "products.symmetric_matvec_band"]


def exact_fit_loops(metric: Metric, points: Points) -> list[str]:
    """Return what the fit of an exact map with a stored kernel will call.

    Parameters
    ----------
    metric : Metric
    points : Points
        The training points, prepared.
    """
    squares = _squares(metric, points)
    return _typed([*squares[:1], "graphs.attach_nearest", *_SOLVE], points) if squares else []


def landmark_fit_loops(
    metric: Metric, points: Points, selector: LandmarkSelector, *, learns: bool, moves: bool
) -> list[str]:
    """Return what the fit of a landmark map will call, roughly in that order; the slowest to compile is last.

    Parameters
    ----------
    metric : Metric
    points : Points
        The training points, prepared.
    selector : LandmarkSelector
        Chooses the landmarks.
    learns : bool
        Whether the coordinates are those of an exact map.
    moves : bool
        Whether a few landmarks are looked for, which may be moved.
    """
    squares = _squares(metric, points)
    if not squares:
        return []
    nearest, group_sums, gradients = _of_groups(points)
    medoids = []
    if isinstance(selector, KMedoids):
        medoids = ["cells.members_by_cell", group_sums, "cells.best_of_cells"]
    if learns:
        names = [squares[0], "graphs.attach_nearest", *_SOLVE, *squares[1:], nearest]
        names += ["rows.distance_sums", *medoids]
    else:
        names = [*squares, nearest, "graphs.attach_nearest", *medoids]
        names += ["graphs.all_within_hops", *_SOLVE]
    if isinstance(points, ColumnPoints):
        names.append("euclidean_scans.squares_to_boxes")
    names.append("blocks.judge")
    names += [gradients, "blocks.extend_few"] if moves else ["blocks.extend"]
    return _typed(names, points)


def _squares(metric: Metric, points: Points) -> list[str]:
    """Return the loops that fill blocks of d², or none where these lists do not know them."""
    if isinstance(metric, RMSD) and isinstance(points, RMSDPoints) and points.fit_panels is None:
        return ["rmsd_blocks.squared_block", "rmsd_frames.take_frames"]
    if isinstance(metric, Euclidean) and isinstance(points, ColumnPoints):
        return [f"euclidean.squared_euclidean_{'few' if points.has_few_features else 'columns'}"]
    if isinstance(metric, Euclidean) and isinstance(points, RowPoints):
        return ["euclidean.finish_gram", "euclidean.centre_rows", "euclidean.squared_euclidean_rows"]
    return []


def _of_groups(points: Points) -> tuple[str, str, str]:
    """Return the loops that find nearest points, sums over groups, and gradients."""
    if isinstance(points, RMSDPoints):
        return "blocks.nearest_in_rows", "rmsd_blocks.group_distance_sums", "gradient_rmsd.rmsd_gradients"
    gradients = "gradient_features.vector_gradients"
    if _has_few_features(points):
        return "euclidean_scans.nearest_euclidean_columns", "euclidean.few_group_sums", gradients
    sums = "euclidean.euclidean_group_sums" if isinstance(points, ColumnPoints) else "rows.distance_sums"
    return "blocks.nearest_in_rows", sums, gradients


def _has_few_features(points: Points) -> bool:
    return isinstance(points, ColumnPoints) and points.has_few_features


def _typed(names: list[str], points: Points) -> list[str]:
    """Return loops with the types of their arguments, each once."""
    single = points.dtype.itemsize == 4
    precision, integer = ("float32", "int32") if single else ("float64", "int64")
    return [
        f"{name}({_TYPES[name].replace('P', precision).replace('I', integer)},)"
        for name in dict.fromkeys(names)
    ]
