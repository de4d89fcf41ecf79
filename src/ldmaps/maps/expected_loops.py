"""Which compiled loops a fit will call, so that a first fit can have them compiled side by side.

A wrong list costs a first fit some seconds and nothing else: a loop that is missing here is
compiled when it is called. ``tests/maps/test_expected_loops.py`` compares the lists with fits.
"""

from __future__ import annotations

from ldmaps.landmarks import KMedoids, LandmarkSelector
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.euclidean import Euclidean
from ldmaps.metrics.rmsd import RMSD
from ldmaps.metrics.rmsd_panels import RMSDPoints

__all__ = ["exact_fit_loops", "landmark_fit_loops"]

#: Types of each loop's arguments. P is the precision of the points.
_TYPES = {
    "gradient_features.vector_gradients": (
        "float64[:, ::1], float64[:, ::1], float64[::1], P[:, :, ::1], P[:, :, ::1]"
    ),
    "gradient_rmsd.rmsd_gradients": (
        "float64[:, :, ::1], int64[::1], float64[::1], P[:, ::1], P[::1], P[::1], P[:, ::1], P[:, :, ::1], "
        "P[:, :, :, ::1]"
    ),
    "rmsd_blocks.group_distance_sums": "P[:, :, ::1], P[:, ::1], int64[::1], float64[::1], float64[::1]",
    "rmsd_blocks.squared_block": (
        "P[:, :, ::1], P[:, ::1], int64, int64, P[:, :, ::1], P[:, ::1], int64, int64, P[:, ::1]"
    ),
    "rmsd_frames.take_frames": "P[:, :, ::1], int64[::1], P[:, :, ::1]",
}


def exact_fit_loops(metric: Metric, points: Points) -> list[str]:
    """Return what the fit of an exact map with a stored kernel will call.

    Parameters
    ----------
    metric : Metric
    points : Points
        The training points, prepared.
    """
    return _typed(["rmsd_blocks.squared_block"] if _is_plain_rmsd(metric, points) else [], points)


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
    if _is_plain_rmsd(metric, points):
        names = ["rmsd_blocks.squared_block", "rmsd_frames.take_frames"]
        if isinstance(selector, KMedoids):
            names.append("rmsd_blocks.group_distance_sums")
        return _typed([*names, "gradient_rmsd.rmsd_gradients"] if moves else names, points)
    return _typed(
        ["gradient_features.vector_gradients"] if moves and isinstance(metric, Euclidean) else [], points
    )


def _is_plain_rmsd(metric: Metric, points: Points) -> bool:
    return isinstance(metric, RMSD) and isinstance(points, RMSDPoints) and points.fit_panels is None


def _typed(names: list[str], points: Points) -> list[str]:
    """Return loops with the types of their arguments."""
    precision = "float32" if points.dtype.itemsize == 4 else "float64"
    return [f"{name}({_TYPES[name].replace('P', precision)},)" for name in names]
