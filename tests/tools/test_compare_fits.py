"""Recordings of fits: what counts as the same, and what must not pass unseen."""

from __future__ import annotations

import numpy as np
import pytest

from tools import compare_fits

NAME = "single: 30 points, 10 landmarks"


@pytest.fixture(scope="module")
def recording():
    return {name: found for name, found, _ in compare_fits.record(NAME)}


def changed(recording, quantity, change):
    """Return a copy of the recording in which one quantity is another."""
    found = dict(recording[NAME])
    found[quantity] = change(found[quantity].copy())
    return {NAME: found}


def differing(before, after):
    return [each.quantity for each in compare_fits.compare(before, after)[0]]


def test_a_fit_is_recorded_with_what_a_user_sees(recording):
    found = recording[NAME]
    assert found["embedding"].shape == (30, found["number of coordinates"])
    assert len(found["landmark indices"]) == len(found["multiplicities"]) == 10
    assert found["bandwidth rule"] == "bulk"
    assert not any(quantity.endswith("raised") for quantity in found)


def test_the_same_tree_recorded_again_is_equal(recording):
    again = {name: found for name, found, _ in compare_fits.record(NAME)}
    assert compare_fits.compare(recording, again) == ([], 1)


@pytest.mark.parametrize("quantity", ["embedding", "landmark embedding", "new coordinates"])
def test_signs_of_coordinates_are_free_and_their_values_are_not(recording, quantity):
    assert differing(recording, changed(recording, quantity, lambda values: -values)) == []

    def moved(values):
        values[3, 0] += 1e-8 * np.ptp(values[:, 0])
        return values

    assert differing(recording, changed(recording, quantity, moved)) == [quantity]


@pytest.mark.parametrize("quantity", ["eigenvalues", "spectrum", "epsilon", "multiplicities"])
def test_numbers_may_differ_by_rounding_alone(recording, quantity):
    assert differing(recording, changed(recording, quantity, lambda values: values * (1 + 1e-14))) == []
    assert differing(recording, changed(recording, quantity, lambda values: values * (1 + 1e-11))) == [
        quantity
    ]


@pytest.mark.parametrize("quantity", ["labels", "landmark indices"])
def test_whole_numbers_must_be_equal(recording, quantity):
    def moved(values):
        values[-1] += 1
        return values

    assert differing(recording, changed(recording, quantity, moved)) == [quantity]


def test_a_number_that_is_none_is_not_equal_to_one_that_is(recording):
    assert differing(recording, changed(recording, "eigenvalues", lambda values: values * np.nan))


def test_shapes_and_missing_quantities_are_differences(recording):
    assert differing(recording, changed(recording, "spectrum", lambda values: values[:-1])) == ["spectrum"]
    fewer = {NAME: {name: value for name, value in recording[NAME].items() if name != "labels"}}
    assert differing(recording, fewer) == differing(fewer, recording) == ["labels"]


def test_a_case_of_one_recording_alone_is_a_difference(recording):
    differences, n_cases = compare_fits.compare(recording, {})
    assert n_cases == 1
    assert "only in the first" in differences[0].words


def test_an_error_is_a_result():
    ((_, found, _),) = compare_fits.record("single: 30 points, 40 coordinates")
    kind, words = found["fit raised"]
    assert kind == "InvalidInputError"
    assert "n_components=40" in words


def test_files_and_exit_status(recording, tmp_path, capsys):
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    assert compare_fits.main(["record", str(one), "--only", NAME]) == 0
    compare_fits.save(other, changed(recording, "epsilon", lambda epsilon: 2 * epsilon))
    assert compare_fits.main(["compare", str(one), str(one)]) == 0
    assert "1 of 1 cases are equal; 0 quantities differ" in capsys.readouterr().out
    assert compare_fits.main(["compare", str(one), str(other)]) == 1
    assert f"{NAME} | epsilon | 1 relative" in capsys.readouterr().out


def test_names_of_cases_are_unique():
    names = [case.name for case in compare_fits.all_cases()]
    assert len(names) == len(set(names)) > 200
