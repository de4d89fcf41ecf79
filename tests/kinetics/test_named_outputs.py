"""Functions keep their names where maps are written: tables of ldmaps embed, and input of engines."""

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows of two columns and a function on their map."""
    folder = tmp_path_factory.mktemp("named")
    points = np.random.default_rng(0).uniform(-2, 2, size=(600, 2))
    np.savetxt(folder / "rows.csv", points, delimiter=",", header="x,y", comments="")
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.5, n_landmarks=60).fit(points)
    model.function(points, points[:, 0], name="across").save(folder / "across.ldm")
    return folder


@pytest.mark.parametrize("output", ["rows_on_map.csv", "rows_on_map.npy"])
def test_embedded_rows_have_the_name_of_the_function(folder, output):
    path = folder / output
    assert main(["embed", str(folder / "across.ldm"), str(folder / "rows.csv"), "-o", str(path), "-q"]) == 0
    names = (
        np.load(path).dtype.names if output.endswith("npy") else path.read_text().split("\n")[0].split(",")
    )
    assert "across" in names
    assert not any(name.startswith("psi") for name in names)


def test_engines_get_the_name_of_the_function(folder):
    model, target = str(folder / "across.ldm"), folder / "for_plumed"
    assert main(["export", model, "--to", "plumed", "-o", str(target), "-q", "--names", "x,y"]) == 0
    text = "".join(path.read_text() for path in target.glob("*.dat"))
    assert "across" in text
    assert "psi2" not in text
