import io
import zlib

import numpy as np
import pytest

from ldmaps.datasets.molecules import unpack
from ldmaps.errors import InvalidInputError
from tools.packed_frames import pack

BRANCHED = np.array([[0, 2], [2, 1], [0, 3], [3, 4], [2, 5]])


def random_grid(rng, *, n_frames=40, bonds=BRANCHED, constrained=True):
    steps = rng.standard_normal((n_frames, len(bonds), 3))
    if constrained:
        steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    grid = np.empty((n_frames, len(bonds) + 1, 3))
    grid[:, 0] = rng.uniform(-1e6, 1e6, (n_frames, 3))
    for k, (parent, child) in enumerate(bonds):
        grid[:, child] = grid[:, parent] + 1500 * steps[:, k]
    return np.rint(grid).astype(np.int64)


@pytest.mark.parametrize("constrained", [True, False], ids=["constrained", "free"])
@pytest.mark.parametrize("n_frames", [1, 2, 257])
def test_unpacking_restores_every_coordinate(constrained, n_frames):
    grid = random_grid(np.random.default_rng(5), n_frames=n_frames, constrained=constrained)
    np.testing.assert_array_equal(unpack(pack(grid, BRANCHED)), grid)


@pytest.mark.parametrize(
    "vector", [(0, 0, 0), (1500, 0, 0), (0, 0, -1500), (0, -1, -1), (32767, -32767, -32767)]
)
def test_extreme_bond_vectors_survive(vector):
    bonds = np.array([[0, 1]])
    grid = np.array([[[7, 8, 9], [7, 8, 1509]], [[0, 0, 0], vector]])
    np.testing.assert_array_equal(unpack(pack(grid, bonds)), grid)


def test_a_single_atom_has_no_bonds():
    grid = np.array([[[1, -2, 3]], [[2_000_000_000, 0, -7]]])
    np.testing.assert_array_equal(unpack(pack(grid[:1], np.empty((0, 2), dtype=np.intp))), grid[:1])


def test_archive_needs_no_pickle():
    grid = random_grid(np.random.default_rng(5))
    file = io.BytesIO()
    np.savez_compressed(file, **pack(grid, BRANCHED))
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        np.testing.assert_array_equal(unpack(archive), grid)


def test_constrained_bonds_need_few_bits_for_z():
    rng = np.random.default_rng(5)
    constrained, free = (
        len(
            zlib.compress(
                pack(random_grid(rng, n_frames=2000, constrained=kind), BRANCHED)["bond_z"].tobytes()
            )
        )
        for kind in (True, False)
    )
    assert constrained < 0.5 * free


def test_long_bonds_are_refused():
    grid = np.zeros((3, 2, 3), dtype=np.int64)
    grid[1, 1, 0] = 40_000
    with pytest.raises(InvalidInputError, match="got 40000; make the molecule whole"):
        pack(grid, np.array([[0, 1]]))


@pytest.mark.parametrize(
    ("bonds", "message"),
    [
        ([[0, 1], [1, 2], [2, 0]], "close rings"),
        ([[1, 2], [0, 1]], "order the bonds outwards from atom 0"),
        ([[0, 1]], "reach 2 of 3 atoms"),
    ],
)
def test_bonds_must_be_a_tree(bonds, message):
    with pytest.raises(InvalidInputError, match=message):
        pack(np.zeros((2, 3, 3), dtype=np.int64), np.array(bonds))
