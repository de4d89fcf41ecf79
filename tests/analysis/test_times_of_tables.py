"""Times of a table are seconds or dates, in every view of its map."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis.basin_table import basin_rows, basin_table
from ldmaps.analysis.own_points import PointsOfMap
from ldmaps.analysis.report.contents import gather
from ldmaps.analysis.report.page import payload
from ldmaps.regions import find_basins

#: A row each minute.
STEP = 60.0


def fitted(folder, times):
    """Return a map of a pump that is on or off for 20 rows at a time."""
    rng = np.random.default_rng(0)
    state = np.arange(400) // 20 % 2
    rows = np.column_stack([3.0 * state, -2.0 * state]) + rng.normal(scale=0.5, size=(400, 2))
    lines = [f"{time},{flow},{load}" for time, (flow, load) in zip(times, rows, strict=True)]
    (folder / "pump.csv").write_text("\n".join(["time,flow,load", *lines]))
    source = ldmaps.inputs.open_files(folder / "pump.csv")
    return LandmarkDiffusionMap(2, "connected", n_landmarks=50).fit(source)


@pytest.fixture(scope="module")
def pump(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("seconds"), STEP * np.arange(400))


def test_dwell_times_of_a_table_are_in_seconds(pump):
    points, basins = PointsOfMap.training(pump), find_basins(pump, 2)
    table = basin_table(pump, points, basins)
    assert table.as_dict()["unit"] == "s"
    assert np.nanmean(table.transitions.dwell) == pytest.approx(20 * STEP, rel=0.1)
    heading, first, _ = basin_rows(table)
    assert heading[4] == "dwell (s)"
    assert float(first[4].split(" ± ")[0]) == pytest.approx(20 * STEP, rel=0.1)


@pytest.mark.parametrize(("factor", "unit", "length"), [(5.0, "h", 3600.0), (200.0, "d", 86400.0)])
def test_long_times_of_a_table_are_in_hours_or_days(pump, factor, unit, length):
    points = PointsOfMap.training(pump)
    points = replace(points, times=factor * points.times)
    heading, first, _ = basin_rows(basin_table(pump, points, find_basins(pump, 2)))
    assert heading[4] == f"dwell ({unit})"
    assert float(first[4].split(" ± ")[0]) == pytest.approx(factor * 20 * STEP / length, rel=0.1)


def test_a_report_shows_seconds_of_a_table(pump):
    contents = gather(replace_times(pump, 0.5))
    field = next(entry for entry in contents.fields if entry.key == "time")
    assert (field.label, field.unit) == ("Time", "s")
    np.testing.assert_allclose(field.values, 0.5 * STEP * np.arange(400))


def test_a_report_counts_dates_from_the_first(tmp_path):
    first = datetime(2025, 3, 1, 12)
    model = fitted(tmp_path, [(first + timedelta(seconds=STEP * row)).isoformat() for row in range(400)])
    contents = gather(model)
    field = next(entry for entry in contents.fields if entry.key == "time")
    assert (field.label, field.unit) == ("Time since 2025-03-01 12:00:00 UTC", "h")
    np.testing.assert_allclose(field.values, np.arange(400) / 60.0, atol=1e-9)
    drawn = contents.landmarks
    np.testing.assert_allclose(drawn.times, drawn.frames / 60.0, atol=1e-9)
    page = payload(contents)
    assert (page["timeLabel"], page["timeUnit"]) == (field.label, "h")


def test_a_plot_coloured_by_time_names_the_unit_of_the_map(pump):
    pytest.importorskip("matplotlib").use("Agg")
    axes = pump.plot.embedding(colour=np.arange(400.0), label="time")
    assert axes.figure.axes[1].get_ylabel() == "time (s)"


def replace_times(model, factor):
    """Return the same map of rows that follow each other faster."""
    record = replace(model.training_, times=factor * model.training_.times)
    changed = LandmarkDiffusionMap()
    changed.__dict__.update(model.__dict__)
    changed.map_ = replace(model.map_, training=record)
    return changed


@pytest.mark.parametrize(("count", "is_few"), [(9, True), (10, False)])
def test_fewer_than_ten_transitions_are_said_to_be_few(pump, count, is_few):
    basins = find_basins(pump, 2)
    points = PointsOfMap.training(pump)
    inside = [np.flatnonzero(basins.memberships(points.coordinates)[:, place] > 0.9)[0] for place in range(2)]
    visited = points.taken(np.array([inside[visit % 2] for visit in range(count + 1)]))
    table = basin_table(pump, replace(visited, times=None), basins)
    assert int(table.transitions.counts.sum()) == count
    assert any("transitions are too few" in note for note in table.notes) == is_few
