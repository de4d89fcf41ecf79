"""Compiled loops around the RMSD kernel: picking frames out of panels, and sums over groups of frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ldmaps.diffusion._kernels import distance_sums
from ldmaps.metrics._rmsd_kernels import squared_block

__all__ = ["group_distance_sums", "take_frames"]


@njit(cache=True, nogil=True)
def take_frames(panels: Any, chosen: Any, out: Any) -> None:
    """Write the chosen frames of ``panels`` to the panels ``out``, in that order."""
    depth, lanes = panels.shape[1], panels.shape[2]
    for place in range(chosen.size):
        source, lane = panels[chosen[place] // lanes], chosen[place] % lanes
        target, own = out[place // lanes], place % lanes
        for k in range(depth):
            target[k, own] = source[k, lane]


@njit(cache=True, nogil=True)
def group_distance_sums(panels: Any, moments: Any, bounds: Any, weights: Any, sums: Any) -> None:
    """Write Σ_j w_j d(x_i, x_j) within each group of consecutive frames; memory for the largest group's block."""
    scratch = np.empty(np.diff(bounds).max() ** 2, panels.dtype)
    for group in range(bounds.size - 1):
        first, last = bounds[group], bounds[group + 1]
        if last == first:
            continue
        n = last - first
        block = scratch[: n * n].reshape((n, n))
        squared_block(panels, moments, first, last, panels, moments, first, last, block)
        distance_sums(block, weights[first:last], sums[first:last])
