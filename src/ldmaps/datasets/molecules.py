"""The two molecular trajectories that ship with the package; ``data/README.md`` says how they were simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.settings import check_whole


@dataclass(frozen=True, eq=False, repr=False)
class MolecularFrames:
    """A molecule and its configurations over time, in arrays that may be changed freely.

    Attributes
    ----------
    name, description : str
        What the molecule is called, and how the frames were made.
    frames : ndarray of shape (n, atoms, 3), float32
        Coordinates in nm of whole molecules, neither centred nor aligned: the RMSD metric does both.
    times : ndarray of shape (n,), float64
        Simulated time of each frame in ps.
    masses : ndarray of shape (atoms,), float64
        True atomic masses in amu, for mass-weighted RMSD.
    atom_names, elements, residue_names : tuple of str
        One entry per atom. A united atom has its carbon's element.
    residue_numbers : ndarray of shape (atoms,), int
        Counted from 1.
    bonds : ndarray of shape (bonds, 2), int
        Pairs of atom indices.
    """

    name: str
    frames: NDArray[np.float32]
    times: NDArray[np.float64]
    masses: NDArray[np.float64]
    atom_names: tuple[str, ...]
    elements: tuple[str, ...]
    residue_names: tuple[str, ...]
    residue_numbers: NDArray[np.intp]
    bonds: NDArray[np.intp]
    description: str

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.frames)

    @property
    def n_atoms(self) -> int:
        """Number of atoms in each frame."""
        return len(self.masses)

    @property
    def heavy_atoms(self) -> NDArray[np.intp]:
        """Indices of the atoms that are not hydrogen."""
        return np.flatnonzero(np.array(self.elements) != "H")

    def __len__(self) -> int:
        return self.n_frames

    def __repr__(self) -> str:
        return (
            f"MolecularFrames({self.name!r}, {self.n_frames} frames of {self.n_atoms} atoms, "
            f"{self.times[0]:g} to {self.times[-1]:g} ps)"
        )


def c24h50(*, stride: int = 1) -> MolecularFrames:
    """Load 100 ns of n-tetracosane, a chain of 24 united atoms that collapses and unfolds.

    10,001 frames, one every 10 ps, at 298 K without solvent. The radius of gyration has
    two peaks, near 0.47 nm (collapsed) and 0.70 nm (extended).

    Parameters
    ----------
    stride : int, default=1
        Keep every ``stride``-th frame, from the first: fewer, less correlated ones, of a larger bandwidth.

    Examples
    --------
    >>> from ldmaps.datasets import c24h50
    >>> c24h50(stride=10)
    MolecularFrames('n-tetracosane (C24H50)', 1001 frames of 24 atoms, 4000 to 104000 ps)
    """
    return _load(
        "c24h50",
        stride,
        name="n-tetracosane (C24H50)",
        description=(
            "TraPPE-UA chain of 24 united atoms (bonds constrained at 0.154 nm), Langevin dynamics at 298 K "
            "(friction 1/ps), 4 fs step, no solvent, GROMACS 2022.5; every 10 ps from 4 to 104 ns. "
            "Simulated for ldmaps."
        ),
    )


def alanine_dipeptide(*, stride: int = 1) -> MolecularFrames:
    """Load 20 ns of alanine dipeptide (ACE-ALA-NME) from explicit water.

    25,001 frames of 22 atoms, one every 0.8 ps, at 298 K and 1 bar, water removed. The
    β/PII and αR basins exchange many times (27 % αR); αL was not visited.

    Parameters
    ----------
    stride : int, default=1
        Keep every ``stride``-th frame, from the first: fewer, less correlated ones, of a larger bandwidth.

    Notes
    -----
    Its methyl hydrogens spin freely, so the map depends on the weights. With equal
    weights λ₃ and λ₄ nearly coincide and two coordinates are not separated; with ``masses``
    (the paper's choice) or with ``heavy_atoms`` only, they are.

    Examples
    --------
    >>> from ldmaps.datasets import alanine_dipeptide
    >>> molecule = alanine_dipeptide(stride=100)
    >>> molecule.frames.shape, molecule.masses.shape, len(molecule.heavy_atoms)
    ((251, 22, 3), (22,), 10)
    """
    return _load(
        "alanine_dipeptide",
        stride,
        name="alanine dipeptide (ACE-ALA-NME)",
        description=(
            "Amber99SB-ILDN in 484 TIP3P waters, Langevin dynamics at 298 K (friction 1/ps), 1 bar, PME, "
            "all bonds constrained, heavy hydrogens and a 4 fs step, GROMACS 2022.5; every 0.8 ps "
            "from 0.1 to 20.1 ns, water removed. The masses given are the true atomic ones. "
            "Simulated for ldmaps."
        ),
    )


def _load(folder: str, stride: int, **words: Any) -> MolecularFrames:
    stride = check_whole("stride", stride, 1)
    resource = files("ldmaps.datasets").joinpath("data", folder, "frames.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    grid = unpack(arrays)
    start, interval = arrays["time_start_and_interval"]
    # The product in float32 is what xtc readers compute, so the frames equal theirs bit for bit.
    spacing = arrays["grid_spacing"]
    for name in ("atom_names", "elements", "residue_names"):
        words[name] = tuple(arrays[name].tolist())
    return MolecularFrames(
        **words,
        frames=np.multiply(grid[::stride], spacing, dtype=np.float32, casting="unsafe", order="C"),
        times=(start + interval * np.arange(len(grid)))[::stride].copy(),
        masses=arrays["masses"].astype(np.float64),
        residue_numbers=arrays["residue_numbers"].astype(np.intp),
        bonds=arrays["bonds"].astype(np.intp),
    )


def unpack(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.int32]:
    """Return the grid coordinates, shape (n, atoms, 3), that ``tools/packed_frames.py`` was given; trusts its input."""
    bonds = arrays["bonds"]
    x, y = _join_bytes(arrays["bond_xy"], "<i2").astype(np.int64)
    code = _join_bytes(arrays["bond_z"], "<u4").astype(np.int64)
    zigzag = code >> 1
    off = np.where(zigzag & 1, -(zigzag + 1) // 2, zigzag // 2)
    z = expected_z(x, y, arrays["squared_lengths"]) + off
    np.negative(z, out=z, where=(code & 1).astype(bool))

    steps = _join_bytes(arrays["first_atom"], "<i4")
    grid = np.empty((3, len(bonds) + 1, steps.shape[1]), dtype=np.int32)
    np.cumsum(steps, axis=1, out=grid[:, 0])
    for k, (parent, child) in enumerate(bonds):
        for axis, component in enumerate((x, y, z)):
            np.add(grid[axis, parent], component[k], out=grid[axis, child], casting="unsafe")
    return grid.transpose(2, 1, 0)


def expected_z(
    x: NDArray[np.int64], y: NDArray[np.int64], squared_lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return |z| of bonds of such lengths, rounded down; IEEE 754 rounds the root alike everywhere."""
    remainder = np.maximum(squared_lengths[:, None] - x * x - y * y, 0)
    root: NDArray[np.int64] = np.sqrt(remainder.astype(np.float64)).astype(np.int64)
    return root


def _join_bytes(planes: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(dtype)[..., 0]
