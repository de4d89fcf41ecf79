"""What a fit will cost, by fits of some of the points: its stages, its errors, and the way all points would go."""

from __future__ import annotations

import numpy as np
import pytest

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import DisconnectedError, InvalidInputError, ToleranceError
from ldmaps.planning import plan as planning
from ldmaps.planning.plan import Plan
from ldmaps.planning.stage_meter import OUTSIDE
from ldmaps.progress import Progress, reporting

ROLL = swiss_roll(3000).points


@pytest.fixture
def small(monkeypatch):
    """Trials of few points, and no more of them than two."""
    monkeypatch.setattr(planning, "FEWEST", (200, 4))
    monkeypatch.setattr(planning, "BUDGET", 0.0)


@pytest.fixture
def tried(monkeypatch):
    """The models that are fitted to plan, and their points."""
    fits = []
    fit = LandmarkDiffusionMap.fit
    monkeypatch.setattr(
        LandmarkDiffusionMap, "fit", lambda self, X: (fits.append((self.get_params(), X)), fit(self, X))[1]
    )
    return fits


@pytest.mark.parametrize(
    ("settings", "stages"),
    [
        ({"epsilon": 4.0}, ["bandwidth", "landmarks", "eigenproblem", "resampling", "embedding"]),
        (
            {"outliers": 0.01, "n_components": 2},
            ["outliers", "landmarks", "eigenproblem", "embedding"],
        ),
        (
            {"epsilon": 9.0, "extension": "distilled", "n_components": 2},
            ["distances", "bandwidth", "landmarks", "reference map", "distillation", "embedding"],
        ),
    ],
)
def test_a_plan_has_the_stages_of_the_fit(small, settings, stages):
    cost = ldmaps.plan(ROLL, n_landmarks=30, **settings)
    assert list(cost.steps) == list(cost.memory) == [OUTSIDE, *stages]
    assert cost.fit_seconds == pytest.approx(sum(cost.steps.values()))
    assert cost.peak_bytes == max(cost.memory.values()) > 5e7
    assert all(seconds >= 0 for seconds in cost.steps.values())
    assert cost.tried == (200, 400)
    assert (cost.n_points, cost.n_landmarks, cost.stride) == (3000, 30, 1)
    assert 0 < cost.seconds_per_point < 1
    assert cost.latency_seconds > 0


def test_a_tolerance_is_searched_for(small):
    cost = ldmaps.plan(swiss_roll(1600).points, epsilon=9.0, tolerance=20.0, n_components=2)
    assert cost.steps["search"] > 0
    assert cost.tried[-1] == 1600  # four for each of the landmarks that a fit has by default
    assert cost.n_landmarks < 400


def test_trials_double_until_the_time_is_up(monkeypatch, tried):
    monkeypatch.setattr(planning, "FEWEST", (200, 4))
    cost = ldmaps.plan(ROLL, n_landmarks=20, epsilon=16.0)
    assert [len(points) for _, points in tried] == [100, 200, 400, 800, 1600, 3000]
    assert cost.tried == (800, 1600, 3000)


def test_a_fit_that_takes_seconds_is_what_it_takes(small):
    cost = ldmaps.plan(ROLL[:200], n_landmarks=20, epsilon=9.0)
    assert cost.tried == (200,)


def test_time_and_memory_follow_the_laws_of_stages(monkeypatch, small):
    def trial(model, points):
        n = len(points)
        seconds = {
            "landmarks": 1e-3 * n,
            "reference map": 1e-6 * n**2,
            OUTSIDE: 0.5 + 1e-4 * n,
            "eigenproblem": 7.0,
        }
        memory = dict.fromkeys(seconds, 2e8 + 100 * n) | {"reference map": 2e8 + 8 * n**2}
        costs = {name: (taken, 2 * taken, memory[name]) for name, taken in seconds.items()}
        return planning._Trial(n, costs, 20, (1e-6, 2e-6))

    monkeypatch.setattr(planning, "_tried", trial)
    monkeypatch.setattr(planning, "resident_bytes", lambda: 2e8)
    points = np.zeros((1000, 3))
    cost = ldmaps.plan(
        points, n=100_000, n_landmarks=20, extension="distilled", limits=ldmaps.Limits(memory=1e12)
    )
    held = points.nbytes
    assert cost.steps["landmarks"] == pytest.approx(100.0)
    assert cost.steps["reference map"] == pytest.approx(1e4)
    assert cost.steps[OUTSIDE] == pytest.approx(10.5)
    assert cost.steps["eigenproblem"] == pytest.approx(7.0)
    assert cost.memory["reference map"] == pytest.approx(2e8 - held + 8e10)
    assert cost.memory["landmarks"] == pytest.approx(2e8 - held + 1e7)
    # The points are not counted twice: they are there already, and those of a trial come on top.
    assert cost.peak_bytes == cost.memory["reference map"]
    assert cost.stride > 1


def test_points_of_a_mapped_file_are_not_held_beforehand(monkeypatch, small, tmp_path):
    def trial(model, points):
        n = len(points)
        return planning._Trial(n, {OUTSIDE: (1e-3 * n, 1e-3 * n, 2e8 + 100 * n)}, 20, (1e-6, 2e-6))

    monkeypatch.setattr(planning, "_tried", trial)
    monkeypatch.setattr(planning, "resident_bytes", lambda: 2e8)
    np.save(tmp_path / "points.npy", np.zeros((1000, 3)))
    cost = ldmaps.plan(np.load(tmp_path / "points.npy", mmap_mode="r"), n=100_000, n_landmarks=20)
    assert cost.peak_bytes == pytest.approx(2e8 + 1e7, rel=1e-5)


def test_processors_that_others_use_do_not_bend_the_law(monkeypatch, small):
    """The clock of one trial stands still for long; work on processors does not."""

    def trial(model, points):
        n = len(points)
        busy = 10.0 if n == 800 else 1.0
        return planning._Trial(n, {OUTSIDE: (1e-3 * n * busy, 2e-3 * n, 1e8)}, 20, (1e-6, 2e-6))

    monkeypatch.setattr(planning, "_tried", trial)
    monkeypatch.setattr(planning, "BUDGET", 1e9)
    cost = ldmaps.plan(np.zeros((800, 3)), n=80_000, n_landmarks=20)
    assert cost.steps[OUTSIDE] == pytest.approx(80.0)


def test_stages_that_grow_with_n_take_no_noise_for_a_square(monkeypatch, small):
    """The second of two short trials was disturbed: its resampling took three times as long for twice the points."""

    def trial(model, points):
        n = len(points)
        seconds = {100: 0.1, 200: 0.3}.get(n, 0.3)
        return planning._Trial(
            n, {"resampling": (seconds, seconds, 1e8), "landmarks": (seconds,) * 2 + (1e8,)}, 20, (1e-6, 2e-6)
        )

    monkeypatch.setattr(planning, "_tried", trial)
    monkeypatch.setattr(planning, "FEWEST", (100, 1))
    monkeypatch.setattr(planning, "BUDGET", 1e9)
    cost = ldmaps.plan(np.zeros((200, 3)), n=20_000, n_landmarks=20)
    assert cost.tried == (100, 200)
    assert 10 <= cost.steps["resampling"] <= 30
    assert cost.steps["landmarks"] > 1000


@pytest.mark.parametrize(
    ("settings", "announced"), [({}, 400), ({"n_landmarks": 30}, 30), ({"tolerance": 1.0}, 7)]
)
def test_the_default_number_of_landmarks_is_announced(monkeypatch, small, settings, announced):
    """A trial may leave some out; only a tolerance or a tree finds their number."""

    def trial(model, points):
        return planning._Trial(len(points), {OUTSIDE: (1.0, 1.0, 1e8)}, 7, (1e-6, 2e-6))

    monkeypatch.setattr(planning, "_tried", trial)
    assert ldmaps.plan(np.zeros((5000, 3)), n=20_000, **settings).n_landmarks == announced
    assert ldmaps.plan(np.zeros((50, 3)), n=50, epsilon=1.0).n_landmarks == 50


# -- as the whole fit would do it ---------------------------------------------------


def test_fewer_points_are_solved_as_all_of_them_would_be(small, tried):
    settings = {
        "metric": "rmsd",
        "extension": "distilled",
        "n_landmarks": 20,
        "n_components": 2,
        "epsilon": 0.01,
    }
    frames = alanine_dipeptide().frames[:3000]
    stored = ldmaps.plan(frames, **settings)
    assert "distances" in stored.steps
    assert tried[-1][0]["limits"].memory == 4e9
    passes = ldmaps.plan(frames, n=40_000, **settings)  # 6.4 GB of kernel
    assert "distances" not in passes.steps
    assert tried[-1][0]["limits"].max_passes == 20
    assert passes.steps["reference map"] > 0
    medoids = ldmaps.plan(frames, n=40_000, **settings, limits=ldmaps.Limits(4.0 * 500**2, max_passes=0))
    assert "distances" not in medoids.steps
    assert tried[-1][0]["limits"].memory == pytest.approx(4.0 * 500**2, rel=0.01)
    assert medoids.tried[0] == 625


def test_given_landmarks_are_as_many(small, tried):
    cost = ldmaps.plan(ROLL, epsilon=9.0, landmarks=np.arange(1000, 1040))
    assert cost.n_landmarks == 40
    with pytest.raises(InvalidInputError, match="landmark indices must lie in 0 … 2999"):
        ldmaps.plan(ROLL, landmarks=[1, 3000])


def test_a_bandwidth_for_more_points_is_widened_for_fewer(small, tried):
    cost = ldmaps.plan(ROLL, n_landmarks=150, epsilon=0.05)
    assert cost.n_points == 3000
    assert tried[0][0]["epsilon"] == 0.05
    assert tried[-1][0]["epsilon"] > 0.05
    with pytest.raises(DisconnectedError):
        ldmaps.plan(ROLL, n_landmarks=1500, epsilon=1e-6)  # as the fit itself, of which this is all


def test_trials_keep_no_state_and_show_nothing(small, tried, tmp_path):
    ldmaps.plan(
        ROLL, n_landmarks=20, epsilon=9.0, limits=ldmaps.Limits(resume=tmp_path / "state"), verbose=True
    )
    assert {(settings["limits"].resume, settings["verbose"]) for settings, _ in tried} == {(None, False)}


def test_rows_and_columns_of_a_matrix_go_together(small, tried):
    distances = np.linalg.norm(ROLL[:1000, None] - ROLL[None, :1000], axis=2)
    cost = ldmaps.plan(distances, metric="precomputed", n_landmarks=20)
    assert cost.tried == (200, 400)
    assert tried[-1][1].shape == (400, 400)
    assert not np.diagonal(tried[-1][1]).any()


def test_samples_are_random_and_in_order(small, tried):
    ldmaps.plan(np.column_stack([np.arange(3000.0), np.zeros(3000)]), n_landmarks=20, epsilon=1e5)
    drawn = tried[-1][1][:, 0]
    assert (np.diff(drawn) > 0).all()
    assert drawn[-1] > 2900
    assert len(np.unique(np.diff(drawn))) > 3


@pytest.mark.parametrize(
    ("metric", "size"),
    [
        ("euclidean", 3),
        ("euclidean", 200),
        ("rmsd", 22),
        ("hamming", 30),
        ("periodic", 4),
        ("precomputed", 1),
        ("earth_mover", 10),
        (lambda x, y: float(np.abs(x - y).sum()), 3),
    ],
)
def test_every_metric_has_a_plan_without_data(small, monkeypatch, metric, size):
    monkeypatch.setattr(planning, "FEWEST_SLOW", (60, 2))
    cost = ldmaps.plan(5000, size, metric, 20)
    assert cost.n_points == 5000
    assert cost.tried[-1] < 5000
    assert cost.fit_seconds > 0


def test_points_made_up_have_the_precision_asked_for(small, tried):
    ldmaps.plan(1000, 5, n_landmarks=20)
    ldmaps.plan(1000, 5, n_landmarks=20, dtype="float64")
    assert [points.dtype for _, points in tried] == 3 * [np.float32] + 3 * [np.float64]
    assert all(points.shape[1:] == (5,) for _, points in tried)


# -- nonsense, and words ------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "euclid"}, "Did you mean 'euclidean'"),
        ({"extension": "magic"}, 'extension must be "auto" or one of "distilled", "nystrom"'),
        (
            {"epsilon": -1.0},
            'epsilon must be "bulk", "local", "connected", "coifman" or a positive number, got -1',
        ),
        ({"outliers": 0.5}, "outliers must be the share of points"),
        ({"landmarks": "magic"}, 'landmarks="magic" is not known'),
        ({"tolerance": 1.0}, "tolerance=1 finds the number of landmarks"),
        ({"n_components": 0}, 'n_components must be "gap" or a whole number of at least 1, got 0'),
        ({"n_landmarks": 4000}, "n_landmarks=4000 is more than the 3000 points"),
        ({"alpha": 2.0}, "alpha"),
    ],
)
def test_impossible_settings_fail_as_in_a_fit(settings, message):
    settings = {"n_landmarks": 50} | settings
    with pytest.raises(InvalidInputError, match=message) as planned:
        ldmaps.plan(ROLL, **settings)
    with pytest.raises(InvalidInputError, match=message) as fitted:
        LandmarkDiffusionMap(**settings).fit(ROLL)
    assert str(planned.value) == str(fitted.value)


@pytest.mark.slow
def test_a_tolerance_that_cannot_be_met(small):
    with pytest.raises(ToleranceError):
        ldmaps.plan(np.random.default_rng(0).normal(size=(1600, 30)), tolerance=1e-4, n_components=2)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((2.5, 3), {}, "n must be a whole number of at least 10, got 2.5"),
        ((1000, 0), {}, "n_features_or_atoms must be a whole number of at least 1, got 0"),
        ((1000, 3), {"dtype": "int8"}, "dtype must be float32 or float64"),
        ((1000,), {}, "pass their number and n_features_or_atoms"),
        ((ROLL,), {"n": 0}, "n must be a whole number of at least 10, got 0"),
    ],
)
def test_nonsense(arguments, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        ldmaps.plan(*arguments, **settings)


def made(**changes):
    facts = {
        "n_points": 200_000,
        "n_landmarks": 400,
        "tried": (2500, 5000, 10_000),
        "fit_seconds": 90.5,
        "peak_bytes": 5e8,
        "steps": {OUTSIDE: 0.5, "landmarks": 90.0},
        "memory": {OUTSIDE: 4e8, "landmarks": 5e8},
        "seconds_per_point": 3e-6,
        "latency_seconds": 2.5e-5,
        "stride": 1,
    }
    return Plan(**facts | changes)


def test_it_reads_well(monkeypatch):
    monkeypatch.setattr(planning, "free_bytes", lambda: 8e9)
    assert str(made()).splitlines() == [
        "cost of fitting 200,000 points with 400 landmarks (extrapolated from fits of 2,500, 5,000 and 10,000 points):",
        "  stage            time    memory",
        "  preparation    500 ms    400 MB",
        "  landmarks     1.5 min    500 MB",
        "  all           1.5 min    500 MB",
        "embedding new points: 3 µs per point in batches, 25 µs for a single point",
        "Go ahead: this machine has 8 GB of memory left.",
    ]


def test_the_verdict_names_what_is_too_much(monkeypatch):
    monkeypatch.setattr(planning, "free_bytes", lambda: 8e9)
    monkeypatch.setattr(planning, "resident_bytes", lambda: 1e9)
    assert made(peak_bytes=8.9e9).verdict.startswith("Go ahead")
    assert made(peak_bytes=9.1e9).verdict == "This machine has only 8 GB of memory left."
    long = made(fit_seconds=7200.0, stride=20).verdict
    assert long == "The fit would take 2 h. Fit one point in 20 instead."


def test_progress_names_the_trials(small, caplog):
    with caplog.at_level("INFO", "ldmaps"), reporting(Progress(show=True)):
        ldmaps.plan(ROLL, n_landmarks=20, epsilon=9.0)
    lines = [record.getMessage().split(":")[0] for record in caplog.records]
    assert lines == ["fit of 200 points", "fit of 400 points"]


@pytest.mark.parametrize("data", [ROLL[:1], ROLL[:9], 1])
def test_a_handful_of_points_is_not_planned(data):
    width = 3 if isinstance(data, int) else None
    with pytest.raises(InvalidInputError, match="at least 10"):
        ldmaps.plan(data, width)


def test_few_points_are_planned():
    assert ldmaps.plan(ROLL[:10], epsilon=1e4).n_points == 10
