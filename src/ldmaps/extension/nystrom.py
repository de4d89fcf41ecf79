"""The paper's landmark Nyström extension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import Spectrum

__all__ = ["nystrom_coefficients"]


def nystrom_coefficients(spectrum: Spectrum, time: float = 0.0) -> NDArray[np.float64]:
    """Return B with B_jl = λ_l^t ψ_l(j)/λ_l, of shape (M, k) (eqns nystrom, nystrom_block).

    Notes
    -----
    eqn nystrom_block prints 1/λ_j; the sum over j makes that impossible, and 1/λ_l
    is what makes the extension reproduce ψ_l at the landmarks.
    """
    return np.asarray(spectrum.vectors * spectrum.eigenvalues ** (time - 1.0))
