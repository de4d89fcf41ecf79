"""Files whose names are not UTF-8 are read and written like others; tables and models say their names with escapes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ldmaps import load
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll
from ldmaps.files import shown_name

NAME = os.fsdecode(b"\xff\xe9.csv")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        np.savetxt(NAME, swiss_roll(150, random_state=0).points, delimiter=",")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such names")
    return tmp_path


def test_a_map_of_a_file_with_such_a_name(here, capsys):
    model = os.fsdecode(b"\xfe.ldm")
    assert main(["fit", NAME, "-m", "40", "--epsilon", "9", "-o", model]) == 0
    assert load(model).source_["files"] == [r"\xff\xe9.csv"]
    for name in ("psi.csv", "psi.npy", os.fsdecode(b"\xfd.csv")):
        assert main(["embed", model, NAME, "-o", name]) == 0
    assert (here / "psi.csv").read_text().splitlines()[1].startswith(r"\xff\xe9.csv,0,")
    assert np.load("psi.npy")["file"].tolist() == [r"\xff\xe9.csv"] * 150
    assert main(["report", model, "-o", os.fsdecode(b"\xfe.html")]) == 0
    assert main(["stream", model, NAME, "-o", "s.csv", "--checkpoint", os.fsdecode(b"\xfec")]) == 0
    capsys.readouterr()


def test_other_names_stay_as_they_are():
    assert shown_name("søster 1.xtc") == "søster 1.xtc"
