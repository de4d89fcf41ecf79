"""Atoms as files have them: masses, hydrogens, beads, poses, other molecules."""

from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps.analysis.observables import shape_of_frames
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import Atoms
from ldmaps.inputs.topology import atom_order, atoms_of, known_masses, load_topology

pytest.importorskip("mdtraj")

LIGAND = """\
CRYST1   90.000   90.000   90.000  90.00  90.00  90.00 P 1           1
ATOM      1  C1  LIG A   1       0.000   0.000   0.000  1.00  0.00
ATOM      2  Q1  LIG A   1       1.500   0.000   0.000  1.00  0.00
ATOM      3  H1  LIG A   1       2.000   1.000   0.000  1.00  0.00
END
"""


def mol2(*names, poses):
    blocks = []
    for pose in range(poses):
        rows = "\n".join(f"{n + 1} {name} {n}.0 {pose}.5 0.0 C.3 1 LIG 0.0" for n, name in enumerate(names))
        head = f"@<TRIPOS>MOLECULE\npose {pose}\n{len(names)} {len(names) - 1} 0 0 0\nSMALL\nNO_CHARGES\n\n"
        bonds = "\n".join(f"{n + 1} {n + 1} {n + 2} 1" for n in range(len(names) - 1))
        blocks.append(f"{head}@<TRIPOS>ATOM\n{rows}\n@<TRIPOS>BOND\n{bonds}\n")
    return "".join(blocks)


def test_every_pose_of_a_mol2_is_a_frame(tmp_path):
    path = tmp_path / "poses.mol2"
    path.write_text(mol2("C1", "C2", "C3", poses=4))
    frames = ldmaps.inputs.open_files(path).read().frames
    assert frames.shape == (4, 3, 3)
    np.testing.assert_allclose(frames[:, 0, 1], [0.05, 0.15, 0.25, 0.35], rtol=1e-6)  # nm
    assert ldmaps.inputs.open_files(path, start=1, stride=2).read().numbers.tolist() == [1, 3]
    path.write_text(mol2("C1", "C2", "C3", poses=2) + mol2("C1", "C2", poses=1))
    with pytest.raises(InvalidInputError, match=r"molecule 2 of .* has other atoms than the first, 2 and 3"):
        ldmaps.inputs.open_files(path).read()


def test_masses_are_the_files_then_the_elements_then_unknown():
    names = ["C1", "MW", "BB", "H1"]
    by_element = np.array([12.011, 0.0, 0.0, 1.008])
    np.testing.assert_array_equal(known_masses(names, by_element), [12.011, 0.0, np.nan, 1.008])
    file = np.array([99.0, 13.0, 0.0, 72.0, 3.024])
    chosen = known_masses(names, by_element, file, np.array([1, 2, 3, 4]))
    np.testing.assert_array_equal(chosen, [13.0, 0.0, 72.0, 3.024])
    assert known_masses(["BB"], [np.nan]) is None


def test_atoms_without_a_mass_are_named_and_hydrogens_told_by_name(tmp_path, capsys):
    path = tmp_path / "ligand.pdb"
    path.write_text(LIGAND)
    source = ldmaps.inputs.open_files(path)
    assert np.isnan(source.atoms.masses).tolist() == [False, True, False]
    assert ldmaps.inputs.open_files(path, select="not element H").n_atoms == 2
    assert main(["fit", str(path), "--mass-weighted", "-o", str(tmp_path / "map.ldm")]) == 1
    assert "neither masses nor elements for LIG1-Q1; leave --mass-weighted out" in capsys.readouterr().err
    # A radius of gyration is then by equal weights, not NaN.
    xyz = source.read().frames
    expected = np.sqrt(((xyz[0] - xyz[0].mean(axis=0)) ** 2).sum(axis=1).mean())
    assert shape_of_frames(xyz, source.atoms)["rg"][0] == pytest.approx(expected, rel=1e-6)


def test_masses_of_a_tpr_are_those_of_the_file():
    mda = pytest.importorskip("MDAnalysis")
    files = pytest.importorskip("MDAnalysisTests.datafiles")
    source = ldmaps.inputs.open_files(files.XTC, top=files.TPR, select="resSeq 1 to 3")
    universe = mda.Universe(files.TPR)
    indices = [universe.select_atoms("resid 1 to 3").indices]
    np.testing.assert_allclose(source.atoms.masses, universe.atoms.masses[tuple(indices)][: source.n_atoms])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["PSF_NAMD", "PRM", "PSF"])
def test_masses_of_a_psf_or_prmtop_are_those_of_the_file(name):
    mda = pytest.importorskip("MDAnalysis")
    files = pytest.importorskip("MDAnalysisTests.datafiles")
    wanted = mda.Universe(getattr(files, name), to_guess=()).atoms.masses
    topology = load_topology(getattr(files, name), "")
    np.testing.assert_array_equal(atoms_of(topology, np.arange(len(wanted))).masses, wanted)


def test_another_protein_is_refused_though_all_its_atoms_are_called_ca():
    residues = ["MET", "ALA", "GLY", "SER", "LYS", "LEU", "VAL", "ASP"]
    labels = tuple(f"{name}{number}-CA" for number, name in enumerate(residues))
    facts = {"n_atoms": 8, "atom_names": ["CA"] * 8, "atom_labels": list(labels)}

    def order(names, first=0):
        others = tuple(f"{name}{number + first}-CA" for number, name in enumerate(names))
        return atom_order(facts, Atoms(("CA",) * 8, others, None), "other.pdb", match=False)

    assert order(residues, 10) is None  # renumbered
    assert order(["MET", "ALA", "TRP", *residues[3:]], 10) is None  # a mutant
    with pytest.raises(InvalidInputError, match=r"of another molecule: 8 of its 8 atoms .*--ignore-names"):
        order(reversed(residues))


#: Three atoms of two types, as LAMMPS writes them.
LAMMPS_DATA = """LAMMPS data file

3 atoms
2 bonds
2 atom types
1 bond types

0.0 9.0 xlo xhi
0.0 9.0 ylo yhi
0.0 9.0 zlo zhi

Masses

1 15.9994
2 1.008

Atoms # full

1 1 1 -0.8 1.0 1.0 1.0
2 1 2 0.4 2.0 1.0 1.0
3 1 2 0.4 1.0 2.0 1.0

Bonds

1 1 1 2
2 1 1 3
"""


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".bz2", bz2.compress), (".gz", gzip.compress), (".BZ2", bz2.compress)]
)
def test_packed_topologies_are_read_as_their_contents(tmp_path, suffix, pack):
    pytest.importorskip("MDAnalysis", reason="MDAnalysis reads LAMMPS' data files")
    plain, packed = tmp_path / "water.data", tmp_path / f"packed.data{suffix}"
    plain.write_text(LAMMPS_DATA)
    packed.write_bytes(pack(LAMMPS_DATA.encode()))
    known, read = (atoms_of(load_topology(str(path), ""), np.arange(3)) for path in (plain, packed))
    assert read.names == known.names
    np.testing.assert_allclose(read.masses, [15.9994, 1.008, 1.008])
    np.testing.assert_array_equal(read.bonds, known.bonds)
    packed.write_bytes(pack(LAMMPS_DATA.encode())[:-20])
    with pytest.raises(InvalidInputError, match=r"packed\.data.* cannot be read as a topology"):
        load_topology(str(packed), "")
