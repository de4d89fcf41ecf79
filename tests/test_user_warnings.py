"""Warnings point at the line that called the package, not at one inside it."""

from __future__ import annotations

import inspect
import warnings

import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import OutlierWarning

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
