"""No command reads and writes one file, whatever it is called."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.files import check_distinct
from ldmaps.streaming import OutputFile, StreamEmbedder
from ldmaps.streaming.sources.tables import FileSource

POINTS = swiss_roll(100, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=20).fit(POINTS)


@pytest.mark.parametrize("how", ["itself", "a link", "a hard link"])
@pytest.mark.parametrize(
    "command",
    [
        ["stream", "map.ldm", "in.csv", "-o", "OTHER:in.csv"],
        ["stream", "map.ldm", "in.csv", "--follow", "--idle-end", "0", "-o", "OTHER:in.csv"],
        [
            "stream",
            "map.ldm",
            "in.csv",
            "-o",
            "psi.csv",
            "--events",
            "OTHER:map.ldm",
            "--regions",
            "reg.toml",
        ],
        [
            "stream",
            "map.ldm",
            "in.csv",
            "-o",
            "psi.csv",
            "--quarantine",
            "OTHER:reg.toml",
            "--regions",
            "reg.toml",
        ],
        ["stream", "map.ldm", "in.csv", "-o", "psi.csv", "--checkpoint", "OTHER:in.csv"],
        [
            "stream",
            "map.ldm",
            "in.csv",
            "-o",
            "old.csv",
            "--events",
            "OTHER:old.csv",
            "--regions",
            "reg.toml",
        ],
        ["fit", "in.csv", "-o", "OTHER:in.csv"],
        ["embed", "map.ldm", "in.csv", "-o", "OTHER:in.csv"],
    ],
    ids=lambda command: " ".join(command),
)
def test_no_file_is_read_and_written(tmp_path, monkeypatch, capsys, model, how, command):
    """Not even with --force, which would leave nothing of the input."""
    monkeypatch.chdir(tmp_path)

    model.save("map.ldm")
    np.savetxt("in.csv", POINTS, delimiter=",")
    (tmp_path / "reg.toml").write_text('[regions.out]\nkind = "out_of_domain"\n')
    (tmp_path / "old.csv").write_text("old\n")
    named = next(word for word in command if word.startswith("OTHER:"))
    target = named.removeprefix("OTHER:")
    other = {"itself": target, "a link": "link.csv", "a hard link": "hard.csv"}[how]
    if how == "a link":
        os.symlink(target, other)
    elif how == "a hard link":
        os.link(target, other)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    assert main([other if word == named else word for word in command] + ["--force"]) == 1
    assert "inputs, outputs and the checkpoint must be different files" in capsys.readouterr().err
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_a_stream_does_not_write_to_its_source(tmp_path, model):
    np.savetxt(tmp_path / "in.csv", POINTS, delimiter=",")
    os.symlink(tmp_path / "in.csv", tmp_path / "link.csv")
    before = (tmp_path / "in.csv").read_bytes()
    with (tmp_path / "in.csv").open("rb") as opened:
        for source in (tmp_path / "in.csv", FileSource(opened.fileno(), "csv", {"n_features": 3})):
            with pytest.raises(InvalidInputError, match=r"link.csv and .* are the same file"):
                StreamEmbedder(model).run(source, [OutputFile(tmp_path / "link.csv", overwrite=True)])
    with pytest.raises(InvalidInputError, match=r"psi.csv is named twice"):
        StreamEmbedder(model).run(POINTS, [OutputFile(tmp_path / "psi.csv")], checkpoint=tmp_path / "psi.csv")
    assert (tmp_path / "in.csv").read_bytes() == before


def test_what_is_no_file_may_be_named_twice():
    check_distinct(["/dev/null", 0], ["/dev/null", "/dev/null"])
    check_distinct(["there is none"] * 2, ["nor this"])
