"""Every instruction set that this processor runs gives the results of the baseline, to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from ldmaps import kernels

BASELINE = import_module("ldmaps.kernels._baseline")
OTHERS = [name for name in kernels.INSTRUCTION_SETS if name != "baseline"]
pytestmark = pytest.mark.skipif(not OTHERS, reason="this processor runs the baseline alone")


@pytest.fixture(params=OTHERS)
def other(request):
    return import_module(f"ldmaps.kernels._{request.param}")


@pytest.fixture(params=[np.float32, np.float64])
def real(request):
    return request.param


def assert_close(one, two):
    np.testing.assert_allclose(one, two, rtol=64 * np.finfo(one.dtype).eps, atol=np.finfo(one.dtype).tiny)


def block(real, n_points, n_landmarks):
    rng = np.random.default_rng([n_points, n_landmarks])
    return (30 * rng.random((n_points, n_landmarks))).astype(real)


def test_modules_have_the_same_kernels(other):
    assert set(vars(other)) == set(vars(BASELINE))


def test_gaussian(other, real):
    results = []
    for module in (BASELINE, other):
        squared = block(real, 9, 77)
        module.gaussian(squared, 0.7)
        results.append(squared)
    assert_close(*results)


@pytest.mark.parametrize("n_landmarks", [1, 7, 16, 17, 300])
def test_extend(other, real, n_landmarks):
    rng = np.random.default_rng(0)
    weights = rng.random(n_landmarks).astype(real)
    coefficients = (1 + rng.random((3, n_landmarks))).astype(real)
    results = []
    for module in (BASELINE, other):
        out = np.empty((35, 3), real), np.empty(35, np.int64), np.empty(35, real)
        module.extend(block(real, 35, n_landmarks), 0.4, weights, coefficients, *out)
        results.append(out)
    (one, one_nearest, one_lowest), (two, two_nearest, two_lowest) = results
    assert_close(one, two)
    assert (one_nearest == two_nearest).all()
    assert (one_lowest == two_lowest).all()


def test_sums_over_rows(other, real):
    rng = np.random.default_rng(0)
    squared, weights = block(real, 20, 333), rng.random(333)
    sums, moments = [], []
    for module in (BASELINE, other):
        sums.append(np.empty(20))
        module.distance_sums(squared, weights, sums[-1])
        moments.append(np.zeros((2, 4)))
        module.kernel_moments(squared, np.geomspace(0.01, 1, 4), np.ones(20), weights, *moments[-1])
    # Square roots are float32's where distances are.
    np.testing.assert_allclose(*sums, rtol=8 * np.finfo(real).eps)
    np.testing.assert_allclose(*moments, rtol=1e-12)


FIT = """
import json, numpy as np
from ldmaps import LandmarkDiffusionMap, kernels
rng = np.random.default_rng(0)
points, frames = rng.normal(size=(400, 5)), rng.normal(size=(150, 9, 3)) * 0.1 + rng.normal(size=(9, 3))
table = LandmarkDiffusionMap(2, 4.0, n_landmarks=60).fit(points)
molecule = LandmarkDiffusionMap(2, 0.02, metric="rmsd", n_landmarks=40).fit(frames)
print(json.dumps([kernels.INSTRUCTION_SET, *(
    [model.eigenvalues_.tolist(), np.abs(model.transform(new)).tolist()]
    for model, new in ((table, points[:50]), (molecule, frames[:50])))]))
"""


def fit_with(instruction_set):
    environment = {**os.environ, "LDMAPS_INSTRUCTION_SET": instruction_set}
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, check=True)
    used, *maps = json.loads(done.stdout)
    assert used == instruction_set
    return maps


@pytest.mark.slow
def test_maps_do_not_depend_on_it():
    expected = fit_with("baseline")
    for instruction_set in OTHERS:
        for (values, places), (wanted, wanted_places) in zip(
            fit_with(instruction_set), expected, strict=True
        ):
            np.testing.assert_allclose(values, wanted, rtol=1e-5)
            np.testing.assert_allclose(places, wanted_places, rtol=1e-3, atol=1e-5)
