"""How an eigenproblem was solved, and how far the result can be off; model files keep it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]


@dataclass(frozen=True)
class Solution:
    """How an eigenproblem was solved, and how far its coordinates can be from the exact map's.

    Attributes
    ----------
    solver : {"stored", "sparse", "streamed", "landmarks"}
        See :mod:`ldmaps.diffusion.solver_choice`; "landmarks" where the walk is over some of the points.
    n_passes : int
        Passes over all pairs; 0 unless streamed.
    error_bound : ndarray of shape (k,) or None
        Bound on the root mean square error of each coordinate against the exact map of all
        training points, in percent of the coordinate's range, the unit of Z. 0 where only
        rounding is left, None where nothing can be said.
    """

    solver: str
    n_passes: int = 0
    error_bound: NDArray[np.float64] | None = None

    def leading(self, n_components: int) -> Solution:
        """Return the same of the first coordinates alone; there is a bound only if all of them have one."""
        if self.error_bound is None:
            return self
        bound = self.error_bound[:n_components]
        return replace(self, error_bound=bound if np.isfinite(bound).all() else None)
