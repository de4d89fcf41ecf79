"""PDB files are read model by model, and what is wrong with one is named."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.foreign_files import pdb_atom_count, pdb_box, pdb_models

PLACES = np.array([[[1.0, -2.5, 30.125], [4.0, 5.0, 6.0]], [[-1.0, 2.5, 3.25], [0.5, 0.25, 100.0]]])


def atom(number, xyz, alternative=" "):
    x, y, z = (f"{value:8.3f}" if not isinstance(value, str) else f"{value:>8}" for value in xyz)
    return f"ATOM  {number:5d}  CA {alternative}ALA A{number:4d}    {x}{y}{z}  1.00  0.00           C\n"


def model(number, places):
    atoms = "".join(atom(place, xyz) for place, xyz in enumerate(places, 1))
    return f"MODEL     {number:4d}\n{atoms}ENDMDL\n"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "some.pdb"
        path.write_text(text)
        return str(path)

    return write


def test_models_are_read_one_by_one_in_nm(written):
    path = written("".join(model(number, places) for number, places in enumerate(PLACES, 1)) + "END\n")
    assert pdb_atom_count(path) == 2
    np.testing.assert_allclose(list(pdb_models(path, 2)), PLACES / 10, rtol=1e-6)


def test_a_file_without_models_is_one_model(written):
    path = written("".join(atom(place, xyz) for place, xyz in enumerate(PLACES[0], 1)))
    np.testing.assert_allclose(list(pdb_models(path, 2)), PLACES[:1] / 10, rtol=1e-6)


def test_of_alternative_locations_the_first_counts(written):
    path = written(atom(1, PLACES[0, 0], "A") + atom(1, PLACES[1, 1], "B") + atom(2, PLACES[0, 1]))
    np.testing.assert_allclose(list(pdb_models(path, 2)), PLACES[:1] / 10, rtol=1e-6)


def test_a_file_without_atoms_has_none(written):
    path = written("REMARK   nothing here\nEND\n")
    assert pdb_atom_count(path) == 0
    assert list(pdb_models(path, 2)) == []


def test_a_model_of_other_atoms_is_named_after_the_good_ones(written):
    models = pdb_models(written(model(1, PLACES[0]) + model(2, PLACES[1, :1])), 2)
    np.testing.assert_allclose(next(models), PLACES[0] / 10, rtol=1e-6)
    with pytest.raises(
        InvalidInputError,
        match=r"some\.pdb: model 1 has 1 atoms, but the topology has 2; is the file cut off\?",
    ):
        next(models)


def test_a_coordinate_that_is_no_number_is_named(written):
    models = pdb_models(written(model(1, PLACES[0]) + model(2, [(1.0, "****", 2.0), PLACES[1, 1]])), 2)
    next(models)
    with pytest.raises(
        InvalidInputError, match=r"some\.pdb: model 1 has a coordinate that is not a number .*\*\*\*\*"
    ):
        next(models)


def cell(*lengths, angles=(90.0, 90.0, 90.0)):
    return (
        "CRYST1" + "".join(f"{value:9.3f}" for value in lengths) + "".join(f"{a:7.2f}" for a in angles) + "\n"
    )


def test_boxes_are_in_nm(written):
    pytest.importorskip("mdtraj")
    path = written("REMARK\n" + cell(20.0, 30.0, 40.0) + model(1, PLACES[0]))
    np.testing.assert_allclose(pdb_box(path), np.diag([2.0, 3.0, 4.0]), atol=1e-12)
    slanted = pdb_box(written(cell(20.0, 30.0, 40.0, angles=(90.0, 90.0, 60.0)) + model(1, PLACES[0])))
    np.testing.assert_allclose(slanted[1], [3 * np.cos(np.pi / 3), 3 * np.sin(np.pi / 3), 0], atol=1e-7)
    # One long edge is a box, however short the others.
    assert pdb_box(written(cell(1.0, 1.0, 5.0))) is not None


@pytest.mark.parametrize(
    "text",
    [
        cell(1.0, 1.0, 1.0) + model(1, PLACES[0]),
        "CRYST1   twenty   30.000   40.000  90.00  90.00  90.00\n" + model(1, PLACES[0]),
        "CRYST1   20.000\n" + model(1, PLACES[0]),
        model(1, PLACES[0]) + cell(20.0, 30.0, 40.0),
        "REMARK   no atoms, no box\n",
        "",
    ],
    ids=["1 x 1 x 1", "words", "cut off", "behind the atoms", "nothing", "empty"],
)
def test_what_says_that_there_is_no_box(written, text):
    assert pdb_box(written(text)) is None
