"""What Colvars in LAMMPS computes of an exported map, and metadynamics along one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from copy import copy

import numpy as np
import pytest
from export.conftest import fitted
from lammps_engine import program, run_input

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError
from ldmaps.export import check_export, export_map
from ldmaps.export.colvars import check_files
from ldmaps.export.definition import Columns, Definition, engine_units
from ldmaps.metrics import RMSD
from ldmaps.metrics.base import squared_matrix

#: Many of these maps change in transitions alone, which an export warns of; tests/export/test_hills.py has its test.
pytestmark = pytest.mark.filterwarnings("ignore:.*within one hill width:ldmaps.errors.LdmapsWarning")

#: nm per unit of length.
LENGTH = {"real": 0.1, "metal": 0.1, "lj": 0.1}


@pytest.fixture(scope="module", autouse=True)
def _lammps():
    program()


def read_rows(path):
    """Return the columns of what Colvars printed, by name."""
    lines = path.read_text().splitlines()
    rows = np.array([line.split() for line in lines if not line.startswith("#")], float)
    return dict(zip(lines[0].split()[1:], rows.T, strict=True))


def read_forces(path, n_atoms):
    rows = [
        line.split()[1:]
        for line in path.read_text().splitlines()
        if len(line.split()) == 4 and line[0].isdigit()
    ]
    return np.array(rows, float).reshape(-1, n_atoms, 3)


def run_frames(folder, definition, numbers, frames):
    """Let LAMMPS compute frames, in its unit of length, of the atoms with such numbers."""
    for name, text in check_files(definition, np.asarray(numbers), frames).items():
        (folder / name).write_text(text)
    run_input(folder, "in.check")
    return read_rows(folder / "check.colvars.traj"), read_forces(folder / "forces.dump", len(numbers))


def definition_of(model, units):
    """As much of a definition as a check needs: no atoms."""
    empty = Columns([], np.empty((0, 0)), np.empty(0), [], np.empty(0), [], [])
    return Definition(model, engine_units(units, "colvars"), empty, "")


@pytest.mark.parametrize(("kind", "units"), [("plain", "real"), ("weighted", "metal"), ("weighted", "lj")])
def test_coordinates_and_forces_of_real_frames(kind, units, frames, tmp_path, request):
    model = request.getfixturevalue(kind)
    atoms = np.random.default_rng(5).permutation(60)[:22]
    folder = export_map(model, tmp_path, "colvars", atoms=atoms, units=units)
    some = frames[::50]
    found, forces = run_frames(folder, definition_of(model, units), atoms + 1, some / LENGTH[units])
    psi, gradient = model.transform_with_gradient(some)
    for column, name in enumerate(["psi2", "psi3"]):
        assert np.abs(found[name] - psi[:, column]).max() < 1e-9 * np.ptp(psi[:, column])
    expected = -gradient.sum(axis=1)[:, np.argsort(atoms)] * LENGTH[units]
    assert np.abs(forces - expected).max() < 1e-9 * np.abs(expected).max()


def test_a_map_of_torsions(periodic, angles, frames, tmp_path):
    """Colvars counts in degrees, so the map is one of degrees."""
    from ldmaps.metrics import Periodic

    degrees = np.degrees(angles)
    model = LandmarkDiffusionMap(
        2, "connected", metric=Periodic(360.0), n_landmarks=6, extension="distilled"
    ).fit(degrees)
    text = "".join(
        f"dihedral {{\n  name {name}\n"
        + "".join(f"  group{i} {{ atomNumbers {atom} }}\n" for i, atom in enumerate(atoms, 1))
        + "}\n"
        for name, atoms in (("phi", (5, 7, 9, 15)), ("psi", (7, 9, 15, 17)))
    )
    folder = export_map(model, tmp_path, "colvars", units="real", names=["phi", "psi"], define_columns=text)
    some = np.unique([*range(0, len(frames), 30), *np.argsort(angles, axis=0)[[0, -1]].ravel()])
    found, forces = run_frames(folder, definition_of(model, "real"), np.arange(1, 23), frames[some] / 0.1)
    psi = model.transform(degrees[some])
    for column, name in enumerate(["psi2", "psi3"]):
        assert np.abs(found[name] - psi[:, column]).max() < 1e-5 * np.ptp(
            psi[:, column]
        )  # mdtraj's angles are float32
    # Forces by differences: along the force the energy falls by |f|² per unit.
    step = 1e-6 * forces / np.linalg.norm(forces, axis=(1, 2), keepdims=True)
    moved = [
        run_frames(folder, definition_of(model, "real"), np.arange(1, 23), frames[some] / 0.1 + s)[0]
        for s in (step, -step)
    ]
    fall = sum(moved[1][name] - moved[0][name] for name in ("psi2", "psi3")) / 2e-6
    assert np.allclose(fall, np.linalg.norm(forces, axis=(1, 2)), rtol=1e-5)


def test_columns_of_a_run_are_printed_for_the_check(angles, frames, tmp_path):
    from ldmaps.metrics import Periodic

    model = LandmarkDiffusionMap(2, "connected", metric=Periodic(360.0), n_landmarks=6, extension="distilled")
    model.fit(np.degrees(angles))
    text = "".join(
        f"dihedral {{\n  name {name}\n"
        + "".join(f"  group{i} {{ atomNumbers {atom} }}\n" for i, atom in enumerate(atoms, 1))
        + "}\n"
        for name, atoms in (("p", (5, 7, 9, 15)), ("q", (7, 9, 15, 17)))
    )
    folder = export_map(model, tmp_path, "colvars", units="real", names=["p", "q"], define_columns=text)
    line = re.search(r"`(fix_modify map configfile .*)`", (folder / "README.md").read_text())[1]
    for name, content in check_files(
        definition_of(model, "real"), np.arange(1, 23), frames[::50] / 0.1
    ).items():
        (folder / name).write_text(content)
    command = (folder / "in.check").read_text()
    (folder / "in.check").write_text(command.replace("dump forces", f"{line}\ndump forces"))
    run_input(folder, "in.check")
    agreements = check_export([folder / "check.colvars.traj"], model=model, names=["p", "q"])
    assert max(agreements.values()) < 1e-9


@pytest.mark.parametrize("kind", ["plain", "weighted"])
def test_the_wall_begins_at_the_domain(kind, frames, tmp_path, request):
    model = request.getfixturevalue(kind)
    folder = export_map(model, tmp_path, "colvars", atoms=range(22), units="real")
    (folder / "run.colvars").rename(folder / "map.colvars")
    far = np.concatenate([frames[::100], 2 * frames[:1]])
    found, _ = run_frames(folder, definition_of(model, "real"), np.arange(1, 23), 10 * far)
    squared = squared_matrix(model.metric_, model.embedder_.prepare(far), model.embedder_.landmarks)
    h = model.embedder_.bandwidth
    low = squared.min(axis=1, keepdims=True)
    away = low[:, 0] - 2 * h * np.log(np.exp((low - squared) / (2 * h)).sum(axis=1))
    assert np.allclose(found["away"], 100 * away, rtol=1e-9, atol=1e-9)
    wall = float(re.search(r"upperWalls (\S+)", (folder / "map.colvars").read_text()).group(1))
    inside = model.coverage(far).inside
    assert found["away"][inside].max() < wall < found["away"][-1]
    # A frame 10 % beyond the reach, 21 % in d², costs 4 kT.
    beyond = np.maximum(found["away"] / wall - 1, 0)
    np.testing.assert_allclose(found["E_wall"], 4 * 0.596161 * (beyond / 0.21) ** 2, rtol=1e-4)


def test_the_check_of_a_folder(weighted, tmp_path):
    folder = export_map(weighted, tmp_path, "colvars", atoms=np.arange(22)[::-1], units="real")
    run_input(folder, "in.check")
    agreements = check_export([folder / "check.colvars.traj", folder / "forces.dump"])
    assert list(agreements) == ["psi2", "psi3", "forces"]
    assert max(agreements.values()) < 1e-9


def test_the_free_energy_is_that_of_the_runs_temperature(plain, tmp_path):
    """F = −V·T/(T − T/8) of well-tempered metadynamics, with README's own line; Colvars takes 0 K if not told."""
    folder = export_map(plain, tmp_path, "colvars", atoms=range(22), units="real")
    text = (folder / "run.colvars").read_text()
    (folder / "run.colvars").write_text(text.replace("newHillFrequency 500", "newHillFrequency 20"))
    line = re.search(r"`(fix map all colvars .*)`", (folder / "README.md").read_text())[1]
    (folder / "in.run").write_text(
        "units real\natom_style atomic\natom_modify map yes\nread_data check.data\npair_style zero 10.0\n"
        "pair_coeff * *\nmass * 12.0\ntimestep 1.0\nfix tether all spring/self 20.0\nfix move all nve\n"
        f"fix bath all langevin 300 300 100 7\n{line}\nrun 200\n"
    )
    run_input(folder, "in.run")
    state = (folder / "run.colvars.state").read_text()
    block = re.search(r"hills_energy\n.*?\}\n(.*?)\n *hills_energy_gradients", state, re.DOTALL)[1]
    bias, free = np.array(block.split(), float), np.loadtxt(folder / "run.pmf")[:, 1]
    assert np.ptp(bias) > 0.1
    assert np.allclose(free, 8 / 7 * (bias.max() - bias), atol=1e-6)


def test_frames_of_a_run_are_compared_as_readme_says(plain, molecule, tmp_path):
    """README's lines for LAMMPS, and a system whose first two atoms the export has the wrong way round."""
    pytest.importorskip("mdtraj", reason="mdtraj reads the topology")
    from written_trajectories import mdtraj_trajectory

    top = tmp_path / "system.pdb"
    mdtraj_trajectory(500)[0].save(str(top))
    model = copy(plain)
    names = [str(name) for name in molecule.atom_names]
    labels = [
        f"{residue}{number}-{name}"
        for residue, number, name in zip(molecule.residue_names, molecule.residue_numbers, names, strict=True)
    ]
    model.source_ = {"kind": "frames", "n_atoms": 22, "atom_names": names, "atom_labels": labels}
    for name, atoms in (("right", range(22)), ("wrong", [4, 1, 2, 3, 0, *range(5, 22)])):
        folder = export_map(model, tmp_path / name, "colvars", atoms=atoms, units="real")
        lines = re.findall(
            r"`(fix_modify map config .*?|dump .*?|dump_modify.*?)`", (folder / "README.md").read_text()
        )
        text = "\n".join(lines).replace("100", "10").replace("\n`", "")
        start = export_map(model, tmp_path / "start", "colvars", atoms=range(22), units="real") / "check.data"
        (folder / "check.data").write_text(start.read_text())
        (folder / "in.run").write_text(
            "units real\natom_style atomic\natom_modify map yes\nread_data check.data\npair_style zero 10.0\n"
            "pair_coeff * *\nmass * 12.0\ntimestep 1.0\nfix tether all spring/self 20.0\nfix move all nve\n"
            "velocity all create 300 4711\nfix bath all langevin 300 300 100 7\n"
            f"fix map all colvars run.colvars output run tstat bath\n{text}\nrun 100\n"
        )
        run_input(folder, "in.run")
    settings = {"model": model, "top": str(top)}
    files = [tmp_path / "right" / "run.colvars.traj"]
    agreements = check_export(files, traj=str(tmp_path / "right" / "run.dcd"), **settings)
    assert max(agreements.values()) < 1e-4
    files = [tmp_path / "wrong" / "run.colvars.traj"]
    with pytest.raises(InvalidInputError, match="numbers its atoms differently"):
        check_export(files, traj=str(tmp_path / "wrong" / "run.dcd"), **settings)


def check_round_trip(model, folder):
    """What Colvars printed in a biased run is what ``ldmaps embed`` makes of its trajectory."""
    model.save(folder / "map.ldm")
    np.save(folder / "frames.npy", 0.1 * read_forces(folder / "whole.dump", 22))
    command = [sys.executable, "-m", "ldmaps", "embed", "map.ldm", "frames.npy", "-o", "psi.csv"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=300)
    embedded = np.genfromtxt(folder / "psi.csv", delimiter=",", names=True)
    printed = read_rows(folder / "whole.colvars.traj")
    assert len(embedded) == len(printed["psi2"]) == 41
    for name in ("psi2", "psi3"):
        assert np.abs(embedded[name] - printed[name]).max() < 1e-7 * np.ptp(printed[name])


def test_metadynamics_goes_on_from_a_restart_as_if_nothing_had_happened(frames, tmp_path):
    """Colvars stores the ends of its grid in six digits, so the export gives them no more."""
    model = fitted(RMSD(), frames, n_landmarks=4)
    folder = export_map(model, tmp_path, "colvars", atoms=range(22), units="real")
    text = (folder / "run.colvars").read_text()
    (folder / "run.colvars").write_text(text.replace("newHillFrequency 500", "newHillFrequency 20"))
    biased = """\
fix tether all spring/self 20.0
fix move all nve
fix map all colvars run.colvars output {name}
fix_modify map config "colvarsTrajFrequency 10"
dump frames all custom 10 {name}.dump id xu yu zu
dump_modify frames sort id format float %.15g
run {steps}
"""
    system = "pair_style zero 10.0\npair_coeff * *\n"
    begin = "units real\natom_style atomic\natom_modify map yes\nread_data check.data\n" + system
    begin += "mass * 12.0\nvelocity all create 300 4711\ntimestep 1.0\n"
    (folder / "in.whole").write_text(begin + biased.format(name="whole", steps=400))
    (folder / "in.first").write_text(
        begin + biased.format(name="first", steps=200) + "write_restart half.restart\n"
    )
    (folder / "in.second").write_text(
        "read_restart half.restart\n" + system + biased.format(name="second", steps=200)
    )
    for name in ("in.whole", "in.first", "in.second"):
        run_input(folder, name)
    check_round_trip(model, folder)
    whole, second = (read_rows(folder / f"{name}.colvars.traj") for name in ("whole", "second"))
    assert np.ptp(whole["psi2"]) > 0
    # The state is text of as many digits.
    for name, values in second.items():
        assert np.allclose(
            values, whole[name][-len(values) :], rtol=1e-9, atol=1e-10 * np.ptp(whole[name])
        ), name
    grids = [np.loadtxt(folder / f"{name}.pmf") for name in ("whole", "second")]
    assert np.abs(grids[0] - grids[1]).max() < 1e-10 * np.ptp(grids[0][:, 1])
    assert np.ptp(grids[0][:, 1]) > 0.1  # kcal/mol: hills are there


def test_what_colvars_cannot_compute_is_refused(aligned, frames, tmp_path):
    with pytest.raises(
        InvalidInputError, match="Colvars, whose superposition has no weights; use to=.plumed"
    ):
        export_map(aligned, tmp_path, "colvars", atoms=range(22), units="real")
    many = LandmarkDiffusionMap(2, metric=RMSD(), n_landmarks=31, extension="distilled").fit(frames)
    many.units_ = "nm"
    with pytest.raises(InvalidInputError, match="31 landmarks, and Colvars needs minutes.*tolerance"):
        export_map(many, tmp_path, "colvars", atoms=range(22), units="real")
    with pytest.raises(InvalidInputError, match="needs the units of the engine, got None.*units=.real"):
        export_map(many, tmp_path, "colvars", atoms=range(22))
    line = np.concatenate([frames[:1] * scale for scale in np.linspace(1, 1.5, 200)])
    narrow = LandmarkDiffusionMap(2, 1e-5, metric=RMSD(), n_landmarks=30).fit(line)
    narrow.units_ = "nm"
    with pytest.raises(
        InvalidInputError, match="too narrow for the number range of Colvars: weights span exp"
    ):
        export_map(narrow, tmp_path, "colvars", atoms=range(22), units="real")
