"""Atoms, units, files and refusals of an export, from Python and from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AtomOrderWarning, InvalidInputError, OutsideDomainWarning
from ldmaps.export import check_export, export_map
from ldmaps.export.definition import engine_atoms
from ldmaps.inputs import open_files

#: Many of these maps change in transitions alone, which an export warns of; tests/export/test_hills.py has its test.
pytestmark = pytest.mark.filterwarnings("ignore:.*within one hill width:ldmaps.errors.LdmapsWarning")


def command(*arguments, folder=None):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "ldmaps", "export", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=300,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A map of heavy atoms fitted by the command line, its topology, and a system with water around the molecule."""
    mdtraj = pytest.importorskip("mdtraj", reason="mdtraj reads the trajectories")
    from written_trajectories import mdtraj_trajectory

    folder = tmp_path_factory.mktemp("export")
    trajectory = mdtraj_trajectory(50)
    trajectory.save(str(folder / "traj.xtc"))
    trajectory[0].save(str(folder / "top.pdb"))
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=6, extension="distilled")
    model.fit(open_files(str(folder / "traj.xtc"), str(folder / "top.pdb"), select="not element H"))
    model.save(folder / "map.ldm")
    water = mdtraj.Topology()
    residue = water.add_residue("HOH", water.add_chain())
    for name, element in (("O", "O"), ("H1", "H"), ("H2", "H")):
        water.add_atom(name, mdtraj.element.get_by_symbol(element), residue)
    first = mdtraj.Trajectory(np.array([[[5.0, 5, 5], [5.1, 5, 5], [5, 5.1, 5]]]), water)
    first.stack(trajectory[0]).save(str(folder / "system.pdb"))
    return folder


def test_numbers_come_from_the_topology_of_the_fit(files, molecule):
    atoms = engine_atoms(load(files / "map.ldm"), None, None, None)
    assert atoms.numbers.tolist() == (np.asarray(molecule.heavy_atoms) + 1).tolist()
    assert atoms.labels[3] == "ALA2-N"


def test_numbers_come_from_the_engines_system(files, molecule):
    """With or without a selection: water's oxygen has another residue."""
    model = load(files / "map.ldm")
    for select in (None, "not element H", "not element H and not water"):
        atoms = engine_atoms(model, str(files / "system.pdb"), select, None)
        assert atoms.numbers.tolist() == (np.asarray(molecule.heavy_atoms) + 4).tolist()
        assert atoms.origin.endswith("matched by residue and name")


def renumbered(files, name, shift, residue="ALA", order=range(22)):
    """Write the system with other residue numbers, another name for alanine, and its atoms in another order."""
    lines = [line for line in (files / "system.pdb").read_text().splitlines() if line[:4] in ("ATOM", "HETA")]
    water, molecule = lines[:3], lines[3:]
    moved = [molecule[old].replace("ALA", residue) for old in order]
    moved = [f"{line[:22]}{int(line[22:26]) + shift:>4}{line[26:]}" for line in moved]
    (files / name).write_text("\n".join([*water, *moved, "END"]) + "\n")
    return str(files / name)


def test_residues_with_other_numbers_are_matched_by_name(files, molecule):
    """Neither the command nor Python has another way to match them, so the export does it, and says so."""
    model = load(files / "map.ldm")
    swapped = [0, 1, 2, 3, 5, 4, *range(6, 22)]  # C and O of the first residue
    top = renumbered(files, "shifted.pdb", 10, order=swapped)
    heavy = [{4: 5, 5: 4}.get(atom, atom) + 4 for atom in molecule.heavy_atoms]
    with pytest.warns(AtomOrderWarning, match="numbers its residues differently.*ACE1 of the map as ACE11"):
        atoms = engine_atoms(model, top, None, None)
    assert atoms.numbers.tolist() == heavy
    other = renumbered(files, "others.pdb", 10, "ALX", order=swapped)
    with pytest.raises(InvalidInputError, match="no ACE1-CH3.*choose the map's atoms, in its order, with"):
        engine_atoms(model, other, None, None)
    # Chosen atoms are as many as the map's, so that the first residue is the first, whatever it is called.
    atoms = engine_atoms(model, other, "not element H and not water", None)
    assert atoms.numbers.tolist() == heavy


def test_names_that_several_atoms_have_are_refused(files):
    mdtraj = pytest.importorskip("mdtraj")
    model, one = load(files / "map.ldm"), mdtraj.load(str(files / "top.pdb"))
    one.stack(one).save(str(files / "two.pdb"))
    two = mdtraj.load(str(files / "two.pdb")).topology
    with pytest.raises(
        InvalidInputError, match="ACE1-CH3 is atom 0 and atom 22, .*so matching by name is ambiguous"
    ):
        engine_atoms(model, two, None, None)
    assert engine_atoms(model, two, "chainid 1", None).numbers.min() == 23
    for residue in two.residues:
        residue.resSeq += 5 + 20 * residue.chain.index
    with pytest.raises(InvalidInputError, match="fit in several places: ACE1 of the map may be ACE6, ACE26"):
        engine_atoms(model, two, None, None)


def test_other_atoms_are_refused(files):
    model = load(files / "map.ldm")
    with pytest.raises(InvalidInputError, match="ACE1-.*, but .* in the frames the model was fitted on"):
        engine_atoms(model, str(files / "top.pdb"), "index 0 to 9", None)
    for atoms, why in (([0, 1], "2 atoms"), (np.zeros(10, int), "index twice"), ([-1, 2], "indices from 0")):
        with pytest.raises(InvalidInputError, match=why):
            engine_atoms(model, None, None, atoms)


def test_atoms_in_another_order_are_found_by_name(files):
    """The order of the map counts, whatever that of the engine is."""
    mdtraj = pytest.importorskip("mdtraj")
    system = mdtraj.load(str(files / "top.pdb"))
    swapped = [0, 1, 2, 3, 5, 4, *range(6, 22)]  # C and O of the first residue
    system.atom_slice(np.arange(22)).save(str(files / "plain.pdb"))
    lines = (files / "plain.pdb").read_text().splitlines()
    atoms = [line for line in lines if line.startswith("ATOM")]
    moved = [f"{atoms[old][:6]}{new + 1:>5}{atoms[old][11:]}" for new, old in enumerate(swapped)]
    (files / "swapped.pdb").write_text("\n".join(["MODEL 0", *moved, "ENDMDL", "END"]) + "\n")
    model = load(files / "map.ldm")
    straight = engine_atoms(model, str(files / "plain.pdb"), None, None).numbers
    found = engine_atoms(model, str(files / "swapped.pdb"), None, None).numbers
    assert found.tolist() == [{5: 6, 6: 5}.get(number, number) for number in straight]


@pytest.fixture(scope="module")
def run(files):
    """Frames of the whole system, as an engine writes them, with times; and the same in memory."""
    mdtraj = pytest.importorskip("mdtraj")
    from written_trajectories import mdtraj_trajectory

    trajectory = mdtraj_trajectory(500)
    system = mdtraj.load(str(files / "system.pdb"))
    frames = np.concatenate([np.tile(system.xyz[:, :3], (len(trajectory), 1, 1)), trajectory.xyz], axis=1)
    times = 2.0 * np.arange(len(frames))
    mdtraj.Trajectory(frames, system.topology, time=times).save(str(files / "run.xtc"))
    return times, frames.astype(np.float64)


def test_frames_of_the_engine_show_a_wrong_order_of_atoms(files, run, tmp_path):
    """The check in the folder is in the folder's own numbering, and agrees; a run of the engine does not."""
    pytest.importorskip("jax", reason="the interpreter differentiates with JAX")
    from plumed_interpreter import Plumed, read_xyz

    model, (times, frames) = load(files / "map.ldm"), run
    right = engine_atoms(model, str(files / "system.pdb"), None, None).numbers - 1
    wrong = right.copy()
    wrong[[1, 2]] = wrong[[2, 1]]  # C and O of the first residue
    settings = {"model": model, "traj": str(files / "run.xtc"), "top": str(files / "system.pdb")}
    for atoms in (right, wrong):
        folder = model.export(tmp_path / str(atoms[1]), "plumed", atoms=atoms)
        plumed = Plumed(folder / "check.dat")
        plumed.drive(read_xyz(folder / "check.xyz"))
        check_export([folder / "COLVAR"])
        # The engine prints twice as often as it writes frames, and stops before the last ones.
        twice, steps = np.repeat(frames, 2, axis=0), np.repeat(times, 2) + np.tile([0.0, 1.0], len(times))
        plumed.drive(twice[:-5], steps[:-5])
    agreements = check_export([tmp_path / str(right[1]) / "COLVAR"], **settings)
    assert list(agreements) == ["psi2", "psi3"]
    assert max(agreements.values()) < 0.02  # XTC keeps three decimals
    with pytest.raises(InvalidInputError, match="psi. is .* in row .*numbers its atoms differently"):
        check_export([tmp_path / str(wrong[1]) / "COLVAR"], **settings)


def test_a_run_without_common_times_is_compared_in_order_or_refused(files, run, tmp_path):
    model, (_, frames) = load(files / "map.ldm"), run
    atoms = engine_atoms(model, str(files / "system.pdb"), None, None).numbers - 1
    psi = model.transform(frames[:, atoms])
    settings = {"model": model, "traj": [files / "run.xtc"], "top": str(files / "system.pdb")}

    def printed(name, rows, at):
        path = tmp_path / name
        header = f"! FIELDS {at} psi2 psi3"
        np.savetxt(
            path, np.column_stack([np.arange(len(rows)), rows]), header=header, comments="#", fmt="%.12g"
        )
        return [path]

    assert max(check_export(printed("step", psi, "step"), **settings).values()) < 0.02
    with pytest.raises(InvalidInputError, match="rows and the trajectory .* frames, and no time is in both"):
        check_export(printed("short", psi[:-1], "step"), **settings)
    (tmp_path / "one").write_text("#! FIELDS time psi2\n0 1\n")
    with pytest.raises(InvalidInputError, match="has no column psi3"):
        check_export([tmp_path / "one"], **settings)
    with pytest.raises(
        InvalidInputError, match="only a map fitted on frames can be checked against a trajectory"
    ):
        check_export(printed("step", psi, "step"), traj="run.xtc")
    settings["top"] = renumbered(files, "reversed.pdb", 0, order=[*range(22)][::-1])
    mdtraj = pytest.importorskip("mdtraj")
    backwards = [0, 1, 2, *range(24, 2, -1)]
    trajectory = mdtraj.load(str(files / "run.xtc"), top=str(files / "system.pdb"))
    mdtraj.Trajectory(trajectory.xyz[:, backwards], mdtraj.load(settings["top"]).topology).save(
        str(files / "reversed.xtc")
    )
    right = settings | {"traj": files / "reversed.xtc"}
    assert max(check_export(printed("step", psi, "step"), **right).values()) < 0.02
    with (
        pytest.warns(OutsideDomainWarning, match="frames that were compared are in the map's domain"),
        pytest.raises(InvalidInputError, match="numbers its atoms differently"),
    ):
        check_export(printed("step", psi, "step"), **settings)


def test_a_map_that_does_not_know_its_atoms_asks_for_them(plain, tmp_path):
    with pytest.raises(InvalidInputError, match="does not record which atoms.*top=.*select=.*atoms="):
        plain.export(tmp_path, "plumed")


def test_a_map_without_a_unit_is_refused_but_in_its_own(frames, tmp_path):
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=5).fit(frames)
    with pytest.raises(InvalidInputError, match="unit of length is not known.*model.units_"):
        model.export(tmp_path, "plumed", atoms=range(22))
    assert (model.export(tmp_path, "plumed", atoms=range(22), units="lj") / "map.pdb").exists()
    with pytest.raises(
        InvalidInputError, match="an export to plumed needs the units of the engine, got 'real'"
    ):
        model.export(tmp_path, "plumed", atoms=range(22), units="real")


@pytest.mark.parametrize("metric", ["hamming", "earth_mover", "precomputed", lambda a, b: abs(a - b).sum()])
def test_what_has_no_gradient_cannot_be_exported(metric, tmp_path):
    points = np.abs(swiss_roll(60).points)
    if metric == "earth_mover":
        pytest.importorskip("ot", reason="POT computes earth mover's distances")
        points = points / points.sum(axis=1, keepdims=True)
    if metric == "hamming":
        points = points.round()
    if metric == "precomputed":
        points = np.linalg.norm(points[:, None] - points, axis=2)
    model = LandmarkDiffusionMap(1, 50.0, metric=metric, n_landmarks=20).fit(points)
    with pytest.raises(
        InvalidInputError, match="has no gradient, .* cannot be exported .*fit the map with RMSD"
    ):
        model.export(tmp_path, "plumed")
    assert list(tmp_path.iterdir()) == []


def test_columns_need_names_that_engines_take(periodic, tmp_path):
    with pytest.raises(
        InvalidInputError, match="2 columns, and the engine must know each by a name.*got none"
    ):
        periodic.export(tmp_path, "plumed")
    for names in (["a b", "c"], ["psi2", "c"], ["map_e1", "c"]):
        with pytest.raises(InvalidInputError, match=f"none of away, .*psi2.*; got {names[0]}, c"):
            periodic.export(tmp_path, "plumed", names=names)
    with pytest.raises(InvalidInputError, match="give the components .*define_columns"):
        periodic.export(tmp_path, "colvars", names=["a", "b"], units="real")
    with pytest.raises(InvalidInputError, match="on a table, which has no atoms"):
        periodic.export(tmp_path, "plumed", names=["a", "b"], atoms=[1, 2])


def test_frames_have_no_columns(plain, tmp_path):
    with pytest.raises(InvalidInputError, match="on frames, which have no columns"):
        plain.export(tmp_path, "plumed", atoms=range(22), names=["a"])
    with pytest.raises(InvalidInputError, match='must be "plumed", "colvars" or "torch", got .gromacs'):
        plain.export(tmp_path, "gromacs", atoms=range(22))
    with pytest.raises(InvalidInputError, match="only a fitted map"):
        export_map(LandmarkDiffusionMap(), tmp_path, "plumed")


@pytest.mark.slow
def test_the_command_writes_a_folder_and_checks_it(files, tmp_path):
    folder = tmp_path / "out"
    done = command(
        files / "map.ldm", "--to", "plumed", "-o", folder, "-t", files / "system.pdb", "--select",
        "not element H and not water", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["files"]) == {path.name for path in folder.iterdir()}
    text = (folder / "README.md").read_text()
    assert "4 ACE1-CH3" in text
    assert "system.pdb, selected by 'not element H and not water'" in text
    for name in json.loads(done.stdout)["files"]:
        assert name == "README.md" or f"`{name}`" in text
    again = command(files / "map.ldm", "--to", "plumed", "-o", folder)
    assert again.returncode == 1
    assert "--force" in again.stderr

    rows = (folder / "check.csv").read_text().splitlines()
    printed = ["#! FIELDS time psi2 psi3", *(" ".join(row.split(",")) for row in rows[1:])]
    (folder / "COLVAR").write_text("\n".join(printed) + "\n")
    good = command("--check", "COLVAR", folder=folder)
    assert "psi3" in good.stdout, good.stderr
    (folder / "COLVAR").write_text("\n".join(printed[:-1]) + "\n")
    short = command("--check", "COLVAR", folder=folder)
    assert short.returncode == 1
    assert "has 4 rows of psi2, and the check 5 frames" in short.stderr
    assert "no check.csv in" in command("--check", "COLVAR", "-o", tmp_path, folder=folder).stderr
    assert "name the map, --to plumed or colvars" in command(files / "map.ldm").stderr


@pytest.mark.slow
def test_the_command_compares_a_run(files, run, tmp_path):
    model, (times, frames) = load(files / "map.ldm"), run
    atoms = engine_atoms(model, str(files / "system.pdb"), None, None).numbers - 1
    rows = np.column_stack([times, model.transform(frames[:, atoms])])
    np.savetxt(tmp_path / "COLVAR", rows, header="! FIELDS time psi2 psi3", comments="#", fmt="%.12g")
    given = ["--traj", files / "run.xtc", "-t", files / "system.pdb"]
    done = command(files / "map.ldm", "--check", tmp_path / "COLVAR", *given)
    assert done.stdout.count("largest difference") == 2, done.stderr


def test_columns_of_a_run_are_compared_with_the_map(angles, tmp_path):
    """Round trip: what an engine prints of columns and coordinates is what ldmaps makes of the columns."""
    table = tmp_path / "angles.csv"
    table.write_text("phi,psi\n" + "".join(f"{a!r},{b!r}\n" for a, b in angles.tolist()))
    model = LandmarkDiffusionMap(2, "connected", metric="periodic", n_landmarks=6).fit(open_files(str(table)))
    model.save(tmp_path / "angles.ldm")
    psi = model.transform(angles)
    rows = np.column_stack([np.arange(len(psi)), angles, psi])
    np.savetxt(tmp_path / "COLVAR", rows, header="! FIELDS time phi psi psi2 psi3", comments="#", fmt="%.12g")
    assert "psi2" in command(tmp_path / "angles.ldm", "--check", tmp_path / "COLVAR").stdout
    rows[7, 3] += 1e-3 * np.ptp(psi[:, 0])
    np.savetxt(tmp_path / "COLVAR", rows, header="! FIELDS time phi psi psi2 psi3", comments="#", fmt="%.12g")
    with pytest.raises(InvalidInputError, match="psi2 is .* in row 7"):
        check_export([tmp_path / "COLVAR"], model=model)


def test_faults_of_an_engines_output_are_named(plain, tmp_path):
    folder = plain.export(tmp_path, "plumed", atoms=range(22))
    (folder / "COLVAR").write_text("#! FIELDS time psi2\n0 1\n")
    with pytest.raises(InvalidInputError, match="no column psi3 .there are: time, psi2."):
        check_export([folder / "COLVAR"])
    (folder / "COLVAR").write_text("#! FIELDS time psi2 psi3\n0 1 x\n")
    with pytest.raises(InvalidInputError, match="wait for the engine to end"):
        check_export([folder / "COLVAR"])
    (folder / "COLVAR").write_text("#! FIELDS time psi2 psi3\n" + "0 nan 1\n" * 5)
    with pytest.raises(InvalidInputError, match="psi2 is nan in row 0"):
        check_export([folder / "COLVAR"])
    with pytest.raises(
        InvalidInputError, match="on frames, so the check needs the frames of the run: give them with traj="
    ):
        check_export([folder / "COLVAR"], model=plain)
