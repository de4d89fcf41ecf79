"""Functions on a map, slow modes and committors, as PLUMED and Colvars compute them."""

from __future__ import annotations

import numpy as np
import pytest
from export.conftest import fitted
from lammps_engine import run_input

from ldmaps.export import check_export
from ldmaps.metrics import Features

pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.LdmapsWarning")  # of fits to few frames
ATOMS = np.random.default_rng(4).permutation(40)[:22]


@pytest.fixture(scope="module", params=["slow1", "q"])
def function(request, plain, frames):
    """A slow mode on a map by RMSD, and a committor on one by torsions."""
    if request.param == "slow1":
        return plain.slow_modes(frames, lag=1, n_modes=1)
    model = fitted(Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]]), frames)
    psi = model.transform(frames)[:, 0]
    low, high = np.quantile(psi, [0.3, 0.8])
    return model.committor(frames, source=psi < low, target=psi > high, lag=1)


@pytest.mark.parametrize("function", ["q"], indirect=True)  # the interpreter compiles for seconds
def test_plumed_finds_the_check_and_biases_it_by_name(function, tmp_path):
    pytest.importorskip("jax", reason="the interpreter differentiates with JAX")
    from plumed_interpreter import Plumed, read_xyz, write_forces

    (name,) = function.coordinate_names_
    folder = function.export(tmp_path, "plumed", atoms=ATOMS)
    _, forces = Plumed(folder / "check.dat").drive(read_xyz(folder / "check.xyz"))
    write_forces(folder / "forces.xyz", forces)
    agreements = check_export([folder / "COLVAR", folder / "forces.xyz"])
    assert list(agreements) == [name, "forces"]
    assert max(agreements.values()) < 1e-9
    bias = next(given for _, action, given in Plumed(folder / "plumed.dat").actions if action == "METAD")
    assert bias["ARG"] == name
    assert float(bias["GRID_MIN"]) < function.embedder_.coefficients.min()


def test_colvars_finds_the_check_and_biases_it_by_name(function, tmp_path):
    (name,) = function.coordinate_names_
    folder = function.export(tmp_path, "colvars", atoms=ATOMS, units="real")
    run_input(folder, "in.check")
    agreements = check_export([folder / "check.colvars.traj", folder / "forces.dump"])
    assert list(agreements) == [name, "forces"]
    assert max(agreements.values()) < 1e-9
    assert f"  name metad\n  colvars {name}\n" in (folder / "run.colvars").read_text()
