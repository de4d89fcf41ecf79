"""Trajectories nobody here made: adenylate kinase, from the MDAnalysisTests package."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import OutsideDomainWarning

pytest.importorskip("mdtraj", reason="mdtraj reads the trajectories")
datafiles = pytest.importorskip(
    "MDAnalysisTests.datafiles", reason="adenylate kinase comes with: pip install MDAnalysisTests"
)

CARBONS = {"select": "name CA"}
# The first transition was planned for 500 frames and ended when the target was reached, which its header does not know.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.ShortFileWarning")


@pytest.fixture(scope="module")
def model():
    path = ldmaps.inputs.open_files(datafiles.DCD, top=datafiles.PSF, **CARBONS)
    return LandmarkDiffusionMap(2, "connected", metric="rmsd", n_landmarks=50).fit(path)


def test_the_first_coordinate_follows_the_opening(model):
    """The file is a transition from closed to open: one coordinate, passed through in order."""
    first = model.embedding_[:, 0]
    order = np.argsort(np.argsort(-first * np.sign(first[0] - first[-1])))
    assert np.corrcoef(order, np.arange(len(first)))[0, 1] > 0.999
    assert model.source_["n_atoms"] == 214


def test_a_second_transition_starts_and_ends_where_the_first_does(model):
    with pytest.warns(OutsideDomainWarning, match="0.0 % of 102 frames are inside the map"):
        other = model.transform(ldmaps.inputs.open_files(datafiles.DCD2, top=datafiles.PSF, **CARBONS))
    span = np.ptp(model.embedding_[:, 0])
    assert abs(other[0, 0] - model.embedding_[0, 0]) < 0.01 * span
    assert abs(other[-1, 0] - model.embedding_[-1, 0]) < 0.01 * span


def test_a_solvated_simulation_is_made_whole_and_found_open(model):
    """Other force field, other program, other unit, 47,681 atoms, and cut apart by its box."""
    files = {"path_or_paths": datafiles.XTC, "top": datafiles.GRO, **CARBONS}
    whole = ldmaps.inputs.open_files(**files)
    with pytest.warns(OutsideDomainWarning, match="0.0 % of 10 frames are inside the map"):
        coordinates = model.transform(whole)
    span = np.ptp(model.embedding_[:, 0])
    assert np.abs(coordinates[:, 0] - model.embedding_[-1, 0]).max() < 0.01 * span
    assert model.coverage(whole).distance.max() < 6
    cut = ldmaps.inputs.open_files(**files, periodic="keep")
    assert model.coverage(cut).distance.min() > 20
    np.testing.assert_allclose(whole.read().times, 100.0 * np.arange(10), atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_mdanalysis_and_mdtraj_agree(model):
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mda.Universe(datafiles.PSF, datafiles.DCD)
        group = universe.select_atoms("name CA")
        np.testing.assert_allclose(model.transform(group), model.embedding_, atol=1e-5)
        assert ldmaps.inputs.as_source(group).n_frames == 98
