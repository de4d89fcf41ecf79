"""Where frames went beside their committor: against a plain loop, and for maps that are too smooth for a steep one."""

import warnings
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from known_diffusions import Diffusion
from scipy.interpolate import RegularGridInterpolator

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import AccuracyWarning
from ldmaps.kinetics.committor import Attempt
from ldmaps.kinetics.galerkin import Choice
from ldmaps.kinetics.outcomes import EDGES, Level, Outcomes

committor_module = import_module("ldmaps.kinetics.committor")  # whose function has its name


@pytest.mark.parametrize("piece", [1, 13, 400])
def test_levels_are_those_of_a_plain_loop(piece):
    rng = np.random.default_rng(0)
    values, kind = rng.uniform(size=400), rng.choice([0, 0, 0, 0, 1, 2], size=400)  # 1 source, 2 target
    weights, begins = rng.uniform(0.5, 2, size=400), [0, 150, 153, 300]
    kind[140:153] = kind[295:300] = 0  # runs that end between the sets, one of which reaches none
    outcomes = Outcomes()
    for start, stop in zip(begins, [*begins[1:], 400], strict=True):
        for first in range(start, stop, piece):
            rows = slice(first, min(first + piece, stop))
            outcomes.add(
                values[rows, None], kind[rows] > 0, kind[rows] == 2, weights[rows], begins_run=first == start
            )
    found = outcomes.levels(lambda points: points[:, 0])
    for level, low, high in zip(found, EDGES[:-1], EDGES[1:], strict=True):
        total = value = arrived = 0.0
        visits = {}
        for row in np.flatnonzero((kind == 0) & (values >= low) & (values < high)):
            end = min([stop for stop in [*begins[1:], 400] if stop > row])
            following = next((later for later in range(row, end) if kind[later]), None)
            outcome = values[end - 1] if following is None else float(kind[following] == 2)
            event = ("end", end) if following is None else following
            visits[event] = visits.get(event, 0.0) + weights[row]
            total, value, arrived = (
                total + weights[row],
                value + weights[row] * values[row],
                arrived + weights[row] * outcome,
            )
        effective = sum(visits.values()) ** 2 / sum(one**2 for one in visits.values())
        mean = value / total
        np.testing.assert_allclose(
            [level.value, level.arrived, level.visits, level.error],
            [mean, arrived / total, effective, np.sqrt(mean * (1 - mean) / effective)],
        )


@pytest.mark.parametrize(
    ("arrived", "error", "is_off"),
    [(0.8, 0.05, True), (0.2, 0.05, True), (0.8, 0.2, False), (0.55, 0.01, False)],
)
def test_a_difference_must_be_large_and_certain(arrived, error, is_off):
    assert Level(0.5, arrived, error, 30.0).is_off == is_off


@pytest.fixture(scope="module")
def barrier():
    """Return a steep barrier nearer to the one set than to the other, which is crossed in a few frames."""
    well = Diffusion(lambda x: 5 * (x[..., 0] ** 2 - 1) ** 2 + 2 * x[..., 1] ** 2, [(-2, 2), (-2.5, 2.5)])
    return well, well.simulate(200, 200, 0.02, 0.004, seed=1)


def from_wide_to_far(x):
    return x[:, 0] < -0.3, x[:, 0] > 0.9


def learned(runs, epsilon):
    model = LandmarkDiffusionMap(n_components=2, epsilon=epsilon, n_landmarks=100).fit(runs.points)
    source, target = from_wide_to_far(runs.points)
    return model.committor(runs.points, source=source, target=target, lag=1, runs=runs.runs)


def test_a_map_too_smooth_for_a_steep_committor_is_warned_about(barrier, monkeypatch):
    monkeypatch.setattr(committor_module, "NARROWINGS", (1.0,))
    with pytest.warns(AccuracyWarning, match="q is off between the sets: .* smaller epsilon"):
        found = learned(barrier[1], 2.0)
    assert any(abs(arrived - value) > 0.1 for value, arrived, _, _ in found.record_.facts["levels"])
    assert found.record_.facts["misfit"] > 0.1


@pytest.mark.parametrize(("epsilon", "narrowing"), [(0.2, 1.0), (2.0, 1 / 16)])
def test_a_committor_is_steep_enough_where_kernels_are_narrowed_until_it_is(
    barrier, epsilon, narrowing, tmp_path
):
    well, runs = barrier
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learned(runs, epsilon)
    assert found.record_.facts["narrowing"] == narrowing
    assert found.embedder_.bandwidth == pytest.approx(narrowing * epsilon)
    assert ("kernels have 0.0625 of the map's squared width" in repr(found)) == (narrowing < 1)
    truth = well.committor(*from_wide_to_far(well.grid)).reshape(100, 100)
    at_frames = RegularGridInterpolator(well.axes, truth)(np.clip(runs.points, -1.99, 1.99))
    middle = (at_frames > 0.1) & (at_frames < 0.9)
    difference = found.transform(runs.points)[middle, 0] - at_frames[middle]
    assert np.sqrt(np.mean(difference**2)) < 0.1
    facts = found.record_.facts
    assert facts["middle_error"] > 0
    for value, arrived, error, _ in facts["levels"]:
        assert abs(arrived - value) < max(0.1, 3 * error)
    assert "share of them that reached the target first" in repr(found)
    # Where new points count as inside is the map's affair, and files keep the width.
    map_of_points = LandmarkDiffusionMap(n_components=2, epsilon=epsilon, n_landmarks=100).fit(runs.points)
    for mine, other in zip(found.coverage(well.grid), map_of_points.coverage(well.grid), strict=True):
        np.testing.assert_array_equal(mine, other)
    found.save(tmp_path / "q.ldm")
    np.testing.assert_array_equal(
        ldmaps.load(tmp_path / "q.ldm").transform(well.grid), found.transform(well.grid)
    )


def test_narrower_kernels_have_to_lose_nothing_where_blocks_are_held_out():
    def attempt(misfit, *losses):
        choice = Choice(2, 0.0, np.array(losses))
        return Attempt(1.0, None, SimpleNamespace(misfit=misfit, choice=choice), [])

    wide = attempt(0.3, 1.0, 1.1, 0.9)
    assert attempt(0.01, 1.0, 1.1, 0.91).is_better(wide)
    assert not attempt(0.01, 1.2, 1.31, 1.1).is_better(wide)
    assert not attempt(0.3, 0.5, 0.6, 0.4).is_better(wide)
