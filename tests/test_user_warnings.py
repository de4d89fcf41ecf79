"""Warnings point at the line that called the package, not at one inside it."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import OutlierWarning, SpectrumWarning

ROLL = swiss_roll(600).points
SPOILT = np.concatenate([ROLL, ROLL[:2] * 50])


def warned_at(call):
    """Return the file and line that an outlier warning names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    told = [item for item in caught if item.category is OutlierWarning]
    assert told
    return {(item.filename, item.lineno) for item in told}


def test_warnings_of_a_fit_name_the_users_line():
    line = inspect.currentframe().f_lineno + 1
    assert warned_at(lambda: LandmarkDiffusionMap(2).fit(SPOILT)) == {(__file__, line)}


def test_so_do_those_of_fit_transform():
    """Which scikit-learn wraps."""
    line = inspect.currentframe().f_lineno + 1
    assert warned_at(lambda: LandmarkDiffusionMap(2).fit_transform(SPOILT)) == {(__file__, line)}


def test_a_spectrum_in_doubt_is_said_of_the_users_line():
    """From several calls further down, by way of other modules."""
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(SpectrumWarning) as told:
        LandmarkDiffusionMap(2, 60.0, n_landmarks=80).fit(load_digits().data)
    assert {(item.filename, item.lineno) for item in told} == {(__file__, line)}


def test_no_module_counts_callers_by_itself():
    source = Path(ldmaps.__file__).parent
    counting = [path for path in source.rglob("*.py") if "warnings.warn(" in path.read_text(encoding="utf-8")]
    assert counting == [source / "user_warnings.py"]
