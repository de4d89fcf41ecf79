"""Every dependency says the oldest version that works, and the job that tries them installs exactly those."""

from __future__ import annotations

import tomllib

import pytest

from tools import floors

PROJECT = tomllib.loads(floors.PYPROJECT.read_text(encoding="utf-8"))["project"]


def test_every_dependency_has_one_floor():
    wanted = {line.split(">=")[0].lower() for line in floors.requirements(PROJECT)}
    pins = floors.floors(floors.requirements(PROJECT))
    assert {pin.split("==")[0].lower() for pin in pins} == wanted
    assert {"numpy", "scipy", "mdtraj"} <= wanted


def test_extras_are_left_out_by_name():
    project = {"dependencies": ["a>=1"], "optional-dependencies": {"b": ["b>=2"], "c": ["c>=3", "a>=1.5"]}}
    assert floors.floors(floors.requirements(project)) == ["a==1.5", "b==2", "c==3"]
    # An iterator is read once.
    assert floors.floors(floors.requirements(project, iter(["c"]))) == ["a==1", "b==2"]
    with pytest.raises(floors.FloorError, match="no such extra: d; there are b, c"):
        floors.requirements(project, ["d"])


def test_the_highest_of_several_floors_counts_as_a_number():
    assert floors.floors(["a>=1.9", "A>=1.10", "a >= 1.2"]) == ["A==1.10"]


@pytest.mark.parametrize("line", ["a", "a==1", "a>=1,<2", "a>=1; python_version < '3.12'"])
def test_a_dependency_without_a_plain_floor_is_an_error(line):
    with pytest.raises(floors.FloorError, match="not of the form name>=version"):
        floors.floors([line])


def test_the_command_prints_requirements(capsys):
    assert floors.main(["--without", "imd,redis"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("numpy==") for line in lines)
    assert not any(line.startswith(("imdclient", "redis")) for line in lines)
    assert floors.main(["--without", "nothing"]) == 1
    assert "no such extra" in capsys.readouterr().err
