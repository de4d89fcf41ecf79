"""``ldmaps plan`` predicts what a fit would cost."""

from __future__ import annotations

import json

import pytest

from ldmaps.cli import main


def test_prints_a_sentence(capsys):
    assert main(["plan", "5000", "3", "-m", "100"]) == 0
    out = capsys.readouterr().out
    assert "fit of 5,000 points to 100 landmarks" in out


def test_json_holds_the_figures(capsys):
    assert main(["plan", "5000", "22", "--metric", "rmsd", "-m", "100", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["n_points"] == 5000
    assert cost["reference_points"] == 0
    assert cost["fit_seconds"] > 0
    assert cost["peak_bytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1", "3"], "n must be a whole number of at least 3"),
        (["100", "3", "-m", "200"], "ask for at most 100"),
    ],
)
def test_impossible_plans_are_refused(arguments, message, capsys):
    assert main(["plan", *arguments]) == 1
    assert message in capsys.readouterr().err
