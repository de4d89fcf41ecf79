"""A map is looked at by its training points, or by the rows of a table."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.analysis.own_points import PointsOfMap
from ldmaps.errors import InvalidInputError
from ldmaps.fit import fitted_map

N = 60


@pytest.fixture
def model():
    angle = np.linspace(0, 3, N)
    return LandmarkDiffusionMap(2, 0.05, n_landmarks=20).fit(np.column_stack([np.cos(angle), np.sin(angle)]))


@pytest.fixture
def colours(tmp_path):
    path = tmp_path / "colours.csv"
    path.write_text("height,name\n" + "".join(f"{row / 2},point {row}\n" for row in range(N)))
    return str(path)


def test_training_points_and_the_numbers_of_a_table(model, colours):
    points = PointsOfMap.of(model, colours)
    np.testing.assert_array_equal(points.coordinates, model.embedding_)
    # Words have no order, so they are no numbers to compare with.
    assert list(points.columns) == ["height", "name"]
    assert list(points.numbers()) == ["height"]
    np.testing.assert_array_equal(points.numbers()["height"], np.arange(N) / 2)
    assert PointsOfMap.of(model).numbers() == {}


def test_a_thinned_record_thins_points_and_table_alike(model, colours):
    rows = np.arange(0, N, 7)
    record = fitted_map.TrainingRecord.of(rows, times=rows * 10.0, files=rows // 30)
    model.training_ = record
    points = PointsOfMap.of(model, colours)
    np.testing.assert_array_equal(points.coordinates, model.embedding_[rows])
    np.testing.assert_array_equal(points.times, 10.0 * rows)
    np.testing.assert_array_equal(points.files, rows // 30)
    np.testing.assert_array_equal(points.numbers()["height"], rows / 2)
    assert list(points.numbers()) == ["time", "height"]


def test_a_map_without_a_record(model):
    model.training_ = None
    points = PointsOfMap.of(model)
    np.testing.assert_array_equal(points.coordinates, model.embedding_)
    assert points.times is None
    assert points.files is None


def test_a_model_without_its_points_takes_them_from_a_table(model, tmp_path):
    model.save(tmp_path / "small.ldm", include_embedding=False)
    small = load(tmp_path / "small.ldm")
    with pytest.raises(InvalidInputError, match="holds no training points; embed frames with ldmaps embed"):
        PointsOfMap.of(small)
    table = tmp_path / "psi.csv"
    rows = np.column_stack([model.embedding_, np.arange(N)])
    np.savetxt(table, rows, fmt="%.17g", delimiter=",", header="psi2,psi3,time", comments="")
    points = PointsOfMap.of(small, str(table))
    np.testing.assert_array_equal(points.coordinates, model.embedding_)
    np.testing.assert_array_equal(points.times, np.arange(N))
