"""The demo, on every fortieth frame: what it prints is what it found, and the figure is there."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from ldmaps import cli
from ldmaps.demo import comparison
from ldmaps.demo.figure import dihedral, draw
from ldmaps.quality.fidelity import rms_error

STRIDE = 40


@pytest.fixture(scope="module")
def shown():
    return comparison.run(stride=STRIDE, n_medoids=100)


def test_every_frame_is_learned_from_or_streamed(shown):
    assert len(shown.training) == 500
    assert np.array_equal(np.sort(np.concatenate([shown.training, shown.held_out])), np.arange(626))


def test_landmark_maps_stand_for_all_training_frames(shown):
    assert [entry.name for entry in shown.landmark_maps] == ["PST", "k-medoids"]
    for entry in shown.landmark_maps:
        assert entry.n_landmarks == len(entry.landmarks) < len(shown.training)
        assert entry.multiplicities.sum() == len(shown.training)


def test_landmark_maps_are_close_to_the_exact_one(shown):
    for entry in shown.landmark_maps:
        assert 0 < entry.z_training < 10
        assert 0 < entry.z_held_out < 10
        assert entry.z_held_out == pytest.approx(rms_error(shown.exact.held_out, entry.held_out))
        assert entry.spectrum == pytest.approx(shown.exact.spectrum, abs=0.1)


def test_the_seed_decides_the_result(shown):
    again = comparison.run(stride=STRIDE, n_medoids=100)
    for before, after in zip(shown.landmark_maps, again.landmark_maps, strict=True):
        assert np.array_equal(before.held_out, after.held_out)
    assert not np.array_equal(
        comparison.run(stride=4 * STRIDE, seed=1).training, comparison.run(stride=4 * STRIDE).training
    )


def test_the_table_states_the_facts(shown):
    text = comparison.table(shown)
    assert "N = 500 to learn from, 126 held out" in text
    assert f"{shown.epsilon:.3e} nm²" in text
    rows = {line.split()[0]: line for line in text.splitlines() if re.match(r"(exact|PST|k-medoids) ", line)}
    assert set(rows) == {"exact", "PST", "k-medoids"}
    for entry in (shown.exact, *shown.landmark_maps):
        row = rows[entry.name]
        assert f"{entry.spectrum[0]:.4f}" in row
        assert row.split()[1] == str(entry.n_landmarks)
        assert f"{len(shown.training) / entry.n_landmarks:.1f}" in row.split()
        if entry is not shown.exact:
            assert f"{entry.z_training:.2f} %" in row
            assert f"{entry.z_held_out:.2f} %" in row
    assert max(map(len, text.splitlines())) <= 120


def test_the_command_prints_the_table_and_writes_the_figure(tmp_path, capsys):
    output = tmp_path / "not there yet" / "map.png"
    assert cli.main(["demo", "--stride", "100", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    assert "N = 200 to learn from" in printed.out
    assert str(output) in printed.out
    assert "exact map: 200 × 200 distances" in printed.err
    assert output.read_bytes().startswith(b"\x89PNG")
    assert output.stat().st_size > 20_000
    vector = output.with_suffix(".pdf")
    assert vector.read_bytes().startswith(b"%PDF")
    assert vector.stat().st_size > 10_000
    assert sorted(path.name for path in output.parent.iterdir()) == ["map.pdf", "map.png"]


def test_the_figure_has_ink_in_every_panel(shown, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    picture, vector = draw(shown, tmp_path / "map.svg")
    assert vector.suffix == ".svg"
    assert "<svg" in vector.read_text(encoding="utf-8")
    pixels = image.imread(picture)[..., :3]
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 3
    for row in range(2):
        for column in range(3):
            panel = pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]
            assert 0.01 < (panel < 0.9).any(axis=-1).mean() < 0.6


def test_without_matplotlib_the_command_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["demo", "--output", str(tmp_path / "map.png")]) == 1
    assert 'pip install "ldmaps[plot]"' in capsys.readouterr().err


def test_bad_arguments_are_named(capsys):
    for wrong in (["--stride", "0"], ["--output", "map.gif"]):
        assert cli.main(["demo", *wrong]) == 2
    assert "ends in .png, .pdf or .svg, got 'map.gif'" in capsys.readouterr().err


@pytest.mark.parametrize("degrees", [-179.0, -60.0, 0.0, 45.0, 120.0])
def test_dihedral_of_a_built_chain(degrees):
    angle = np.radians(degrees)
    # Seen along the axis from the second atom to the third, a positive turn is clockwise (IUPAC).
    chain = np.array([[1, 0, -0.3], [0, 0, 0], [0, 0, 1.5], [np.cos(angle), np.sin(angle), 1.9]])
    moved = chain @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert dihedral(chain[None], range(4))[0] == pytest.approx(degrees)
    assert abs(dihedral(moved[None], range(4))[0]) == pytest.approx(abs(degrees))
    assert dihedral((chain * [1, 1, -1])[None], range(4))[0] == pytest.approx(-degrees)
