"""``transform`` warns of points that hardly lie on the map, as ``ldmaps embed`` does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import OutsideDomainWarning

ROLL = swiss_roll(800, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 4.0, n_landmarks=100).fit(ROLL)


def heard(model, X):
    """Return the warnings of a call, which must point at this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.transform(X)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught if one.category is OutsideDomainWarning]


@pytest.mark.parametrize("n_points", [10, 800, 4000])
def test_another_unit_is_one_warning(model, n_points):
    (text,) = heard(model, 16 * np.resize(ROLL, (n_points, 3)))
    assert f"of {n_points:,} points are inside the map, so their coordinates mean little; check that" in text


def test_the_likely_unit_is_named(model):
    (text,) = heard(model, 10 * ROLL)
    assert "multiplied by 0.1," in text


def test_a_trajectory_is_one_warning_with_the_reason():
    molecule = alanine_dipeptide(stride=50)
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=50).fit(molecule.frames)
    trajectory = mdtraj_trajectory(50)
    assert heard(model, trajectory) == []
    trajectory.xyz = trajectory.xyz[:, np.random.default_rng(0).permutation(trajectory.n_atoms)]
    (text,) = heard(model, trajectory)
    assert "frames are inside the map" in text
    assert "the atoms seem to be in another order" in text


@pytest.mark.parametrize(
    "X",
    [ROLL, 16 * ROLL[:9], np.concatenate([16 * ROLL, ROLL[:20]]), 16 * ROLL[:1]],
    ids=["inside", "a few", "some inside", "one"],
)
def test_other_points_are_embedded_without_a_word(model, X):
    assert heard(model, X) == []
    assert np.isfinite(model.transform(X)).all()
