"""What the page on users' own parts shows gives the maps that it promises."""

from __future__ import annotations

import numpy as np
import pytest
from page_examples import run_block
from point_sets import sheet

from ldmaps import DiffusionMap, load

PAGE = ("docs/guide/packages.md", "Parts of your own")


def test_landmarks_may_come_from_another_package():
    names = run_block(*PAGE, 0)
    assert 90 <= names["model"].embedder_.n_landmarks <= 100


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")
@pytest.mark.filterwarnings("ignore::ldmaps.errors.BandwidthWarning")
def test_landmarks_may_be_chosen_by_a_class_of_the_user():
    names = run_block(*PAGE, 1)
    chosen, weights = names["model"].landmark_indices_, names["weights"]
    assert set(chosen) == set(np.argsort(-weights)[:100])


def test_affinities_embed_points_that_were_not_there(tmp_path):
    names = run_block(*PAGE, 2)
    model, psi, y = names["model"], names["psi"], names["y"]
    # The affinity was learned from the labels, so the nearest old point has that of a new one.
    distances = np.linalg.norm(psi[:, None] - model.embedding_, axis=2)
    assert np.mean(y[names["old"]][distances.argmin(axis=1)] == y[names["new"]]) > 0.8
    model.save(tmp_path / "map.ldm")
    to_landmarks = names["affinity"][names["new"]][:, model.landmark_indices_]
    np.testing.assert_allclose(load(tmp_path / "map.ldm").transform(to_landmarks), psi, atol=1e-9)


def reversible_walk():
    """A walk between points of unlike weight, and its stationary weights."""
    points, rng = sheet(150, 1), np.random.default_rng(0)
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    masses = rng.uniform(0.5, 2.0, 150)
    flux = np.where(squared < 0.6, np.exp(-squared / 0.2), 0.0) * masses[:, None] * masses
    stationary = flux.sum(axis=1)
    return flux / stationary[:, None], stationary


def test_the_map_of_a_walk_has_its_eigenvectors():
    walk, stationary = reversible_walk()
    found = run_block(*PAGE, 3)["map_of_walk"](walk, stationary, n_components=3, n_landmarks=150)
    residuals = walk @ found.embedding_ - found.embedding_ * found.eigenvalues_
    assert np.abs(residuals).max() < 1e-6 * np.abs(found.embedding_).max()


def test_a_few_landmarks_of_a_walk_place_new_points():
    walk, stationary = reversible_walk()
    make = run_block(*PAGE, 3)["map_of_walk"]
    exact = make(walk, stationary, n_components=2, n_landmarks=150)
    found = make(walk, stationary, n_components=2, n_landmarks=60)
    roots = np.sqrt(stationary * walk.diagonal())
    rows = walk / roots
    placed = found.transform(rows / rows.max(axis=1, keepdims=True))
    np.testing.assert_allclose(placed, found.embedding_, atol=1e-6 * np.abs(found.embedding_).max())
    # Scales may differ a little, signs may not.
    for one, other in zip(placed.T, exact.embedding_.T, strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.98


def test_coordinates_of_another_method_are_taught():
    names = run_block(*PAGE, 4)
    assert names["taught"].r2_ > 0.9
    assert names["unrolled"].shape == (500, 1)


def test_a_function_takes_the_batches_of_a_stream():
    names = run_block(*PAGE, 5)
    wanted = names["model"].transform(names["points"][:300])
    np.testing.assert_allclose(np.concatenate(names["received"]), wanted, atol=1e-9)


def test_the_online_step_for_an_array_library():
    pytest.importorskip("jax")
    names = run_block(*PAGE, 6)
    wanted = names["model"].transform(names["points"][:5])
    np.testing.assert_allclose(names["psi"], wanted, atol=1e-3 * np.ptp(wanted))


def test_the_kernel_of_an_affinity_is_itself():
    points = sheet(100, 1)
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    exact = DiffusionMap(3, 0.1).fit(points)
    found = DiffusionMap(3, 1.0, metric="affinity").fit(np.exp(-squared / 0.2))
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, atol=1e-9)
