"""Bandwidths that break a map: errors count what they say, suggest what works, and warnings name the trouble."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.errors import BandwidthWarning, DisconnectedError, SpectrumWarning

DIGITS = load_digits().data[:600]


@pytest.mark.parametrize("epsilon", [0.001, 5.72])
def test_the_error_counts_landmarks_and_its_epsilon_works(epsilon):
    """Landmarks 20 and more apart are each a component of their own at hops of a fraction of that."""
    with pytest.raises(DisconnectedError, match="falls into 80 components") as caught:
        LandmarkDiffusionMap(2, epsilon, n_landmarks=80).fit(DIGITS)
    assert caught.value.component_sizes == (1,) * 80
    printed = float(str(caught.value).split("; at ")[1].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpectrumWarning)
        LandmarkDiffusionMap(2, printed, n_landmarks=80).fit(DIGITS)


def test_a_walk_that_stands_still_is_warned_of():
    with pytest.warns(SpectrumWarning, match=r"median self-transition probability is 0\.9"):
        LandmarkDiffusionMap(2, 60.0, n_landmarks=80).fit(DIGITS)


def test_eigenvalues_that_are_one_to_rounding_are_counted():
    line = np.linspace(0, 1, 40)[:, None].astype(np.float32)
    groups = np.concatenate([line, line + 5.9, line + 11.8])
    with pytest.warns(
        SpectrumWarning,
        match="eigenvalue 1 is degenerate to rounding: the data form 3 .* first 2 coordinates",
    ):
        DiffusionMap(2, 0.97).fit(groups)


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning", "ignore::ldmaps.errors.SpectrumWarning")
def test_the_log_log_rule_gives_an_epsilon_that_the_fit_accepts():
    with pytest.warns(
        BandwidthWarning,
        match=r"log-log rule .* gives epsilon = \d.* leaves the data in \d+ disconnected components",
    ):
        model = DiffusionMap(2, "coifman").fit(scale(DIGITS))
    assert model.bandwidth_.rule == "coifman"
    connected = DiffusionMap(2, "connected").fit(scale(DIGITS))
    assert np.isclose(model.epsilon_, connected.epsilon_ / 25, rtol=1e-6)


def test_ordinary_maps_give_no_warning():
    rng = np.random.default_rng(0)
    square = rng.uniform(size=(800, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epsilon in ("connected", "coifman", 0.003):
            LandmarkDiffusionMap(2, epsilon, n_landmarks=100).fit(square)
