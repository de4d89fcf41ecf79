"""Extending a map to new points: one file a method, one online form.

Every extension ends as coefficients B (M×k) of the same online step, w(x)·B with
w_j(x) = A(x, z_j) s_j / Σ_m A(x, z_m) s_m: M distances and one M×k product.
"""

from ldmaps.extension.distilled import Distillation, distil, distil_landmarks
from ldmaps.extension.nystrom import nystrom_coefficients

__all__ = ["EXTENSIONS", "Distillation", "distil", "distil_landmarks", "nystrom_coefficients"]

#: What ``LandmarkDiffusionMap(extension=...)`` may be.
EXTENSIONS = ("distilled", "nystrom")
