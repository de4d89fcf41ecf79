"""Frames that an engine wrote, embedded by the map, and the rows that the engine printed for the same moments."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.export.definition import engine_atoms, map_unit_in_nm
from ldmaps.inputs import open_files

#: Frames whose gradients are in memory at once.
BATCH = 256
#: Steps, in nm, that files round coordinates to: XTC and GRO, PDB.
ROUNDED_TO = (1e-3, 1e-4)
#: Share of coordinates that must lie on such a grid: molecules that were made whole are shifted off it.
ON_GRID = 0.4


class EmbeddedRun(NamedTuple):
    """Frames of a run as the map sees them."""

    times: NDArray[np.float64] | None  # (n,), ps
    coordinates: NDArray[np.float64]  # (n, k)
    rounding: NDArray[np.float64]  # (n, k), standard errors that the file's rounding of positions leaves
    inside: NDArray[np.bool_]  # (n,)


def embedded_run(model: Any, traj: Any, top: Any, select: str | None, periodic: str) -> EmbeddedRun:
    """Embed the frames of a trajectory that an engine wrote; its atoms are found as an export finds them."""
    first = traj if isinstance(traj, (str, os.PathLike)) else next(iter(traj))
    indices = engine_atoms(model, os.fspath(first) if top is None else top, select, None).numbers - 1
    chosen = f"index {' '.join(map(str, np.sort(indices)))}"
    source = open_files(traj, top, select=chosen, periodic=periodic)
    order, unit = np.searchsorted(np.sort(indices), indices), map_unit_in_nm(model)
    times, coordinates, rounding, inside = [], [], [], []
    for chunk in source:
        step = _rounded_to(chunk.frames)
        times.append(chunk.times)
        for begin in range(0, len(chunk), BATCH):
            frames = chunk.frames[begin : begin + BATCH, order].astype(np.float64) / unit
            psi, gradient = model.transform_with_gradient(frames)
            coordinates.append(psi.astype(np.float64))
            # Errors of rounding are uniform within ± half a step.
            rounding.append(np.sqrt((gradient**2).sum(axis=(2, 3)) / 12) * step / unit)
            inside.append(model.coverage(frames).inside)
    known = [part for part in times if part is not None]
    return EmbeddedRun(
        np.concatenate(known) if known and len(known) == len(times) else None,
        np.concatenate(coordinates),
        np.concatenate(rounding),
        np.concatenate(inside),
    )


def common_rows(
    printed: NDArray[np.float64] | None, n_printed: int, run: EmbeddedRun, path: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows that an engine printed at the times of frames, and those frames; or raise where there are none.

    Without times on one side, rows and frames belong together in their order if there are as many.
    """
    n_frames = len(run.coordinates)
    if printed is not None and run.times is not None:
        spacing = np.diff(np.unique(printed)).min(initial=np.inf)
        tolerance = 0.01 * spacing if np.isfinite(spacing) else 1e-3
        order = np.argsort(printed, kind="stable")
        after = np.searchsorted(printed[order], run.times - tolerance)
        rows = order[np.minimum(after, n_printed - 1)]
        # XTC keeps times in float32.
        same = np.abs(printed[rows] - run.times) <= tolerance + 2e-7 * np.abs(run.times)
        if same.any():
            return rows[same].astype(np.intp), np.flatnonzero(same)
    if n_printed == n_frames:
        return np.arange(n_printed), np.arange(n_frames)
    raise InvalidInputError(
        f"{path} has {n_printed} rows and the trajectory {n_frames} frames, and no time is in both; have the engine "
        "print as often as it writes frames, and give both files of one run"
    )


def _rounded_to(frames: NDArray[Any]) -> float:
    """Return the step, in nm, that coordinates were rounded to."""
    values = frames.ravel().astype(np.float64)
    for step in ROUNDED_TO:
        steps = values / step
        if (np.abs(steps - np.rint(steps)) < 0.02).mean() > ON_GRID:
            return step
    return float(np.finfo(np.float32).eps * np.abs(values).max(initial=0.0))
