"""The streamed solver finds what the stored one finds, and its bounds hold."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from streamed_cases import (
    CASES,
    chain,
    oval,
    peptide,
    random_start,
    random_weights,
    ring,
    roll,
    sines,
    stored_spectrum,
    widest_angle,
)

from ldmaps.diffusion import streamed_kernel
from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import ConvergenceWarning, InvalidInputError
from ldmaps.fit.reference import landmark_start
from ldmaps.landmarks import Landmarks
from ldmaps.progress import Progress, reporting

#: What a converged result may differ by, beside the roundings of its tiles.
SLACK = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Bands so small that a few hundred points have several."""
    monkeypatch.setattr(streamed_kernel, "MIN_BAND_ROWS", 32)
    monkeypatch.setattr(streamed_kernel, "TILE_ROWS", 48)


def spread_start(kernel, width, alpha=0.0):
    """The modes of every fifth point's map."""
    return start_of(kernel, np.arange(0, len(kernel), 5), 0.0, width, alpha)


def start_of(kernel, indices, spread, width, alpha=0.0):
    """The modes of a map of some points, which stand for as many others each, so far away on average."""
    n = len(kernel)
    counts, cells = np.full(len(indices), n / len(indices)), np.zeros(n, dtype=np.intp)
    walk = Walk(kernel.metric, kernel.points, np.ones(n), kernel.epsilon, alpha)
    return landmark_start(walk, Landmarks(indices, counts, cells, np.full(n, spread)), width)


# -- the same pairs as the stored kernel's ------------------------------------------


@pytest.mark.parametrize("start", [random_start, spread_start], ids=["random", "landmarks"])
@pytest.mark.parametrize("name", CASES)
def test_pairs_are_those_of_the_stored_kernel(name, start):
    kernel = CASES[name]()
    weights = np.ones(len(kernel))
    found = solve_streamed(kernel, weights, 4, start(kernel, 12), tolerance=1e-7, max_passes=80)
    exact = stored_spectrum(kernel, weights, 4)
    slack = SLACK[kernel.points.dtype]
    assert found.converged
    np.testing.assert_allclose(found.spectrum.eigenvalues, exact.eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(found.spectrum.degrees, exact.degrees, rtol=slack)
    # Rounding of the tiles turns vectors by its ratio to the gap, which exactly degenerate pairs have not.
    assert widest_angle(exact, found.spectrum, weights) < 1e-6 + 1e3 * slack


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("make", [roll, peptide])
def test_weights_and_density_exponents(make, alpha):
    kernel = make(500)
    weights = random_weights(500)
    found = solve_streamed(kernel, weights, 3, random_start(kernel, 10), alpha=alpha, tolerance=1e-7)
    exact = stored_spectrum(kernel, weights, 3, alpha)
    np.testing.assert_allclose(found.spectrum.eigenvalues, exact.eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(found.spectrum.source_weights, exact.source_weights, rtol=1e-6)
    np.testing.assert_allclose(found.spectrum.degrees, exact.degrees, rtol=1e-6)
    assert sines(exact, found.spectrum, weights).max() < 1e-5
    for time in (0.0, 1.0, 2.5):
        ours, theirs = (s.vectors * s.eigenvalues**time for s in (found.spectrum, exact))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_vectors_are_normalised_and_their_largest_entries_positive():
    kernel, weights = roll(400), random_weights(400)
    vectors = solve_streamed(kernel, weights, 3, random_start(kernel, 8)).spectrum.vectors
    np.testing.assert_allclose(weights @ vectors**2, 1.0, rtol=1e-12)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(3)] > 0).all()


def test_weights_are_repetition():
    kernel = roll(300)
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    repeated = kernel.points.take(np.repeat(np.arange(300), weights.astype(int)))
    copies = streamed_kernel.StreamedKernel(kernel.metric, repeated, kernel.epsilon)
    found = solve_streamed(kernel, weights, 3, random_start(kernel, 9), tolerance=1e-8).spectrum
    other = solve_streamed(copies, np.ones(len(copies)), 3, random_start(copies, 9), tolerance=1e-8).spectrum
    np.testing.assert_allclose(found.eigenvalues, other.eigenvalues, rtol=1e-9)
    once = other.vectors[np.concatenate([[0], np.cumsum(weights[:-1])]).astype(int)]
    np.testing.assert_allclose(found.vectors, once, rtol=0, atol=1e-6 * np.abs(once).max())


def test_exactly_degenerate_pairs_are_both_found():
    kernel = ring()
    found = solve_streamed(kernel, np.ones(240), 4, spread_start(kernel, 8), tolerance=1e-6)
    values = found.spectrum.eigenvalues
    assert found.converged
    np.testing.assert_allclose(values[[0, 2]], values[[1, 3]], rtol=1e-12)
    assert values[0] > values[2] + 0.01


def test_nearly_degenerate_pairs_are_told_apart():
    kernel, weights = oval(), np.ones(240)
    exact = stored_spectrum(kernel, weights, 4)
    assert 1e-6 < exact.eigenvalues[0] - exact.eigenvalues[1] < 1e-3
    found = solve_streamed(kernel, weights, 4, spread_start(kernel, 8), tolerance=1e-5)
    assert found.converged
    assert sines(exact, found.spectrum, weights).max() < 1e-5


def test_slow_spectrum():
    kernel, weights = chain(), np.ones(500)
    exact = stored_spectrum(kernel, weights, 3)
    assert exact.eigenvalues[0] > 0.9995
    found = solve_streamed(kernel, weights, 3, spread_start(kernel, 16), tolerance=1e-4)
    assert found.converged
    assert sines(exact, found.spectrum, weights).max() < 1e-4


@pytest.mark.parametrize("n", [2, 3, 5, 17])
def test_fewer_points_than_the_block_has_vectors(n):
    kernel = roll(n, epsilon=100.0)
    weights = random_weights(n)
    count = min(3, n - 1)
    found = solve_streamed(kernel, weights, count, random_start(kernel, 20))
    exact = stored_spectrum(kernel, weights, count)
    assert found.converged
    np.testing.assert_allclose(found.spectrum.eigenvalues, exact.eigenvalues, rtol=1e-9, atol=1e-12)


# -- starts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda start: np.repeat(start[:, :1], 6, axis=1),
        np.ones_like,
        np.zeros_like,
        lambda start: start * 10.0 ** np.arange(-30, 30, 10),
    ],
    ids=["one vector", "trivial", "zero", "scales"],
)
def test_poor_starts_cost_passes_alone(spoil):
    kernel, weights = roll(400), np.ones(400)
    found = solve_streamed(kernel, weights, 3, spoil(random_start(kernel, 6)), tolerance=1e-5)
    assert sines(stored_spectrum(kernel, weights, 3), found.spectrum, weights).max() < 1e-5


def test_a_start_of_eigenvectors_needs_one_pass():
    kernel, weights = roll(400), np.ones(400)
    exact = stored_spectrum(kernel, weights, 10)
    found = solve_streamed(kernel, weights, 3, exact.vectors)
    assert found.n_passes == 1
    assert sines(exact.taking(np.arange(3)), found.spectrum, weights).max() < 1e-9


def test_landmarks_of_a_small_map_save_passes():
    kernel, weights = peptide(), np.ones(700)
    warm, cold = (
        solve_streamed(kernel, weights, 2, start(kernel, 8), tolerance=1e-3).n_passes
        for start in (spread_start, random_start)
    )
    assert warm < cold


def test_start_holds_modes_of_a_wider_kernel_where_landmarks_are_sparse():
    kernel, weights = chain(), np.ones(500)
    indices = np.arange(10, 500, 20)
    spread = float(np.mean(np.square(np.linspace(-10, 10, 21) / 500)))
    exact = stored_spectrum(kernel, weights, 3)
    narrow = start_of(kernel, indices, 0.0, 8)
    both = start_of(kernel, indices, spread, 8)
    assert narrow.shape[1] == 8
    assert both.shape[1] == 16
    np.testing.assert_array_equal(both[:, :8], narrow)
    with pytest.warns(ConvergenceWarning):
        errors = [
            sines(exact, solve_streamed(kernel, weights, 3, start, max_passes=1).spectrum, weights).max()
            for start in (narrow, both)
        ]
    assert errors[1] < errors[0]


# -- bounds and stopping ----------------------------------------------------------------


@pytest.mark.parametrize("start", [random_start, spread_start], ids=["random", "landmarks"])
@pytest.mark.parametrize("name", ["roll", "single roll", "peptide", "torus", "oval", "chain"])
def test_errors_stay_within_their_bounds_at_every_pass(name, start):
    kernel = CASES[name]()
    weights = random_weights(len(kernel))
    exact = stored_spectrum(kernel, weights, 4)
    bounds = []
    for n_passes in range(1, 13):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = solve_streamed(kernel, weights, 4, start(kernel, 10), tolerance=1e-9, max_passes=n_passes)
        reached = (
            found.angle_errors < 1
        )  # where Ritz values are still far off, they may belong to other modes
        assert (sines(exact, found.spectrum, weights) <= found.angle_errors + 1e-12)[reached].all()
        off = np.abs(found.spectrum.eigenvalues - exact.eigenvalues)
        assert (off <= found.eigenvalue_errors + 1e-14)[reached].all()
        bounds.append(found.angle_errors)
    assert (bounds[-1] < 0.1).any()
    assert (bounds[-1] <= bounds[1]).all()


def test_tolerance_decides_how_many_passes_are_made():
    kernel, weights = peptide(), np.ones(700)
    results = [
        solve_streamed(kernel, weights, 2, random_start(kernel, 8), tolerance=tolerance)
        for tolerance in (1e-1, 1e-3, 1e-5)
    ]
    assert results[0].n_passes < results[1].n_passes < results[2].n_passes
    for result, tolerance in zip(results, (1e-1, 1e-3, 1e-5), strict=True):
        assert result.angle_errors.max() <= tolerance


def test_ritz_values_may_tell_how_many_coordinates_count():
    kernel, weights = roll(), np.ones(900)
    given, told = (
        solve_streamed(kernel, weights, 8, random_start(kernel, 10), n_coordinates=count)
        for count in (2, lambda values: 2 if len(values) == 8 else 8)
    )
    assert told.n_passes == given.n_passes
    np.testing.assert_array_equal(told.spectrum.vectors, given.spectrum.vectors)


@pytest.mark.parametrize("name", ["roll", "peptide", "torus", "oval", "chain"])
def test_errors_of_points_stay_within_their_bounds(name):
    """Z of each coordinate by itself, pass after pass, with uneven weights."""
    kernel = CASES[name]()
    weights = random_weights(len(kernel))
    exact = stored_spectrum(kernel, weights, 4)
    ranges = np.ptp(exact.vectors, axis=0)
    n_bounded = 0
    for n_passes in range(1, 22, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = solve_streamed(
                kernel, weights, 4, spread_start(kernel, 10), tolerance=1e-9, max_passes=n_passes
            )
        signs = np.sign((weights[:, None] * exact.vectors * found.spectrum.vectors).sum(axis=0))
        off = found.spectrum.vectors * signs - exact.vectors
        errors = 100.0 * np.sqrt(weights @ off**2 / weights.sum()) / ranges
        bounded = np.isfinite(found.range_errors)
        n_bounded += bounded.sum()
        assert (errors <= found.range_errors + 1e-7)[bounded].all()
        assert (found.angle_errors[~bounded] == 1).all()
    assert n_bounded > 8


def test_coordinates_beyond_those_asked_for_may_be_rough():
    kernel, weights = roll(), np.ones(900)
    all_of_them = solve_streamed(kernel, weights, 8, random_start(kernel, 10))
    two = solve_streamed(kernel, weights, 8, random_start(kernel, 10), n_coordinates=2)
    assert two.n_passes < all_of_them.n_passes
    assert two.angle_errors[:2].max() <= 1e-3 < two.angle_errors.max()
    assert len(two.spectrum.eigenvalues) == 8


def test_too_few_passes_are_warned_of_with_the_bounds_reached():
    kernel, weights = roll(), np.ones(900)
    with pytest.warns(
        ConvergenceWarning,
        match=r"after 3 passes .* but tolerance=0.001 was requested; allow .* limits=Limits\(max_passes=\.\.\.\)",
    ):
        found = solve_streamed(kernel, weights, 2, random_start(kernel, 8), max_passes=3)
    assert not found.converged
    assert found.n_passes == 3


def test_roundings_of_single_precision_end_the_passes():
    found = solve_streamed(peptide(), np.ones(700), 2, random_start(peptide(), 8), tolerance=0.0)
    assert found.converged
    assert found.residuals.max() < 2e-7
    assert found.angle_errors.max() < 1e-5


def test_density_takes_a_pass_of_its_own():
    kernel, weights = peptide(), np.ones(700)
    start = stored_spectrum(kernel, weights, 8).vectors
    assert solve_streamed(kernel, weights, 2, start).n_passes == 1
    start = stored_spectrum(kernel, weights, 8, 0.5).vectors
    assert solve_streamed(kernel, weights, 2, start, alpha=0.5).n_passes == 2


@pytest.mark.parametrize("max_vectors", [19, 24, 40])
def test_small_bases_give_the_same_pairs(max_vectors):
    kernel, weights = roll(), np.ones(900)
    found = solve_streamed(
        kernel, weights, 3, random_start(kernel, 8), max_vectors=max_vectors, tolerance=1e-6, max_passes=200
    )
    assert sines(stored_spectrum(kernel, weights, 3), found.spectrum, weights).max() < 1e-6


def test_small_bases_are_kept_small(monkeypatch):
    sizes = []
    original = np.hstack
    monkeypatch.setattr(np, "hstack", lambda parts: sizes.append(original(parts).shape[1]) or original(parts))
    kernel = roll()
    solve_streamed(kernel, np.ones(900), 3, random_start(kernel, 8), max_vectors=24, max_passes=200)
    assert max(sizes) == 24


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("make", [roll, peptide])
def test_threads_change_no_bit(make, n_threads):
    kernel = make(400)
    one, many = (
        solve_streamed(kernel, random_weights(400), 3, random_start(kernel, 8), alpha=0.5, n_threads=count)
        for count in (1, n_threads)
    )
    np.testing.assert_array_equal(one.spectrum.vectors, many.spectrum.vectors)
    np.testing.assert_array_equal(one.spectrum.eigenvalues, many.spectrum.eigenvalues)
    np.testing.assert_array_equal(one.angle_errors, many.angle_errors)


def test_passes_are_reported(caplog):
    kernel = roll(400)
    with caplog.at_level("DEBUG", "ldmaps"), reporting(Progress(show=False)):
        found = solve_streamed(kernel, np.ones(400), 2, random_start(kernel, 8), n_threads=1)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == found.n_passes
    assert lines[1].startswith(f"pass 2 of at most 50: {len(kernel.bands())} bands in ")


# -- what is refused -----------------------------------------------------------------


def test_a_poor_start_and_no_pass_to_mend_it():
    kernel = roll(400)
    with pytest.raises(
        InvalidInputError, match="only 1 independent vectors for 3 eigenpairs, and the limit of passes, 1,"
    ):
        solve_streamed(kernel, np.ones(400), 3, np.repeat(random_start(kernel, 1), 6, axis=1), max_passes=1)


# -- memory ------------------------------------------------------------------------

LIMITED = """
import resource, sys
import numpy as np
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.diffusion.pairwise import (gaussian_kernel)
from ldmaps.metrics.base import squared_matrix
from ldmaps.diffusion.solver_choice import streamed_room
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.metrics import Euclidean

metric, weights, budget = Euclidean(), np.ones(20_000), 100e6
points = metric.prepare(swiss_roll(20_000).points.astype(np.float32))

def solve(points, weights):
    if sys.argv[1] == "stored":
        return solve_spectrum(gaussian_kernel(squared_matrix(metric, points), 30.0), weights, 2, n_threads=2)
    start = np.random.default_rng(0).normal(size=(len(points), 8))
    room, _ = streamed_room(len(points), 2, 8, 8, budget, 2)
    kernel = StreamedKernel(metric, points, 30.0)
    return solve_streamed(kernel, weights, 2, start, max_vectors=room, n_threads=2)

solve(points.take(slice(0, 2000)), np.ones(2000))  # compiles, and starts the threads
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (int(pages * resource.getpagesize() + budget),) * 2)
solve(points, weights)
print("solved")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits a process as Linux does")
@pytest.mark.parametrize(("solver", "solved"), [("streamed", True), ("stored", False)])
def test_memory_limit_of_a_sixteenth_of_the_kernel(solver, solved):
    """20,000 points with 100 MB, where their kernel alone would take 1.6 GB."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), solver], capture_output=True, text=True, timeout=300
    )
    assert (run.stdout.strip() == "solved") is solved, run.stderr
    assert solved or "MemoryError" in run.stderr
