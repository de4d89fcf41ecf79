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

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.layout import AREA, SCALE, SQUARED_NORM

__all__ = ["ATOM_BLOCK", "prepare_frames", "take_frames"]

#: Atoms summed in registers before partial sums are added up: bounds rounding and cache footprint.
ATOM_BLOCK = 64
#: Frames that are prepared together, one to a lane; a literal, so that the loops over lanes become vector code.
TOGETHER = 8
#: Sweeps of Jacobi's method that make a frame's covariance diagonal to rounding.
JACOBI_SWEEPS = 4


@compiled(error_model="numpy")
def _rotate(pp: Any, qq: Any, pq: Any, pr: Any, qr: Any, axis_p: Any, axis_q: Any) -> None:
    """One Jacobi rotation in every lane: clears the entry pq of the covariance and turns the axes along."""
    for lane in range(TOGETHER):
        x = pq[lane]
        difference = qq[lane] - pp[lane]
        root = math.sqrt(difference * difference + 4.0 * x * x)
        below = difference + root if difference >= 0.0 else difference - root
        t = 2.0 * x / below if below != 0.0 else 0.0
        c = 1.0 / math.sqrt(t * t + 1.0)
        s = t * c
        pp[lane] -= t * x
        qq[lane] += t * x
        pq[lane] = 0.0
        u, v = pr[lane], qr[lane]
        pr[lane] = c * u - s * v
        qr[lane] = s * u + c * v
        u, v = axis_p[0, lane], axis_q[0, lane]
        axis_p[0, lane], axis_q[0, lane] = c * u - s * v, s * u + c * v
        u, v = axis_p[1, lane], axis_q[1, lane]
        axis_p[1, lane], axis_q[1, lane] = c * u - s * v, s * u + c * v
        u, v = axis_p[2, lane], axis_q[2, lane]
        axis_p[2, lane], axis_q[2, lane] = c * u - s * v, s * u + c * v


@compiled(error_model="numpy")
def _order(moment_p: Any, moment_q: Any, axis_p: Any, axis_q: Any) -> None:
    """Exchange two axes in every lane where the second has the larger moment; a sign keeps them right-handed."""
    for lane in range(TOGETHER):
        u, v = moment_p[lane], moment_q[lane]
        swap = v > u
        moment_p[lane] = v if swap else u
        moment_q[lane] = u if swap else v
        for row in range(3):
            u, v = axis_p[row, lane], axis_q[row, lane]
            axis_p[row, lane] = v if swap else u
            axis_q[row, lane] = -u if swap else v


@compiled(error_model="numpy")
def prepare_frames(frames: Any, kept: Any, root_weights: Any, panels: Any, moments: Any) -> bool:
    """Centre, weigh, turn and scale ``frames`` (n, atoms, 3) into ``panels`` and ``moments``.

    Returns whether four times each squared norm, which no d² exceeds, is finite.

    All in float64: only the finished coordinates are rounded to the panels' dtype,
    so an offset of any size costs no accuracy that the input still had. Frames go
    through in lanes, each by the same instructions, so a frame's result does not
    depend on its neighbours.
    """
    n_frames, n_kept, lanes = frames.shape[0], kept.shape[0], panels.shape[2]
    real = panels.dtype.type
    x, y, z = np.empty((n_kept, TOGETHER)), np.empty((n_kept, TOGETHER)), np.empty((n_kept, TOGETHER))
    centre = np.empty((3, TOGETHER))
    diagonal, off = np.empty((3, TOGETHER)), np.empty((3, TOGETHER))
    axes = np.empty((3, 3, TOGETHER))
    scale, inverse = np.empty(TOGETHER), np.empty(TOGETHER)
    part, total = np.empty((3, TOGETHER)), np.empty((3, TOGETHER))
    rounded = np.empty((3, TOGETHER), panels.dtype)
    finite = True
    for first in range(0, n_frames, TOGETHER):
        # Lanes beyond the last frame repeat it and are not kept.
        for lane in range(TOGETHER):
            frame = frames[min(first + lane, n_frames - 1)]
            # Relative to the first atom, because differences of nearby numbers are exact.
            ox, oy, oz = (
                np.float64(frame[kept[0], 0]),
                np.float64(frame[kept[0], 1]),
                np.float64(frame[kept[0], 2]),
            )
            for k in range(n_kept):
                atom = kept[k]
                x[k, lane] = np.float64(frame[atom, 0]) - ox
                y[k, lane] = np.float64(frame[atom, 1]) - oy
                z[k, lane] = np.float64(frame[atom, 2]) - oz
        centre[:] = 0.0
        for k in range(n_kept):
            weight = root_weights[k] * root_weights[k]
            for lane in range(TOGETHER):
                centre[0, lane] += weight * x[k, lane]
                centre[1, lane] += weight * y[k, lane]
                centre[2, lane] += weight * z[k, lane]
        diagonal[:] = 0.0
        off[:] = 0.0
        for k in range(n_kept):
            weight = root_weights[k]
            for lane in range(TOGETHER):
                u = weight * (x[k, lane] - centre[0, lane])
                v = weight * (y[k, lane] - centre[1, lane])
                w = weight * (z[k, lane] - centre[2, lane])
                x[k, lane], y[k, lane], z[k, lane] = u, v, w
                diagonal[0, lane] += u * u
                diagonal[1, lane] += v * v
                diagonal[2, lane] += w * w
                off[0, lane] += u * v
                off[1, lane] += u * w
                off[2, lane] += v * w
        for lane in range(TOGETHER):
            # Rounded before the division, so that s times the stored frame is the frame.
            size = np.float64(real(math.sqrt(diagonal[0, lane] + diagonal[1, lane] + diagonal[2, lane])))
            scale[lane] = size if size > 0.0 and size < np.inf else 1.0
            inverse[lane] = 1.0 / scale[lane]
            for c in range(3):
                diagonal[c, lane] *= inverse[lane] * inverse[lane]
                off[c, lane] *= inverse[lane] * inverse[lane]
        axes[:] = 0.0
        axes[0, 0], axes[1, 1], axes[2, 2] = 1.0, 1.0, 1.0
        for _ in range(JACOBI_SWEEPS):
            _rotate(diagonal[0], diagonal[1], off[0], off[1], off[2], axes[0], axes[1])
            _rotate(diagonal[0], diagonal[2], off[1], off[0], off[2], axes[0], axes[2])
            _rotate(diagonal[1], diagonal[2], off[2], off[0], off[1], axes[1], axes[2])
        _order(diagonal[0], diagonal[1], axes[0], axes[1])
        _order(diagonal[1], diagonal[2], axes[1], axes[2])
        _order(diagonal[0], diagonal[1], axes[0], axes[1])
        total[:] = 0.0
        part[:] = 0.0
        for k in range(n_kept):
            if k % ATOM_BLOCK == 0:  # partial sums, as for the products of pairs
                for lane in range(TOGETHER):
                    for c in range(3):
                        total[c, lane] += part[c, lane]
                        part[c, lane] = 0.0
            for lane in range(TOGETHER):
                u, v, w = x[k, lane] * inverse[lane], y[k, lane] * inverse[lane], z[k, lane] * inverse[lane]
                for c in range(3):
                    turned = real(u * axes[c, 0, lane] + v * axes[c, 1, lane] + w * axes[c, 2, lane])
                    rounded[c, lane] = turned
                    # Norms of the rounded coordinates, so that a frame lies at distance 0 from itself.
                    part[c, lane] += np.float64(turned) * np.float64(turned)
            for start in range(0, TOGETHER, lanes):
                panel = (first + start) // lanes
                if panel < panels.shape[0]:
                    for c in range(3):
                        # Not slice to slice, which would compile the text of an error.
                        for lane in range(lanes):
                            panels[panel, 3 * k + c, lane] = rounded[c, start + lane]
        for lane in range(min(TOGETHER, n_frames - first)):
            n = first + lane
            xx, yy, zz = (
                total[0, lane] + part[0, lane],
                total[1, lane] + part[1, lane],
                total[2, lane] + part[2, lane],
            )
            squared_norm = (xx + yy + zz) * scale[lane] * scale[lane]
            moments[SQUARED_NORM, n] = real(squared_norm)
            moments[SCALE, n] = real(scale[lane])
            moments[AREA, n] = real(math.sqrt(xx * yy + xx * zz + yy * zz))
            finite = finite and math.isfinite(real(4.0 * squared_norm))
    if n_frames % lanes:
        panels[-1, :, n_frames % lanes :] = 0
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
