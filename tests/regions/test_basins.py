"""Learned basins against wells that are known."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import RMSD
from ldmaps.regions import find_basins, load_regions, save_regions

WELLS = {
    2: np.array([[-1.5, 0.0], [1.5, 0.0]]),
    3: np.array([[-1.6, -0.9], [1.6, -0.9], [0.0, 1.9]]),
    4: np.array([[-1.6, -1.6], [1.6, -1.6], [1.6, 1.6], [-1.6, 1.6]]),
}


def wells(count, n=2400, seed=0):
    """Gaussian wells with thin bridges between neighbours, so that one map spans them; returns points and wells."""
    rng = np.random.default_rng(seed)
    centres = WELLS[count]
    share = np.array([0.5, 0.25, 0.15, 0.1][:count])
    where = rng.choice(count, n, p=share / share.sum())
    points = centres[where] + 0.32 * rng.standard_normal((n, 2))
    bridges = []
    for a, b in zip(centres, np.roll(centres, -1, axis=0), strict=True):
        along = rng.uniform(0, 1, (25, 1))
        bridges.append(a * (1 - along) + b * along + 0.05 * rng.standard_normal((25, 2)))
    return np.concatenate([points, *bridges]), where


def agreement(labels, truth, count):
    """Share of points with equal labels, under the best renaming."""
    return max(np.mean(np.array(order)[labels] == truth) for order in permutations(range(count)))


@pytest.fixture(scope="module", params=[2, 3, 4])
def landscape(request):
    count = request.param
    points, truth = wells(count)
    model = LandmarkDiffusionMap(4, 0.25, n_landmarks=250, random_state=1).fit(points)
    return count, model, truth


def test_basins_are_the_wells_and_their_number_is_found(landscape):
    count, model, truth = landscape
    basins = find_basins(model)
    assert len(basins.names) == count
    labels = basins.labels(model.embedding_[: len(truth)])
    assert agreement(labels, truth, count) > 0.985
    assert basins.crispness > 0.8
    shares = np.sort(np.bincount(truth) / len(truth))[::-1]
    np.testing.assert_allclose(basins.populations, shares, atol=0.05)


def test_memberships_are_feasible_on_the_landmarks(landscape):
    count, model, _ = landscape
    for number in range(2, count + 1):
        basins = find_basins(model, number)
        chi = basins.memberships(model.landmark_embedding_)
        assert chi.shape == (len(model.landmark_embedding_), number)
        np.testing.assert_allclose(chi.sum(axis=1), 1.0, atol=1e-9)
        assert chi.min() > -1e-9
        assert chi.max() < 1 + 1e-9
        assert chi.max(axis=0).min() >= 0.7  # each can be entered
    assert find_basins(model, count).min_chi > -0.2


def test_more_basins_than_there_are_is_said(landscape):
    count, model, _ = landscape
    with pytest.raises(
        InvalidInputError, match=f"does not resolve {count + 1} basins: .* in its core at 0.85"
    ):
        find_basins(model, count + 1, enter=0.85)


def test_thresholds_make_hysteresis(landscape):
    _, model, _ = landscape
    basins = find_basins(model, 2, enter=0.8, leave=0.55)
    chi = basins.memberships(model.embedding_)
    for place, basin in enumerate(basins.regions.values()):
        entering, staying = basin.masks(model.embedding_, None)
        np.testing.assert_array_equal(entering, chi[:, place] >= 0.8)
        np.testing.assert_array_equal(staying, chi[:, place] >= 0.55)
        assert 0 < entering.sum() < staying.sum()


def test_sign_and_scale_of_eigenvectors_do_not_matter(landscape):
    count, model, _ = landscape
    factors = np.array([-3.0, 1e4, -1e-3, 2.0])
    turned = SimpleNamespace(
        n_components_=4,
        eigenvalues_=model.eigenvalues_,
        spectrum_=model.spectrum_,
        multiplicities_=model.multiplicities_,
        landmark_embedding_=model.landmark_embedding_ * factors,
    )
    expected = find_basins(model, count).memberships(model.landmark_embedding_)
    np.testing.assert_allclose(
        find_basins(turned, count).memberships(turned.landmark_embedding_), expected, atol=0.02
    )


def test_through_files(landscape, tmp_path):
    _, model, _ = landscape
    basins = find_basins(model, 3, enter=0.6, names=["deep", "middle", "shallow"])
    save_regions(tmp_path / "basins.json", basins.regions)
    assert load_regions(tmp_path / "basins.json", model) == basins.regions

    (tmp_path / "learn.toml").write_text(
        '[regions.out]\nkind = "out_of_domain"\n'
        '[basins]\nn_basins = 3\nenter = 0.6\nnames = ["deep", "middle", "shallow"]\n'
    )
    learned = load_regions(tmp_path / "learn.toml", model)
    assert list(learned) == ["out", "deep", "middle", "shallow"]
    assert learned["deep"] == basins.regions["deep"]
    (tmp_path / "twice.toml").write_text('[regions."basin 1"]\nkind = "out_of_domain"\n[basins]\n')
    with pytest.raises(InvalidInputError, match="two regions called 'basin 1'"):
        load_regions(tmp_path / "twice.toml", model)


def test_the_examples_in_the_docs_can_be_read(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "basins.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    model = LandmarkDiffusionMap(4, 0.25, n_landmarks=100).fit(wells(2, 800)[0])
    found = []
    for block in blocks:
        (tmp_path / "regions.toml").write_text(block, encoding="utf-8")
        found.append(load_regions(tmp_path / "regions.toml", model))
    assert [list(regions) for regions in found] == [
        ["lost", "upper", "folded", "gate"],
        ["lost", "extended", "helical"],
    ]
    assert [region.kind for region in found[0].values()] == ["out_of_domain", "box", "ball", "polygon"]


def test_the_exact_map_has_basins_too():
    points, truth = wells(2, 600)
    model = DiffusionMap(2, 0.25).fit(points)
    assert agreement(find_basins(model).labels(model.embedding_[: len(truth)]), truth, 2) > 0.985


def test_faulty_settings(landscape):
    _, model, _ = landscape
    for number in (1, 6, 2.5, True):
        with pytest.raises(InvalidInputError, match="n_basins must be a whole number from 2 to 5"):
            find_basins(model, number)
    with pytest.raises(InvalidInputError, match="0 < leave <= enter <= 1, got enter=0.4 and leave=0.5"):
        find_basins(model, 2, enter=0.4)
    with pytest.raises(InvalidInputError, match="2 different names"):
        find_basins(model, 2, names=["a", "a"])
    lump = SimpleNamespace(
        n_components_=2,
        eigenvalues_=np.array([0.9, 0.8]),
        multiplicities_=np.ones(5),
        landmark_embedding_=np.column_stack([np.arange(5.0), np.arange(5.0)]),
    )
    with pytest.raises(InvalidInputError, match="do not span 3 basins"):
        find_basins(lump, 3)


def test_alanine_dipeptide_has_its_known_basins():
    """β/PII and αR are told apart by the dihedral ψ, PII and β by φ; the map sees RMSD only."""
    mdtraj = pytest.importorskip("mdtraj", reason="mdtraj is not installed")
    molecule = alanine_dipeptide(stride=10)
    model = LandmarkDiffusionMap(3, 1.36e-3, metric=RMSD(molecule.masses), n_landmarks=200).fit(
        molecule.frames
    )
    topology = mdtraj.Topology()
    residue = topology.add_residue("ALA", topology.add_chain())
    for name, element in zip(molecule.atom_names, molecule.elements, strict=True):
        topology.add_atom(name, mdtraj.element.get_by_symbol(element), residue)
    frames = mdtraj.Trajectory(molecule.frames, topology)
    phi, psi = np.degrees(mdtraj.compute_dihedrals(frames, [[4, 6, 8, 14], [6, 8, 14, 16]])).T
    helical = (psi > -120) & (psi < 50)

    two = find_basins(model)
    assert len(two.names) == 2  # found, not asked for
    chi = two.memberships(model.embedding_)
    assert np.mean((chi[:, 1] > 0.5) == helical) > 0.985
    clear = (chi >= 0.7).any(axis=1)
    assert clear.mean() > 0.97
    assert np.mean((chi[:, 1] >= 0.7)[clear] == helical[clear]) > 0.99

    three = find_basins(model, 3)
    labels = three.labels(model.embedding_)
    assert np.mean((labels == 2) == helical) > 0.98
    extended = labels < 2
    assert np.mean((labels == 1)[extended] == (phi < -110)[extended]) > 0.9
