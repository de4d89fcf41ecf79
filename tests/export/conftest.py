from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import RMSD, Periodic

MOLECULE = alanine_dipeptide(stride=50)
#: φ and ψ: C-N-CA-C and N-CA-C-N.
TORSIONS = (4, 6, 8, 14), (6, 8, 14, 16)


@pytest.fixture(scope="session")
def molecule():
    return MOLECULE


@pytest.fixture(scope="session")
def frames():
    """Real frames, in nm and float64."""
    return MOLECULE.frames.astype(np.float64)


def fitted(metric, points, n_landmarks=6):
    model = LandmarkDiffusionMap(
        2, "connected", metric=metric, n_landmarks=n_landmarks, extension="distilled"
    ).fit(points)
    model.units_ = "nm"
    return model


@pytest.fixture(scope="session")
def plain(frames):
    return fitted(RMSD(), frames)


@pytest.fixture(scope="session")
def weighted(frames):
    """By masses, and without one methyl's hydrogens."""
    weights = np.array(MOLECULE.masses, dtype=float)
    weights[1:4] = 0
    return fitted(RMSD(weights), frames)


@pytest.fixture(scope="session")
def aligned(frames):
    return fitted(RMSD(superpose_on=[4, 6, 8, 14]), frames[::2])


@pytest.fixture(scope="session")
def angles(frames):
    """φ and ψ in radians, of all frames."""
    mdtraj = pytest.importorskip("mdtraj", reason="mdtraj computes torsions")
    from written_trajectories import mdtraj_trajectory

    return mdtraj.compute_dihedrals(mdtraj_trajectory(50), TORSIONS).astype(np.float64)


@pytest.fixture(scope="session")
def periodic(angles):
    return fitted(Periodic(), angles)
