"""Lossless packing of a small molecule's trajectory into a compressed ``.npz``.

    grid ──► first atom + bond vectors (x, y, z) ──► (x, y) + how z differs from ±√(ℓ² − x² − y²)
         ──► byte planes ──► deflate

An xtc file holds whole numbers, here coordinates on a grid of 0.1 pm. Bonded atoms are close, so a bond vector
needs 12 bits per component where a position needs 17; bonds are constrained, so x and y give z up to its sign and a
few steps; high bytes repeat while low ones do not. All is integer arithmetic but for one square root that IEEE 754
rounds the same way everywhere: what is unpacked is what was packed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

__all__ = ["check_tree", "pack", "unpack"]

# Bond vectors are int16: with the 0.1 pm grid this allows 3.2 nm, twenty times a bond.
_LONGEST_COMPONENT = np.iinfo(np.int16).max


def pack(grid: NDArray[np.int64], bonds: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Turn coordinates on a grid into arrays that compress well, along a tree of bonds; :func:`unpack` inverts it."""
    check_tree(bonds, grid.shape[1])
    vectors = grid[:, bonds[:, 1]] - grid[:, bonds[:, 0]]
    if np.abs(vectors).max(initial=0) > _LONGEST_COMPONENT:
        raise InvalidInputError(
            f"bond vectors must stay within {_LONGEST_COMPONENT} grid steps, got {np.abs(vectors).max()}; "
            "make the molecule whole, or use a coarser grid"
        )
    squared_lengths = np.rint((vectors**2).sum(axis=-1).mean(axis=0)).astype(np.int64)
    x, y, z = vectors.transpose(2, 1, 0)  # each (bonds, n): neighbours in memory are neighbours in time
    off = np.abs(z) - _expected_z(x, y, squared_lengths)
    code = 2 * np.where(off < 0, -2 * off - 1, 2 * off) + (z < 0)
    steps = np.diff(grid[:, 0].T, axis=1, prepend=0)
    return {
        "bonds": bonds.astype("<i4"),
        "squared_lengths": squared_lengths.astype("<i8"),
        "first_atom": _split_bytes(steps.astype("<i4")),
        "bond_xy": _split_bytes(np.stack([x, y]).astype("<i2")),
        "bond_z": _split_bytes(code.astype("<u4")),
    }


def unpack(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.int32]:
    """Return the grid coordinates, shape (n, atoms, 3), that :func:`pack` was given; trusts its input."""
    bonds = arrays["bonds"]
    x, y = _join_bytes(arrays["bond_xy"], "<i2").astype(np.int64)
    code = _join_bytes(arrays["bond_z"], "<u4").astype(np.int64)
    zigzag = code >> 1
    off = np.where(zigzag & 1, -(zigzag + 1) // 2, zigzag // 2)
    z = _expected_z(x, y, arrays["squared_lengths"]) + off
    np.negative(z, out=z, where=(code & 1).astype(bool))

    steps = _join_bytes(arrays["first_atom"], "<i4")
    grid = np.empty((3, len(bonds) + 1, steps.shape[1]), dtype=np.int32)
    np.cumsum(steps, axis=1, out=grid[:, 0])
    for k, (parent, child) in enumerate(bonds):
        for axis, component in enumerate((x, y, z)):
            np.add(grid[axis, parent], component[k], out=grid[axis, child], casting="unsafe")
    return grid.transpose(2, 1, 0)


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


def _expected_z(
    x: NDArray[np.int64], y: NDArray[np.int64], squared_lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    remainder = np.maximum(squared_lengths[:, None] - x * x - y * y, 0)
    root: NDArray[np.int64] = np.sqrt(remainder.astype(np.float64)).astype(np.int64)
    return root


def _split_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of little-endian integers, least significant plane first: shape (itemsize, *values.shape)."""
    octets = np.ascontiguousarray(values)[..., None].view(np.uint8)
    return np.ascontiguousarray(np.moveaxis(octets, -1, 0))


def _join_bytes(planes: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(dtype)[..., 0]
