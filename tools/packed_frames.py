"""Lossless packing of a small molecule's trajectory into a compressed ``.npz``.

    grid ──► first atom + bond vectors (x, y, z) ──► (x, y) + how z differs from ±√(ℓ² − x² − y²)
         ──► byte planes ──► deflate

An xtc file holds whole numbers, here coordinates on a grid of 0.1 pm. Bonded atoms are close, so a bond vector
needs 12 bits per component where a position needs 17; bonds are constrained, so x and y give z up to its sign and a
few steps; high bytes repeat while low ones do not. All is integer arithmetic but for one square root that IEEE 754
rounds the same way everywhere: what is unpacked is what was packed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.datasets.molecules import expected_z
from ldmaps.errors import InvalidInputError

__all__ = ["check_tree", "pack"]

# Bond vectors are int16: with the 0.1 pm grid this allows 3.2 nm, twenty times a bond.
_LONGEST_COMPONENT = np.iinfo(np.int16).max


def pack(grid: NDArray[np.int64], bonds: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Turn coordinates on a grid into arrays that compress well, along a tree of bonds; ``unpack`` inverts it."""
    check_tree(bonds, grid.shape[1])
    vectors = grid[:, bonds[:, 1]] - grid[:, bonds[:, 0]]
    if np.abs(vectors).max(initial=0) > _LONGEST_COMPONENT:
        raise InvalidInputError(
            f"bond vectors must stay within {_LONGEST_COMPONENT} grid steps, got {np.abs(vectors).max()}; "
            "make the molecule whole, or use a coarser grid"
        )
    squared_lengths = np.rint((vectors**2).sum(axis=-1).mean(axis=0)).astype(np.int64)
    x, y, z = vectors.transpose(2, 1, 0)  # each (bonds, n): neighbours in memory are neighbours in time
    off = np.abs(z) - expected_z(x, y, squared_lengths)
    code = 2 * np.where(off < 0, -2 * off - 1, 2 * off) + (z < 0)
    steps = np.diff(grid[:, 0].T, axis=1, prepend=0)
    return {
        "bonds": bonds.astype("<i4"),
        "squared_lengths": squared_lengths.astype("<i8"),
        "first_atom": _split_bytes(steps.astype("<i4")),
        "bond_xy": _split_bytes(np.stack([x, y]).astype("<i2")),
        "bond_z": _split_bytes(code.astype("<u4")),
    }


def check_tree(bonds: NDArray[np.intp], n_atoms: int) -> None:
    """Raise :class:`InvalidInputError` unless ``bonds`` reach every atom once, outwards from atom 0."""
    reached = {0}
    for parent, child in bonds.tolist():
        if parent not in reached or child in reached:
            raise InvalidInputError(
                f"bond ({parent}, {child}) does not lead from an atom already reached to a new one; "
                "order the bonds outwards from atom 0 and leave out those that close rings"
            )
        reached.add(child)
    if reached != set(range(n_atoms)):
        raise InvalidInputError(f"the bonds reach {len(reached)} of {n_atoms} atoms; each atom needs one")


def _split_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of little-endian integers, least significant plane first: shape (itemsize, *values.shape)."""
    octets = np.ascontiguousarray(values)[..., None].view(np.uint8)
    return np.ascontiguousarray(np.moveaxis(octets, -1, 0))
