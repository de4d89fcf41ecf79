"""What resampling says of maps whose eigenvalues, memory and harmonics are known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.spatial.distance import cdist

from ldmaps.validation.coordinate_choice import coordinates_kept
from ldmaps.validation.resampling import fitted_modes
from ldmaps.validation.sampling import Order, Sampling, judge_sampling
from ldmaps.validation.sampling_words import (
    coordinate_rows,
    replica_rows,
    sampling_lines,
    sampling_notes,
)


def ornstein_uhlenbeck(n, sigmas, times, seed):
    """Gaussian coordinates that forget exponentially."""
    columns = []
    rng = np.random.default_rng(seed)
    for sigma, time in zip(sigmas, times, strict=True):
        a = np.exp(-1 / time)
        noise = rng.normal(size=n)
        noise[1:] *= np.sqrt(1 - a**2)
        columns.append(sigma * lfilter([1.0], [1.0, -a], noise))
    return np.stack(columns, axis=1)


def landmarks_of(X, m=80, epsilon=1.0):
    """Landmarks by farthest points, cells, and the kernel between them."""
    chosen = [0]
    squared = cdist(X[:1], X, "sqeuclidean")[0]
    for _ in range(m - 1):
        chosen.append(int(np.argmax(squared)))
        squared = np.minimum(squared, cdist(X[chosen[-1:]], X, "sqeuclidean")[0])
    Z = X[chosen]
    cells = np.argmin(cdist(X, Z), axis=1)
    return Z, cells, np.exp(-cdist(Z, Z, "sqeuclidean") / (2 * epsilon))


@pytest.fixture(scope="module")
def process():
    X = ornstein_uhlenbeck(6000, (3.0, 1.2), (30.0, 3.0), 0)
    _, cells, A = landmarks_of(X)
    weights = np.ones(len(X))
    fitted = fitted_modes(A, np.bincount(cells, minlength=80).astype(float))
    return (
        X,
        cells,
        weights,
        fitted,
        judge_sampling(fitted, cells, weights, Order(True, spacing=2.0, unit="ps")),
    )


def test_intervals_cover_the_eigenvalues_of_endless_data_for_the_same_landmarks():
    """95 % of 60 independent runs, give or take three standard errors of that count."""
    inside = []
    for seed in range(60):
        X = ornstein_uhlenbeck(1500, (3.0, 1.2), (8.0, 3.0), seed)
        Z, cells, A = landmarks_of(X, 40, 2.0)
        endless = np.random.default_rng(seed + 1000).normal(size=(40_000, 2)) * [3.0, 1.2]
        c = np.bincount(np.argmin(cdist(endless, Z), axis=1), minlength=40) + 1e-9
        truth = fitted_modes(A, c).eigenvalues[1:3]
        fitted = fitted_modes(A, np.bincount(cells, minlength=40).astype(float))
        found = judge_sampling(fitted, cells, np.ones(1500), Order(True), n_resamples=60)
        inside.append((found.intervals[:2, 0] < truth) & (truth < found.intervals[:2, 1]))
    share = np.mean(inside, axis=0)
    assert (share >= 0.87).all()
    assert share.mean() < 1.0


def test_times_are_those_of_the_process_in_its_unit(process):
    found = process[-1]
    time, error, independent = found.times[0]
    assert time == pytest.approx(2.0 * 30.0, abs=4 * error)
    assert independent == pytest.approx(6000 * 2.0 / (2 * time))
    assert found.unit == "ps"
    assert found.lag == pytest.approx(time, abs=2.0)
    # Long enough for a time that is one standard error longer.
    assert found.block_length == pytest.approx(8 * (time + error - 1.0), rel=0.1)
    assert found.kind == "time"
    assert found.timescale(0) == "slow"
    assert found.correlations[0] == pytest.approx(np.exp(-found.lag / 60.0), abs=0.15)
    assert found.correlations[-1] >= found.correlations[:-1].max()


def test_a_lag_is_taken_in_the_order_of_the_unit(process):
    _, cells, weights, fitted, _ = process
    found = judge_sampling(fitted, cells, weights, Order(True, spacing=2.0, unit="ps"), lag=20.0)
    assert found.lag == 20.0
    assert found.correlations[0] == pytest.approx(np.exp(-20.0 / 60.0), abs=0.1)


def test_points_without_an_order_are_drawn_one_by_one_and_have_no_times(process):
    _, cells, weights, fitted, in_time = process
    found = judge_sampling(fitted, cells, weights, Order(False))
    assert found.kind == "rows"
    assert found.times is None
    assert found.timescale(0) == ""
    # 6000 rows count as 100 independent samples; errors as if all were independent are far smaller.
    assert found.errors[0] < 0.4 * in_time.errors[0]
    said = judge_sampling(fitted, cells, weights, Order(False), resample="time")
    np.testing.assert_array_equal(said.errors, in_time.errors)
    assert said.timescale(0) == "slow"


def test_hermite_polynomials_follow_the_axes(process):
    found = process[-1]
    assert found.follows[1].tolist()[:2] == [True, False]  # x² - 1 of x
    assert found.r2[1] > 0.95
    assert not found.follows[0].any()


def test_few_heavy_weights_make_larger_errors():
    X = ornstein_uhlenbeck(4000, (3.0, 1.2), (0.01, 0.01), 3)
    _, cells, A = landmarks_of(X, 30, 6.0)
    weights = np.exp(np.random.default_rng(0).normal(size=4000))
    fitted = fitted_modes(A, np.bincount(cells, weights, 30))
    plain = fitted_modes(A, np.bincount(cells, minlength=30).astype(float))
    weighted = judge_sampling(fitted, cells, weights, Order(False), n_resamples=200)
    # Variance of a weighted mean: Σw² / (Σw)², against 1/N.
    ratio = np.sqrt((weights**2).sum() * 4000) / weights.sum()
    equal = judge_sampling(plain, cells, np.ones(4000), Order(False), n_resamples=200)
    assert weighted.errors[0] / equal.errors[0] == pytest.approx(ratio, rel=0.25)
    assert weighted.eigenvalues[0] == pytest.approx(fitted.eigenvalues[1])


def test_landmark_errors_are_the_spread_of_independent_runs():
    """The landmarks of one run; multiplicities of others; ψ scaled by their weight and turned to the first's sign."""
    X = ornstein_uhlenbeck(2000, (3.0, 1.2), (0.01, 0.01), 5)
    Z, cells, A = landmarks_of(X, 25, 4.0)
    fitted = fitted_modes(A, np.bincount(cells, minlength=25).astype(float))
    found = judge_sampling(fitted, cells, np.ones(2000), Order(False), n_resamples=200)
    runs = []
    for seed in range(100):
        other = ornstein_uhlenbeck(2000, (3.0, 1.2), (0.01, 0.01), 100 + seed)
        c = np.bincount(np.argmin(cdist(other, Z), axis=1), minlength=25) + 1e-9
        psi = fitted_modes(A, c).vectors[:, 1]
        runs.append(psi / np.sqrt(c @ psi**2) * np.sign(psi @ fitted.vectors[:, 1]))
    ratio = found.landmark_errors[:, 0] / np.std(runs, axis=0)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.25)


def test_replicas_that_saw_something_else_are_named():
    X = ornstein_uhlenbeck(6000, (3.0, 1.2), (5.0, 5.0), 1)
    X[4500:, 0] += 4.0
    _, cells, A = landmarks_of(X)
    files = np.repeat([0, 1, 2, 3], 1500).astype(np.int32)
    weights = np.ones(6000)
    fitted = fitted_modes(A, np.bincount(cells, minlength=80).astype(float))
    found = judge_sampling(fitted, cells, weights, Order(True, files))
    assert found.replicas.shape == (4, 10)
    assert np.argmax(np.abs(found.replicas[:, 0])) == 3
    assert abs(found.replicas[3, 0]) > 6
    disagree = sampling_notes(found, 2, ["a", "b", "c", "odd.xtc"])[-1]
    assert disagree.startswith("files whose mean differs from that of the others, in standard errors:")
    assert "odd.xtc" in disagree
    rows = replica_rows(found, 2, ["a", "b", "c", "odd.xtc"])
    assert rows[0] == ["", "psi2", "psi3", ""]
    assert rows[4][-1] == "disagrees"
    by_files = judge_sampling(fitted, cells, weights, Order(True, files), resample="files")
    assert by_files.n_blocks == 4
    assert np.ptp(by_files.intervals[0]) > np.ptp(found.intervals[0])


def test_replicas_of_one_system_agree():
    """Their differences in standard errors have a standard deviation of about one."""
    found = []
    for seed in range(12):
        X = ornstein_uhlenbeck(4000, (3.0, 1.2), (5.0, 5.0), seed)
        _, cells, A = landmarks_of(X, 40)
        files = np.repeat([0, 1, 2, 3], 1000).astype(np.int32)
        fitted = fitted_modes(A, np.bincount(cells, minlength=40).astype(float))
        order = Order(True, files)
        found.append(judge_sampling(fitted, cells, np.ones(4000), order, n_resamples=4).replicas[:, :1])
    assert 0.7 < np.std(found) < 1.4


def test_files_keep_all_but_the_blocks(process):
    found = process[-1]
    again = Sampling.from_parts(found.arrays(), found.header())
    for name, value in vars(replace(found, blocks=None)).items():
        np.testing.assert_array_equal(getattr(again, name), value)


# -- how many are kept --------------------------------------------------------------


def verdicts(cosine, groups, follows=()):
    """A sampling of which only the verdicts matter."""
    p = len(cosine)
    table = np.zeros((p, p), dtype=bool)
    for i, j in follows:
        table[i, j] = True
    values = np.linspace(0.9, 0.1, p)
    return Sampling(
        eigenvalues=values,
        errors=np.full(p, 0.01),
        intervals=np.stack([values, values], axis=1),
        cosine=np.array(cosine),
        group_cosine=np.array(cosine),
        groups=np.array(groups, dtype=np.int32),
        r2=np.zeros(p),
        follows=table,
        landmark_errors=np.zeros((3, p)),
        times=None,
        correlations=None,
        lag=0.0,
        unit="rows",
        kind="rows",
        n_resamples=50,
        n_blocks=100,
        block_length=1.0,
        are_long_enough=True,
    )


def half_predicted(r2):
    return replace(verdicts([0.2] * 6, range(6)), r2=np.array(r2))


GAP_AT_4 = np.array([0.9, 0.88, 0.86, 0.84, 0.3, 0.28])


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        (verdicts([1.0] * 6, range(6)), [0, 1, 2, 3]),
        (verdicts([1.0, 1.0, 1.0, 0.5, 1.0, 1.0], range(6)), [0, 1, 2]),  # noise last
        (verdicts([1.0, 0.5, 1.0, 1.0, 1.0, 1.0], range(6)), [0, 1, 2, 3]),  # noise before what is not
        (verdicts([1.0] * 6, [0, 1, 2, 3, 3, 4]), [0, 1, 2, 3, 4]),  # half of a group
        (verdicts([1.0] * 6, range(6), [(3, 0), (2, 0)]), [0, 1]),  # harmonics last
        (verdicts([1.0] * 6, range(6), [(2, 0)]), [0, 1, 3]),  # and between others
        (verdicts([1.0] * 6, [0, 1, 2, 2, 3, 4], [(2, 0)]), [0, 1, 3]),  # a group that has something new
        (verdicts([0.2] * 6, range(6)), [0, 1]),  # two to look at
        (half_predicted([0.0, 0.7, 0.3, 0.0, 0.0, 0.0]), [0, 2]),  # but not what the first mostly predicts
        (half_predicted([0.0, 0.7, 0.8, 0.6, 0.0, 0.0]), [0]),
        (
            verdicts([1.0] * 6, range(6), [(mode, 0) for mode in range(1, 6)]),
            [0],
        ),  # unless nothing else is new
        (verdicts([1.0] * 6, [0, 1, 2, 3, 4, 3]), [0, 1, 2, 3, 5]),
        # Most are harmonics, so that the drop after four means nothing: all others count.
        (verdicts([1.0] * 6, range(6), [(mode, 0) for mode in range(1, 5)]), [0, 5]),
        (replace(verdicts([1.0] * 6, range(6)), n_states=6), [0, 1, 2, 3, 4]),  # five tell six states apart
        (replace(verdicts([0.2] * 6, range(6)), n_states=4), [0, 1, 2]),
    ],
)
def test_what_is_kept_ends_with_something_new_and_reproducible(case, kept):
    assert coordinates_kept(GAP_AT_4, case).tolist() == kept


def test_of_drops_that_are_as_large_within_errors_the_last_counts():
    spectrum = np.array(
        [0.99, 0.95, 0.75, 0.56, 0.5, 0.44, 0.4]
    )  # 0.20 behind the second, 0.19 behind the third
    case = verdicts([1.0] * 6, range(6))
    assert coordinates_kept(spectrum, replace(case, errors=np.full(6, 1e-4))).tolist() == [0, 1]
    assert coordinates_kept(spectrum, replace(case, errors=np.full(6, 0.01))).tolist() == [0, 1, 2]


def test_words_say_what_the_verdicts_are():
    case = verdicts([1.0, 0.95, 0.95, 0.5], [0, 1, 1, 2], [(1, 0)])
    assert case.reproducibility("psi3") == case.reproducibility(1)
    assert [case.reproducibility(mode) for mode in range(4)] == [
        "reproducible",
        "mixes with psi4",
        "mixes with psi3",
        "noise",
    ]
    lines = sampling_lines(case, 3, setting="gap")
    assert [line.split("  ")[0] for line in lines[2:6]] == ["psi2", "psi3", "psi4", "psi5"]
    assert [re.split(" {2,}", line.strip()) for line in lines] == [
        ["repro-"],
        ["eigenvalue", "ducible", "kept"],
        ["psi2", "0.90 ± 0.01", "yes", "yes"],
        ["psi3", "0.63 ± 0.01", "mixes", "yes"],
        ["psi4", "0.37 ± 0.01", "mixes", "yes"],
        ["psi5", "0.10 ± 0.01", "no", "no"],
        ["kept: psi3 follows psi2"],
        ["not kept: psi5 is noise"],
        ["mixes: psi3, psi4 are reproducible only together"],
        ["standard errors: 50 resamples of 100 rows"],
    ]
    assert reasons(case, 3, 3) == [
        "kept: as many as were asked for; psi3 follows psi2",
        "not kept: psi5 is noise",
    ]
    assert (
        reasons(case, 1, 1)[1]
        == "not kept: psi3 follows psi2; psi4 is more than were asked for; psi5 is noise"
    )
    assert reasons(case, 2) == [
        "kept: psi3 follows psi2 (at least two are kept)",
        "not kept: psi4 is behind the largest drop of the eigenvalues; psi5 is noise",
    ]
    assert reasons(replace(case, n_states=3), 2)[0] == "kept: psi2, psi3 separate 3 metastable states"
    assert reasons(replace(case, n_states=2), 2)[0] == (
        "kept: psi2 separates 2 metastable states; psi3 follows psi2 (at least two are kept)"
    )


def reasons(case, n_components, setting="gap"):
    lines = "\n".join(sampling_lines(case, n_components, setting=setting)).replace("\n    ", " ").splitlines()
    return [line for line in lines if line.startswith(("kept:", "not kept:"))]


def test_a_summary_fits_a_terminal_of_80_columns():
    n = 12
    case = replace(
        verdicts([0.95] * 6 + [0.5] * 6, [0] * 6 + list(range(1, 7))),
        eigenvalues=1.0 - np.geomspace(2e-9, 0.3, n),
        errors=np.geomspace(3e-9, 0.02, n),
        times=np.column_stack(
            [np.geomspace(9e6, 0.3, n), np.geomspace(3e6, 0.003, n), np.geomspace(3, 1e6, n)]
        ),
        correlations=np.full(n + 1, 0.9),
        unit="ps",
    )
    lines = sampling_lines(case, 11)
    assert max(map(len, lines)) <= 78  # the repr of a map is indented by two
    table = lines[:14]
    assert [line.split()[0] for line in table[2:]] == [f"psi{mode + 2}" for mode in [*range(10), 11]] + [
        "and"
    ]
    assert len({line.rindex(line.split()[-1]) for line in table[1:13]}) == 1  # the last column begins in line


def test_a_table_of_kept_coordinates_has_intervals_and_what_they_follow(process):
    rows = coordinate_rows(process[-1], 2)
    assert rows[1][0] == "psi2"
    assert rows[1][5] == "slow"
    assert rows[2][6].startswith("psi2 (0.9")


def test_notes_tell_of_no_structure_and_of_runs_too_short():
    flat = replace(verdicts([1.0], [0]), eigenvalues=np.array([0.05]))
    assert "no structure at this epsilon: the first eigenvalue is 0.05" in sampling_notes(flat, 1)[0]
    short = replace(verdicts([1.0], [0]), are_long_enough=False)
    assert "the run is too short" in sampling_notes(short, 1)[0]
    assert not sampling_notes(verdicts([1.0], [0]), 1)


def test_few_independent_samples_cannot_tell():
    case = replace(
        verdicts([1.0, 1.0], [0, 1]),
        times=np.array([[50.0, 20.0, 12.0], [1.0, 0.1, 600.0]]),
        correlations=np.array([0.9, 0.05, 0.9]),
    )
    assert case.timescale(0) == "unknown"
    assert case.timescale(1) == "fast"
    assert replace(case, times=np.array([[50.0, 20.0, 30.0], [1.0, 0.1, 600.0]])).timescale(0) == "slow"


def test_errors_stand_around_eigenvalues_that_are_solved_more_exactly(process):
    found, spectrum = process[-1], np.array([0.5, 0.4])
    moved = found.of_map(spectrum, spectrum)
    np.testing.assert_allclose(moved.eigenvalues[:2], [0.5, 0.4])
    np.testing.assert_allclose(moved.intervals.mean(axis=1), moved.eigenvalues)
    np.testing.assert_allclose(np.ptp(moved.intervals, axis=1), np.ptp(found.intervals, axis=1))


def test_the_coordinates_of_a_map_come_before_the_harmonics_between_them(process):
    found = process[-1]
    spectrum = found.eigenvalues
    order = [0, 2, 1, *range(3, len(spectrum))]
    mine = found.of_map(spectrum[[0, 2]], spectrum)
    for name in ("eigenvalues", "errors", "intervals", "cosine", "group_cosine", "groups", "r2", "times"):
        np.testing.assert_allclose(getattr(mine, name), getattr(found, name)[order], err_msg=name)
    np.testing.assert_array_equal(mine.landmark_errors, found.landmark_errors[:, order])
    np.testing.assert_array_equal(mine.follows, found.follows[order][:, order])
    np.testing.assert_array_equal(mine.correlations[:-1], found.correlations[:-1][order])
    assert mine.correlations[-1] == found.correlations[-1]
    assert [mine.timescale(mode) for mode in range(3)] == [found.timescale(mode) for mode in order[:3]]
