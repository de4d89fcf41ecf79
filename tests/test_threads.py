import os

import numpy as np
import pytest

from ldmaps.errors import InvalidInputError
from ldmaps.threads import resolve_threads


@pytest.mark.parametrize("value", [1, 3, 3.0, np.int64(3)])
def test_threads_as_asked(value, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", "7")
    threads = resolve_threads(value)
    assert threads == value
    assert type(threads) is int


def test_threads_from_the_environment_or_every_core(monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", "7")
    assert resolve_threads(None) == 7
    for unset in (
        lambda: monkeypatch.setenv("LDMAPS_NUM_THREADS", ""),
        lambda: monkeypatch.delenv("LDMAPS_NUM_THREADS"),
    ):
        unset()
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
        assert resolve_threads(None) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 11)
    assert resolve_threads(None) == 11
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert resolve_threads(None) == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, True, False, float("nan"), float("inf"), "2", "two", [2]])
def test_threads_that_are_no_number(value):
    with pytest.raises(
        InvalidInputError, match="n_threads must be a whole number of at least 1, or None"
    ) as caught:
        resolve_threads(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("setting", ["two", "1.5", "2 3"])
def test_environment_that_is_no_number(setting, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", setting)
    with pytest.raises(
        InvalidInputError, match="environment variable LDMAPS_NUM_THREADS must be a whole number"
    ) as caught:
        resolve_threads(None)
    assert repr(setting) in str(caught.value)


@pytest.mark.parametrize("setting", ["0", "-2"])
def test_environment_below_one(setting, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", setting)
    with pytest.raises(InvalidInputError, match=f"at least 1, or None for all, got {setting}"):
        resolve_threads(None)
