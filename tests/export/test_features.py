"""Maps of internal coordinates: dihedrals, angles, distances and contacts as PLUMED and Colvars compute them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lammps_engine import run_input

from ldmaps import LandmarkDiffusionMap
from ldmaps.export import check_export
from ldmaps.metrics import Features

#: Many of these maps change in transitions alone, which an export warns of; tests/export/test_hills.py has its test.
pytestmark = pytest.mark.filterwarnings("ignore:.*within one hill width:ldmaps.errors.LdmapsWarning")

KINDS = {
    "torsions": {"dihedrals": [[4, 6, 8, 14], [6, 8, 14, 16]]},
    "all": {
        "dihedrals": [[4, 6, 8, 14], [6, 8, 14, 16]],
        "angles": [[6, 8, 14]],
        "distances": [[4, 16], [1, 18]],
        "contacts": [[5, 17]],
    },
}
ATOMS = np.random.default_rng(2).permutation(40)[:22]


@pytest.fixture(scope="module", params=KINDS)
def model(request, frames):
    """Float32, as maps of trajectories are, and with landmarks that were moved."""
    metric = Features(22, **KINDS[request.param])
    model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=6, extension="distilled")
    model.fit(frames.astype(np.float32))
    model.units_ = "nm"
    return model


def test_plumed_finds_the_check(model, tmp_path):
    pytest.importorskip("jax", reason="the interpreter differentiates with JAX")
    from plumed_interpreter import Plumed, read_xyz, write_forces

    folder = model.export(tmp_path, "plumed", atoms=ATOMS)
    _, forces = Plumed(folder / "check.dat").drive(read_xyz(folder / "check.xyz"))
    write_forces(folder / "forces.xyz", forces)
    agreements = check_export([folder / "COLVAR", folder / "forces.xyz"])
    assert max(agreements.values()) < 1e-9
    assert "f2 = dihedral of atoms" in (folder / "README.md").read_text()


@pytest.fixture(scope="module")
def many(frames):
    """A map of 20 features of all kinds."""
    chains = [[a, a + 1, a + 2, a + 3] for a in range(0, 16, 2)]
    pairs = [[a, a + 5] for a in range(0, 16, 2)]
    metric = Features(22, dihedrals=chains, distances=pairs, contacts=pairs[::3], angles=[[6, 8, 14]])
    model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=4, extension="distilled")
    model.fit(frames)
    model.units_ = "nm"
    return model


def test_plumed_starts_quickly_with_many_features(many, tmp_path):
    """CUSTOM of K variables takes K³ time at the start, so it has few; all others are COMBINE's."""
    pytest.importorskip("jax", reason="the interpreter differentiates with JAX")
    from plumed_interpreter import Plumed, read_xyz, write_forces

    folder = many.export(tmp_path, "plumed", atoms=range(22))
    plumed = Plumed(folder / "check.dat")
    custom = [len(given["ARG"].split(",")) for _, name, given in plumed.actions if name == "CUSTOM"]
    assert max(custom) <= 6
    _, forces = plumed.drive(read_xyz(folder / "check.xyz"))
    write_forces(folder / "forces.xyz", forces)
    assert max(check_export([folder / "COLVAR", folder / "forces.xyz"]).values()) < 1e-9


def test_colvars_starts_quickly_with_many_features(many, tmp_path):
    """A function of K features takes K³ time at the start here, too: 40 of them took half a minute in one."""
    folder = many.export(tmp_path, "colvars", atoms=range(22), units="real")
    functions = re.findall(r"customFunction (.*)", (folder / "map.colvars").read_text())
    assert max(len(set(re.findall(r"\bf\d+\b", one))) for one in functions) == 3
    run_input(folder, "in.check")
    assert max(check_export([folder / "check.colvars.traj", folder / "forces.dump"]).values()) < 1e-9


@pytest.mark.parametrize("units", ["real", "lj"])
def test_colvars_finds_the_check(model, tmp_path, units):
    folder = model.export(tmp_path, "colvars", atoms=ATOMS, units=units)
    run_input(folder, "in.check")
    agreements = check_export([folder / "check.colvars.traj", folder / "forces.dump"])
    assert max(agreements.values()) < 1e-9


def test_the_check_is_about_the_map(model, tmp_path):
    """Its values are those of transform, and its frames are not all alike."""
    folder = model.export(tmp_path, "plumed", atoms=range(22))
    from plumed_interpreter import read_xyz

    expected = np.loadtxt(folder / "check.csv", delimiter=",", skiprows=1)[:, 1:]
    psi, gradient = model.transform_with_gradient(read_xyz(folder / "check.xyz"))
    assert np.allclose(psi, expected, atol=1e-4 * np.ptp(expected, axis=0).max())
    assert (np.ptp(expected, axis=0) > 0.1 * np.ptp(model.landmark_embedding_, axis=0)).all()
    forces = np.loadtxt(folder / "check_forces.csv", delimiter=",", skiprows=1)[:, 2:].reshape(
        gradient[:, 0].shape
    )
    assert np.allclose(forces, -gradient.sum(axis=1), atol=1e-3 * np.abs(forces).max())
