"""RMSDs over all atoms after the best superposition of some; float64 throughout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.layout import SQUARED_NORM
from ldmaps.compiled.rmsd_blocks import copy_rows, fill_sums
from ldmaps.compiled.rmsd_roots import load_matrix
from ldmaps.compiled.rmsd_vectors import ROUNDING, SLOTS
from ldmaps.compiled.superposition import best_rotation

__all__ = ["aligned_squared_block", "prepare_aligned_frames"]


@compiled(error_model="numpy")
def prepare_aligned_frames(
    frames: Any,
    kept: Any,
    root_weights: Any,
    fitted: Any,
    root_fit_weights: Any,
    panels: Any,
    fit_panels: Any,
    norms: Any,
    most: float,
) -> bool:
    """Centre ``frames`` on the fitted atoms; write all kept atoms and the fitted ones, weighed.

    Returns whether no squared norm is above ``most``.
    """
    lanes = panels.shape[2]
    within = True
    centre = np.empty(3, np.float64)
    for n in range(frames.shape[0]):
        panel, lane = n // lanes, n % lanes
        norms[n] = 0.0
        largest = 0.0
        for c in range(3):
            origin = np.float64(frames[n, fitted[0], c])
            centre[c] = 0.0
            for k in range(fitted.shape[0]):
                x = np.float64(frames[n, fitted[k], c]) - origin
                centre[c] += root_fit_weights[k] * root_fit_weights[k] * x
            for k in range(fitted.shape[0]):
                x = (np.float64(frames[n, fitted[k], c]) - origin) - centre[c]
                fit_panels[panel, 3 * k + c, lane] = root_fit_weights[k] * x
                largest = max(largest, abs(root_fit_weights[k] * x))
            for k in range(kept.shape[0]):
                x = (np.float64(frames[n, kept[k], c]) - origin) - centre[c]
                panels[panel, 3 * k + c, lane] = root_weights[k] * x
                norms[n] += (root_weights[k] * x) ** 2
        if not (largest > 0.0 and largest < np.inf):
            largest = 1.0
        for k in range(fit_panels.shape[1]):
            fit_panels[panel, k, lane] /= largest
        within = within and norms[n] <= most
    return within


@compiled
def aligned_squared_block(
    panels_a: Any,
    fit_panels_a: Any,
    moments_a: Any,
    row_start: int,
    row_stop: int,
    panels_b: Any,
    fit_panels_b: Any,
    moments_b: Any,
    col_start: int,
    col_stop: int,
    out: Any,
) -> None:
    """Write d² over all atoms after superposing the fitted ones; float64 whatever ``out`` is."""
    lanes = panels_b.shape[2]
    n_rows = row_stop - row_start
    real = out.dtype.type
    # Sums over all atoms and a rotation from a few of them: float64 is off by tens of roundings where atoms are many.
    rounding = ROUNDING * 1.1920929e-07 if out.itemsize == 4 else 256.0 * 2.220446049250313e-16
    work = np.empty((9, SLOTS * lanes), np.float64)
    fit = np.empty((9, SLOTS * lanes), np.float64)
    rows = np.empty((1, panels_b.shape[1]), np.float64)
    fit_rows = np.empty((1, fit_panels_b.shape[1]), np.float64)
    u = np.empty((3, 3), np.float64)
    v = np.empty((3, 3), np.float64)
    rotation = np.empty((3, 3), np.float64)
    first_panel = col_start // lanes
    last_panel = (col_stop + lanes - 1) // lanes
    for i in range(n_rows):
        copy_rows(panels_a, row_start + i, rows, 1)
        copy_rows(fit_panels_a, row_start + i, fit_rows, 1)
        for panel in range(first_panel, last_panel, SLOTS):
            width = min(SLOTS, last_panel - panel)
            fill_sums(rows, 1, panels_b, panel, width, work)
            fill_sums(fit_rows, 1, fit_panels_b, panel, width, fit)
            start = max(col_start, panel * lanes)
            for col in range(start, min(col_stop, (panel + width) * lanes)):
                at = col - panel * lanes
                load_matrix(fit, at, u)
                best_rotation(u, v, rotation)
                trace = 0.0
                for p in range(9):
                    trace += rotation[p // 3, p % 3] * work[p, at]
                norms = moments_a[SQUARED_NORM, row_start + i] + moments_b[SQUARED_NORM, col]
                squared = norms - 2.0 * trace
                # Rounding counts as 0, as in rmsd_vectors.write_distances.
                out[i, col - col_start] = real(squared if squared > rounding * norms else 0.0)
