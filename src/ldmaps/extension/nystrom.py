"""The paper's landmark Nyström extension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.extension.base import Extension, Teacher
from ldmaps.extension.embedder import OnlineStep
from ldmaps.landmarks.base import Landmarks


class Nystrom(Extension):
    """h = ε, s from the landmarks' multiplicities, B = ψ/λ of the M×M eigenproblem (eqn nystrom_block)."""

    name = "nystrom"
    learns_from_reference = False

    def fit(
        self,
        teacher: Teacher,
        landmarks: Landmarks,
        usable: NDArray[np.intp],
        rng: np.random.Generator,
        *,
        may_move: bool = True,
    ) -> OnlineStep:
        """Take the numbers from the landmarks' eigenproblem; nothing is fitted and nothing drawn."""
        spectrum, walk = teacher.spectrum, teacher.walk
        return OnlineStep(
            coefficients=nystrom_coefficients(spectrum, walk.time),
            source_weights=spectrum.source_weights,
            bandwidth=walk.epsilon,
        )


def nystrom_coefficients(spectrum: Spectrum, time: float = 0.0) -> NDArray[np.float64]:
    """Return B with B_jl = λ_l^t ψ_l(j)/λ_l, of shape (M, k) (eqns nystrom, nystrom_block)."""
    return np.asarray(spectrum.vectors * spectrum.eigenvalues ** (time - 1.0))
