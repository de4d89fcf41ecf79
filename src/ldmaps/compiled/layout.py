"""Sizes and layouts that loops are compiled for and that the code around them must know; loads no numba."""

from __future__ import annotations

__all__ = [
    "AREA",
    "BLOCK",
    "GRADIENT_BLOCK",
    "MOMENTS",
    "PANEL_BYTES",
    "SCALE",
    "SQUARED_NORM",
]

#: Landmarks that are measured, or skipped, together.
BLOCK = 64
#: Landmarks that are differentiated together; also the distance between rows of their block.
GRADIENT_BLOCK = 256
#: Bytes of one row of a panel of frames: a 256-bit register, which LLVM splits where registers are narrower.
PANEL_BYTES = 32
#: Rows of the moments of a frame: G = Σ|a|², its root s, and sqrt(Σ_{i<j} σ_i²σ_j²) after division by s.
SQUARED_NORM, SCALE, AREA, MOMENTS = 0, 1, 2, 3
