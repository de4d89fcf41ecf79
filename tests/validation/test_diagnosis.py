"""One bad point must not ruin a map in silence: fits say which points decide them, and can leave those out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.diffusion.bandwidth import choose_bandwidth
from ldmaps.diffusion.walk import minimum_spanning_tree
from ldmaps.errors import DisconnectedError, InvalidInputError, OutlierWarning
from ldmaps.metrics import Euclidean
from ldmaps.validation.diagnosis import Diagnosis, participation_ratios


def strip(n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.column_stack([np.linspace(0.0, 10.0, n), rng.normal(scale=0.02, size=n)])


def with_outlier(distance: float = 100.0) -> np.ndarray:
    return np.concatenate([strip(), [[5.0, distance]]])


@pytest.mark.parametrize("estimator", [DiffusionMap, LandmarkDiffusionMap])
def test_a_single_bad_point_is_named_with_a_remedy_that_works(estimator):
    settings = {"n_landmarks": 60} if estimator is LandmarkDiffusionMap else {}
    with pytest.warns(
        OutlierWarning, match=r"psi2 is supported by only 1\.\d of 201 points, mostly point 200;"
    ) as caught:
        ruined = estimator(1, "connected", **settings).fit(with_outlier())
    message = str(caught[0].message)
    assert "times smaller, without point 200" in message
    assert "outliers=0.005" in message
    assert ruined.diagnosis_.isolated.tolist() == [200]
    assert ruined.diagnosis_.carriers[0].tolist() == [200]

    mended = estimator(1, "connected", outliers=0.005, **settings).fit(with_outlier())
    assert mended.diagnosis_.left_out.tolist() == [200]
    assert mended.epsilon_ < ruined.epsilon_ / 1000
    clean = estimator(1, "connected", **settings).fit(strip())
    assert mended.epsilon_ == clean.epsilon_
    order = np.abs(np.corrcoef(np.argsort(np.argsort(mended.embedding_[:200, 0])), np.arange(200))[0, 1])
    assert order > 0.99
    # The point left out is embedded, and marked.
    assert np.isfinite(mended.embedding_[200]).all()
    assert mended.coverage(with_outlier()).inside.tolist() == [True] * 200 + [False]


def test_frames_are_named_by_file_and_number(tmp_path):
    mdtraj = pytest.importorskip("mdtraj", reason="writes the trajectory")
    from written_trajectories import mdtraj_trajectory

    import ldmaps.inputs

    trajectory = mdtraj_trajectory()
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    trajectory.save_xtc(str(tmp_path / "good.xtc"))
    trajectory.xyz[7, :5] += 3.0
    trajectory.save_xtc(str(tmp_path / "bad.xtc"))
    files = [str(tmp_path / "good.xtc"), str(tmp_path / "bad.xtc")]
    source = ldmaps.inputs.open_files(files, top=str(tmp_path / "top.pdb"))
    with pytest.warns(OutlierWarning, match=r"mostly frame 7 of .*bad\.xtc"):
        LandmarkDiffusionMap(1, "connected", "rmsd").fit(source)
    assert mdtraj


def test_good_data_give_no_warning():
    frames = alanine_dipeptide(stride=50).frames
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LandmarkDiffusionMap(n_components=3, metric="rmsd", n_landmarks=100).fit(frames)
        DiffusionMap(n_components=3).fit(np.random.default_rng(0).uniform(size=(300, 2)))


def test_a_coordinate_of_one_point_is_found_without_a_spanning_tree():
    points = with_outlier(1.0)
    with pytest.warns(OutlierWarning, match="psi2 is supported by only .* mostly point 200") as caught:
        ruined = DiffusionMap(n_components=1, epsilon=0.05).fit(points)
    assert not len(ruined.diagnosis_.isolated)
    assert "times smaller" not in str(caught[0].message)
    mended = DiffusionMap(n_components=1, epsilon=0.05, outliers=0.005).fit(points)
    assert mended.diagnosis_.left_out.tolist() == [200]
    assert mended.diagnosis_.participation[0] > 50


def test_outliers_leave_the_papers_rule_alone():
    points = with_outlier()
    rng = np.random.default_rng(0)
    paper = choose_bandwidth("connected", Euclidean(), Euclidean().prepare(points), np.ones(201), rng)
    tree = minimum_spanning_tree(Euclidean(), Euclidean().prepare(points))
    assert paper.epsilon == tree.connecting_epsilon
    assert np.isclose(paper.epsilon, 100.0**2, rtol=0.01)


def test_the_robust_rule_joins_all_but_the_share():
    rng = np.random.default_rng(1)
    points = np.concatenate([strip(), rng.uniform(20, 40, size=(6, 2))])
    model = DiffusionMap(1, "connected", outliers=6 / 206).fit(points)
    assert model.diagnosis_.left_out.tolist() == list(range(200, 206))
    with pytest.warns(OutlierWarning):
        fewer = DiffusionMap(1, "connected", outliers=3 / 206).fit(points)
    assert len(fewer.diagnosis_.left_out) <= 3


def test_more_outliers_than_the_share_are_still_an_error():
    halves = np.concatenate([strip(100), strip(100) + 1000.0])
    with pytest.raises(DisconnectedError, match="2 components"):
        DiffusionMap(n_components=1, epsilon=1.0, outliers=0.1).fit(halves)


@pytest.mark.parametrize("share", [-0.1, 0.5, True, "some", float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InvalidInputError, match="outliers must be the share"):
        DiffusionMap(outliers=share).fit(strip())


def test_participation_counts_weighted_points_as_often_as_they_stand():
    rng = np.random.default_rng(2)
    values, counts = rng.normal(size=(40, 3)), rng.integers(1, 6, size=40)
    repeated = np.repeat(values, counts, axis=0)
    ratios = participation_ratios(values, counts.astype(float), counts.sum())
    squares = repeated**2
    np.testing.assert_allclose(ratios, squares.sum(axis=0) ** 2 / (squares**2).sum(axis=0))


def test_epsilon_joining_is_the_smallest():
    points = Euclidean().prepare(np.concatenate([strip(60), [[0.0, 9.0], [3.0, 20.0]]]))
    tree = minimum_spanning_tree(Euclidean(), points)
    for count in (2, 30, 60, 61, 62):
        epsilon = tree.epsilon_joining(count)
        assert tree.component_sizes(epsilon)[0] >= count
        assert tree.component_sizes(np.nextafter(epsilon, 0))[0] < count


@pytest.mark.parametrize("n_points", [100, 201, 1000, 1999])
@pytest.mark.parametrize("n_bad", [1, 7, 29, 58])
def test_the_share_that_is_named_leaves_out_all_suspects(n_points, n_bad):
    """One more than they are at the most, in thousandths of all points."""
    bad = np.arange(n_bad)
    diagnosis = Diagnosis(np.full(1, 5.0), {}, bad, 0.1, np.empty(0, dtype=np.intp), n_points)
    (share,) = [
        part.value for part in diagnosis.warning(1.0, str).parts if getattr(part, "setting", "") == "outliers"
    ]
    assert int(share * n_points) >= n_bad
    assert share * n_points <= n_bad + n_points / 1000 + 1e-6
