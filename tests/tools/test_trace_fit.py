"""The path of a fit through the package is counted as the tool's text says."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tools import trace_fit


def run(*events, inside=("maps/",)):
    """Follow made-up calls (of a file) and returns (None)."""
    found = trace_fit.Trace(inside)
    stack = []
    for file in events:
        if file is not None:
            stack.append(file)
        path = str(trace_fit.PACKAGE / stack[-1]) if stack[-1] != "numpy" else "/elsewhere/numpy.py"
        frame = SimpleNamespace(f_code=SimpleNamespace(co_filename=path, co_qualname=f"f_{stack[-1]}"))
        found(frame, "return" if file is None else "call", None)
        if file is None:
            stack.pop()
    return found


def test_a_call_and_its_return_are_one_crossing_and_two_switches():
    found = run("maps/a.py", "maps/b.py", None)
    assert (found.crossings, found.switches.total()) == (1, 2)


def test_calls_within_a_file_count_nothing():
    found = run("maps/a.py", "maps/a.py", None)
    assert (found.crossings, found.switches.total()) == (0, 0)


def test_files_elsewhere_are_crossings_but_not_switches_inside():
    found = run("maps/a.py", "metrics/m.py", None)
    assert (found.crossings, found.switches.total()) == (1, 0)


def test_what_is_not_of_the_package_is_looked_through():
    found = run("maps/a.py", "numpy", "maps/b.py", None, None)
    assert (found.crossings, found.switches.total()) == (1, 2)


@pytest.mark.parametrize("name", ["LandmarkDiffusionMap.fit", "DiffusionEstimator.fit", "fit"])
def test_functions_are_counted_by_the_end_of_their_name(name):
    found = trace_fit.Trace(())
    found.calls["maps/estimator.py", "DiffusionEstimator.fit"] = 2
    found.calls["maps/estimator.py", "outfit"] = 5
    assert found.count(name) == (0 if name.startswith("Landmark") else 2)


def test_a_real_fit_is_followed_and_the_profile_is_gone_afterwards():
    found, ending = trace_fit.trace(np.random.default_rng(0).random((60, 2)), ["maps", "fit"])
    assert ending.startswith("epsilon")
    assert found.count("solve_spectrum") >= 1
    assert found.crossings > 10
    assert sys.getprofile() is None
