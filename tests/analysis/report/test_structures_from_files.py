"""Elements and bonds travel from a topology through the model file to the structures of the report."""

import json
import warnings

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps
import ldmaps.analysis
from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis.report.structures import landmark_structures
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import Features

MOLECULE = alanine_dipeptide(stride=250)


def pairs(bonds):
    return {tuple(sorted(pair)) for pair in np.asarray(bonds).tolist()}


def fitted(trajectory, **settings):
    source = ldmaps.inputs.open_files(trajectory, **settings)
    return LandmarkDiffusionMap(1, metric="rmsd", n_landmarks=30).fit(source)


@pytest.fixture(scope="module")
def trajectory():
    return mdtraj_trajectory()


def test_from_mdtraj_through_a_model_file(trajectory, tmp_path):
    fitted(trajectory).save(tmp_path / "map.ldm")
    model = ldmaps.load(tmp_path / "map.ldm")
    shown = landmark_structures(model, np.arange(30))
    assert shown.elements == tuple(MOLECULE.elements)
    assert pairs(shown.bonds) == pairs(MOLECULE.bonds)
    assert shown.note == "bonds of the topology"


def test_a_selection_keeps_the_bonds_between_its_atoms(trajectory):
    model = fitted(trajectory, select="not element H")
    heavy = MOLECULE.heavy_atoms.tolist()
    expected = {
        (heavy.index(a), heavy.index(b)) for a, b in pairs(MOLECULE.bonds) if a in heavy and b in heavy
    }
    assert pairs(model.source_["bonds"]) == expected
    shown = landmark_structures(model, np.arange(30))
    assert shown.elements == tuple(MOLECULE.elements[place] for place in heavy)
    assert pairs(shown.bonds) == expected


def test_a_bond_too_long_to_be_guessed_and_a_name_that_misleads(trajectory):
    stretched = trajectory[:]
    stretched.xyz[:, 10] += (stretched.xyz[:, 10] - stretched.xyz[:, 8]) * 0.8
    topology = stretched.topology
    topology.atom(10).name = "OX"
    model = fitted(stretched)
    shown = landmark_structures(model, np.arange(30))
    assert (8, 10) in pairs(shown.bonds)
    assert shown.elements[10] == "C"
    # Without what the topology told, as in files of older versions, both are guessed, and wrongly.
    model.source_ = {key: value for key, value in model.source_.items() if key not in ("elements", "bonds")}
    guessed = landmark_structures(model, np.arange(30))
    assert (8, 10) not in pairs(guessed.bonds)
    assert guessed.elements[10] == "O"
    assert "bonds guessed from distances" in guessed.note


def test_bonds_that_the_topology_lacks_are_guessed(trajectory):
    incomplete = mdtraj_trajectory()
    methyl = {0, 1, 2, 3}
    incomplete.topology._bonds = [
        bond for bond in incomplete.topology._bonds if not methyl & {bond[0].index, bond[1].index}
    ]
    shown = landmark_structures(fitted(incomplete), np.arange(30))
    assert pairs(shown.bonds) == pairs(MOLECULE.bonds)
    assert len(shown.bonds) == len(MOLECULE.bonds)
    assert "others guessed from distances" in shown.note
    none = mdtraj_trajectory()
    none.topology._bonds = []
    model = fitted(none)
    assert model.source_["bonds"] is None
    assert pairs(landmark_structures(model, np.arange(30)).bonds) == pairs(MOLECULE.bonds)


def test_atoms_of_no_known_element(trajectory):
    import mdtraj

    odd = mdtraj_trajectory()
    odd.topology.atom(5).element = mdtraj.element.virtual
    model = fitted(odd)
    assert model.source_["elements"][5] == ""
    assert landmark_structures(model, np.arange(30)).elements[5] == "O"  # by its name


def test_from_mdanalysis(trajectory, tmp_path):
    MDAnalysis = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    path = tmp_path / "all.pdb"
    trajectory.save_pdb(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(path))
        # A PDB lists only the bonds of residues that are not standard; the others are guessed.
        assert 0 < len(universe.bonds) < len(MOLECULE.bonds)
        shown = landmark_structures(fitted(universe.atoms), np.arange(30))
        assert pairs(shown.bonds) == pairs(MOLECULE.bonds)
        universe.delete_bonds(universe.bonds)
        universe.add_bonds(MOLECULE.bonds.tolist())
        model = fitted(universe.select_atoms("not name H*"))
    heavy = MOLECULE.heavy_atoms.tolist()
    assert model.source_["elements"] == [MOLECULE.elements[place] for place in heavy]
    assert pairs(model.source_["bonds"]) == {
        (heavy.index(a), heavy.index(b)) for a, b in pairs(MOLECULE.bonds) if a in heavy and b in heavy
    }
    bare = MDAnalysis.Universe.empty(5, trajectory=True)
    assert ldmaps.inputs.open_files(bare).atoms is None


def test_what_a_model_remembers_is_json(trajectory):
    model = fitted(trajectory)
    assert json.loads(json.dumps(model.source_)) == model.source_


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_map_of_internal_coordinates_that_knows_no_atoms_has_a_report(tmp_path, is_loaded):
    # Fitted in Python to an array: neither names nor elements of the atoms are known.
    metric = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]])
    model = LandmarkDiffusionMap(2, metric=metric, n_landmarks=30).fit(MOLECULE.frames)
    if is_loaded:
        model.save(tmp_path / "map.ldm")
        model = ldmaps.load(tmp_path / "map.ldm")
    shown = landmark_structures(model, np.arange(30))
    assert set(shown.elements) == {"X"}
    assert "elements unknown" in shown.note
    ldmaps.analysis.write_report(model, tmp_path / "map.html")
    assert (tmp_path / "map.html").stat().st_size > 10_000
