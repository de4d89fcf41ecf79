"""Functions keep their names wherever maps are read or written: tables, streams, pages, pictures, regions, engines."""

import json

import numpy as np
import pytest

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis import LivePage
from ldmaps.analysis.live.sink import map_data
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.regions import Ball, Box, Polygon, RegionTracker
from ldmaps.streaming import StreamEmbedder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows of two columns and functions on their map."""
    folder = tmp_path_factory.mktemp("named")
    rng, points = np.random.default_rng(0), np.zeros((3000, 2))
    for row in range(1, len(points)):
        points[row] = [0.98, 0.8] * points[row - 1] + [0.2, 0.6] * rng.normal(size=2)
    np.savetxt(folder / "rows.csv", points, delimiter=",", header="x,y", comments="")
    np.savetxt(folder / "some.csv", points[:50], delimiter=",", header="x,y", comments="")
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.5, n_landmarks=60).fit(points)
    model.function(points, points[:, 0], name="across").save(folder / "across.ldm")
    model.slow_modes(points, lag=2, n_modes=2).save(folder / "slow.ldm")
    return folder


@pytest.mark.parametrize("output", ["rows_on_map.csv", "rows_on_map.npy"])
def test_embedded_rows_have_the_name_of_the_function(folder, output):
    path = folder / output
    assert main(["embed", str(folder / "across.ldm"), str(folder / "some.csv"), "-o", str(path), "-q"]) == 0
    names = (
        np.load(path).dtype.names if output.endswith("npy") else path.read_text().split("\n")[0].split(",")
    )
    assert "across" in names
    assert not any(name.startswith("psi") for name in names)


@pytest.mark.parametrize("output", ["streamed.csv", "streamed.ndjson"])
def test_streams_write_the_same_names_and_numbers_as_embed(folder, output, capsys):
    path, model = folder / output, str(folder / "slow.ldm")
    assert main(["stream", model, str(folder / "some.csv"), "-o", str(path), "-q"]) == 0
    truth = ldmaps.load(model).transform(np.loadtxt(folder / "some.csv", delimiter=",", skiprows=1))
    if output.endswith("csv"):
        header, *lines = path.read_text().splitlines()
        names = header.split(",")
        rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert not any(name.startswith("psi") for name in rows[0])
    found = [[float(row["slow1"]), float(row["slow2"])] for row in rows]
    np.testing.assert_allclose(found, truth, rtol=1e-12)


@pytest.mark.parametrize(
    "region",
    [
        Box({"slow2": (0.0, None)}),
        Ball({"slow1": 0.5, "slow2": 0.5}, 1.0),
        Polygon([[0, 0], [1, 0], [1, 1]], axes=["slow2", "slow1"]),
    ],
)
def test_regions_are_drawn_over_named_coordinates(folder, region):
    model = ldmaps.load(folder / "slow.ldm")
    points = np.loadtxt(folder / "some.csv", delimiter=",", skiprows=1)
    stream = StreamEmbedder(model, tracker=RegionTracker({"here": region}))
    found = np.concatenate([batch.regions for batch in stream.stream(points)])
    one, two = model.transform(points).T
    if isinstance(region, Box):
        truth = two >= 0
    elif isinstance(region, Ball):
        truth = (one - 0.5) ** 2 + (two - 0.5) ** 2 <= 1
    else:
        truth = (
            (one >= 0) & (two <= 1) & (one <= two)
        )  # the triangle is (0, 0), (1, 0), (1, 1) over slow2, slow1
    np.testing.assert_array_equal(found == 0, truth)


def test_a_region_of_a_named_coordinate_has_to_know_its_map(folder):
    region, slow = Box({"slow2": (0.0, None)}), ldmaps.load(folder / "slow.ldm")
    coverage = slow.coverage(np.zeros((1, 2)))
    with pytest.raises(InvalidInputError, match=r"call check_model\(model\) of the region first"):
        region.masks(np.zeros((1, 2)), coverage)
    with pytest.raises(
        InvalidInputError, match=r"slow2 is not a coordinate of this map, which has 1 \(across\)"
    ):
        region.check_model(ldmaps.load(folder / "across.ldm"))
    region.check_model(slow)
    assert region.masks(np.array([[-1.0, 1.0]]), coverage)[0].all()
    moved = Box({"across": (0.0, None)})
    moved.check_model(ldmaps.load(folder / "across.ldm"))
    moved.columns = [1]
    with pytest.raises(InvalidInputError, match="was used on another map"):
        moved.check_model(ldmaps.load(folder / "across.ldm"))


def test_the_live_page_names_coordinates(folder):
    pytest.importorskip("starlette")
    model = ldmaps.load(folder / "slow.ldm")
    shown = map_data(model, {"high": Box({"slow1": (0.0, None)}, margin=0.1)})
    assert shown["names"] == shown["keys"] == ["slow1", "slow2"]
    assert LivePage(model).state.has_alarm is False


@pytest.mark.parametrize("name", ["slow", "across"])
def test_reports_and_tables_of_functions(folder, name):
    model, table, page = (str(folder / f"{name}{end}") for end in (".ldm", "_embedded.csv", ".html"))
    assert main(["report", model, "-o", page, "-q", "-f"]) == 0
    text = (folder / f"{name}.html").read_text()
    record = ldmaps.load(model).record_
    assert all(line.split(" (")[0] in text for line in record.lines)
    assert "ψ₂" not in text.partition("<script")[0]
    assert main(["embed", model, str(folder / "rows.csv"), "-o", table, "-q", "-f"]) == 0
    assert main(["report", model, "--data", table, "-o", page, "-q", "-f"]) == 0


def test_info_says_what_a_function_is(folder, capsys):
    assert main(["info", str(folder / "across.ldm")]) == 0
    text = capsys.readouterr().out
    assert "1 (across)" in text
    assert "across: R² = " in text
    assert main(["info", str(folder / "slow.ldm")]) == 0
    assert "slow1: time scale" in capsys.readouterr().out


def test_basins_are_found_by_slow_modes_only(folder, capsys):
    table = str(folder / "on_slow.csv")
    assert main(["embed", str(folder / "slow.ldm"), str(folder / "rows.csv"), "-o", table, "-q", "-f"]) == 0
    assert main(["basins", str(folder / "slow.ldm"), "--data", table, "--n-basins", "2"]) == 0
    assert "basin 2" in capsys.readouterr().out
    assert main(["basins", str(folder / "across.ldm")]) == 1
    assert "basins are found by slow modes, and across has no time scale" in capsys.readouterr().err


def test_correlations_are_with_named_coordinates(folder, capsys):
    model, table = str(folder / "across.ldm"), str(folder / "with_x.csv")
    assert main(["embed", model, str(folder / "some.csv"), "-o", table, "-q", "-f"]) == 0
    assert main(["correlate", model, "--data", table, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coordinates"] == ["across"]


@pytest.mark.parametrize("kind", ["embedding", "profile", "spectrum", "timescales", "chapman_kolmogorov"])
def test_pictures_of_functions(folder, kind, capsys):
    pytest.importorskip("matplotlib")
    picture = folder / f"{kind}.svg"
    assert main(["plot", str(folder / "slow.ldm"), "--kind", kind, "-o", str(picture), "-f", "-q"]) == 0
    wanted = {
        "spectrum": "autocorrelation at lag 2 rows",
        "timescales": "implied time scale (rows)",
        "chapman_kolmogorov": "autocorrelation, and predicted from 2 rows",
    }
    assert wanted.get(kind, "slow1") in picture.read_text()
    status = main(["plot", str(folder / "across.ldm"), "--kind", kind, "-o", str(picture), "-f", "-q"])
    if kind in ("embedding", "profile"):
        assert status == 0
    else:
        assert status == 1
        assert ("observable" if kind == "spectrum" else "known for slow modes") in capsys.readouterr().err


def test_engines_get_the_name_of_the_function(folder):
    model, target = str(folder / "across.ldm"), folder / "for_plumed"
    assert main(["export", model, "--to", "plumed", "-o", str(target), "-q", "--names", "x,y"]) == 0
    text = "".join(path.read_text() for path in target.glob("*.dat"))
    assert "across" in text
    assert "psi2" not in text
