"""Plots return axes that show what the map holds, and matplotlib is asked for only when it is needed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.analysis.free_energy import free_energy_profile, free_energy_surface
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError

ROLL = swiss_roll(600, random_state=0).points


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")  # what other tests of this process have left
    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(3, 9.0, n_landmarks=80, extension="nystrom").fit(ROLL)


def test_embedding_shows_points_and_landmarks(pyplot, model):
    ax = model.plot.embedding(0, 2, colour=ROLL[:, 1], label="height")
    points, marks = ax.collections[:2]
    np.testing.assert_allclose(points.get_offsets(), model.embedding_[:, [0, 2]])
    np.testing.assert_allclose(marks.get_offsets(), model.landmark_embedding_[:, [0, 2]])
    sizes = marks.get_sizes()
    assert sizes[np.argmax(model.multiplicities_)] == sizes.max()
    assert ax.get_xlabel() == r"$\psi_{2}$"
    assert ax.get_ylabel() == r"$\psi_{4}$"
    ax.figure.canvas.draw()


def test_embedding_of_other_points_without_landmarks(pyplot, model):
    new = model.transform(ROLL[:50])
    ax = model.plot.embedding(points=new, landmarks=False)
    assert len(ax.collections[0].get_offsets()) == 50


def test_spectrum_tells_what_is_kept(pyplot, model):
    ax = model.plot.spectrum()
    shown = np.concatenate([line.get_ydata() for line in ax.lines[1:3]])
    np.testing.assert_array_equal(shown, model.spectrum_)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["kept", "left out"]
    assert ax.lines[3].get_xdata()[0] == 4.5  # behind ψ4, the last of three
    ax.figure.canvas.draw()


def test_free_energy_is_a_surface_over_the_map(pyplot, model):
    ax = model.plot.free_energy(1, 2)
    assert ax.collections
    low, high = ax.get_xlim()
    assert low <= model.embedding_[:, 1].min() < model.embedding_[:, 1].max() <= high
    ax.figure.canvas.draw()


def test_a_profile_shows_energies_and_errors(pyplot, model):
    ax = model.plot.profile(1, blocks=4)
    expected = free_energy_profile(model.embedding_[:, 1], blocks=4)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected.energy)
    assert ax.get_xlabel() == r"$\psi_{3}$"
    band = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    known = np.isfinite(expected.error)
    assert band[:, 1].max() == pytest.approx((expected.energy + expected.error)[known].max())
    ax.figure.canvas.draw()
    exact = DiffusionMap(1, 16.0).fit(ROLL)
    exact.plot.profile().figure.canvas.draw()


def test_a_coordinate_is_named_or_counted(pyplot, model):
    by_name, by_place = model.plot.profile("psi3"), model.plot.profile(1)
    assert by_name.get_xlabel() == by_place.get_xlabel() == r"$\psi_{3}$"
    drawn = [axes.lines[0].get_xydata() for axes in (by_name, by_place)]
    np.testing.assert_array_equal(*drawn)


def test_weights_of_the_fit_count_in_pictures(pyplot):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(ROLL))
    weighted = LandmarkDiffusionMap(2, 9.0, n_landmarks=80).fit(ROLL, sample_weight=weights)
    ax = weighted.plot.profile()
    expected = free_energy_profile(weighted.embedding_[:, 0], weights).energy
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected, atol=1e-5)


def test_given_axes_are_drawn_on(pyplot, model):
    figure, panels = pyplot.subplots(1, 3)
    drawn = [
        model.plot.embedding(ax=panels[0]),
        model.plot.spectrum(ax=panels[1]),
        model.plot.free_energy(ax=panels[2]),
    ]
    assert drawn == list(panels)
    assert pyplot.get_fignums() == [figure.number]


def test_one_coordinate_is_drawn_in_order(pyplot):
    exact = DiffusionMap(1, 16.0).fit(ROLL)
    ax = exact.plot.embedding()
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], exact.embedding_[:, 0])
    with pytest.raises(InvalidInputError, match="needs two coordinates, but this map has one"):
        exact.plot.free_energy()


def test_a_model_without_its_points_is_drawn_by_its_landmarks(pyplot, model, tmp_path):
    model.save(tmp_path / "map.ldm", include_embedding=False)
    small = load(tmp_path / "map.ldm")
    assert len(small.plot.embedding().collections[0].get_offsets()) == 80
    small.plot.free_energy()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x": 3}, r"coordinate 3 does not exist: this map has psi2, psi3, psi4; name one .* from 0 to 2"),
        ({"colour": [1.0]}, r"one number per point, \(600,\), got shape \(1,\)"),
        ({"points": ROLL[:, :2]}, r"of shape \(n, 3\), got \(600, 2\); embed raw data with model.transform"),
    ],
)
def test_bad_requests_are_explained(pyplot, model, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        model.plot.embedding(**settings)


def test_an_unfitted_map_says_so():
    with pytest.raises(NotFittedError):
        LandmarkDiffusionMap().plot.spectrum()


def test_without_matplotlib_the_remedy_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInputError, match=r"pip install matplotlib"):
        model.plot.spectrum()


# -- the surface itself -----------------------------------------------------------


def test_the_surface_of_a_gaussian_is_a_parabola():
    points = np.random.default_rng(0).normal(size=(200_000, 2))
    surface = free_energy_surface(points)
    x, y = surface.centres()
    true = 0.5 * (x[:, None] ** 2 + y[None] ** 2)
    near = true < 3
    assert np.abs(surface.energy - true)[near].max() < 0.25


def test_the_profile_of_a_gaussian_is_a_parabola():
    profile = free_energy_profile(np.random.default_rng(0).normal(size=200_000))
    along, energy = profile.centres, profile.energy
    near = np.abs(along) < 2.2
    assert np.abs(energy - 0.5 * along**2)[near].max() < 0.15


def test_weights_count_like_copies():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(3000, 2))
    twice = free_energy_surface(np.vstack([points, points]), cells=30).energy
    weighted = free_energy_surface(points, np.full(3000, 2.0), cells=30).energy
    dense = (twice < 3) & (weighted < 3)
    np.testing.assert_allclose(twice[dense], weighted[dense], atol=0.05)


def test_weights_of_a_profile_count_like_copies():
    values = np.random.default_rng(1).normal(size=500)
    weights = np.random.default_rng(2).integers(1, 5, 500)
    profile = free_energy_profile(values, weights, cells=30)
    copies = free_energy_profile(np.repeat(values, weights), cells=30)
    np.testing.assert_allclose(profile.centres, copies.centres)
    np.testing.assert_allclose(profile.energy, copies.energy)
    assert np.nanmax(np.abs(profile.energy - free_energy_profile(values, cells=30).energy)) > 0.1


def test_the_error_of_a_profile_is_a_jackknife_over_blocks():
    """By plain loops, with weights, and without smoothing."""
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=1000), rng.uniform(0.5, 2.0, 1000)
    profile = free_energy_profile(values, weights, cells=12, smoothing=0, blocks=4)
    edges = np.linspace(values.min(), values.max(), 13)
    cell = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 11)
    for place in range(12):
        free = []
        for block in range(4):
            stays = [row for row in range(1000) if not 250 * block <= row < 250 * (block + 1)]
            mass = sum(weights[row] for row in stays if cell[row] == place)
            free.append(-np.log(mass / weights[stays].sum()) if mass else np.inf)
        blocks_there = {row // 250 for row in range(1000) if cell[row] == place}
        if len(blocks_there) < 2:
            assert np.isnan(profile.error[place])
        else:
            expected = np.sqrt(3 / 4 * sum((value - np.mean(free)) ** 2 for value in free))
            assert profile.error[place] == pytest.approx(expected, rel=1e-9)


def test_errors_of_independent_values_are_those_of_counts():
    """A count of n·p has the relative error √((1 − p)/(n p)); correlated values have more."""
    rng = np.random.default_rng(1)
    values = rng.uniform(size=100_000)
    error = free_energy_profile(values, cells=10, smoothing=0, blocks=200).error
    expected = np.sqrt(0.9 / (0.1 * 100_000))
    np.testing.assert_allclose(error, expected, rtol=0.2)
    slow = np.repeat(values[:1000], 100)
    assert np.nanmean(free_energy_profile(slow, cells=10, smoothing=0, blocks=200).error) > 5 * expected


def test_no_energy_beyond_what_the_sample_shows():
    """Smoothing a lone point out must not make it rarer than 1 of n."""
    for n in (50, 250, 2500):
        points = np.random.default_rng(n).normal(size=(n, 2)) * [1.0, 3.0]
        assert free_energy_surface(points).highest <= np.log(n)
        lone = np.vstack([np.zeros((n - 1, 2)), [[1.0, 1.0]]])
        assert free_energy_surface(lone).highest <= np.log(n)
        assert np.nanmax(free_energy_profile(points[:, 0]).energy) <= np.log(n)
        heaped = np.append(np.zeros(n - 2), [0.5, 1.0])  # where smoothing has nothing on one side
        assert np.nanmax(free_energy_profile(heaped).energy) == pytest.approx(np.log(n))


def test_light_points_show_high_energies():
    """Of a biased run, few points of low weight are no limit: a flat sample weighted by exp(−U) gives U."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(60_000, 2))
    true = 12 * points[:, 0] ** 2
    surface = free_energy_surface(points, np.exp(-true), cells=80)
    x, _ = surface.centres()
    inner = np.abs(x) < 0.9
    along = np.nanmedian(surface.energy[inner], axis=1)
    np.testing.assert_allclose(along - along.min(), 12 * x[inner] ** 2, atol=0.5)
    assert surface.highest > 9.0


@pytest.mark.parametrize(("values", "settings"), [([], {}), ([[1.0]], {}), ([1.0, 2.0], {"blocks": 1})])
def test_a_profile_of_nothing_is_explained(values, settings):
    with pytest.raises(InvalidInputError, match="shape|blocks"):
        free_energy_profile(values, **settings)


def test_a_lighter_well_lies_higher_by_the_log_of_its_weight():
    rng = np.random.default_rng(2)
    left, right = rng.normal(-4, 1, size=(50_000, 2)), rng.normal(4, 1, size=(50_000, 2))
    weights = np.repeat([1.0, np.exp(-2.0)], 50_000)
    surface = free_energy_surface(np.vstack([left, right]), weights)
    x, y = surface.centres()
    for centre, energy in ((-4, 0.0), (4, 2.0)):
        well = surface.energy[np.abs(x - centre) < 0.3][:, np.abs(y - centre) < 0.3]
        assert abs(np.nanmin(well) - energy) < 0.15


def test_a_lone_point_is_smeared_out_more_widely_than_a_crowd():
    """Its density is that of a Gaussian of 2.5 times the width, but counts as one point: the log of the shares."""
    crowd, lone = np.zeros((10_000, 2)), np.array([[1.0, 1.0]])
    # Corners of the grid, so that nothing is cut off at its edges.
    corners = np.array([[-1.0, -1.0], [3.0, 3.0]])
    surface = free_energy_surface(np.vstack([crowd, lone, corners]), cells=80)
    x, y = surface.centres()
    energy = surface.energy[np.abs(x - 1).argmin(), np.abs(y - 1).argmin()]
    assert energy == pytest.approx(np.log(10_000), abs=0.1)
    # And it is shown as far as its density is half of its peak: √(2 ln 2) widths of 3 cells.
    row = surface.energy[np.abs(x - 1).argmin()]
    assert 6 <= np.isfinite(row).sum() <= 8


def test_two_wells_differ_by_the_log_of_their_shares():
    rng = np.random.default_rng(2)
    left, right = rng.normal(-4, 1, size=(80_000, 2)), rng.normal(4, 1, size=(20_000, 2))
    surface = free_energy_surface(np.vstack([left, right]))
    x, y = surface.centres()
    inside = surface.energy[np.abs(x - 4) < 0.3][:, np.abs(y - 4) < 0.3]
    assert abs(np.nanmin(inside) - np.log(4)) < 0.15


def test_far_from_all_points_there_is_no_energy():
    rng = np.random.default_rng(3)
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.01 * rng.normal(size=(20_000, 2))
    energy = free_energy_surface(ring).energy
    middle = len(energy) // 2
    assert np.isnan(energy[middle - 10 : middle + 10, middle - 10 : middle + 10]).all()
    assert np.isfinite(energy).sum() < 0.2 * energy.size


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros((4, 3)), np.zeros(4)])
def test_what_is_no_plane_is_refused(points):
    with pytest.raises(InvalidInputError, match=r"points of shape \(n, 2\)"):
        free_energy_surface(points)


def test_points_in_one_place_have_one_energy():
    energy = free_energy_surface(np.ones((50, 2))).energy
    assert np.isfinite(energy).any()


def test_points_of_weight_zero_leave_free_energies_as_they_are():
    # As a fit gives them to points that lie apart from all others.
    crowd = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    corners = np.array([[-8.0, -8.0], [8.0, 8.0]])
    weights = np.concatenate([np.ones(2000), np.zeros(2)])
    surface = free_energy_surface(np.vstack([crowd, corners]), weights)
    assert surface.highest <= np.log(2000)
    assert np.isnan(surface.energy[[0, -1], [0, -1]]).all()
    profile = free_energy_profile(np.append(crowd[:, 0], [-8.0, 8.0]), weights)
    np.testing.assert_array_equal(profile.energy, free_energy_profile(crowd[:, 0]).energy)
