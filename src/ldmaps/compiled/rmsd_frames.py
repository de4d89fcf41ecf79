"""Frames, centred, weighed, turned and scaled into panels.

Frames are stored centred, times sqrt(w_i/Σw), turned to their own principal
axes, and divided by their norm s. So d² needs no division, nothing overflows
whatever the unit of length, errors are relative to s_a s_b, and the entries of
M = Σ_k a_k b_kᵀ are graded, |M_ij| ≤ σ_i(a) σ_j(b) with σ the semi-axes of a frame,
which keeps the *relative* accuracy of small cofactors and determinants.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldmaps.compiled.frame_vectors import TOGETHER, pack_frames
from ldmaps.compiled.jit import compiled
from ldmaps.compiled.layout import MOMENTS, SQUARED_NORM

__all__ = ["prepare_frames", "take_frames"]


@compiled(error_model="numpy")
def prepare_frames(frames: Any, kept: Any, root_weights: Any, panels: Any, moments: Any) -> bool:
    """Centre, weigh, turn and scale ``frames`` (n, atoms, 3) into ``panels`` and ``moments``.

    Returns whether four times each squared norm, which no d² exceeds, is finite.

    All in float64: only the finished coordinates are rounded to the panels' dtype,
    so an offset of any size costs no accuracy that the input still had. Frames go
    through in lanes, each by the same instructions, so a frame's result does not
    depend on its neighbours.
    """
    n_frames = frames.shape[0]
    n_panels, depth, width = panels.shape
    lanes = np.empty((depth, TOGETHER))
    own = np.empty((MOMENTS, TOGETHER), panels.dtype)
    four = panels.dtype.type(4.0)  # in the panels' precision, where d² must fit
    finite = True
    for first in range(0, n_frames, TOGETHER):
        pack_frames(frames, first, kept, root_weights, lanes, panels, own)
        for lane in range(min(TOGETHER, n_frames - first)):
            for row in range(MOMENTS):
                moments[row, first + lane] = own[row, lane]
            finite = finite and math.isfinite(four * own[SQUARED_NORM, lane])
    if n_frames % width:
        for row in range(depth):
            for lane in range(n_frames % width, width):
                panels[n_panels - 1, row, lane] = 0.0
    return finite


@compiled
def take_frames(panels: Any, indices: Any, out: Any) -> None:
    """Write the frames at ``indices`` of ``panels`` to the panels ``out``, in that order."""
    depth, lanes = panels.shape[1], panels.shape[2]
    for place in range(indices.size):
        source, lane = panels[indices[place] // lanes], indices[place] % lanes
        target, own = out[place // lanes], place % lanes
        for k in range(depth):
            target[k, own] = source[k, lane]
