"""Blocks of squared RMSDs.

How one is made::

    frames of b, in panels of LANES          one row of a
    panel[p, 3k+c, lane]                     row[i, 3k+c]
              │                                   │
              └──────────► nine sums ◄────────────┘      M = Σ_k a_k b_kᵀ, nine vector registers
                              │
                   work[:9, SLOTS·LANES]                 one slot = one row against one panel
                              │
                  largest root λ of the quartic          every lane the same fixed steps
                              │
                 doubtful lanes ──► float64, then Jacobi (mirror-like pairs, a few in a thousand)
                              │
                   d² = G_a + G_b − 2 s_a s_b λ

:mod:`ldmaps.compiled.rmsd_frames` makes the panels, :mod:`ldmaps.compiled.rmsd_vectors`
the sums and roots, :mod:`ldmaps.compiled.rmsd_roots` the doubtful ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.frame_vectors import ATOM_BLOCK
from ldmaps.compiled.jit import compiled
from ldmaps.compiled.layout import AREA, SCALE, SQUARED_NORM
from ldmaps.compiled.rmsd_roots import careful_root
from ldmaps.compiled.rmsd_vectors import (
    GROUP,
    ROOT,
    SLOTS,
    WORK_ROWS,
    add_nine_sums,
    fill_bound,
    solve_group,
    store_nine_sums,
    write_distances,
)
from ldmaps.compiled.rows import distance_sums

__all__ = ["copy_rows", "fill_sums", "group_distance_sums", "squared_block"]


@compiled
def copy_rows(panels: Any, first: int, rows: Any, n_rows: int) -> None:
    """Write consecutive frames out of their panels, one to a row."""
    lanes = panels.shape[2]
    for i in range(n_rows):
        panel, lane = (first + i) // lanes, (first + i) % lanes
        for k in range(rows.shape[1]):
            rows[i, k] = panels[panel, k, lane]


@compiled
def fill_sums(rows: Any, n_rows: int, panels: Any, first_panel: int, n_panels: int, work: Any) -> None:
    """Write M of every row against every panel, slot by slot, atoms in blocks."""
    depth, lanes = panels.shape[1], panels.shape[2]
    n_atoms = depth // 3
    for start in range(0, n_atoms, ATOM_BLOCK):
        count = min(ATOM_BLOCK, n_atoms - start)
        slot = 0
        for p in range(first_panel, first_panel + n_panels):
            panel_at = (p * depth + 3 * start) * lanes
            for i in range(n_rows):
                if start == 0:
                    store_nine_sums(rows, i * depth, panels, panel_at, count, work, slot)
                else:
                    add_nine_sums(rows, i * depth + 3 * start, panels, panel_at, count, work, slot)
                slot += 1


@compiled
def squared_block(
    panels_a: Any,
    moments_a: Any,
    row_start: int,
    row_stop: int,
    panels_b: Any,
    moments_b: Any,
    col_start: int,
    col_stop: int,
    out: Any,
) -> None:
    """Write d² of the given rows of a and columns of b to ``out``; see the module's docstring."""
    depth, lanes = panels_b.shape[1], panels_b.shape[2]
    n_rows = row_stop - row_start
    n_cols = col_stop - col_start
    padded = moments_b.shape[1]
    epsilon = 1.1920929e-07 if panels_b.itemsize == 4 else 2.220446049250313e-16
    first_panel = col_start // lanes
    last_panel = (col_stop + lanes - 1) // lanes
    work = np.empty((WORK_ROWS, SLOTS * lanes), panels_b.dtype)
    rows = np.empty((min(n_rows, SLOTS), depth), panels_b.dtype)
    spill = np.empty(lanes, panels_b.dtype)
    u = np.empty((3, 3), np.float64)
    v = np.empty((3, 3), np.float64)
    for top in range(0, n_rows, SLOTS):
        height = min(SLOTS, n_rows - top)
        row = row_start + top
        copy_rows(panels_a, row, rows, height)
        panels_a_pass = SLOTS // height
        for panel in range(first_panel, last_panel, panels_a_pass):
            width = min(panels_a_pass, last_panel - panel)
            fill_sums(rows, height, panels_b, panel, width, work)
            slot = 0
            for p in range(panel, panel + width):
                for i in range(height):
                    fill_bound(work, slot, moments_a[AREA, row + i], moments_b, AREA * padded + p * lanes)
                    slot += 1
            used = slot
            for slot in range(0, used, GROUP):
                doubtful = solve_group(work, slot)
                if doubtful:
                    for lane in range(min(GROUP, used - slot) * lanes):
                        if (doubtful >> np.uint64(lane)) & np.uint64(1):
                            at = slot * lanes + lane
                            work[ROOT, at] = careful_root(work, at, epsilon, u, v)
            slot = 0
            for p in range(panel, panel + width):
                col = p * lanes - col_start
                whole = col >= 0 and col + lanes <= n_cols
                norm_at = SQUARED_NORM * padded + p * lanes
                scale_at = SCALE * padded + p * lanes
                for i in range(height):
                    norm, scale = moments_a[SQUARED_NORM, row + i], moments_a[SCALE, row + i]
                    if whole:
                        out_at = (top + i) * n_cols + col
                        write_distances(work, slot, norm, scale, moments_b, norm_at, scale_at, out, out_at)
                    else:
                        write_distances(work, slot, norm, scale, moments_b, norm_at, scale_at, spill, 0)
                        for lane in range(max(0, -col), min(lanes, n_cols - col)):
                            out[top + i, col + lane] = spill[lane]
                    slot += 1


@compiled
def group_distance_sums(panels: Any, moments: Any, bounds: Any, weights: Any, sums: Any) -> None:
    """Write Σ_j w_j d(x_i, x_j) within each group of consecutive frames; memory for one group's block."""
    for group in range(bounds.size - 1):
        first, last = bounds[group], bounds[group + 1]
        if last == first:
            continue
        block = np.empty((last - first, last - first), panels.dtype)
        squared_block(panels, moments, first, last, panels, moments, first, last, block)
        distance_sums(block, weights[first:last], sums[first:last])
