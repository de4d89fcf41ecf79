"""What a fit found is said at a prompt, in a notebook and on the command line, in the same words."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll
from ldmaps.maps.summary import summary_lines

ROLL = swiss_roll(400, random_state=0).points


@pytest.mark.parametrize("estimator", [DiffusionMap, LandmarkDiffusionMap])
def test_a_fitted_map_shows_what_it_found(estimator):
    model = estimator(epsilon=9.0)
    assert repr(model) == f"{estimator.__name__}(epsilon=9.0)"
    model.fit(ROLL)
    text = repr(model)
    assert text.splitlines()[0] == f"{estimator.__name__}(epsilon=9.0)"
    assert f"{model.n_components_} coordinates of 400 points" in text
    assert "epsilon 9 (given)" in text
    assert "eigenvalue" in text
    assert max(map(len, text.splitlines())) <= 80
    for mode in range(model.n_components_):
        (line,) = (line for line in text.splitlines() if line.startswith(f"  psi{mode + 2} "))
        value, error = map(float, line.split()[1:4:2])
        assert abs(value - model.eigenvalues_[mode]) < max(error, 1e-4)
    assert repr(clone(model)) == f"{estimator.__name__}(epsilon=9.0)"
    page = model._repr_mimebundle_()["text/html"]
    assert f"{model.eigenvalues_[0]:.2f}"[:-1] in page
    assert "<script>x" not in page


def test_a_promise_is_repeated_and_the_command_says_the_same(tmp_path, capsys):
    import numpy as np

    np.savetxt(tmp_path / "roll.csv", swiss_roll(1200, random_state=0).points, delimiter=",")
    output = tmp_path / "map.ldm"
    assert main(["fit", str(tmp_path / "roll.csv"), "--tolerance", "5", "-o", str(output)]) == 0
    from ldmaps import load

    lines = summary_lines(load(output))
    assert any(line.startswith("accuracy: Z of 99 % of new points is below ") for line in lines)
    said = capsys.readouterr().err
    assert all(line in said for line in lines)
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 78
    assert main(["info", str(output)]) == 0
    shown = capsys.readouterr().out
    table = lines[1 : 1 + next(place for place, line in enumerate(lines[1:]) if line.startswith("standard"))]
    assert "\n".join(table) in shown
    assert max(len(line) for line in shown.splitlines() if str(tmp_path) not in line) <= 80
