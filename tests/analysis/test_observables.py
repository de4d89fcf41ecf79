"""Shapes against mdtraj, correlations against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps.analysis import correlations
from ldmaps.analysis.observables import shape_of_frames
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import Atoms


def test_correlations_are_spearmans():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    psi = rng.normal(size=(200, 3))
    columns = {
        "bent": np.exp(psi[:, 1]) + rng.normal(size=200),
        "ties": rng.integers(0, 5, 200).astype(float),
    }
    found = correlations(psi, columns)
    for name, values in columns.items():
        expected = [spearmanr(psi[:, place], values).statistic for place in range(3)]
        np.testing.assert_allclose(found[name], expected, atol=1e-11)
    holes = np.where(np.arange(200) % 7 == 0, np.nan, columns["bent"])
    kept = np.isfinite(holes)
    expected = [spearmanr(psi[kept, place], holes[kept]).statistic for place in range(3)]
    np.testing.assert_allclose(correlations(psi, {"holes": holes})["holes"], expected, atol=1e-11)
    assert np.isnan(correlations(psi, {"flat": np.ones(200)})["flat"]).all()
    # The p of a map that is not calibrated, for one.
    assert np.isnan(correlations(psi, {"empty": np.full(200, np.nan)})["empty"]).all()
    with pytest.raises(
        InvalidInputError, match=r"'short' needs one number per point, \(200,\), got shape \(3,\)"
    ):
        correlations(psi, {"short": [1, 2, 3]})


def test_shapes_are_those_of_mdtraj():
    mdtraj = pytest.importorskip("mdtraj", reason="mdtraj is what shapes are compared with")
    trajectory = mdtraj_trajectory()
    source = ldmaps.inputs.open_files(trajectory)
    found = shape_of_frames(trajectory.xyz, source.atoms)
    ends = mdtraj.compute_distances(trajectory, [[0, 21]], periodic=False)[:, 0]
    np.testing.assert_allclose(found["end_to_end"], ends, rtol=1e-5)
    np.testing.assert_allclose(found["rmsd"], mdtraj.rmsd(trajectory, trajectory, 0), atol=2e-4)
    plain = shape_of_frames(trajectory.xyz, reference=trajectory.xyz[7])
    np.testing.assert_allclose(plain["rg"], mdtraj.compute_rg(trajectory), rtol=1e-5)
    np.testing.assert_allclose(plain["rmsd"], mdtraj.rmsd(trajectory, trajectory, 7), atol=2e-4)


def test_a_radius_of_gyration_by_masses_is_that_of_mdanalysis():
    """mdtraj weighs by masses around the middle of the atoms, not of the masses."""
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    trajectory = mdtraj_trajectory()
    atoms = ldmaps.inputs.open_files(trajectory).atoms
    universe = mda.Universe.empty(22, trajectory=True)
    universe.add_TopologyAttr("masses", atoms.masses)
    found = shape_of_frames(trajectory.xyz, atoms)["rg"]
    for row in range(0, 101, 10):
        universe.atoms.positions = 10 * trajectory.xyz[row]
        assert found[row] == pytest.approx(0.1 * universe.atoms.radius_of_gyration(), rel=1e-5)


def test_a_mirror_image_is_not_superposed():
    mdtraj = pytest.importorskip("mdtraj", reason="mdtraj is what shapes are compared with")
    trajectory = mdtraj_trajectory()[:5]
    mirrored = trajectory.xyz[0] * [1, 1, -1]
    other = mdtraj.Trajectory(mirrored.astype(np.float32), trajectory.topology)
    found = shape_of_frames(trajectory.xyz, reference=mirrored)["rmsd"]
    np.testing.assert_allclose(found, mdtraj.rmsd(trajectory, other, 0), atol=2e-4)
    assert found.min() > 0.01


def test_ends_are_alpha_carbons_where_there_are_some():
    frames = np.random.default_rng(0).normal(size=(4, 5, 3))
    atoms = Atoms(("N", "CA", "C", "CA", "O"), ("A1-N", "A1-CA", "A1-C", "A2-CA", "A2-O"), None)
    expected = np.linalg.norm(frames[:, 3] - frames[:, 1], axis=1)
    np.testing.assert_allclose(shape_of_frames(frames, atoms)["end_to_end"], expected)


@pytest.mark.parametrize(
    ("frames", "reference"),
    [(np.zeros((3, 4)), None), (np.zeros((0, 4, 3)), None), (np.zeros((2, 4, 3)), np.zeros((5, 3)))],
)
def test_mistakes_are_explained(frames, reference):
    with pytest.raises(InvalidInputError, match=r"shape \(n, atoms, 3\)|the atoms of the frames"):
        shape_of_frames(frames, reference=reference)


def test_an_angle_is_followed_round_the_circle():
    rng = np.random.default_rng(0)
    angle = rng.uniform(-180, 180, 4000)
    psi = np.column_stack([np.cos(np.radians(angle - 40)), rng.normal(size=4000)])
    for scale in (1.0, np.pi / 180):
        found = correlations(psi, {"phi": scale * angle})["phi"]
        assert found[0] > 0.97  # Spearman's is 0.4: the circle is cut through the middle of what it follows
        assert found[1] < 0.05
    # The same whatever the angle is counted from, as long as it goes round.
    turned = (angle + 100 + 180) % 360 - 180
    np.testing.assert_allclose(correlations(psi, {"phi": turned})["phi"], found, atol=1e-9)
    # What is no angle keeps its sign.
    assert correlations(psi, {"x": 100 * psi[:, 0]})["x"][0] == 1.0
    assert correlations(psi, {"x": -angle / 2})["x"][0] < 0
    # Against statistics: R² of a regression of the ranks.
    ranks = np.argsort(np.argsort(psi[:, 0])).astype(float)
    wave = np.column_stack([np.ones(4000), np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    fitted = wave @ np.linalg.solve(wave.T @ wave, wave.T @ ranks)
    np.testing.assert_allclose(found[0], np.corrcoef(fitted, ranks)[0, 1], rtol=1e-6)
