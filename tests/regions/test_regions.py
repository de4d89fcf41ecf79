"""Shapes against outside oracles, files, and messages."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions import Alarm, Ball, Box, OutOfDomain, Polygon, Region, load_regions, save_regions
from ldmaps.regions.basins import Basin
from ldmaps.regions.region_file import region_from_dict

#: A star and a C: concave, and a ray can cross their outline four times.
STAR = [
    [np.cos(angle) * radius, np.sin(angle) * radius]
    for angle, radius in zip(np.linspace(0, 2 * np.pi, 11)[:-1], [1.0, 0.4] * 5, strict=True)
]
LETTER_C = [[0, 0], [3, 0], [3, 1], [1, 1], [1, 2], [3, 2], [3, 3], [0, 3]]

REGIONS: list[Region] = [
    Box({"psi2": (-0.5, 0.5), "psi3": (None, 0.2)}, margin=0.1),
    Ball({"psi2": 0.1, "psi4": -0.2}, 0.5, margin=0.05),
    Polygon(STAR, ("psi2", "psi3"), margin=0.02),
    Polygon(LETTER_C, ("psi4", "psi2")),
    OutOfDomain(farther_than=1.2),
    Alarm(1.4, release=0.9, hold=7, rate=0.01, step=0.1),
    Basin([0.4, 2.0, -1.0], [0.9, 0.8, 0.5]),
]


def covered(n: int, rng: np.random.Generator | None = None) -> Coverage:
    if rng is None:
        return Coverage(np.zeros(n), np.ones(n, dtype=bool), np.zeros(n, dtype=np.intp))
    distance = rng.uniform(0.0, 2.0, n)
    return Coverage(distance, distance <= 1.0, np.zeros(n, dtype=np.intp))


def winding_number(polygon: np.ndarray, point: np.ndarray) -> int:
    """Count the turns of the outline around a point by its angles: slow, and nothing like the crossing rule."""
    spokes = polygon - point
    angles = np.arctan2(spokes[:, 1], spokes[:, 0])
    steps = np.diff(np.append(angles, angles[0]))
    return round(((steps + np.pi) % (2 * np.pi) - np.pi).sum() / (2 * np.pi))


def distance_to_outline(polygon: np.ndarray, point: np.ndarray) -> float:
    """By sampling the edges finely."""
    along = np.linspace(0, 1, 2001)[:, None]
    ends = np.roll(polygon, -1, axis=0)
    edges = np.concatenate([a * (1 - along) + b * along for a, b in zip(polygon, ends, strict=True)])
    return float(np.hypot(*(edges - point).T).min())


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.kind)
def test_entering_is_part_of_staying_and_rows_do_not_know_each_other(region):
    rng = np.random.default_rng(1)
    points = rng.normal(0, 0.7, (400, 3)).astype(np.float32)
    coverage = covered(400, rng)
    entering, staying = region.masks(points, coverage)
    assert entering.dtype == staying.dtype == bool
    assert entering.any()
    assert not staying.all()
    assert (staying | ~entering).all()
    for i in range(400):
        one = Coverage(*(part[i : i + 1] for part in coverage[:3]))
        alone = region.masks(points[i : i + 1], one)
        assert (alone[0][0], alone[1][0]) == (entering[i], staying[i])


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.kind)
def test_round_trip_through_json(region):
    text = json.dumps(region.as_dict(), allow_nan=False)
    again = region_from_dict(json.loads(text))
    assert type(again) is type(region)
    assert again == region
    points = np.random.default_rng(2).normal(0, 0.7, (200, 3))
    coverage = covered(200, np.random.default_rng(3))
    for old, new in zip(region.masks(points, coverage), again.masks(points, coverage), strict=True):
        np.testing.assert_array_equal(old, new)


def test_box_bounds_belong_to_it_and_others_are_free():
    box = Box({"psi3": (0.0, 1.0)}, margin=0.25)
    y = np.array([-0.3, -0.25, -0.01, 0.0, 0.5, 1.0, 1.01, 1.25, 1.3])
    entering, staying = box.masks(np.column_stack([np.full(9, 1e9), y]), covered(9))
    np.testing.assert_array_equal(entering, (y >= 0) & (y <= 1))
    np.testing.assert_array_equal(staying, (y >= -0.25) & (y <= 1.25))


def test_ball_is_a_ball():
    points = np.random.default_rng(4).uniform(-2, 2, (2000, 2))
    entering, staying = Ball({"psi2": 0.5, "psi3": -0.5}, 1.0, margin=0.5).masks(points, covered(2000))
    away = np.linalg.norm(points - [0.5, -0.5], axis=1)
    np.testing.assert_array_equal(entering, away <= 1.0)
    np.testing.assert_array_equal(staying, away <= 1.5)


def test_out_of_domain_goes_by_the_verdict():
    coverage = Coverage(
        np.array([0.5, 1.1, 1.6, 3.0]), np.array([True, False, False, True]), np.zeros(4, dtype=np.intp)
    )
    points = np.zeros((4, 1))
    entering, staying = OutOfDomain().masks(points, coverage)
    np.testing.assert_array_equal(entering, [False, True, True, False])
    np.testing.assert_array_equal(staying, [False, True, True, False])
    entering, staying = OutOfDomain(farther_than=1.5).masks(points, coverage)
    np.testing.assert_array_equal(entering, [False, False, True, False])
    np.testing.assert_array_equal(staying, [False, True, True, False])


def test_nothing_holds_a_point_that_is_not_a_number():
    points = np.full((1, 3), np.nan)
    for region in REGIONS:
        if not isinstance(region, (Alarm, OutOfDomain)):
            assert not region.masks(points, covered(1))[1][0]


@pytest.mark.parametrize("outline", [STAR, LETTER_C, LETTER_C[::-1]], ids=["star", "C", "C clockwise"])
def test_polygon_against_winding_numbers(outline):
    corners = np.array(outline, dtype=float)
    points = np.random.default_rng(5).uniform(corners.min() - 0.5, corners.max() + 0.5, (1500, 2))
    entering, staying = Polygon(outline, margin=0.2).masks(points, covered(1500))
    inside = np.array([winding_number(corners, point) != 0 for point in points])
    np.testing.assert_array_equal(entering, inside)
    assert 100 < inside.sum() < 1400
    away = np.array([distance_to_outline(corners, point) for point in points])
    clear = np.abs(away - 0.2) > 2e-3  # the oracle's own resolution
    np.testing.assert_array_equal(staying[clear], (inside | (away <= 0.2))[clear])


def test_polygon_against_matplotlib():
    path = pytest.importorskip("matplotlib.path", reason="matplotlib is not installed").Path
    points = np.random.default_rng(6).uniform(-1.2, 1.2, (5000, 2))
    entering, _ = Polygon(STAR).masks(points, covered(5000))
    np.testing.assert_array_equal(
        entering, path(np.array([*STAR, STAR[0]]), closed=True).contains_points(points)
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.integers(0, 2**31))
def test_points_on_the_outline_belong_to_the_polygon(n, seed):
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * (np.arange(n) + rng.uniform(0.1, 0.9, n)) / n
    corners = np.column_stack([np.cos(angles), np.sin(angles)]) * rng.uniform(0.5, 2.0, (n, 1)) + rng.normal(
        0, 3, 2
    )
    along = rng.uniform(0, 1, (n, 1))
    on_edges = corners * (1 - along) + np.roll(corners, -1, axis=0) * along
    points = np.concatenate([corners, on_edges])
    assert Polygon(corners).masks(points, covered(len(points)))[0].all()


def test_a_ray_through_vertices_counts_once():
    diamond = Polygon([[1, 0], [0, 1], [-1, 0], [0, -1]])
    points = np.array(
        [[-2.0, 0.0], [-2.0, 1.0], [-2.0, -1.0], [0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 1.1]]
    )
    entering, _ = diamond.masks(points, covered(7))
    np.testing.assert_array_equal(entering, [False, False, False, True, False, True, False])
    notch = Polygon([[0, 0], [4, 0], [4, 2], [3, 1], [2, 2], [1, 1], [0, 2]])
    points = np.array([[-1.0, 1.0], [-1.0, 2.0], [2.0, 1.0], [1.0, 1.5], [3.0, 1.5], [2.0, 1.9]])
    np.testing.assert_array_equal(
        notch.masks(points, covered(6))[0], [False, False, True, False, False, True]
    )


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([[0, 0], [1, 1], [1, 0], [0, 1]], "edges 0 and 2 of the polygon cross or touch"),
        ([[0, 0], [2, 0], [2, 2], [1, 0], [0, 2]], "cross or touch"),  # a vertex on another edge
        ([[0, 0], [2, 0], [1, 0], [1, 1]], "edges 0 and 1 of the polygon cross or touch"),  # runs back
        ([[0, 0], [0, 0], [1, 0], [1, 1]], "cross or touch"),
        ([[0, 0], [1, 1], [2, 2]], "cross or touch"),
        ([[0, 0], [1, 0], [0, 0]], "at least three different vertices, got 2"),
        ([[0, 0], [1, 0], [np.nan, 1]], "vertex 2 of a polygon is"),
        ([[0, 0, 0], [1, 0, 0], [1, 1, 0]], "pairs of numbers"),
        ([[0, 0], [1], [1, 1]], "pairs of numbers"),
    ],
)
def test_polygons_that_are_none(vertices, message):
    with pytest.raises(InvalidInputError, match=message):
        Polygon(vertices)


def test_a_closed_outline_is_the_same_polygon():
    assert Polygon([*LETTER_C, LETTER_C[0]]) == Polygon(LETTER_C)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "circle"}, "kind is one of \"box\", .*got 'circle'"),
        ({}, "got None"),
        ({"kind": "box"}, "bounds for at least one coordinate"),
        ({"kind": "box", "psi2": [1.0, 1.0]}, "empty box"),
        ({"kind": "box", "psi2": [float("inf"), float("inf")]}, "empty box"),
        (
            {"kind": "box", "psi2": [float("nan"), 1.0]},
            "lower bound of psi2 must be a finite number, got nan",
        ),
        ({"kind": "box", "psi2": 3}, "a pair"),
        ({"kind": "box", "psi1": [0, 1]}, "called psi2, psi3, ..., got 'psi1'"),
        ({"kind": "box", "far out": [0, 1]}, "got 'far out'"),
        ({"kind": "box", "psi2": [0, 1], "margin": -0.1}, "margin must be 0 or more, got -0.1"),
        ({"kind": "box", "psi2": [0, 1], "margin": "wide"}, "margin must be a finite number, got 'wide'"),
        ({"kind": "ball", "centre": {"psi2": 0}}, "a ball needs radius"),
        ({"kind": "ball", "centre": {"psi2": 0}, "radius": 0}, "radius of a ball must be above 0"),
        ({"kind": "ball", "centre": [0, 0], "radius": 1}, "a ball needs a centre"),
        (
            {"kind": "ball", "centre": {"psi2": 0}, "radius": 1, "size": 2},
            "a ball has no 'size'; it has centre",
        ),
        ({"kind": "polygon", "vertices": LETTER_C, "axes": ["psi2"]}, "two different axes"),
        ({"kind": "basin", "coefficients": [1.0], "eigenvalues": [0.9]}, "got 1 coefficients"),
    ],
)
def test_faulty_regions_say_what_is_wrong(facts, message):
    with pytest.raises(InvalidInputError, match=message):
        region_from_dict(facts)


# -- files ------------------------------------------------------------------------

TOML = """
[regions.lost]
kind = "out_of_domain"

[regions.left]
kind = "box"
psi2 = [-inf, -0.1]
margin = 0.02

[regions.spot]
kind = "ball"
centre = { psi2 = 0.5, psi3 = 0.1 }
radius = 0.2

[regions.outline]
kind = "polygon"
axes = ["psi3", "psi2"]
vertices = [[0, 0], [1, 0], [0, 1]]
"""


def model_of(k: int) -> SimpleNamespace:
    names = [f"psi{number}" for number in range(2, k + 2)]
    return SimpleNamespace(n_components_=k, coordinate_names_=names, eigenvalues_=np.linspace(0.9, 0.5, k))


def test_toml_and_json_files_hold_the_same(tmp_path):
    (tmp_path / "regions.toml").write_text(TOML)
    regions = load_regions(tmp_path / "regions.toml", model_of(2))
    assert list(regions) == ["lost", "left", "spot", "outline"]
    assert regions["left"] == Box({"psi2": (None, -0.1)}, margin=0.02)
    save_regions(tmp_path / "regions.json", regions)
    again = load_regions(tmp_path / "regions.json", model_of(2))
    assert list(again.items()) == list(regions.items())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.toml", TOML, "region 'spot': psi3 is not a coordinate of this map, which has 1"),
        ("r.toml", "[regions.a]\nkind = 'box'\npsi2 = [nan, 1]", "region 'a': the lower bound"),
        ("r.toml", "[regions.a\n", "is not valid TOML"),
        ("r.json", '{"regions": ', "is not valid JSON"),
        ("r.json", "[]", "must hold an object"),
        ("r.json", '{"regions": {"a": 3}}', "region 'a': a region is a table"),
        ("r.toml", "", "holds no regions"),
        ("r.toml", "[region.a]\nkind = 'box'", "'region' does not belong in a regions file"),
        ("r.toml", "[basins]\nnumber = 3", "basins has no 'number'; it has n_basins"),
        ("r.yaml", "", "ends in .toml or .json"),
        (
            "r.json",
            json.dumps({"regions": {"b": Basin([0.5, 1.0], [0.7]).as_dict()}}),
            "region 'b': the basin was learned from another map, with eigenvalues 0.7 where this one has 0.9",
        ),
    ],
)
def test_faulty_files_say_where(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError, match=message) as caught:
        load_regions(tmp_path / name, model_of(1))
    assert name in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInputError, match="no such file"):
        load_regions(tmp_path / "regions.toml", model_of(1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.json", "[" * 200_000),
        ("r.toml", "regions = " + "[" * 200_000),
        ("r.json", json.dumps({"regions": {"a": {"kind": "box", "psi2": [10**400, None]}}})),
        (
            "r.json",
            json.dumps({"regions": {"a": {"kind": "ball", "centre": {"psi2": 0}, "radius": 10**400}}}),
        ),
        (
            "r.json",
            json.dumps({"regions": {"a": {"kind": "polygon", "vertices": [[10**400, 0], [1, 1], [0, 1]]}}}),
        ),
        (
            "r.json",
            json.dumps(
                {
                    "regions": {
                        "a": {
                            "kind": "polygon",
                            "vertices": [[0, 0], [1, 1], [0, 1]],
                            "axes": {"x": 1, "y": 2},
                        }
                    }
                }
            ),
        ),
        ("r.json", json.dumps({"basins": {"n_basins": 2, "names": [{}, "y"]}})),
        ("r.json", json.dumps({"basins": {"n_basins": 2, "names": {"x": 1, "y": 2}}})),
        ("r.json", json.dumps({"basins": {"n_basins": 2, "names": 5}})),
    ],
    ids=range(9),
)
def test_files_of_hostile_content_have_our_errors(tmp_path, name, text):
    model = LandmarkDiffusionMap(2, "connected").fit(np.random.default_rng(0).normal(size=(40, 3)))
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError):
        load_regions(tmp_path / name, model)


# -- values beyond all measure ---------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Box({"psi" + "1" * 5000: (0.0, 1.0)}),
        lambda: Box({"psi2": (-1e308, 1e308)}, margin=1e308),
        lambda: Ball({"psi2": 0.0}, 1e200),
        lambda: Ball({"psi2": 1e300}, 1.0),
        lambda: Ball({"psi2": 0.0}, 1.0, margin=1e308),
        lambda: Polygon([[-1e308, -1e308], [1e308, -1e308], [1e308, 1e308]]),
        lambda: Polygon(np.random.default_rng(0).random((10_001, 2))),
    ],
)
def test_values_that_no_square_can_hold_are_refused(make):
    with pytest.raises(InvalidInputError, match=r"psi2, psi3|at most"):
        make()


@pytest.mark.parametrize(
    "text", ['{"basins": {"n_basins": %s}}' % ("1" * 401), "[basins]\nn_basins = " + "1" * 5000]
)
def test_basins_without_number_are_refused(tmp_path, text):
    path = tmp_path / ("regions.json" if text.startswith("{") else "regions.toml")
    path.write_text(text)
    with pytest.raises(InvalidInputError, match="n_basins must be|is not valid TOML"):
        load_regions(path, model_of(2))


def test_polygons_of_many_vertices_are_checked_in_a_moment():
    angle = np.linspace(0, 2 * np.pi, 2001)[:-1]
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    assert len(Polygon(circle).vertices) == 2000
    crossed = circle.copy()
    crossed[[700, 701]] = crossed[[701, 700]]
    with pytest.raises(InvalidInputError, match="edges 699 and 701 of the polygon"):
        Polygon(crossed)


def crossing_one_by_one(corners):
    """Return the first two edges that meet, compared in plain Python."""

    def turn(a, b, c):
        return np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    def between(p, q, r):
        return all(min(p[i], q[i]) <= r[i] <= max(p[i], q[i]) for i in (0, 1))

    n = len(corners)
    for i in range(n):
        a, b = corners[i], corners[(i + 1) % n]
        if tuple(a) == tuple(b):
            return i, (i + 1) % n
        for j in range(i + 1, n):
            c, d = corners[j], corners[(j + 1) % n]
            if j == i + 1 or (i == 0 and j == n - 1):
                shared, p, q = (b, a, d) if j == i + 1 else (a, b, c)
                if turn(shared, p, q) == 0 and np.dot(p - shared, q - shared) > 0:
                    return i, j
                continue
            turns = turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b)
            ends = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
            touches = any(one == 0 and between(*end) for one, end in zip(turns, ends, strict=True))
            if touches or (turns[0] * turns[1] < 0 and turns[2] * turns[3] < 0):
                return i, j
    return None


def test_crossings_are_those_that_a_plain_loop_finds():
    rng = np.random.default_rng(5)
    found = set()
    for _ in range(300):
        corners = rng.integers(0, 5, (rng.integers(3, 8), 2)).astype(float)
        if (corners[0] == corners[-1]).all():
            continue
        wanted = crossing_one_by_one(corners)
        found.add(wanted is None)
        if wanted is None:
            assert len(Polygon(corners).vertices) == len(corners)
        else:
            with pytest.raises(InvalidInputError, match=f"edges {wanted[0]} and {wanted[1]} of"):
                Polygon(corners)
    assert found == {True, False}
