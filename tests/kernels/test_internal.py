"""Distances, angles and torsions against numpy and mdtraj; their gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

ORDERS = [2, 3, 4]
N_ATOMS = 9


def chosen(order, n_features=21, seed=0):
    rng = np.random.default_rng([order, seed])
    return np.array([rng.permutation(N_ATOMS)[:order] for _ in range(n_features)])


def frames(n, seed=0, real=np.float64):
    return np.random.default_rng([n, seed]).normal(size=(n, N_ATOMS, 3)).astype(real)


def reference(X, atoms):
    """Transcribe the definitions, in float64."""
    p = [X[:, column].astype(np.float64) for column in atoms.T]
    if len(p) == 2:
        return np.linalg.norm(p[1] - p[0], axis=-1)
    if len(p) == 3:
        u, v = p[0] - p[1], p[2] - p[1]
        cosine = (u * v).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(v, axis=-1)
        return np.arccos(np.clip(cosine, -1, 1))
    along = p[2] - p[1]
    along = along / np.linalg.norm(along, axis=-1, keepdims=True)
    left, right = p[0] - p[1], p[3] - p[2]
    left = left - (left * along).sum(-1, keepdims=True) * along
    right = right - (right * along).sum(-1, keepdims=True) * along
    return np.arctan2((np.cross(along, left) * right).sum(-1), (left * right).sum(-1))


def measured(kernels, X, atoms, real=np.float64):
    values = np.full((len(X), len(atoms)), np.nan, real)
    kernels.internal_coordinates(X, atoms, 0, values)
    return values


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_they_are_what_their_definitions_say(kernels, order, given, real):
    X, atoms = frames(35, real=given), chosen(order)
    tolerance = 3e-7 if real is np.float32 else 1e-12
    np.testing.assert_allclose(
        measured(kernels, X, atoms, real), reference(X, atoms), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("order", ORDERS)
def test_they_are_those_of_mdtraj(kernels, order):
    mdtraj = pytest.importorskip("mdtraj")
    topology = mdtraj.Topology()
    residue = topology.add_residue("X", topology.add_chain())
    for _ in range(N_ATOMS):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    X, atoms = frames(40, real=np.float32), chosen(order)
    compute = {2: mdtraj.compute_distances, 3: mdtraj.compute_angles, 4: mdtraj.compute_dihedrals}[order]
    wanted = compute(mdtraj.Trajectory(X, topology), atoms, periodic=False)
    difference = measured(kernels, X, atoms) - wanted
    if order == 4:
        difference = (difference + np.pi) % (2 * np.pi) - np.pi
    # mdtraj computes in float32; where atoms are nearly on a line that shows.
    assert np.abs(difference).max() < 1e-3
    assert np.median(np.abs(difference)) < 5e-7


def test_torsions_of_all_directions_are_accurate_to_rounding(kernels):
    angles = np.concatenate([np.linspace(-np.pi, np.pi, 4001), [0.0, 1e-300, -1e-9, np.pi / 4, -np.pi / 2]])
    X = np.zeros((len(angles), 4, 3))
    X[:, 0, 0] = X[:, 2, 2] = X[:, 3, 2] = 1.0
    X[:, 3, 0], X[:, 3, 1] = np.cos(angles), np.sin(angles)
    found = measured(kernels, X, np.array([[0, 1, 2, 3]]))[:, 0]
    wanted = np.arctan2(X[:, 3, 1], X[:, 3, 0])
    np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(float).eps, atol=1e-300)


@pytest.mark.parametrize("order", ORDERS)
def test_a_row_does_not_depend_on_its_neighbours(kernels, order):
    X, atoms = frames(37), chosen(order)
    X[20, 3] = np.nan
    together = measured(kernels, X, atoms)
    apart = np.concatenate([measured(kernels, X[[i]], atoms) for i in range(len(X))])
    np.testing.assert_array_equal(together, apart)
    touched = (atoms == 3).any(axis=1)
    np.testing.assert_array_equal(np.isnan(together), (np.arange(37) == 20)[:, None] & touched)


def test_kinds_stand_side_by_side(kernels):
    X, values = frames(5), np.full((5, 12), -9.0)
    kernels.internal_coordinates(X, chosen(2, 4), 1, values)
    kernels.internal_coordinates(X, chosen(4, 3), 5, values)
    np.testing.assert_array_equal(values[:, 1:5], measured(kernels, X, chosen(2, 4)))
    np.testing.assert_array_equal(values[:, 5:8], measured(kernels, X, chosen(4, 3)))
    assert (values[:, [0, 8, 9, 10, 11]] == -9).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_gradients_are_central_differences(kernels, order, real):
    X, atoms, step = frames(18), chosen(order, 7), 1e-6
    upstream = np.random.default_rng(1).normal(size=(18, 2, 9)).astype(real)
    gradient = np.full((18, 2, N_ATOMS, 3), 0.5, real)
    kernels.add_internal_gradients(X, atoms, 2, upstream, gradient)
    wanted = np.full(gradient.shape, 0.5)
    for place in np.ndindex(N_ATOMS, 3):
        change = np.zeros((N_ATOMS, 3))
        change[place] = step
        difference = reference(X + change, atoms) - reference(X - change, atoms)
        difference = (difference + np.pi) % (2 * np.pi) - np.pi
        wanted[:, :, place[0], place[1]] += np.einsum(
            "nf,ncf->nc", difference / (2 * step), upstream[..., 2:]
        )
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_forces_neither_shift_nor_turn(kernels, order):
    X, atoms = frames(5), chosen(order, 30)
    gradient = np.zeros((5, 1, N_ATOMS, 3))
    kernels.add_internal_gradients(X, atoms, 0, np.ones((5, 1, 30)), gradient)
    np.testing.assert_allclose(gradient.sum(axis=2), 0, atol=1e-9)
    np.testing.assert_allclose(np.cross(X[:, None], gradient).sum(axis=2), 0, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_atoms_on_a_point_or_a_line_have_no_gradient(kernels, order):
    line = np.zeros((2, N_ATOMS, 3))
    line[1, :, 0] = np.arange(N_ATOMS)
    if order == 2:
        line = line[:1]
    atoms = np.arange(order)[None]
    gradient = np.zeros((len(line), 1, N_ATOMS, 3))
    kernels.add_internal_gradients(line, atoms, 0, np.ones((len(line), 1, 1)), gradient)
    np.testing.assert_array_equal(gradient, 0)
    assert np.isin(np.abs(measured(kernels, line, atoms)), [0, np.pi]).all()


def test_arguments_that_do_not_fit_are_refused(kernels):
    X, values = frames(3), np.zeros((3, 4))
    for atoms, first, message in [
        (chosen(2, 4), 1, "first must be 0, got 1"),
        (np.array([[0, 9]]), 0, "atoms must lie within 0 and 8, got 9 at place 1"),
        (np.array([[-1, 0]]), 0, "atoms must lie within 0 and 8, got -1 at place 0"),
        (np.zeros((1, 5), np.intp), 0, "the size of atoms along axis 1 must lie within 2 and 4, got 5"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernels.internal_coordinates(X, atoms, first, values)
    with pytest.raises(ValueError, match=r"values must have shape \(3, 4\), got \(2, 4\)"):
        kernels.internal_coordinates(X, chosen(2, 4), 0, values[:2])
