"""Coordinates and basins that a map keeps by default, of shapes and wells whose answer is known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.diffusion.spectrum import places_in_spectrum
from ldmaps.errors import BandwidthWarning, DisconnectedWarning, OutlierWarning, SpectrumWarning
from ldmaps.regions import find_basins

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind.__module__}.{kind.__name__}")
    for kind in (BandwidthWarning, DisconnectedWarning, OutlierWarning, SpectrumWarning)
]


def drawn(density, low, high, n, rng):
    """Draw from a density on an interval."""
    grid = np.linspace(low, high, 5001)
    sums = np.cumsum(density(grid))
    return np.interp(rng.uniform(0, sums[-1], n), sums, grid)


def blobs(count, rng, n=1500):
    """Round blobs on a circle."""
    angle = 2 * np.pi * np.arange(count) / count
    blob = rng.integers(0, count, n)
    centres = max(2.0, count / 2.2) * np.column_stack([np.cos(angle), np.sin(angle)])
    return centres[blob] + 0.3 * rng.normal(size=(n, 2)), blob


def wells_on_a_ring(count, rng, n=1500):
    """Wells of a smooth potential, six kT deep, that neighbours share a barrier with."""
    angle = drawn(lambda t: np.exp(3 * np.cos(count * t)), 0, 2 * np.pi, n, rng)
    radius = 0.4 * count + 1.0 + 0.2 * rng.normal(size=n)
    well = np.round(angle / (2 * np.pi) * count).astype(int) % count
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), well


def wells_in_a_row(count, rng, n=1500):
    """A potential of one dimension, so that all coordinates are functions of the first."""
    x = drawn(lambda t: np.exp(-3 * np.cos(2 * np.pi * t)), 0, count, n, rng)
    return x[:, None], np.clip(np.floor(x), 0, count - 1).astype(int)


def two_double_wells(_, rng, n=1500):
    """Four unequal wells: a tilted double well in each of two dimensions."""
    x, y = (drawn(lambda t: np.exp(-4 * (t**2 - 1) ** 2 - 0.15 * t), -2.2, 2.2, n, rng) for _ in range(2))
    return np.column_stack([x, y]), 2 * (x > 0) + (y > 0)


@pytest.mark.parametrize(
    ("make", "count"),
    [
        *((blobs, count) for count in (3, 4, 6)),
        *((wells_on_a_ring, count) for count in (5, 7, 8)),
        *((wells_in_a_row, count) for count in (3, 6)),
        (two_double_wells, 4),
    ],
)
def test_states_have_a_coordinate_less_and_are_the_basins(make, count):
    points, well = make(count, np.random.default_rng(count))
    model = LandmarkDiffusionMap().fit(points)
    assert model.n_components_ == count - 1
    assert not model.sampling_.follows[: count - 1].any()
    assert all(model.sampling_.reproducibility(mode) != "noise" for mode in range(count - 1))
    basins = find_basins(model)
    assert len(basins.names) == count
    labels = basins.labels(model.embedding_)
    for label in range(count):
        assert np.bincount(well[labels == label]).max() > 0.97 * (labels == label).sum()
    kept = ", ".join(f"psi{2 + place}" for place in range(count - 1))
    assert f"kept: {kept} separate {count} metastable states" in " ".join(repr(model).split())


def interval(rng):
    return rng.uniform(size=(1500, 1))


def double_well(rng):
    return drawn(lambda t: np.exp(-4 * (t**2 - 1) ** 2), -2.2, 2.2, 1500, rng)[:, None]


def rectangle(rng, side=3.7):
    return rng.uniform(size=(2000, 2)) * [side, 1.0]


def circle(rng):
    angle = rng.uniform(0, 2 * np.pi, 1500)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def cylinder(rng):
    return np.column_stack([np.concatenate([circle(rng), circle(rng)]), 1.5 * rng.uniform(size=3000)])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("make", "count"), [(interval, 1), (double_well, 1), (rectangle, 2), (circle, 2), (cylinder, 3)]
)
def test_harmonics_are_no_coordinates(make, count, seed):
    points = make(np.random.default_rng(seed))
    model = LandmarkDiffusionMap().fit(points)
    assert model.n_components_ == count
    assert not model.sampling_.follows[:count].any()


def test_both_circles_of_a_torus_are_coordinates():
    """The smaller one's are among eight modes of nearly the same eigenvalue, products and harmonics of the other's."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, (2, 4000))
    sides = [
        radius * wave(angle)
        for radius, angle in zip((1.0, 0.6), angles, strict=True)
        for wave in (np.cos, np.sin)
    ]
    assert LandmarkDiffusionMap().fit(np.column_stack(sides)).n_components_ == 4


def likeness(points, model, axis, side):
    """Correlation of a coordinate with the first wave along a side of a rectangle."""
    wave = np.cos(np.pi * points[:, axis] / side)
    return abs(np.corrcoef(wave, model.embedding_[:, axis])[0, 1])


def test_the_second_coordinate_of_a_rectangle_is_its_width():
    """A harmonic of the length comes between: mode 3 of the walk."""
    points = rectangle(np.random.default_rng(2), 2.6)
    model = LandmarkDiffusionMap().fit(points)
    assert places_in_spectrum(model.eigenvalues_, model.spectrum_).tolist() == [0, 2]
    assert likeness(points, model, 0, 2.6) > 0.99
    assert likeness(points, model, 1, 1.0) > 0.75
    np.testing.assert_allclose(model.sampling_.eigenvalues[:2], model.eigenvalues_)
    np.testing.assert_allclose(model.resample(20).eigenvalues[:2], model.eigenvalues_)
    assert re.search(r"psi4 .* no\n", repr(model))
    assert "not kept: psi4 follows psi2;" in repr(model)


@pytest.mark.parametrize(
    "settings", [{"extension": "distilled", "n_landmarks": 60}, {"tolerance": 5.0, "extension": "nystrom"}]
)
def test_other_ways_to_fit_keep_the_same_modes(settings):
    points = rectangle(np.random.default_rng(2), 2.6)
    model = LandmarkDiffusionMap(**settings).fit(points)
    assert places_in_spectrum(model.eigenvalues_, model.spectrum_).tolist() == [0, 2]
    assert likeness(points, model, 0, 2.6) > 0.98
    assert likeness(points, model, 1, 1.0) > 0.75


def test_through_files(tmp_path):
    import ldmaps

    model = LandmarkDiffusionMap().fit(blobs(4, np.random.default_rng(0))[0])
    model.save(tmp_path / "map.ldm")
    loaded = ldmaps.load(tmp_path / "map.ldm")
    assert loaded.sampling_.n_states == 4
    assert len(find_basins(loaded).names) == 4
