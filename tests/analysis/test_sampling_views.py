"""What reports, plots and basins show of resampling."""

from __future__ import annotations

import numpy as np
import pytest

import ldmaps
from ldmaps.analysis.basin_table import basin_rows, basin_table
from ldmaps.analysis.own_points import PointsOfMap
from ldmaps.analysis.report.contents import gather
from ldmaps.analysis.report.sections import cards
from ldmaps.datasets import alanine_dipeptide
from ldmaps.regions import find_basins
from ldmaps.validation.resampling import Blocks, block_error


@pytest.fixture(scope="module")
def model():
    molecule = alanine_dipeptide(stride=10)
    heavy = [i for i, name in enumerate(molecule.atom_names) if not name.startswith("H")]
    return ldmaps.LandmarkDiffusionMap("gap", metric="rmsd", epsilon=7e-4, n_landmarks=80).fit(
        molecule.frames[:, heavy]
    )


def test_a_report_has_a_table_error_bars_and_a_colour_of_uncertainty(model):
    contents = gather(model)
    page = cards(contents)
    assert "Error bars of the coordinates" in page
    assert "reproducible" in page
    assert "with 95 % confidence" in page
    assert f"over {min(model.sampling_.n_blocks, 100)} blocks" in page
    field = next(entry for entry in contents.fields if entry.key == "uncertainty")
    k = model.n_components_
    errors = model.sampling_.landmark_errors[:, :k] / np.ptp(model.landmark_embedding_, axis=0)
    np.testing.assert_allclose(field.values, 100 * np.linalg.norm(errors, axis=1)[model.labels_], rtol=1e-5)


def test_a_map_that_was_not_resampled_has_none_of_it(model):
    plain = ldmaps.LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=40).fit(
        np.random.default_rng(0).uniform(-5, 5, size=(300, 2))
    )
    contents = gather(plain)
    assert "How sure" not in cards(contents)
    assert all(entry.key != "uncertainty" for entry in contents.fields)


def test_populations_have_the_error_of_blocks(model):
    points, basins = PointsOfMap.training(model), find_basins(model)
    table = basin_table(model, points, basins)
    count, n = model.sampling_.n_blocks, len(model.embedding_)
    labels = (np.arange(n) * count // n).astype(np.int32)
    blocks = Blocks("time", labels, count, 0.5 + n / count / 8)
    chi = np.clip(basins.memberships(points.coordinates), 0.0, 1.0)
    # A frame in a core counts whole, others by membership.
    shares = np.where(chi.max(axis=1, keepdims=True) >= 0.7, chi >= 0.7, chi / chi.sum(axis=1, keepdims=True))
    expected = block_error(shares, np.ones(n), blocks)
    np.testing.assert_allclose(table.population_errors, expected, rtol=1e-6)
    assert 0.001 < table.population_errors[0] < 0.3
    assert "±" in basin_rows(table)[1][1]
    assert table.as_dict()["basins"][0]["population_error"] == pytest.approx(expected[0])


def test_the_plot_of_the_spectrum_has_intervals(model):
    pytest.importorskip("matplotlib").use("Agg")
    ax = model.plot.spectrum()
    bars = ax.collections[0].get_segments()
    np.testing.assert_allclose([bar[:, 1] for bar in bars], model.sampling_.intervals)


def test_what_resampling_found_is_printed_in_a_line(model):
    text = repr(model.sampling_)
    assert text.startswith(f"Sampling(eigenvalues {model.sampling_.eigenvalues[0]:.4g} ± ")
    assert f"{model.sampling_.n_blocks} blocks of " in text
    assert "array" not in text
    assert len(text) < 400
