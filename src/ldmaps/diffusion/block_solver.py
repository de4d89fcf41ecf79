"""Leading eigenpairs of a walk whose kernel is applied tile by tile and never stored: block Lanczos.

    start X (n, b₀), first modes of a landmark map at all points
      │  pass over all pairs: A [s, s X] gives the degrees D, and with them S √(C D) X
      ▼
    basis Q, orthonormal, ⟂ u₁  ──►  Ritz pairs of QᵀSQ  ──►  residuals S y − θ y
      ▲                                                          │ small enough: done
      └──────── pass: S R, where R spans the residuals ◄─────────┘

What is returned is S y, which is known already and closer to the eigenvector than y.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ldmaps.diffusion.ritz_bounds import error_bounds, in_percent_of_range
from ldmaps.diffusion.solver_state import SolverState, StateFile
from ldmaps.diffusion.spectrum import Spectrum, SymmetricWalk
from ldmaps.diffusion.streamed_kernel import PartialProduct, StreamedKernel
from ldmaps.errors import ConvergenceWarning, InvalidInputError
from ldmaps.progress import stage
from ldmaps.settings import NamedLimit
from ldmaps.threads import single_threaded_blas
from ldmaps.user_warnings import warn

#: Directions of a block shorter than this, relative to its longest, are dropped: of their products little is exact.
RANK = 1e-4
#: Norm of the error that rounding of the tiles makes in S, in units of it.
TILE_NOISE = 4.0
#: Rounding of the vectors' own arithmetic, on top of that of the tiles.
VECTOR_ROUNDING = 32.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class StreamedSpectrum:
    """Eigenpairs from passes over all pairs of points, and how far they can be from the exact ones."""

    spectrum: Spectrum  # the pairs
    residuals: NDArray[np.float64]  # (k,): ‖S y − θ y‖ of each pair, |y| = 1
    eigenvalue_errors: NDArray[np.float64]  # (k,): bounds of |λ − θ|
    #: (k,): bounds of the sine of the angle between each vector and the exact one in the walk's measure C D: the
    #: relative error of the coordinate. 1 says nothing.
    angle_errors: NDArray[np.float64]
    #: (k,): the same as the root mean square error over the points, each counted c times, in percent of the
    #: coordinate's range; see :func:`~ldmaps.diffusion.ritz_bounds.in_percent_of_range`. Infinity says nothing.
    range_errors: NDArray[np.float64]
    n_passes: int  # passes over all pairs that it took
    converged: bool  # whether the tolerance is met, as far as roundings allow


def solve_streamed(
    kernel: StreamedKernel,
    weights: NDArray[np.float64],
    n_eigenvalues: int,
    start: NDArray[np.float64],  # (n, b₀): what is known of ψ; the closer, the fewer passes
    *,
    alpha: float = 0.0,
    tolerance: float = 1e-3,
    # how many leading pairs have to meet the tolerance, perhaps by the Ritz values; all by default
    n_coordinates: int | Callable[[NDArray[np.float64]], int] | None = None,
    block_size: int | None = None,  # vectors of each further pass; as many as the start has by default
    max_passes: int = 50,
    max_vectors: int | None = None,  # beyond it the least promising vectors of the basis are dropped
    state_file: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
) -> StreamedSpectrum:
    """Solve for the leading non-trivial eigenpairs without the matrix."""
    # A mode of which the start holds nothing at all, by symmetry, is not found, and no residual reveals it.
    # Memory beyond the points is about 8 n (3 m + 5 b) bytes for a basis of m vectors and blocks of b, and 16 n b
    # more per thread: see :func:`~ldmaps.diffusion.solver_choice.streamed_room`.
    width = start.shape[1] if block_size is None else block_size
    settled = slice(0, n_eigenvalues)
    with single_threaded_blas():
        solve = _BlockLanczos(
            kernel, weights, alpha, StateFile(state_file, kernel, weights, alpha), max_passes, n_threads
        )
        solve.set_up(start)
        while True:
            ritz = solve.ritz_pairs(width)
            met = (ritz.angle_errors <= tolerance) | (ritz.residuals <= solve.rounding)
            if n_coordinates is not None:
                values = ritz.values[:n_eigenvalues]
                settled = slice(0, n_coordinates(values) if callable(n_coordinates) else n_coordinates)
            converged = len(met) >= n_eigenvalues and bool(met[settled].all())
            if converged or solve.is_exhausted or solve.n_passes >= max_passes:
                break
            solve.expand(ritz, width, max_vectors)
        if len(ritz.values) < n_eigenvalues:
            raise InvalidInputError(
                f"the start has only {len(ritz.values)} independent vectors for {n_eigenvalues} eigenpairs, and "
                f"the limit of passes, {max_passes}, leaves none to find more; allow more with ",
                NamedLimit("max_passes", ...),
                ", or give a better start",
            )
        result = solve.result(ritz, n_eigenvalues, converged or solve.is_exhausted)
    if not result.converged:
        reached = ", ".join(f"{error:.2g}" for error in result.angle_errors[settled])
        warn(
            ConvergenceWarning(
                f"after {result.n_passes} passes the coordinates' relative errors are bounded by {reached}, "
                f"but tolerance={tolerance:g} was requested; allow more passes with ",
                NamedLimit("max_passes", ...),
                ", or use fewer components",
            )
        )
    return result


class _RitzPairs(NamedTuple):
    """Leading Ritz pairs: θ, all of their mixtures of the basis, residual vectors and norms, bounds."""

    values: NDArray[np.float64]
    mixing: NDArray[np.float64]
    defects: NDArray[np.float64]
    residuals: NDArray[np.float64]
    eigenvalue_errors: NDArray[np.float64]
    angle_errors: NDArray[np.float64]


class _BlockLanczos:
    """An eigenproblem and what is known of it so far."""

    def __init__(
        self,
        kernel: StreamedKernel,
        weights: NDArray[np.float64],
        alpha: float,
        file: StateFile,
        max_passes: int,
        n_threads: int | None,
    ) -> None:
        self.kernel = kernel
        self.weights = weights
        self.alpha = alpha
        self.max_passes = max_passes
        self.n_threads = n_threads
        self.tile_rounding = float(np.finfo(kernel.points.dtype).eps)
        self._file = file
        self._state = file.read() or SolverState(*np.empty((2, len(kernel), 0)))

    @property
    def n_passes(self) -> int:
        return self._state.n_passes

    @property
    def rounding(self) -> float:
        """Residuals below this are as small as they get."""
        return self.tile_rounding + VECTOR_ROUNDING

    @property
    def is_exhausted(self) -> bool:
        """Whether the basis spans all there is, so that Ritz pairs are eigenpairs."""
        return bool(self._state.basis.shape[1] >= len(self.kernel) - 1)

    def set_up(self, start: NDArray[np.float64]) -> None:
        """Find the density, the degrees and the images of the start, and end a pass that was interrupted."""
        state, n = self._state, len(self.kernel)
        if self.alpha and state.density is None:
            _, sums = self._multiply(self.weights[:, None])
            state.density = sums[:, 0]
            self._file.write(state)
        tempered = np.ones(n) if state.density is None else state.density**-self.alpha  # q^-α
        if state.row_sums is None:
            source = self.weights * tempered
            block, sums = self._multiply(source[:, None] * np.column_stack([np.ones(n), start]))
            state.row_sums = sums[:, 0].copy()
            self.walk = SymmetricWalk.of(self.weights, tempered, state.row_sums)
            self._absorb(block[:, 1:], sums[:, 1:])
        self.walk = SymmetricWalk.of(self.weights, tempered, state.row_sums)
        if state.block is not None:
            self._absorb(*self._multiply(state.block))

    def ritz_pairs(self, width: int) -> _RitzPairs:
        """Return the ``width`` leading Ritz pairs of the basis."""
        basis, images = self._state.basis, self._state.images
        projected = basis.T @ images
        values, mixing = _eigenpairs(0.5 * (projected + projected.T))
        values, mixing = values[::-1][:width].copy(), mixing[:, ::-1]
        leading = mixing[:, :width]
        defects = images @ leading - (basis @ leading) * values
        residuals = np.linalg.norm(defects, axis=0)
        # Rounded tiles are a perturbation of S of about this norm, which residuals cannot show.
        noise = TILE_NOISE * self.tile_rounding
        value_errors, angle_errors = error_bounds(values, residuals + noise)
        return _RitzPairs(
            values, mixing, defects, residuals, value_errors + noise, np.minimum(angle_errors + noise, 1.0)
        )

    def expand(self, ritz: _RitzPairs, width: int, max_vectors: int | None) -> None:
        """Add the residuals of Ritz pairs to the basis, by one pass."""
        state = self._state
        if max_vectors is not None and ritz.mixing.shape[1] + width > max_vectors:
            kept = ritz.mixing[:, : max_vectors - width]
            state.basis = state.basis @ kept  # one after the other: three of them are in memory, not four
            state.images = state.images @ kept
        block = _orthonormal(ritz.defects, self.walk.trivial, state.basis, width)
        self._absorb(*self._multiply(self.walk.scale[:, None] * block))

    def result(self, ritz: _RitzPairs, n_eigenvalues: int, converged: bool) -> StreamedSpectrum:
        """Return what was asked for of the last Ritz pairs."""
        count = slice(0, n_eigenvalues)
        vectors, weights, degrees = (
            self._state.images @ ritz.mixing[:, count],
            self.weights,
            self.walk.degrees,
        )
        spectrum = self.walk.spectrum(ritz.values[count], vectors)
        angles, defects = ritz.angle_errors[count], ritz.defects[:, count]
        ranges = np.ptp(vectors / np.sqrt(weights * degrees)[:, None], axis=0)
        percent = in_percent_of_range(angles, vectors, defects, weights, degrees, ranges)
        return StreamedSpectrum(
            spectrum=spectrum,
            residuals=ritz.residuals[count],
            eigenvalue_errors=ritz.eigenvalue_errors[count],
            angle_errors=angles,
            range_errors=percent,
            n_passes=self.n_passes,
            converged=converged,
        )

    def _multiply(self, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a block and A times it: one pass. A pass that was interrupted goes on with the block it had."""
        state = self._state
        if state.block is None or state.partial is None:
            state.block, state.partial = block, PartialProduct(np.zeros(block.shape))
        block, partial = state.block, state.partial
        n_left = len(self.kernel.bands()) - partial.n_bands
        with stage(f"pass {state.n_passes + 1} of at most {self.max_passes}", n_left, "bands"):
            sums = self.kernel.product(
                block, self.n_threads, partial=partial, on_band=lambda _: self._file.write_if_due(state)
            )
        state.n_passes += 1
        state.block = state.partial = None
        return block, sums

    def _absorb(self, block: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        """Make V and A V of a pass part of the basis: Q = G⁻¹ V and S Q = G A V, orthonormal and without u₁."""
        # Of the start nothing is known before; later blocks are across the basis already.
        state, scale, trivial = self._state, self.walk.scale[:, None], self.walk.trivial
        vectors, images = block / scale, sums * scale
        lengths = np.linalg.norm(vectors, axis=0)
        for _ in range(2):  # once more, because the first time leaves roundings magnified
            along = trivial @ vectors
            vectors -= np.outer(trivial, along)
            images -= np.outer(trivial, along)  # S u₁ = u₁
            mixing = _whitening(vectors, lengths)
            vectors, images = vectors @ mixing, images @ mixing
            lengths = np.ones(mixing.shape[1])
        state.basis = np.hstack([state.basis, vectors])
        state.images = np.hstack([state.images, images])
        self._file.write(state)


def _orthonormal(
    vectors: NDArray[np.float64], trivial: NDArray[np.float64], basis: NDArray[np.float64], width: int
) -> NDArray[np.float64]:
    """Return orthonormal vectors across the basis, as far as there is room: what is new in some, then random ones."""
    # Random ones fill up where residuals vanish, as they do when a start holds too few or too good vectors; they also
    # find modes that the start knows nothing of.
    width = min(width, len(basis) - 1 - basis.shape[1])
    rng = np.random.default_rng(basis.shape[1])
    for _ in range(3):
        lengths = np.linalg.norm(vectors, axis=0)
        vectors = vectors - np.outer(trivial, trivial @ vectors)
        vectors -= basis @ (basis.T @ vectors)
        vectors = vectors @ _whitening(vectors, lengths)[:, :width]
        missing = width - vectors.shape[1]
        if missing:
            vectors = np.hstack([vectors, rng.standard_normal((len(basis), missing))])
    return vectors


def _whitening(vectors: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return T such that the columns of ``vectors @ T`` are orthonormal, longest first."""
    # Dropped is what depends on others, and columns of which little is left of their lengths ``before`` they were
    # made orthogonal to something: the rest is mostly rounding.
    gram = vectors.T @ vectors
    lengths = np.sqrt(np.diag(gram))
    kept = np.flatnonzero(lengths > RANK * before)
    gram = gram[np.ix_(kept, kept)] / np.outer(lengths[kept], lengths[kept])
    squares, mixing = _eigenpairs(gram)
    order = np.flatnonzero(squares > RANK**2 * squares.max(initial=0.0))[::-1]
    whitening = np.zeros((len(before), len(order)))
    whitening[kept] = mixing[:, order] / np.sqrt(squares[order]) / lengths[kept, None]
    return whitening


def _eigenpairs(symmetric: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, smallest first, and eigenvectors; the oldest SciPy refuses a matrix without rows."""
    if len(symmetric) == 0:
        return np.zeros(0), np.zeros((0, 0))
    values, vectors = eigh(symmetric)
    return values, vectors
