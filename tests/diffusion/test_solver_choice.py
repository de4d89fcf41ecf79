"""The solver that is chosen keeps the memory limit, and is sparse only where the kernel is."""

import tracemalloc

import numpy as np
import pytest
from streamed_cases import peptide, random_start, roll

from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.solver_choice import (
    check_memory,
    choose_solver,
    near_fraction,
    sparse_bytes,
    sparse_squares,
    stored_bytes,
    streamed_room,
)
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.diffusion.walk import is_connected
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Euclidean


@pytest.mark.parametrize(
    ("n", "itemsize", "near", "limit", "solver"),
    [
        (1000, 8, 0.001, 4e9, "stored"),  # few points are not worth a sparse kernel
        (20_000, 4, 1.0, 4e9, "stored"),
        (20_000, 4, 0.05, 4e9, "sparse"),  # quicker even where all would fit
        (20_000, 4, 0.5, 4e9, "stored"),
        (32_000, 4, 1.0, 4e9, "streamed"),
        (40_000, 8, 0.03, 4e9, "sparse"),
        (40_000, 8, 0.15, 4e9, "streamed"),  # sparse, and still too large
        (1_000_000, 4, 1e-5, 4e9, "sparse"),
        (1_000_000, 4, 0.01, 4e9, "streamed"),
        (1000, 8, 1.0, 1e6, "streamed"),
        (1000, 8, 0.01, 1e6, "sparse"),  # but if all do not fit, they are
    ],
)
def test_choices(n, itemsize, near, limit, solver):
    assert choose_solver(n, itemsize, 2, near, limit) == solver
    taken = {"stored": stored_bytes(n, itemsize), "sparse": sparse_bytes(n, itemsize, near), "streamed": 0.0}
    assert taken[solver] <= limit


def test_molecules_are_never_sparse_and_sheets_are():
    molecule, sheet = peptide(600), roll(6000, epsilon=0.1)
    near = [
        near_fraction(kernel.metric, kernel.points, kernel.epsilon, np.random.default_rng(0))
        for kernel in (molecule, sheet)
    ]
    assert near[0] > 0.9
    assert near[1] < 0.03
    assert choose_solver(100_000, 4, 2, near[0], 4e9) == "streamed"
    assert choose_solver(100_000, 4, 2, near[1], 4e9) == "sparse"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_solves_take_no_more_than_is_said(dtype):
    metric = Euclidean()
    points = metric.prepare(swiss_roll(3000).points.astype(dtype))
    solve_spectrum(gaussian_kernel(np.ones((10, 10), dtype), 1.0), np.ones(10), 2)
    is_connected(sparse_squares(metric, points.take(slice(0, 50)), 4.0), 1.0)
    tracemalloc.start()
    squares = sparse_squares(metric, points, 4.0, 1)
    is_connected(squares, 100.0)
    gaussian_kernel(squares.data[None], 4.0, 1)
    solve_spectrum(squares, np.ones(3000), 2, n_threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    share = squares.nnz / 3000**2
    tiles = 4 * 2**21
    assert peak <= sparse_bytes(3000, np.dtype(dtype).itemsize, share) + tiles
    assert peak >= 0.9 * sparse_bytes(3000, np.dtype(dtype).itemsize, share)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_streamed_solves_take_no_more_than_their_limit(n_threads):
    kernel, weights = roll(6000, np.float32), np.ones(6000)
    limit = 20e6
    room, allowed = streamed_room(6000, 2, 8, 8, limit, n_threads)
    assert allowed == n_threads
    assert room < 150
    start = random_start(kernel, 8)
    tracemalloc.start()
    found = solve_streamed(
        kernel, weights, 2, start, max_vectors=room, tolerance=1e-9, max_passes=200, n_threads=n_threads
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_passes * 8 > room, "the basis never filled its room"
    assert peak <= limit


def test_too_little_for_the_smallest_basis():
    with pytest.raises(
        InvalidInputError,
        match=r"needs 0.88 GB for 1,000,000 points with blocks of 8 .* only 0.5 GB are allowed; allow more",
    ):
        streamed_room(1_000_000, 2, 8, 8, 5e8, 2)


def test_more_memory_makes_more_room():
    rooms = [streamed_room(100_000, 2, 16, 8, limit, 2)[0] for limit in (3e8, 1e9, 4e9)]
    assert rooms == sorted(rooms)
    assert rooms[0] < rooms[-1]


def test_threads_that_memory_has_no_room_for_are_left_out():
    room, threads = streamed_room(1_000_000, 11, 32, 16, 4e9, 64)
    assert 1 < threads < 64
    column = 8e6
    assert column * ((5 + 2 * threads) * 32 + 3 * room) <= 4e9
    assert column * ((5 + 2 * (threads + 1)) * 32 + 3 * (11 + 2 * 16)) > 4e9
    assert room >= 11 + 2 * 16


def test_solvers_that_were_asked_for_keep_the_limit_or_are_refused():
    check_memory("stored", 4e9, 4e9)
    with pytest.raises(
        InvalidInputError,
        match=r'solver="stored" takes about 4\.1 GB .* only 4 GB are allowed; use solver="streamed"',
    ):
        check_memory("stored", 4.1e9, 4e9)


def test_rows_of_the_near_fraction_are_drawn_at_random():
    """Every tenth point lies apart from all others: rows at equal steps could see those alone."""
    X = np.zeros((1280, 1))
    X[::10, 0] = 1000.0 * np.arange(128)
    metric = Euclidean()
    near = near_fraction(metric, metric.prepare(X), 1.0, np.random.default_rng(0))
    assert near == pytest.approx(0.81, abs=0.1)
