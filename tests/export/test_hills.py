"""Widths of hills, and what is said where a coordinate hardly varies within basins."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.errors import LdmapsWarning
from ldmaps.export.hills import hills_of, spread_within_basins


def wells(rng, widths, centres, counts):
    return np.concatenate([rng.normal(c, w, n) for w, c, n in zip(widths, centres, counts, strict=True)])


def test_the_narrowest_basin_decides():
    rng = np.random.default_rng(0)
    assert spread_within_basins(wells(rng, (0.1, 0.05), (0, 2), (2000, 1000))) == pytest.approx(0.05, rel=0.1)
    assert spread_within_basins(wells(rng, (0.1, 0.2, 0.3), (0, 2, 5), (500,) * 3)) == pytest.approx(
        0.1, rel=0.1
    )
    # Noise in bins makes no basins, nor do a few points apart.
    assert spread_within_basins(rng.uniform(0, 1, 500)) == pytest.approx(12**-0.5, rel=0.1)
    stray = wells(rng, (1.0, 0.01), (0, 9), (2000, 50))
    assert spread_within_basins(stray) == pytest.approx(1.0, rel=0.15)


@pytest.fixture(scope="module")
def sharp():
    """A map of two wells that few points join: its first coordinate is a step."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(600, 2)) * 0.3 + np.repeat([[-2.0, 0.0], [2.0, 0.0]], 300, axis=0)
    bridge = np.column_stack([np.linspace(-2, 2, 25), np.zeros(25)])
    return LandmarkDiffusionMap(1, 0.05, n_landmarks=40).fit(np.concatenate([points, bridge]))


def test_a_step_gets_narrow_hills_and_a_warning(sharp, tmp_path):
    hills, span = hills_of(sharp), np.ptp(sharp.landmark_embedding_, axis=0)
    assert (hills.widths >= span / 200 * (1 - 1e-9)).all()
    assert hills.widths[0] < span[0] / 60
    psi, ends = sharp.embedding_[:, 0], sharp.embedder_.coefficients[0]
    near = (psi - ends.min() < hills.widths[0]) | (ends.max() - psi < hills.widths[0])
    assert hills.at_ends[0] == pytest.approx(near.mean())
    definition = "a: DISTANCE ATOMS=1,2\nb: DISTANCE ATOMS=1,3"
    with pytest.warns(LdmapsWarning, match="% of the map's points are within one hill width"):
        folder = sharp.export(tmp_path, "plumed", names=["a", "b"], define_columns=definition)
    text = (folder / "plumed.dat").read_text()
    assert f"SIGMA={hills.widths[0]:.4g} " in text
    assert "Bias a second coordinate as well" in (folder / "README.md").read_text()
    assert "add INTERVAL=" in text


def test_a_file_without_the_embedding_has_landmarks_only(sharp, tmp_path):
    sharp.save(tmp_path / "small.ldm", include_embedding=False)
    small = load(tmp_path / "small.ldm")
    hills = hills_of(small)
    assert np.allclose(hills.widths, np.ptp(sharp.landmark_embedding_, axis=0) / 30)
    assert np.isnan(hills.at_ends).all()
    definition = "a: DISTANCE ATOMS=1,2\nb: DISTANCE ATOMS=1,3"  # exported without a warning
    folder = small.export(tmp_path, "plumed", names=["a", "b"], define_columns=definition)
    assert "An unknown share of the points are" in " ".join((folder / "plumed.dat").read_text().split())
