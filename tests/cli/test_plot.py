"""ldmaps plot writes pictures that show what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
ROLL = swiss_roll(300, random_state=0).points
MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(ROLL).save(folder / "roll.ldm")
    np.savetxt(folder / "roll.csv", ROLL, delimiter=",", header="x,height,z", comments="")
    (folder / "kinds.csv").write_text(
        "\n".join(["kind,w", *(f"{'ab'[row % 2]},{1 + row % 3}" for row in range(300))])
    )
    return folder


@pytest.mark.parametrize("kind", ["embedding", "free_energy", "profile", "spectrum"])
@pytest.mark.parametrize("suffix", MAGIC)
def test_every_kind_in_every_format(folder, kind, suffix, capsys):
    output = folder / f"{kind}.{suffix}"
    assert main(["plot", str(folder / "roll.ldm"), "--kind", kind, "-o", str(output), "--dpi", "50"]) == 0
    assert output.read_bytes().startswith(MAGIC[suffix])
    assert f"{output}: {kind} of" in capsys.readouterr().err
    assert main(["plot", str(folder / "roll.ldm"), "--kind", kind, "-o", str(output)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_columns_colour_and_weigh(folder, capsys):
    plot = ["plot", str(folder / "roll.ldm"), "-f", "-o", str(folder / "out.svg"), "--title", "A roll"]
    assert main([*plot, "--data", str(folder / "roll.csv"), "--colour", "height"]) == 0
    text = (folder / "out.svg").read_text()
    assert ">height<" in text
    assert ">A roll<" in text
    assert main([*plot, "--data", str(folder / "kinds.csv"), "--colour", "kind"]) == 0
    assert main([*plot, "--kind", "profile"]) == 0
    equal = (folder / "out.svg").read_text()
    assert main([*plot, "--kind", "profile", "--data", str(folder / "kinds.csv"), "--weights", "w"]) == 0
    assert (folder / "out.svg").read_text() != equal


def test_mistakes_are_explained(folder, capsys):
    plot = ["plot", str(folder / "roll.ldm"), "-f"]
    assert main([*plot, "-o", str(folder / "x.jpg")]) == 1
    assert "must end in one of .png, .svg, .pdf" in capsys.readouterr().err
    assert main([*plot, "-o", str(folder / "x.png"), "--colour", "height"]) == 1
    assert "name the table with --data" in capsys.readouterr().err
    assert (
        main([*plot, "-o", str(folder / "x.png"), "--data", str(folder / "roll.csv"), "--colour", "q"]) == 1
    )
    assert "has no column 'q'; it has x, height, z" in capsys.readouterr().err
    assert main([*plot, "-o", str(folder / "x.png"), "-x", "psi9"]) == 1
    assert "does not exist: this map has psi2, psi3" in capsys.readouterr().err
    assert not (folder / "x.png").exists()


def test_short_names_and_hidden_landmarks(folder, capsys):
    plot = ["plot", str(folder / "roll.ldm"), "-f", "-o", str(folder / "short.svg")]
    for short, kind in (("map", "embedding"), ("energy", "free_energy")):
        assert main([*plot, "--kind", short]) == 0
        assert f"{kind} of" in capsys.readouterr().err
    assert main(plot) == 0
    circles = (folder / "short.svg").read_text().count("PathCollection")
    assert main([*plot, "--no-landmarks"]) == 0
    assert (folder / "short.svg").read_text().count("PathCollection") == circles - 1
