"""The paper's extension: B = ψ/λ of the landmarks' own eigenproblem."""

import numpy as np
from extension.contract import ExtensionContract, a_walk, landmarks_of
from point_sets import sheet

from ldmaps.extension import Nystrom
from ldmaps.fit.solve import solve


class TestNystromContract(ExtensionContract):
    def make(self):
        return Nystrom()


def test_is_the_papers_formula():
    """Eqn nystrom_block, written out with loops over landmarks."""
    walk = a_walk(weights=np.random.default_rng(0).uniform(0.5, 2.0, 300))
    landmarks = landmarks_of(walk)
    solved = solve(walk, 3, landmarks)
    new, z = sheet(2, 1), sheet(300, 0)[landmarks.indices]
    expected = np.empty((2, 3))
    for i, x in enumerate(new):
        kernel = np.array([np.exp(-((x - y) ** 2).sum() / (2 * walk.epsilon)) for y in z])
        share = kernel * landmarks.multiplicities / (kernel * landmarks.multiplicities).sum()
        for mode in range(3):
            expected[i, mode] = (share @ solved.spectrum.vectors[:, mode]) / solved.spectrum.eigenvalues[mode]
    embedder = solved.embedder()
    np.testing.assert_allclose(embedder.extend(embedder.prepare(new)).coordinates, expected, rtol=1e-9)
