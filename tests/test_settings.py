"""Settings are described once; whatever else lists them is held against the description."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, plan
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named, ToleranceError
from ldmaps.extension import EXTENSIONS
from ldmaps.landmarks import SELECTORS
from ldmaps.metrics import METRICS
from ldmaps.settings import EXACT_FIT, LANDMARK_FIT, LIMITS, NamedLimit, size_in_bytes

ESTIMATORS = [LandmarkDiffusionMap, DiffusionMap]
DESCRIBED = [(LandmarkDiffusionMap, LANDMARK_FIT), (DiffusionMap, EXACT_FIT), (Limits, LIMITS)]


@pytest.mark.parametrize(("takes", "described"), DESCRIBED)
def test_signatures_have_the_described_settings_and_defaults(takes, described):
    parameters = list(inspect.signature(takes).parameters.values())
    assert {one.name: one.default for one in parameters} == {
        name: setting.default for name, setting in described.items()
    }


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_check_their_own_settings(estimator):
    assert (estimator, estimator.settings) in DESCRIBED


@pytest.mark.parametrize(("takes", "described"), DESCRIBED)
def test_the_documentation_tells_of_every_setting(takes, described):
    parameters = re.split("(?:Attributes|Examples)\n", takes.__doc__)[0]
    told = {
        name
        for line in re.findall(r"^    ([a-z_, ]+)(?: : .*)?$", parameters, re.MULTILINE)
        for name in line.split(", ")
    }
    assert set(described) <= told


def test_a_plan_has_the_defaults_of_the_fit():
    planned = inspect.signature(plan).parameters
    shared = set(planned) & set(LANDMARK_FIT)  # the others go to the estimator as they are
    assert shared == {"metric", "n_landmarks"}
    assert {name: planned[name].default for name in shared} == {
        name: LANDMARK_FIT[name].default for name in shared
    }


def test_names_are_those_of_the_tables():
    assert set(LANDMARK_FIT["metric"].words) == set(METRICS) - {
        "function",
        "features",
    }  # which have no default
    assert set(LANDMARK_FIT["landmarks"].words) == set(SELECTORS)
    assert set(LANDMARK_FIT["extension"].words) == {"auto", *EXTENSIONS}


@pytest.mark.parametrize("described", [LANDMARK_FIT, EXACT_FIT, LIMITS])
def test_defaults_keep_their_rules(described):
    for setting in described.values():
        setting.check(setting.default)
        assert setting.option.startswith("--") or not (setting.help or setting.metavar or setting.letter)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("alpha", (0, 1, 0.5, np.float32(0.5)), (-1e-9, 1 + 1e-9, "0", None, True, np.nan, np.ones(1))),
        ("diffusion_time", (0, 7.5), (-1e-9, np.inf, 10**400, None)),
        ("outliers", (0, 0.4999), (-1e-9, 0.5, np.nan)),
        ("epsilon", ("bulk", "connected", "coifman", 1e-9, 4), (0, -1.0, "gap", np.inf, None, False)),
        ("n_components", ("gap", 1, 3.0, np.int64(2)), (0, 2.5, "connected", None, True)),
        ("n_landmarks", (None, 2), (1, 2.5, "400")),
        ("tolerance", (None, 1e-9), (0, np.nan, "1")),
        ("extension", ("auto", "nystrom"), (None, 3, "best")),
        ("max_passes", (None, 0), (-1, 0.5)),
        ("memory", (0, 1e9), (-1, None, np.nan)),
        ("limits", (None, Limits(), Limits(resume="state.npz")), (4e9, {"memory": 4e9}, Limits)),
        ("n_threads", (None, 1), (0, 1.5)),
    ],
)
def test_ranges(name, good, bad):
    setting = (LANDMARK_FIT | LIMITS)[name]
    for value in good:
        assert setting.check(value) is value
    for value in bad:
        with pytest.raises(InvalidInputError, match=f"{name} must be ") as caught:
            setting.check(value)
        assert caught.value.setting == name


def test_exact_maps_take_at_least_one_pass():
    for max_passes in (None, 0, 1):
        LANDMARK_FIT["limits"].check(Limits(max_passes=max_passes))
    for max_passes in (None, 1):
        EXACT_FIT["limits"].check(Limits(max_passes=max_passes))
    with pytest.raises(InvalidInputError, match="max_passes must be a whole number of at least 1, got 0"):
        EXACT_FIT["limits"].check(Limits(max_passes=0))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_settings_are_checked_before_the_data(estimator):
    wrong = {"epsilon": "big", "diffusion_time": -1, "limits": 4e9}
    within = {"memory": None, "max_passes": 0.5}
    for name, value in wrong.items():
        with pytest.raises(InvalidInputError, match=f"{name} must be "):
            estimator(**{name: value}).fit("no data at all")
    for name, value in within.items():
        with pytest.raises(InvalidInputError, match=f"{name} must be "):
            estimator(limits=Limits(**{name: value})).fit("no data at all")


# -- messages ------------------------------------------------------------------------


def test_an_error_carries_the_setting_and_its_value():
    error = InvalidInputError(Named("n_landmarks", 400), " is too many; lower ", Named("epsilon"))
    assert (error.setting, error.value) == ("n_landmarks", 400)
    assert str(error) == "n_landmarks=400 is too many; lower epsilon"
    assert error.worded(lambda named: named.setting.upper()) == "N_LANDMARKS is too many; lower EPSILON"
    assert (InvalidInputError("plain").setting, InvalidInputError("plain").value) == (None, None)


@pytest.mark.parametrize(
    "message",
    [
        InvalidInputError("keep ", Named("columns", ["x", "y"])),
        InvalidInputError("allow more with ", NamedLimit("memory", ...)),
        AccuracyWarning("raise ", Named("n_landmarks", ...)),
        ToleranceError(2.0, reason=("leave out ", Named("outliers", 0.01))),
    ],
)
def test_messages_travel_between_processes(message):
    again = pickle.loads(pickle.dumps(message))
    assert (str(again), again.setting, again.value) == (str(message), message.setting, message.value)


def test_sizes_have_units():
    sizes = {"64MB": 64_000_000, "1.5 GiB": 1_610_612_736, 4096: 4096}
    assert {size: size_in_bytes("piece", size) for size in sizes} == sizes
