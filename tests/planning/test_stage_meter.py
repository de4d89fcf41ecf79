"""Stages are measured as they run, and laws recover what made the numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ldmaps.planning import stage_meter
from ldmaps.planning.stage_meter import OUTSIDE, StageMeter, free_bytes, give_back, law, resident_bytes
from ldmaps.progress import reporting, stage

LAWS = {
    "constant": lambda n: 3.0,
    "linear": lambda n: 2e-3 * n,
    "with a constant": lambda n: 0.5 + 1e-4 * n,
    "quadratic": lambda n: 1e-6 * n**2,
    "both": lambda n: 1e-4 * n + 1e-8 * n**2,
    "all three": lambda n: 0.2 + 1e-4 * n + 1e-8 * n**2,
}


@pytest.mark.parametrize("name", LAWS)
def test_three_sizes_recover_a_law(name):
    sizes = [1000, 2000, 4000]
    found = law(sizes, [LAWS[name](n) for n in sizes])
    assert found(1e6) == pytest.approx(LAWS[name](1e6), rel=1e-6)


@pytest.mark.parametrize("name", ["constant", "linear", "with a constant", "quadratic", "both"])
def test_two_sizes_recover_two_terms(name):
    sizes = [3000, 6000]
    assert law(sizes, [LAWS[name](n) for n in sizes])(1e6) == pytest.approx(LAWS[name](1e6), rel=1e-6)


def test_nothing_gets_cheaper_with_more_points():
    found = law([1000, 2000, 4000], [5.0, 3.0, 1.0])
    assert (found.coeffs >= 0).all()
    assert found(1e6) >= found(1e3)


def test_a_linear_law_takes_no_noise_for_a_square():
    sizes, values = [1000, 2000, 4000], [1.0, 2.0, 4.4]
    assert law(sizes, values, degree=1)(4e5) == pytest.approx(420, rel=0.1)
    assert law(sizes, values)(4e5) > 3000


def test_a_stage_that_takes_no_time_in_small_fits_counts_where_it_does():
    assert law([1000, 2000, 4000], [0.0, 0.0, 1.0])(8000) > 1.0


def test_stages_are_the_outermost_ones_and_the_rest():
    clock = iter(float(second) for second in range(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_meter.time, "perf_counter", lambda: next(clock))
        with StageMeter() as meter, reporting(meter):
            with stage("bandwidth"):
                pass
            with stage("reference map"), stage("pass 1 over all pairs"), stage("pass 2"):
                pass
            with stage("bandwidth"):
                pass
    # A look at the clock is a second: one from begin to end of a stage, seven from the meter's begin to its end.
    seconds = {name: cost[0] for name, cost in meter.costs.items()}
    assert seconds == {"bandwidth": 2.0, "reference map": 1.0, OUTSIDE: 4.0}


def test_work_is_time_on_the_processor():
    with StageMeter() as meter, reporting(meter), stage("sleep"):
        stage_meter.time.sleep(0.2)
    assert meter.costs["sleep"][0] > 0.19
    assert meter.costs["sleep"][1] < 0.15


def test_a_stage_that_fails_is_counted():
    def fail():
        with StageMeter() as meter, reporting(meter), stage("bandwidth"):
            meters.append(meter)
            raise KeyError

    meters = []
    with pytest.raises(KeyError):
        fail()
    assert meters[0].costs["bandwidth"][0] > 0


@pytest.mark.skipif(not resident_bytes(), reason="this system does not tell")
def test_memory_is_that_of_the_stage_that_holds_it():
    give_back()
    before = resident_bytes()
    with StageMeter() as meter, reporting(meter):
        with stage("small"):
            np.ones(1000)
        with stage("large"):
            large = np.ones(25_000_000)
        assert large[0] == 1
        del large
    assert meter.costs["large"][2] - before > 1.8e8
    assert meter.costs["small"][2] - before < 1e8


def test_a_peak_inside_a_stage_is_seen():
    give_back()
    before = resident_bytes()
    with StageMeter() as meter, reporting(meter), stage("peak"):
        held = np.ones(25_000_000)
        deadline = time.monotonic() + 60  # until the meter had its turn, on a busy machine
        while meter.costs["peak"][2] - before <= 1.8e8 and time.monotonic() < deadline:
            time.sleep(0.01)
        del held
    assert meter.costs["peak"][2] - before > 1.8e8


def test_systems_that_tell_less_do_not_fail(monkeypatch):
    monkeypatch.setattr(stage_meter.Path, "read_text", lambda self: "")
    assert resident_bytes() > 1e6  # its highest
    assert free_bytes() > 1e8  # all of it
