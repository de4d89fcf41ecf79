"""A solve that was interrupted goes on from its file, and ends where it would have."""

import math
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from streamed_cases import kernel_of, random_start, random_weights, roll

from ldmaps.datasets import swiss_roll
from ldmaps.diffusion import solver_state, streamed_kernel
from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.errors import CheckpointError, ConvergenceWarning
from ldmaps.metrics import Euclidean

N = 400


@pytest.fixture(autouse=True)
def small_bands_written_each(monkeypatch):
    monkeypatch.setattr(streamed_kernel, "MIN_BAND_ROWS", 32)
    monkeypatch.setattr(solver_state, "INTERVAL", 0.0)
    monkeypatch.setattr(solver_state, "MAX_SHARE", math.inf)


class Interrupted(Euclidean):
    """Raises KeyboardInterrupt at the so-many-th block of distances, as Ctrl-C would."""

    def __init__(self, at=math.inf):
        self.at = at
        self.blocks = 0

    def squared_block(self, a, rows, b, cols, out):
        self.blocks += 1
        if self.blocks == self.at:
            raise KeyboardInterrupt
        super().squared_block(a, rows, b, cols, out)


def problem(at=math.inf):
    return kernel_of(swiss_roll(N).points, 4.0, Interrupted(at))


def solve(kernel, path=None, **settings):
    settings = {"alpha": 0.5, "tolerance": 1e-5, "n_threads": 1, **settings}
    return solve_streamed(kernel, random_weights(N), 3, random_start(kernel, 8), state_file=path, **settings)


def assert_same(one, other):
    np.testing.assert_array_equal(one.spectrum.vectors, other.spectrum.vectors)
    np.testing.assert_array_equal(one.spectrum.eigenvalues, other.spectrum.eigenvalues)
    np.testing.assert_array_equal(one.angle_errors, other.angle_errors)
    assert one.n_passes == other.n_passes


@pytest.fixture(scope="module")
def undisturbed():
    patch = pytest.MonkeyPatch()
    patch.setattr(streamed_kernel, "MIN_BAND_ROWS", 32)
    kernel = problem()
    yield solve(kernel), kernel.metric.blocks
    patch.undo()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.25, 0.4, 0.7, 0.99])
def test_interrupted_anywhere_it_ends_the_same(share, n_threads, undisturbed, tmp_path):
    whole, n_blocks = undisturbed
    path = tmp_path / "state.npz"
    at = max(2, int(share * n_blocks))
    with pytest.raises(KeyboardInterrupt):
        solve(problem(at), path, n_threads=n_threads)
    resumed = problem()
    assert_same(solve(resumed, path), whole)
    # Lost is at most what the threads were at, besides a few rows by which the data are recognised.
    assert resumed.metric.blocks <= n_blocks - at + 12 * n_threads
    assert os.listdir(tmp_path) == ["state.npz"]


def test_interrupted_again_and_again(undisturbed, tmp_path):
    whole, n_blocks = undisturbed
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            solve(problem(n_blocks // 12), tmp_path / "state.npz")
    assert_same(solve(problem(), tmp_path / "state.npz"), whole)


def test_killed_process_leaves_a_state_to_go_on_from(undisturbed, tmp_path):
    script = """
        import math, os, sys
        sys.path[:0] = ["tests", "tests/diffusion"]
        from ldmaps.diffusion import solver_state, streamed_kernel
        import test_solver_state as tests

        streamed_kernel.MIN_BAND_ROWS, solver_state.INTERVAL, solver_state.MAX_SHARE = 32, 0.0, math.inf

        class Killed(tests.Interrupted):
            def squared_block(self, *arguments):
                if self.blocks == self.at - 1:
                    os._exit(9)
                super().squared_block(*arguments)

        tests.Interrupted = Killed
        tests.solve(tests.problem(int(sys.argv[2])), sys.argv[1])
    """
    whole, n_blocks = undisturbed
    path = tmp_path / "state.npz"
    command = [sys.executable, "-c", textwrap.dedent(script), str(path), str(n_blocks // 2)]
    assert subprocess.run(command, timeout=300).returncode == 9
    resumed = problem()
    assert_same(solve(resumed, path), whole)
    assert resumed.metric.blocks < 0.6 * n_blocks


def test_finished_state_is_an_answer_without_a_pass(undisturbed, tmp_path):
    solve(problem(), tmp_path / "state.npz")
    again = problem()
    assert_same(solve(again, tmp_path / "state.npz"), undisturbed[0])
    assert again.metric.blocks <= 2


def test_finished_state_can_be_refined(undisturbed, tmp_path):
    path = tmp_path / "state.npz"
    rough = solve(problem(), path, tolerance=1e-2)
    fine = solve(problem(), path)
    assert rough.n_passes < fine.n_passes
    assert_same(fine, undisturbed[0])


def test_passes_of_the_file_count(tmp_path):
    path = tmp_path / "state.npz"
    with pytest.warns(ConvergenceWarning, match="after 3 passes"):
        solve(problem(), path, max_passes=3)
    with pytest.warns(ConvergenceWarning, match="after 4 passes"):
        solve(problem(), path, max_passes=4)


def test_files_are_written_now_and_then(monkeypatch, tmp_path):
    monkeypatch.setattr(solver_state, "INTERVAL", 3600.0)
    written = []
    original = solver_state.StateFile.write
    monkeypatch.setattr(
        solver_state.StateFile, "write", lambda self, state: written.append(1) or original(self, state)
    )
    found = solve(problem(), tmp_path / "state.npz")
    assert len(written) == found.n_passes


def test_no_file_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solve(problem())
    assert os.listdir(tmp_path) == []


# -- files that are refused ---------------------------------------------------------------


@pytest.fixture
def state(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        solve(problem(60), tmp_path / "state.npz")
    return tmp_path / "state.npz"


def shuffled(kernel):
    order = np.random.default_rng(0).permutation(len(kernel))
    return streamed_kernel.StreamedKernel(kernel.metric, kernel.points.take(order), kernel.epsilon)


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (lambda: roll(N, epsilon=4.5), {}, "epsilon = 4 instead of 4.5"),
        (lambda: roll(N), {"alpha": 1.0}, "alpha = 0.5 instead of 1"),
        (lambda: roll(N, epsilon=3.0), {"alpha": 0.0}, "epsilon = 4 instead of 3, alpha = 0.5 instead of 0"),
        (lambda: shuffled(roll(N)), {}, "other points or another metric"),
        (lambda: kernel_of(2 * swiss_roll(N).points, 4.0), {}, "other points or another metric"),
    ],
    ids=["epsilon", "alpha", "both", "order", "points"],
)
def test_state_of_another_problem(make, settings, message, state):
    before = state.read_bytes()
    with pytest.raises(
        CheckpointError, match=f"state.npz holds the state of another eigenproblem: {message}; remove"
    ):
        solve(make(), state, **settings)
    assert state.read_bytes() == before


def test_state_of_other_weights(state):
    kernel = roll(N)
    with pytest.raises(CheckpointError, match="another eigenproblem: other weights"):
        solve_streamed(kernel, np.ones(N), 3, random_start(kernel, 8), alpha=0.5, state_file=state)


def test_state_of_another_size(state):
    kernel = roll(N - 1)
    with pytest.raises(CheckpointError, match="other points or another metric"):
        solve_streamed(kernel, np.ones(N - 1), 3, random_start(kernel, 8), alpha=0.5, state_file=state)


def test_rounding_of_another_processor_is_no_other_problem(state):
    kernel = kernel_of(swiss_roll(N).points * (1 + 1e-7), 4.0)
    solve(kernel, state)


@pytest.mark.parametrize("damage", [b"", b"not a state", None], ids=["empty", "foreign", "cut"])
def test_damaged_file(damage, state):
    state.write_bytes(state.read_bytes()[:-2000] if damage is None else damage)
    with pytest.raises(
        CheckpointError,
        match=r"state.npz is not the saved state of a streamed solver, or is damaged .*; remove it",
    ):
        solve(problem(), state)


def test_file_of_another_format(state, monkeypatch):
    monkeypatch.setattr(solver_state, "FORMAT", 2)
    with pytest.raises(CheckpointError, match="has format 1, this version reads 2"):
        solve(problem(), state)


def test_archive_of_something_else(tmp_path):
    np.savez(tmp_path / "other.npz", numbers=np.arange(3))
    with pytest.raises(CheckpointError, match="is not the saved state of a streamed solver"):
        solve(problem(), tmp_path / "other.npz")
