"""From a stream's outside records to a larger map, by commands alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("absorb")
    roll = swiss_roll(1500)
    known = roll.position < 12.5
    LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=120).fit(roll.points[known]).save(folder / "map.ldm")
    np.savetxt(folder / "all.csv", roll.points, delimiter=",", header="x,y,z", comments="")
    return folder, roll.points


def stream(folder, *more):
    return main(
        [
            "stream",
            str(folder / "map.ldm"),
            str(folder / "all.csv"),
            "-o",
            str(folder / "psi.csv"),
            "--quiet",
            *more,
        ]
    )


def test_a_stream_and_a_larger_map(world, capsys):
    folder, points = world
    outside, larger = folder / "outside.npz", folder / "larger.ldm"
    assert stream(folder, "--outside", str(outside), "--force") == 0
    assert main(["absorb", str(folder / "map.ldm"), str(outside), "-o", str(larger), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    old, new = load(folder / "map.ldm"), load(larger)
    left = ~old.coverage(points).inside
    assert left.sum() > 50
    assert facts["absorbed"] == left.sum()
    assert facts["landmarks"] == len(new.multiplicities_) == 120 + facts["new_landmarks"]
    assert new.coverage(points).inside.all()
    # Mass: the map's own points, and every record of the stream, inside or out.
    assert new.multiplicities_.sum() == pytest.approx(old.multiplicities_.sum() + len(points))


def test_the_sample_survives_a_stop(world):
    folder, _ = world
    whole, parts = folder / "whole.npz", folder / "parts.npz"
    assert stream(folder, "--outside", str(whole), "--outside-size", "40", "--force") == 0
    checkpoint = ["--outside", str(parts), "--outside-size", "40", "--checkpoint", str(folder / "check")]
    (folder / "psi.csv").unlink()
    for more in (["--max-records", "700"], []):
        assert stream(folder, *checkpoint, *more) == 0
    with np.load(whole) as one, np.load(parts) as other:
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])
        assert len(one["points"]) == 40


def test_records_out_of_reach_are_counted_and_can_be_left_out_at_once(world, capsys):
    folder, points = world
    np.savetxt(folder / "far.csv", np.concatenate([points, points[:30] + 1000]), delimiter=",")
    outside = str(folder / "far.npz")
    stream = ["stream", str(folder / "map.ldm"), str(folder / "far.csv"), "-o", str(folder / "far-psi.csv")]
    assert main([*stream, "--outside", outside, "--quiet"]) == 0
    command = ["absorb", str(folder / "map.ldm"), outside, "-o", str(folder / "near.ldm"), "--json"]
    capsys.readouterr()
    assert main(command) == 1
    message = capsys.readouterr().err
    n_near = int((~load(folder / "map.ldm").coverage(points).inside).sum())
    assert f"30 of {n_near + 30} points are not connected to the map" in message
    assert f"--disconnected leave skips them and absorbs the other {n_near};" in message
    assert "sqrt(epsilon) from the nearest landmark" in message
    assert not (folder / "near.ldm").exists()
    assert main([*command, "--disconnected", "leave"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["absorbed"], facts["left_out"]) == (n_near, 30)


def test_refusals(world, capsys):
    folder, points = world
    outside = folder / "kept.npz"
    outside.write_bytes(b"mine")
    assert stream(folder, "--outside", str(outside)) == 1
    assert "exists already" in capsys.readouterr().err
    assert outside.read_bytes() == b"mine"
    command = ["absorb", str(folder / "map.ldm"), str(outside), "-o", str(folder / "none.ldm")]
    assert main(command) == 1
    assert "is not a file that ldmaps stream --outside wrote" in capsys.readouterr().err
    assert stream(folder, "--outside", str(outside), "--force") == 0
    LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=60).fit(points).save(folder / "other.ldm")
    assert main(["absorb", str(folder / "other.ldm"), *command[2:]]) == 1
    assert "another map" in capsys.readouterr().err
    assert not (folder / "none.ldm").exists()


def test_nothing_outside(world, capsys):
    folder, points = world
    LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=200).fit(points).save(folder / "full.ldm")
    outside = str(folder / "empty.npz")
    command = ["stream", str(folder / "full.ldm"), str(folder / "all.csv"), "-o", str(folder / "full.csv")]
    assert main([*command, "--outside", outside, "--quiet"]) == 0
    assert main(["absorb", str(folder / "full.ldm"), outside, "-o", str(folder / "never.ldm")]) == 1
    assert "the map covered all of the stream" in capsys.readouterr().err
