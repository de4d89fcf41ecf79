"""Points that hardly belong to a map: the commands say so, and why."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import Periodic
from ldmaps.regions import Box, save_regions
from ldmaps.validation.outside_reasons import OutsideSample, outside_warning

MOLECULE = alanine_dipeptide(stride=50)
ROLL = swiss_roll(500, random_state=0).points


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=60).fit(MOLECULE.frames).save(folder / "molecule.ldm")
    LandmarkDiffusionMap(2, 9.0, n_landmarks=80).fit(ROLL).save(folder / "roll.ldm")
    order = np.random.default_rng(0).permutation(MOLECULE.frames.shape[1])
    arrays = {
        "nm": MOLECULE.frames[::3],
        "angstrom": 10 * MOLECULE.frames[::3],
        "shuffled": MOLECULE.frames[::3, order],
        "rows": ROLL[::3],
        "rows_in_angstrom": 10 * ROLL[::3],
        "far": ROLL[::3] + 100.0,
    }
    for name, points in arrays.items():
        np.save(folder / f"{name}.npy", points)
    return folder


CASES = [
    ("molecule", "nm", None),
    ("molecule", "angstrom", "they seem to be in Å, but the map is in nm"),
    ("molecule", "shuffled", "the atoms seem to be in another order"),
    ("roll", "rows", None),
    ("roll", "rows_in_angstrom", "a unit ten times smaller than the map's"),
    ("roll", "far", "a part of space that the map was not fitted on"),
]


@pytest.mark.parametrize("command", ["embed", "stream"])
@pytest.mark.parametrize(("model", "data", "reason"), CASES)
def test_both_commands_say_why_hardly_anything_is_inside(
    folder, tmp_path, capsys, command, model, data, reason
):
    output = tmp_path / "psi.csv"
    status = run(command, folder / f"{model}.ldm", folder / f"{data}.npy", "-o", output)
    said = capsys.readouterr().err
    assert output.exists()
    if reason is None:
        assert status == 0
        assert "warning" not in said
    else:
        assert status == 5
        assert "warning: 0.0 % of " in said
        assert reason in said


def test_json_keeps_its_summary(folder, tmp_path, capsys):
    line = ("embed", folder / "roll.ldm", folder / "far.npy", "-o", tmp_path / "psi.csv", "--json", "--quiet")
    assert run(*line) == 5
    said = capsys.readouterr()
    assert json.loads(said.out)["inside"] == 0
    assert "warning" in said.err


def test_an_awaited_event_counts_more(folder, tmp_path):
    save_regions(tmp_path / "regions.json", {"all": Box({"psi2": (-9.0, None)})})
    line = ("stream", folder / "roll.ldm", folder / "far.npy", "-o", tmp_path / "psi.csv")
    assert run(*line, "--regions", tmp_path / "regions.json", "--exit-on", "enter:all") == 4


def sample_of(model, points):
    sample = OutsideSample()
    sample.add(points, model.coverage(points).inside)
    return sample


def test_atoms_in_another_order_by_their_names(files, tmp_path):
    assert run("fit", files["xtc"], "-t", files["top"], "-m", 40, "-o", tmp_path / "map.ldm") == 0
    model = load(tmp_path / "map.ldm")
    labels = model.source_["atom_labels"]
    order = np.random.default_rng(1).permutation(len(labels))
    sample = sample_of(model, MOLECULE.frames[:50, order])
    warning = outside_warning(model, sample, "frames", [labels[place] for place in order])
    assert "the names of the map's atoms, but in another order (atom 0 is" in warning
    assert "another order; use" in outside_warning(model, sample, "frames", labels)


def test_degrees_for_radians():
    angles = np.random.default_rng(0).normal([1.0, -1.5], 0.3, (400, 2))
    model = LandmarkDiffusionMap(2, "connected", metric=Periodic(2 * np.pi), n_landmarks=50).fit(angles)
    degrees = np.rad2deg(np.random.default_rng(1).normal([1.0, -1.5], 0.2, (40, 2)))
    sample = OutsideSample()
    sample.add(degrees, np.zeros(40, dtype=bool))
    assert "in degrees, but the map is in radians" in outside_warning(model, sample)


def test_points_around_the_origin_are_not_a_matter_of_units(folder):
    """Anything times 0.1 lies near the origin, on the map or not."""
    blob = np.random.default_rng(0).normal(size=(300, 3))
    model = LandmarkDiffusionMap(2, "connected", n_landmarks=50).fit(blob)
    warning = outside_warning(model, sample_of(model, 4 + 0.1 * blob))
    assert "multiplied" not in warning


def test_a_few_inside_are_no_reason_to_worry():
    sample = OutsideSample()
    sample.add(np.zeros((100, 3)), np.arange(100) < 1)
    assert not sample.is_foreign
    sample.add(np.zeros((1, 3)), np.array([False]))
    assert sample.is_foreign
    assert len(sample.points) == 64


def test_a_few_points_may_well_be_outside(folder):
    model = load(folder / "roll.ldm")
    assert outside_warning(model, sample_of(model, ROLL[:9] + 1000.0)) is None
    assert "part of space" in outside_warning(model, sample_of(model, ROLL[:10] + 1000.0))
    molecule = load(folder / "molecule.ldm")
    assert "in Å" in outside_warning(molecule, sample_of(molecule, 10 * MOLECULE.frames[:1]))
