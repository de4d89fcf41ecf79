"""Planned cost: right about memory, every step counted where it dominates, and clear about nonsense."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest

import ldmaps
from ldmaps.cli.plan import _option
from ldmaps.costs import KINDS_OF_WORK
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import KMedoids
from ldmaps.maps import planning
from ldmaps.maps.machine import Machine, measure
from ldmaps.maps.planning import PATIENCE, PROGRAM_BYTES
from ldmaps.maps.tolerance import numbers_tried
from ldmaps.metrics import RMSD, Euclidean, resolve_metric

# -- against what a process takes ---------------------------------------------------

MEASURE = """
import json, sys
import numpy as np
from ldmaps import LandmarkDiffusionMap
shape, dtype, settings = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = np.empty(shape, dtype)
centre = rng.normal(size=shape[1:])
for row in X:
    row[:] = rng.uniform(size=shape[1:]) if len(shape) == 2 else centre + 0.3 * rng.normal(size=shape[1:])
LandmarkDiffusionMap(2, **settings).fit(X)
# Not ru_maxrss, which begins with the size of the process that started this one.
status = dict(line.split(":") for line in open("/proc/self/status"))
print(1024 * int(status["VmHWM"].split()[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' record of the process")
@pytest.mark.parametrize(
    ("shape", "dtype", "settings"),
    [
        ((300, 3), "float32", {"n_landmarks": 20}),
        ((1500, 4000, 3), "float32", {"metric": "rmsd", "n_landmarks": 20, "epsilon": 0.5}),
        ((30_000, 300), "float64", {"n_landmarks": 30, "epsilon": 30.0}),
        ((5000, 3), "float64", {"n_landmarks": 4000, "epsilon": 0.05}),
        ((9000, 2), "float32", {"tolerance": 5.0, "epsilon": 0.01}),
    ],
    ids=["nothing but imports", "large frames", "many features", "many landmarks", "tolerance"],
)
def test_memory_is_what_a_process_takes(shape, dtype, settings):
    command = [sys.executable, "-c", MEASURE, json.dumps([shape, dtype, settings])]
    measured = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    planned = ldmaps.plan(*shape[:2], dtype=dtype, **settings)
    # The first fit of an installation compiles, which takes up to 150 MB more.
    assert measured / 1.5 < planned.peak_bytes + 1.5e8
    assert planned.peak_bytes < 1.5 * measured


# -- on a machine that is made up --------------------------------------------------


def machine(**speeds):
    """A machine on which only some kinds of work take time, and points are as they come."""
    return Machine(
        speeds=dict.fromkeys(KINDS_OF_WORK, 0.0) | speeds,
        latency=0.0,
        preparing=0.0,
        raw_bytes=12.0,
        prepared_share=0.0,
        preparing_share=0.0,
        copied_share=0.0,
        compared_share=0.0,
    )


@pytest.fixture
def plan_on(monkeypatch):
    def plan(made_up, *arguments, **settings):
        monkeypatch.setattr(planning, "measure", lambda *_: made_up)
        monkeypatch.setattr(planning, "_machine_memory", lambda: 1e15)
        return ldmaps.plan(*arguments, **settings)

    return plan


N, M = 20_000, 100
#: Numbers of landmarks that a search for 20 tries: 4, 8, 16, 32, then some between; and how many draws of each.
TRIED = np.array(numbers_tried(20, fewest=4, most=5000))
DRAWN = np.where(TRIED <= 20, 3, 1)
#: Distances for each landmark that is moved: 100 times over 4,000 points, those of a gradient counting twice, and then
#: those of all points fitted to once more.
MOVED = 100 * 3 * 4000 + 10_000
MEDOIDS = 3 * N * M + 5 * N**2 / M + 5000 * M
#: Distances of the connected rule: points to 282 centres and within cells, three times over.
CELLS = 3 * (282 * N + N**2 / 282 + 282**2 / 2)


#: Neither room for the kernel nor time for a pass.
MEDOIDS_ONLY = {"extension": "distilled", "memory_limit": 4 * 5000**2, "max_passes": 0}


def by_hand(x, y):
    """A metric of which nothing is known, so that the connected rule takes all pairs."""
    return 0.0


def test_rules_that_know_no_better_take_rows_of_the_tree(plan_on):
    for kind, count in (("row_distances", N**2 / 2), ("rows", N)):
        assert plan_on(machine(**{kind: 1.0}), N, 22, by_hand).steps["bandwidth"] == pytest.approx(
            count, rel=0.1
        )


@pytest.mark.parametrize(
    ("kind", "settings", "step", "count"),
    [
        # Nyström
        ("distances", {}, "bandwidth", CELLS),
        ("rows", {}, "bandwidth", 0),
        ("distances", {"epsilon": "coifman"}, "bandwidth", 4000**2),
        ("distances", {}, "landmarks", MEDOIDS),
        ("distances", {"n_landmarks": 15_000}, "landmarks", 4 * N * 15_000 + 15_000**2 / 2),  # put in order
        ("distances", {"n_landmarks": 5000}, "eigenproblem", 0),  # there since then
        ("distances", {"n_landmarks": N}, "landmarks", N**2),  # all points, as they come
        ("distances", {"n_landmarks": N}, "eigenproblem", N**2 / 2),
        ("distances", {"landmarks": range(9000), "n_landmarks": None}, "landmarks", N * 9000),
        ("distances", {"landmarks": range(9000), "n_landmarks": None}, "eigenproblem", 9000**2 / 2),
        ("exponentials", {}, "eigenproblem", M**2),
        ("multiplications", {}, "eigenproblem", 6 * M**3),
        ("kernel_bytes", {"n_landmarks": 5000}, "eigenproblem", 180 * 4 * 5000**2),
        ("landmark_shares", {}, "embedding", N * M),
        # outliers are told by the tree, whatever the rule for ε, which is then known
        ("row_distances", {"outliers": 0.01}, "outliers", N**2 / 2),
        ("row_distances", {"outliers": 0.01}, "bandwidth", 0),
        ("row_distances", {"outliers": 0.01, "epsilon": 0.1}, "outliers", N**2 / 2),
        ("distances", {"outliers": 0.01, "epsilon": "coifman"}, "outliers", 4000**2),
        # distilled from the exact map
        ("distances", {"extension": "distilled"}, "distances", N**2 / 2),
        ("new_bytes", {"extension": "distilled"}, "distances", 4 * N**2),
        ("kernel_bytes", {"extension": "distilled"}, "bandwidth", 3 * 4 * N**2),
        ("distances", {"extension": "distilled"}, "landmarks", MEDOIDS),
        ("exponentials", {"extension": "distilled"}, "reference map", N**2),
        ("kernel_bytes", {"extension": "distilled"}, "reference map", 180 * 4 * N**2),
        ("distances", {"extension": "distilled"}, "distillation", (6 * 10_000 + MOVED) * M),
        (
            "multiplications",
            {"extension": "distilled", "n_landmarks": 800},
            "distillation",
            6 * 16e3 * 800**2,
        ),
        # and from a landmark map, where that does not fit
        ("distances", MEDOIDS_ONLY, "bandwidth", CELLS),
        ("exponentials", MEDOIDS_ONLY, "reference map", 5000**2 + 2000 * N),  # and rows that tell its error
        ("landmark_shares", MEDOIDS_ONLY, "reference map", 5000 * N),
        ("landmark_shares", MEDOIDS_ONLY, "distillation", 5e7),
        # or in three passes over all pairs, or as many as there may be
        ("exponentials", {"extension": "distilled", "memory_limit": 4e8}, "reference map", 3 * N**2 / 2),
        ("multiplications", {"extension": "distilled", "memory_limit": 4e8}, "reference map", 3 * 16 * N**2),
        (
            "exponentials",
            {"extension": "distilled", "memory_limit": 4e8, "max_passes": 1},
            "reference map",
            N**2 / 2,
        ),
        ("landmark_shares", {"extension": "distilled", "memory_limit": 4e8}, "distillation", 0),
        # a tolerance: a draw or three of 10,000 points, the rest held out
        ("distances", {"tolerance": 1.0}, "distances", N**2 / 2),
        ("exponentials", {"tolerance": 1.0}, "reference map", N**2),
        (
            "distances",
            {"tolerance": 1.0},
            "search",
            (DRAWN * (5 * 1e4**2 / TRIED + (3 * 1e4 + 5e3 + N + 6e4 + MOVED) * TRIED)).sum(),
        ),
        ("landmark_shares", {"tolerance": 1.0}, "search", 10_000 * TRIED.sum()),
        ("kernel_bytes", {"tolerance": 1.0, "extension": "nystrom"}, "search", 0),
        # drawn at random: each of the points fitted to and of all points is assigned, and six passes distil
        (
            "distances",
            {"tolerance": 1.0, "landmarks": "uniform"},
            "search",
            (DRAWN * TRIED).sum() * (1e4 + N + 6e4 + MOVED),
        ),
        (
            "exponentials",
            {"tolerance": 1.0, "extension": "nystrom"},
            "search",
            (TRIED**2).sum(),
        ),
    ],
    ids=str,
)
def test_work_is_counted_where_it_is_done(plan_on, kind, settings, step, count):
    settings = {"n_landmarks": None if "tolerance" in settings else M} | settings
    planned = plan_on(machine(**{kind: 1.0}), N, 22, "rmsd", **settings)
    assert planned.steps[step] == pytest.approx(count, rel=0.1)
    assert planned.fit_seconds == pytest.approx(sum(planned.steps.values()))


def test_the_tree_of_few_features_joins_points(plan_on):
    assert plan_on(machine(tree_points=1.0), N, 3).steps["bandwidth"] == N
    assert plan_on(machine(tree_points=1.0), N, 30).steps["bandwidth"] == 0


def test_time_that_is_no_arithmetic(plan_on):
    made_up = replace(machine(overhead=1.0), preparing=0.5, latency=0.25)
    planned = plan_on(made_up, N, 3, n_landmarks=M)
    assert planned.steps["preparation"] == 0.5 * N
    assert planned.steps["landmarks"] == KMedoids(M).cost(made_up.data_size(N, 3, 4), M).overhead > 0
    assert planned.latency_seconds == 0.25
    assert planned.seconds_per_point == 0.5
    assert plan_on(machine(landmark_shares=0.01), N, 3, n_landmarks=M).seconds_per_point == 0.01 * M


@pytest.mark.parametrize(
    ("share", "settings", "step", "copies"),
    [
        # as they come; prepared; while they are; in cells; in rows of the spanning tree; in cells again
        ({}, {}, "bandwidth", 1),
        ({"prepared_share": 3.0}, {}, "embedding", 4),
        ({"preparing_share": 3.0}, {}, "preparation", 4),
        ({"copied_share": 1.0}, {}, "bandwidth", 2),
        ({"copied_share": 1.0}, {"metric": by_hand}, "bandwidth", 1 + 15 / 8),
        ({"copied_share": 1.0}, {}, "landmarks", 2),
        ({"copied_share": 1.0}, {"outliers": 0.1}, "outliers", 1 + 15 / 8),
        ({"copied_share": 1.0}, {"outliers": 0.1}, "landmarks", 3),
        ({"copied_share": 1.0}, {"outliers": 0.1}, "embedding", 2),
        ({"copied_share": 1.0, "compared_share": 1.0}, {}, "landmarks", 3),
        ({"compared_share": 1.0}, {"extension": "distilled"}, "distances", 2),
        ({"copied_share": 1.0}, {"extension": "distilled"}, "landmarks", 2),
        ({"copied_share": 1.0}, {"extension": "distilled"}, "bandwidth", 1),
        ({"copied_share": 1.0}, {"extension": "distilled"}, "distillation", 1 + 0.5 + 0.5),
        # those fitted to, these once more as rows of least squares, and twice those that a few landmarks are moved by
        ({"copied_share": 1.0}, {"tolerance": 1.0}, "search", 1 + 0.5 + 0.5 + 2 * 0.2),
        # and of many landmarks all that are held out, while they are judged
        (
            {"copied_share": 1.0},
            {"tolerance": 1.0, "extension": "nystrom", "landmarks": "uniform"},
            "search",
            2.0,
        ),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", str(value)),  # the same in every process
)
def test_points_and_their_copies_are_counted(plan_on, share, settings, step, copies):
    made_up = replace(machine(), raw_bytes=1e9 / N, **share)
    settings = {"n_landmarks": None if "tolerance" in settings else M} | settings
    metric = settings.pop("metric", "rmsd")
    planned = plan_on(made_up, N, 1000, metric, **settings)
    matrix = 4 * N**2 if step in ("distances", "bandwidth", "landmarks") and "extension" in settings else 0
    assert planned.memory[step] - PROGRAM_BYTES - matrix == pytest.approx(copies * 1e9, rel=0.1)
    assert planned.peak_bytes == max(planned.memory.values())


@pytest.mark.parametrize(
    ("settings", "step", "n_bytes"),
    [
        ({"n_landmarks": 5000}, "landmarks", 2 * 4 * 5000**2),
        ({"n_landmarks": 5000}, "eigenproblem", 4 * 5000**2),
        ({"n_landmarks": 300}, "eigenproblem", (3 * 8 + 4) * 300**2),
        ({"n_landmarks": M, "n_components": 300}, "embedding", 4 * 300 * N),
        ({"n_landmarks": M, "extension": "distilled"}, "distances", 4 * N**2),
        ({"n_landmarks": M, "extension": "distilled"}, "bandwidth", 4 * N**2),
        ({"n_landmarks": M, "extension": "distilled"}, "landmarks", 4 * N**2),
        ({"n_landmarks": M, "extension": "distilled"}, "reference map", 4 * N**2),
        ({"n_landmarks": 4000, "extension": "distilled"}, "distillation", 12 * 2**24 + 24 * 4000**2),
        ({"tolerance": 1.0}, "bandwidth", 4 * N**2),
        ({"tolerance": 1.0}, "reference map", 4 * N**2),
    ],
    ids=str,
)
def test_matrices_are_held_as_long_as_they_are_needed(plan_on, settings, step, n_bytes):
    planned = plan_on(replace(machine(), raw_bytes=0.0), N, 22, "rmsd", **settings)
    assert planned.memory[step] - PROGRAM_BYTES == pytest.approx(n_bytes, rel=0.08, abs=4e6)


def test_what_every_point_has_is_counted(plan_on):
    # Weights, indices, landmark, d², and two coordinates.
    planned = plan_on(replace(machine(), raw_bytes=0.0), 10**8, 3, n_landmarks=10, epsilon=1.0)
    assert planned.memory["embedding"] - PROGRAM_BYTES == pytest.approx(1e8 * (16 + 12 + 20))
    assert planned.memory["eigenproblem"] - PROGRAM_BYTES == pytest.approx(1e8 * (16 + 12), rel=1e-3)


@pytest.mark.parametrize(
    "settings", [{"n_landmarks": 10, "extension": "distilled"}, {"tolerance": 1.0}], ids=str
)
def test_what_every_point_has_is_counted_while_distilling(plan_on, settings):
    # Weights, indices, landmark and d²; a search begins with no landmarks.
    nothing = replace(machine(), raw_bytes=0.0)
    planned = plan_on(nothing, 10**8, 3, epsilon=1.0, memory_limit=4e6, **settings)
    last = planned.memory["search" if "tolerance" in settings else "distillation"]
    assert last - PROGRAM_BYTES == pytest.approx(1e8 * (16 + 12), rel=0.02)
    # The medoids of the reference are assigned while the landmarks' assignment is there.
    before = 0 if "tolerance" in settings else 12
    assert planned.memory["reference map"] - PROGRAM_BYTES == pytest.approx(
        1e8 * (16 + 12 + before), rel=0.02
    )


@pytest.mark.parametrize(
    "settings", [{"n_landmarks": 400, "extension": "distilled"}, {"tolerance": 1.0}], ids=str
)
def test_the_reference_keeps_its_eigenvectors(plan_on, settings):
    nothing = replace(machine(), raw_bytes=0.0)
    few, many = (plan_on(nothing, 20_000, 3, epsilon=1.0, n_components=k, **settings).memory for k in (1, 2))
    step = "search" if "tolerance" in settings else "distillation"
    rows = 10_000 * 32  # targets, as they are, fitted to, held out and scaled
    assert many[step] - few[step] == pytest.approx(20_000 * 8 + rows, rel=0.01)


def test_the_reference_is_as_large_as_memory_allows(plan_on):
    def reference(n, **settings):
        return plan_on(machine(), n, 3, "euclidean", **settings).reference_points

    assert reference(20_000, n_landmarks=300) == 0
    assert reference(20_000, n_landmarks=300, extension="distilled") == 20_000
    assert reference(1_000_000, n_landmarks=300, extension="distilled") == 5000
    assert reference(1_000_000, n_landmarks=1000, extension="distilled") == 10_000
    assert reference(20_000, tolerance=1.0) == 20_000
    assert reference(20_000, tolerance=1.0, extension="nystrom", memory_limit=4e8) == 20_000
    assert reference(20_000, tolerance=1.0, extension="nystrom", memory_limit=4e8, max_passes=0) == 5000
    assert reference(1_000_000, n_landmarks=300, extension="distilled", max_passes=1) == 1_000_000
    # A million points have no room for a single block of vectors, so that the fit takes medoids.
    assert (
        reference(1_000_000, n_landmarks=300, extension="distilled", max_passes=1, memory_limit=4e8) == 5000
    )


@pytest.mark.parametrize("n_threads", [2, 16])
def test_passes_over_a_million_points_keep_the_memory_limit(plan_on, n_threads):
    settings = {"n_landmarks": 300, "extension": "distilled", "epsilon": 1.0, "max_passes": 3}
    nothing = replace(machine(), raw_bytes=0.0)
    planned = plan_on(nothing, 1_000_000, 3, memory_limit=4e9, n_threads=n_threads, **settings)
    others = planning.PROGRAM_BYTES + 1_000_000 * (8 + 8 + 8 + 4)  # weights, and each point's landmark
    assert 3.5e9 < planned.memory["reference map"] - others <= 4e9
    assert (
        plan_on(nothing, 1_000_000, 3, memory_limit=16e9, n_threads=n_threads, **settings).peak_bytes > 4.5e9
    )


def test_landmarks_that_the_fit_finds_are_guessed(plan_on):
    assert plan_on(machine(), N, 3).n_landmarks == 400
    assert plan_on(machine(), 50, 3).n_landmarks == 50
    assert plan_on(machine(), N, 3, landmarks="pst").n_landmarks == 400
    assert plan_on(machine(), N, 3, landmarks=np.arange(30)).n_landmarks == 30
    assert plan_on(machine(), N, 3, landmarks=KMedoids(70)).n_landmarks == 70
    assert plan_on(machine(), N, 3, tolerance=1.0).n_landmarks == 20
    assert plan_on(machine(), N, 3, "hamming", tolerance=1.0).n_landmarks == 60  # cannot be moved


# -- what to do about it -------------------------------------------------------------


def test_a_fit_of_hours_gets_advice(plan_on):
    planned = plan_on(machine(row_distances=1e-7), 10**7, 500, by_hand)
    assert planned.fit_seconds > 1000 * 3600
    cheaper = {remedy.setting: remedy for remedy in planned.remedies}
    assert cheaper["epsilon"].value == "coifman"
    assert cheaper["epsilon"].fit_seconds == 0
    # Time falls as the square: 100 points for each, not 50, bring 1,500 hours below one.
    assert cheaper["stride"].value == 50
    assert cheaper["stride"].fit_seconds <= PATIENCE
    text = str(planned)
    assert "1,500 h is long, 100 % of it for: bandwidth. Cheaper:" in text
    assert '\n  epsilon="coifman": 0 µs and ' in text
    assert "\n  every 50th point: 35 min and " in text


def test_a_fit_beyond_the_machine_gets_advice(plan_on, monkeypatch):
    made_up = replace(machine(), raw_bytes=1e5, copied_share=1.0)
    assert not plan_on(made_up, N, 22, by_hand).remedies
    monkeypatch.setattr(planning, "_machine_memory", lambda: 3e9)
    monkeypatch.setattr(planning, "measure", lambda *_: made_up)
    planned = ldmaps.plan(N, 22, by_hand)
    assert planned.peak_bytes > 5e9
    assert "This machine has only 3 GB. Cheaper:" in str(planned)
    assert "is long" not in str(planned)
    cheaper = {remedy.setting: remedy for remedy in planned.remedies}
    assert cheaper["stride"].value == 5
    assert cheaper["stride"].peak_bytes < 0.9 * 3e9
    assert cheaper["epsilon"].peak_bytes < 0.8 * planned.peak_bytes


def test_passes_that_take_hours_are_advised_against(plan_on):
    planned = plan_on(
        machine(exponentials=1e-7), 400_000, 22, "rmsd", epsilon=0.1, extension="distilled", max_passes=3
    )
    cheaper = {remedy.setting: remedy for remedy in planned.remedies}
    assert cheaper["max_passes"].value == 0
    assert cheaper["max_passes"].fit_seconds < 0.01 * planned.fit_seconds
    assert "\n  max_passes=0: " in str(planned)
    assert "\n  --max-passes 0: " in planned.describe(
        option=lambda *change: _option(Namespace(stride=1), *change)
    )


def test_distilling_too_much_is_advised_against(plan_on):
    planned = plan_on(machine(exponentials=1e-3), N, 22, "rmsd", epsilon=0.1, extension="distilled")
    nystrom, stride = planned.remedies
    assert (nystrom.setting, nystrom.value, nystrom.fit_seconds) == ("extension", "nystrom", 160.0)
    assert stride.setting == "stride"


def test_nothing_is_advised_that_does_not_help(plan_on):
    planned = plan_on(machine(landmark_shares=1e-3), N, 22, "rmsd", n_landmarks=4000)
    assert planned.fit_seconds > PATIENCE
    assert [remedy.setting for remedy in planned.remedies] == ["stride"]
    assert planned.remedies[0].value == 2  # more would leave fewer points than landmarks
    none = plan_on(machine(landmark_shares=1e-3), N, 22, "rmsd", n_landmarks=15_000)
    assert none.remedies == ()
    assert str(none).endswith("h is long, 100 % of it for: embedding.")


# -- on this machine -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "size"),
    [
        ("euclidean", 3),
        ("euclidean", 200),
        ("rmsd", 22),
        ("rmsd", 5000),
        ("hamming", 30),
        ("periodic", 4),
        ("precomputed", 1),
        ("earth_mover", 10),
        (lambda x, y: float(np.abs(x - y).sum()), 3),
    ],
)
def test_every_metric_has_a_plan(metric, size):
    planned = ldmaps.plan(5000, size, metric, 50)
    assert planned.fit_seconds == pytest.approx(sum(planned.steps.values()))
    assert all(seconds >= 0 for seconds in planned.steps.values())
    assert planned.seconds_per_point > 0
    assert planned.latency_seconds > 0
    assert planned.peak_bytes > PROGRAM_BYTES


def test_all_kinds_of_work_are_measured():
    measured = measure(Euclidean(), 10_000, 3, 50, 2, np.dtype(np.float32), None)
    assert set(measured.speeds) == set(KINDS_OF_WORK)
    assert all(seconds > 0 for seconds in measured.speeds.values())


@pytest.mark.parametrize(
    ("metric", "n_features", "raw", "shares"),
    [
        # prepared, while preparing, copied, compared: features as columns, and as rows with a centred copy
        (Euclidean(), 4, 16, (1.0, 1.0, 1.0, 0.0)),
        (Euclidean(), 100, 400, (1.0, 1.0, 1.0, 1.0)),
        (RMSD(), 66, 264, (1.05, 1.05, 1.05, 0.0)),
        (RMSD(align=[0, 1, 2, 3]), 66, 264, (2.4, 2.4, 2.4, 0.0)),  # in float64, and the fitted atoms again
        (resolve_metric("precomputed"), 3000, 4 * 3000, (0.0, 0.25, 0.0, 0.0)),
    ],
)
def test_memory_of_points_is_measured(metric, n_features, raw, shares):
    measured = measure(metric, 3000, n_features, 256, 2, np.dtype(np.float32), 1)
    assert measured.raw_bytes == raw
    found = (
        measured.prepared_share,
        measured.preparing_share,
        measured.copied_share,
        measured.compared_share,
    )
    assert found == pytest.approx(shares, abs=0.12)
    data = measured.data_size(70, n_features, 4)
    assert data.point_bytes == measured.copied_share * raw
    assert data.block_bytes == measured.compared_share * raw
    assert (data.n_points, data.n_features, data.itemsize) == (70, n_features, 4)


def test_it_reads_well(plan_on):
    made_up = replace(machine(distances=1e-6, overhead=1.0), latency=5e-5, preparing=1e-6)
    text = str(plan_on(made_up, 20_000, 22, "rmsd", 200, extension="distilled"))
    assert text.startswith(
        "fit of 20,000 points to 200 landmarks: about 8 min (preparation 20 ms, distances "
    )
    assert (
        " and 1.9 GB (most during: reference map); then 1 µs per point in batches, 50 µs for one alone"
        in text
    )
    assert "embedding" not in text  # takes no time here
    assert "\n" not in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 2.5}, "n must be a whole number"),
        ({"n": 2}, "n must be a whole number of at least 3, got 2"),
        ({"n": 10}, "n_landmarks=50 is more than n=10; ask for at most 10"),
        ({"n_features_or_atoms": 0}, "n_features_or_atoms must be a whole number of at least 1, got 0"),
        ({"n_landmarks": 1}, "n_landmarks must be a whole number of at least 2, got 1"),
        ({"n_components": 0}, 'n_components must be "gap" or a whole number of at least 1, got 0'),
        ({"metric": "euclid"}, "Did you mean 'euclidean'"),
        ({"extension": "magic"}, 'extension must be "auto" or one of "distilled", "nystrom"'),
        ({"epsilon": "magic"}, 'epsilon must be "connected", "coifman" or a positive number'),
        ({"epsilon": -1.0}, 'epsilon must be "connected", "coifman" or a positive number, got -1'),
        ({"outliers": 0.5}, "outliers must be the share of points"),
        ({"landmarks": "magic"}, 'landmarks="magic" is not known'),
        ({"tolerance": 1.0}, "tolerance=1 finds the number of landmarks"),
        ({"tolerance": 1.0, "n_landmarks": None, "landmarks": "pst"}, "no tolerance can choose it"),
        ({"tolerance": -1.0, "n_landmarks": None}, "tolerance must be a positive number"),
        ({"dtype": "int8"}, "dtype must be float32 or float64"),
    ],
)
def test_nonsense(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        ldmaps.plan(**{"n": 1000, "n_features_or_atoms": 3, "n_landmarks": 50, **settings})
