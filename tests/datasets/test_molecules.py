import subprocess
import sys
import time

import numpy as np
import pytest

from ldmaps.datasets import MolecularFrames, alanine_dipeptide, c24h50
from ldmaps.errors import InvalidInputError

# The trajectories were written on this grid (nm); constraints hold within its rounding.
GRID = 1e-4


@pytest.fixture(scope="module")
def chain():
    return c24h50()


@pytest.fixture(scope="module")
def peptide():
    return alanine_dipeptide()


@pytest.fixture(params=["chain", "peptide"])
def molecule(request):
    return request.getfixturevalue(request.param)


def bond_lengths(molecule):
    first, second = molecule.bonds.T
    frames = molecule.frames.astype(np.float64)
    return np.linalg.norm(frames[:, first] - frames[:, second], axis=-1)


def radius_of_gyration(molecule):
    frames = molecule.frames.astype(np.float64)
    weights = molecule.masses / molecule.masses.sum()
    centred = frames - np.einsum("fad,a->fd", frames, weights)[:, None]
    return np.sqrt((centred**2).sum(axis=-1) @ weights)


def dihedral(molecule, *atoms):
    p = molecule.frames[:, atoms].astype(np.float64)
    b1, b2, b3 = np.diff(p, axis=1).transpose(1, 0, 2)
    n1, n2 = np.cross(b1, b2), np.cross(b2, b3)
    sine = (np.cross(n1, n2) * b2).sum(axis=-1) / np.linalg.norm(b2, axis=-1)
    return np.degrees(np.arctan2(sine, (n1 * n2).sum(axis=-1)))


def test_shapes(chain, peptide):
    assert chain.frames.shape == (10_001, 24, 3)
    assert peptide.frames.shape == (25_001, 22, 3)


def test_every_field_has_an_entry_an_atom(molecule):
    assert isinstance(molecule, MolecularFrames)
    assert molecule.frames.dtype == np.float32
    assert molecule.frames.flags.c_contiguous
    assert np.isfinite(molecule.frames).all()
    assert len(molecule) == molecule.n_frames == len(molecule.times)
    for field in ("masses", "atom_names", "elements", "residue_names", "residue_numbers"):
        assert len(getattr(molecule, field)) == molecule.n_atoms
    assert all(isinstance(name, str) for name in molecule.atom_names)
    assert "GROMACS" in molecule.description


def test_times(chain, peptide):
    np.testing.assert_allclose(chain.times, np.linspace(4_000, 104_000, 10_001), rtol=1e-12)
    np.testing.assert_allclose(peptide.times, np.linspace(100, 20_100, 25_001), rtol=1e-12)


def test_coordinates_lie_on_the_grid_of_the_trajectory_file(molecule):
    steps = molecule.frames.astype(np.float64) / GRID
    # float32 has 24 bits and the largest coordinates need 17 of them.
    assert np.abs(steps - np.rint(steps)).max() < 1e-2


def test_bonds_make_one_connected_tree(molecule):
    assert molecule.bonds.shape == (molecule.n_atoms - 1, 2)
    reached = {0}
    for first, second in molecule.bonds.tolist():
        assert first in reached
        assert second not in reached
        reached.add(second)
    assert reached == set(range(molecule.n_atoms))


def test_chain_bonds_are_constrained(chain):
    np.testing.assert_allclose(bond_lengths(chain), 0.154, atol=2 * GRID)


def test_peptide_bonds_are_constrained_at_chemical_lengths(peptide):
    lengths = bond_lengths(peptide)
    np.testing.assert_allclose(
        lengths, np.broadcast_to(np.median(lengths, axis=0), lengths.shape), atol=3 * GRID
    )
    # Amber99SB-ILDN's equilibrium lengths (nm) of each pair of elements, shortest and longest.
    ranges = {
        "CH": (0.109, 0.109),
        "HN": (0.101, 0.101),
        "CO": (0.1229, 0.1229),
        "CN": (0.1335, 0.1449),
        "CC": (0.1522, 0.1526),
    }
    for (first, second), length in zip(peptide.bonds, lengths.mean(axis=0), strict=True):
        low, high = ranges["".join(sorted(peptide.elements[first] + peptide.elements[second]))]
        assert low - GRID < length < high + GRID


def test_chain_masses_are_those_of_its_atoms(chain):
    assert chain.atom_names == ("CH3", *["CH2"] * 22, "CH3")
    assert set(chain.masses[[0, -1]]) == {15.035}
    assert set(chain.masses[1:-1]) == {14.027}
    assert set(chain.elements) == {"C"}
    np.testing.assert_allclose(chain.masses.sum(), 24 * 12.011 + 50 * 1.008, rtol=1e-4)


def test_peptide_masses_are_the_true_atomic_ones(peptide):
    element = pytest.importorskip("mdtraj").element
    expected = [element.Element.getBySymbol(symbol).mass for symbol in peptide.elements]
    np.testing.assert_allclose(peptide.masses, expected, rtol=1e-4)
    assert sorted(peptide.elements) == ["C"] * 6 + ["H"] * 12 + ["N"] * 2 + ["O"] * 2


def test_peptide_residues(peptide):
    assert peptide.residue_names == ("ACE",) * 6 + ("ALA",) * 10 + ("NME",) * 6
    assert peptide.residue_numbers.tolist() == [1] * 6 + [2] * 10 + [3] * 6


def test_heavy_atoms(chain, peptide):
    assert chain.heavy_atoms.tolist() == list(range(24))
    assert [peptide.elements[i] for i in peptide.heavy_atoms] == list("CCONCCCONC")


def test_chain_collapses_and_extends(chain):
    radius = radius_of_gyration(chain)
    counts, edges = np.histogram(radius, bins=np.arange(0.35, 0.91, 0.02))
    centres = (edges[:-1] + edges[1:]) / 2
    collapsed, extended = centres < 0.54, centres >= 0.54
    low, high = counts[collapsed].argmax(), np.flatnonzero(extended)[counts[extended].argmax()]
    assert centres[low] == pytest.approx(0.47, abs=0.02)
    assert centres[high] == pytest.approx(0.70, abs=0.03)
    assert counts[low:high].min() < 0.8 * counts[low]


def test_chain_is_mostly_trans(chain):
    torsions = np.array([dihedral(chain, i, i + 1, i + 2, i + 3) for i in range(21)])
    assert (np.abs(torsions) > 120).mean() == pytest.approx(0.69, abs=0.01)


def test_peptide_visits_its_two_basins(peptide):
    # C(ACE) N CA C, then N CA C N(NME)
    phi, psi = dihedral(peptide, 4, 6, 8, 14), dihedral(peptide, 6, 8, 14, 16)
    right_handed = (phi < 0) & (psi > -120) & (psi < 50)
    assert right_handed.mean() == pytest.approx(0.27, abs=0.02)
    assert np.count_nonzero(np.diff(right_handed)) > 100
    # The left-handed helix: φ near 60°, ψ near 45°.
    assert not ((phi > 30) & (phi < 90) & (psi > 0) & (psi < 90)).any()


@pytest.mark.parametrize("load", [c24h50, alanine_dipeptide])
@pytest.mark.parametrize("stride", [7, 10**6])
def test_stride_keeps_every_nth_frame(load, stride):
    everything, some = load(), load(stride=stride)
    np.testing.assert_array_equal(some.frames, everything.frames[::stride])
    np.testing.assert_array_equal(some.times, everything.times[::stride])
    # Owning its memory, it does not keep the whole trajectory alive.
    assert some.frames.base is None
    assert some.times.base is None


@pytest.mark.parametrize("stride", [0, -1, 1.5, True, "2", None])
def test_stride_is_checked(stride):
    with pytest.raises(InvalidInputError, match="stride must be a whole number of at least 1"):
        c24h50(stride=stride)


def test_each_call_gives_arrays_of_its_own():
    first = c24h50(stride=1000)
    first.frames[:] = 0
    assert c24h50(stride=1000).frames.any()


def test_fields_cannot_be_reassigned(chain):
    with pytest.raises(AttributeError):
        chain.masses = np.ones(24)


def test_repr_is_one_line(peptide):
    expected = "MolecularFrames('alanine dipeptide (ACE-ALA-NME)', 25001 frames of 22 atoms, 100 to 20100 ps)"
    assert repr(peptide) == expected


def test_loading_is_quick():
    started = time.process_time()
    c24h50()
    alanine_dipeptide()
    assert time.process_time() - started < 4


def test_loading_imports_no_molecular_dynamics_package():
    program = (
        "import sys\n"
        "from ldmaps.datasets import alanine_dipeptide, c24h50\n"
        "c24h50(stride=5000), alanine_dipeptide(stride=5000)\n"
        "print(sorted({'mdtraj', 'MDAnalysis', 'pandas', 'matplotlib', 'dask'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
