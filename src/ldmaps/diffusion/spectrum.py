"""The weighted diffusion operator and its leading eigenpairs.

With kernel A, multiplicities c (diagonal C) and density exponent α:

    q_i = Σ_j A_ij c_j                        density
    a_ij = A_ij / (q_i q_j)^α                 α = 0 is the paper's
    D_ii = Σ_j a_ij c_j                       eqn dmap_norm, ldmap_norm
    P = D⁻¹ a C,   P ψ = λ ψ                  eqn dmap_dmap, block_eig
    S = G A G,     G_ii = q_i^-α √(c_i/D_ii)  symmetric, same λ, u = √(C D) ψ

S differs from A by a diagonal on either side, so it is applied to vectors and
never stored in addition to A. The exact map is c = 1; the landmark map has the
multiplicities; biased samples have any positive weights.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError, LdmapsError, Named, SpectrumWarning
from ldmaps.threads import resolve_threads, run_slices, run_tiles, single_threaded_blas
from ldmaps.user_warnings import warn

#: ``n_components="gap"`` looks for the gap among this many leading non-trivial eigenvalues.
MAX_GAP_COMPONENTS = 10
#: Below this size a full diagonalisation is quicker than Lanczos.
DENSE_SIZE = 400
#: Least size of the Lanczos basis. More cost products where there is a gap, fewer where eigenvalues crowd.
LANCZOS_VECTORS = 48
#: Restarts after which Lanczos is given up: a dense kernel is then diagonalised in full, for a sparse one that is all.
DENSE_RESTARTS = 60
#: Largest kernel for that last resort: its time grows as n³.
FULL_SIZE = 5000
SPARSE_RESTARTS = 2000
#: Eigenvalues are known to so many times the kernel's rounding.
_NOISE = 64.0
#: A coordinate that is multiplied by less has faded: single precision ends there.
_FADED = 1e-30
#: Entries of eigenvectors that should be so small are computed once more.
_LIGHT = 1e-6
#: A walk that stays where it is with this probability, at half of the points or more, shows nothing of their shape.
STANDSTILL = 0.95


@dataclass(frozen=True)
class Spectrum:
    """Leading non-trivial eigenpairs of the diffusion operator over n weighted points."""

    eigenvalues: NDArray[np.float64]  # (k,): λ₂ ≥ λ₃ ≥ …; the trivial λ₁ = 1 is left out
    vectors: NDArray[np.float64]  # (n, k): ψ, ψᵀCψ = 1, entry of largest magnitude positive
    #: (n,): s_j = c_j q_j^-α: row x of the walk's matrix is A(x, z_j) s_j, normalised
    source_weights: NDArray[np.float64]
    degrees: NDArray[np.float64]  # (n,): D_ii

    def stay_probabilities(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P_ii, how likely the walk stays where it is (or in its cell); shape (n,)."""
        # P_ii = A_ii s_i/T_i with A_ii = 1 and T_i = Σ_j A_ij s_j = D_i c_i/s_i.
        return np.asarray(self.source_weights**2 / (self.degrees * weights))

    def taking(self, modes: NDArray[np.intp]) -> Spectrum:
        """Return some pairs alone."""
        return Spectrum(self.eigenvalues[modes], self.vectors[:, modes], self.source_weights, self.degrees)


@dataclass(frozen=True)
class SymmetricWalk:
    """The diagonals that make S = G A G of a kernel, and eigenvectors of the walk of those of S."""

    weights: NDArray[np.float64]  # (n,): c, s = c q^-α and D_ii
    source_weights: NDArray[np.float64]
    degrees: NDArray[np.float64]
    scale: NDArray[np.float64]  # (n,): G_ii
    trivial: NDArray[np.float64]  # (n,): u₁ ∝ √(C D), of length 1: S u₁ = u₁

    @classmethod
    def of(
        cls, weights: NDArray[np.float64], tempered: NDArray[np.float64], row_sums: NDArray[np.float64]
    ) -> SymmetricWalk:
        """Make the walk from c, q^-α and Σ_j A_ij c_j q_j^-α, or raise where no number comes out."""
        degrees = tempered * row_sums  # D_ii
        scale = tempered * np.sqrt(weights / degrees)  # G_ii
        trivial = np.sqrt(weights * degrees)
        if not (np.isfinite(scale).all() and np.isfinite(trivial).all()):
            raise LdmapsError(
                "the eigenproblem has values that are not finite; epsilon may be far too small or too large"
            )
        return cls(weights, weights * tempered, degrees, scale, trivial / np.linalg.norm(trivial))

    def spectrum(self, values: NDArray[np.float64], vectors: NDArray[np.float64]) -> Spectrum:
        """Return eigenpairs of the walk from those of S: ψ = (C D)^-½ u, in falling order."""
        order = np.argsort(values)[::-1]
        values, vectors = values[order], vectors[:, order]
        psi = vectors / np.sqrt(self.weights * self.degrees)[:, None]
        psi /= np.sqrt(self.weights @ psi**2)  # ψᵀCψ = 1
        return Spectrum(values, fix_signs(psi), self.source_weights, self.degrees)


def solve_spectrum(
    kernel: Any,
    weights: NDArray[np.float64],
    n_eigenvalues: int,
    *,
    alpha: float = 0.0,
    n_threads: int | None = None,
) -> Spectrum:
    """Solve for the leading non-trivial eigenpairs."""
    n, threads = len(weights), resolve_threads(n_threads)
    is_sparse = scipy.sparse.issparse(kernel)
    product = multiply if is_sparse else symmetric_product

    def apply(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return product(kernel, vector, threads)

    tempered = apply(weights) ** -alpha if alpha else np.ones(n)  # q^-α
    walk = SymmetricWalk.of(weights, tempered, apply(weights * tempered))
    # The trivial pair is known in closed form: taken out, λ₂ leads and nothing mixes with it.
    scale, trivial = walk.scale, walk.trivial
    values = None
    fits_dense = n <= FULL_SIZE and not is_sparse
    if n > DENSE_SIZE or is_sparse:

        def deflated(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            vector = np.ravel(vector)
            return scale * apply(scale * vector) - (3.0 * (trivial @ vector)) * trivial

        start = np.random.default_rng(0).standard_normal(n)
        start -= (trivial @ start) * trivial
        try:
            # Lanczos' own products are thin. BLAS gains nothing by sharing them out, and its threads go on spinning
            # for tens of milliseconds after each, on the cores that our products and what follows would use.
            with single_threaded_blas():
                values, vectors = scipy.sparse.linalg.eigsh(
                    scipy.sparse.linalg.LinearOperator((n, n), matvec=deflated, dtype=np.float64),
                    k=n_eigenvalues,
                    which="LA",
                    v0=start,
                    ncv=_lanczos_basis(n, n_eigenvalues),
                    maxiter=DENSE_RESTARTS if fits_dense else SPARSE_RESTARTS,
                    tol=float(np.finfo(kernel.dtype).eps) * 1e-2 if kernel.dtype == np.float32 else 1e-13,
                )
        except scipy.sparse.linalg.ArpackNoConvergence:
            # Eigenvalues crowd below 1 when data are barely connected. A small kernel can still be solved in full.
            if not fits_dense:
                raise LdmapsError(
                    f"the {n_eigenvalues} leading eigenvalues lie too close together to be separated: at this "
                    "epsilon the data are almost disconnected; use a larger epsilon or fewer components"
                ) from None
    if values is None:
        symmetric = scale[:, None] * kernel.astype(np.float64) * scale
        # Below every eigenvalue of S (all lie in [-1, 1]), so that the trivial vector never comes among the top.
        symmetric -= 3.0 * np.outer(trivial, trivial)
        values, vectors = largest_eigenpairs(symmetric, n_eigenvalues)
    # A solver's error is that of the whole vector, which ψ = (C D)^-½ u magnifies where a point weighs next to nothing.
    # S u is right in every entry.
    light = trivial < _LIGHT * trivial.max()
    if light.any():
        for column, value in enumerate(np.where(np.abs(values) > 0, values, np.inf)):
            vectors[light, column] = (scale * apply(scale * vectors[:, column]))[light] / value
    return walk.spectrum(values, vectors)


def largest_eigenpairs(
    symmetric: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues of a symmetric matrix in rising order, (count,), and their vectors, (n, count)."""
    n = len(symmetric)
    try:
        return scipy.linalg.eigh(symmetric, subset_by_index=(n - count, n - 1))  # type: ignore[no-any-return]
    except scipy.linalg.LinAlgError:
        # LAPACK's solver for some eigenpairs gives up where many eigenvalues are equal; the one for all does not.
        values, vectors = scipy.linalg.eigh(symmetric, driver="evd")
        return values[n - count :], vectors[:, n - count :]


def _lanczos_basis(n: int, n_eigenvalues: int) -> int:
    return min(n, max(2 * n_eigenvalues + 1, LANCZOS_VECTORS))


def spectrum_bytes(n: int, n_eigenvalues: int) -> float:
    """Return the memory that :func:`solve_spectrum` takes for a dense kernel, which is there already."""
    if n <= DENSE_SIZE:
        return 3 * 8.0 * n**2  # the kernel in float64, what it is made from, and the solver's own copy
    # The basis, the bands' partial sums, and the vectors that come of it.
    return 8.0 * n * (_lanczos_basis(n, n_eigenvalues) + MAX_BANDS + 4 * n_eigenvalues)


def fix_signs(vectors: NDArray[Any]) -> NDArray[Any]:
    """Turn each column so that its entry of largest magnitude (the first among equals) is positive."""
    rows = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[rows, np.arange(vectors.shape[1])])
    signs[signs == 0] = 1.0
    return np.asarray(vectors * signs)


def spectral_gap(eigenvalues: NDArray[np.float64]) -> int:
    """Return how many coordinates stand before the largest drop of the eigenvalues, at least two."""
    # Molecules often have their largest drop behind the first coordinate, and one coordinate is nothing to look at.
    # The second is kept unless its eigenvalue is zero to rounding.
    if len(eigenvalues) < 2:
        return len(eigenvalues)
    largest = _largest_drop(eigenvalues)
    second_can_be_kept = eigenvalues[1] > _NOISE * float(np.finfo(np.float32).eps)
    return max(largest, 2 if second_can_be_kept else 1)


def places_in_spectrum(kept: ArrayLike, spectrum: ArrayLike) -> NDArray[np.intp]:
    """Return where the eigenvalues of the coordinates stand in the spectrum.

    >>> places_in_spectrum([0.9, 0.6, 0.7], [0.9, 0.8, 0.7, 0.6]).tolist()
    [0, 3, 2]
    """
    # A fit leaves out harmonics, and absorbing points matches coordinates to those of the old map: slower modes may be
    # between them.
    free = np.array(spectrum, dtype=np.float64)
    places = []
    for value in np.asarray(kept, dtype=np.float64):
        places.append(int(np.nanargmin(np.abs(free - value))))
        free[places[-1]] = np.nan
    return np.asarray(places, dtype=np.intp)


def reason_for_kept(eigenvalues: NDArray[np.float64], n_kept: int, setting: int | str) -> str:
    """Say in a few words why ``n_kept`` coordinates were kept.

    >>> reason_for_kept(np.array([0.9, 0.3, 0.2]), 2, "gap")
    '2 coordinates, the minimum; the largest drop (0.60) is after the first'
    """
    if setting != "gap":
        return f"{n_kept} coordinate{'s' * (n_kept > 1)}, as asked for"
    if len(eigenvalues) <= n_kept:
        return f"{n_kept} coordinates, all there are"
    largest = _largest_drop(eigenvalues)
    drop = f"{eigenvalues[largest - 1] - eigenvalues[largest]:.2f}"
    if largest == n_kept:
        return f"{n_kept} coordinates, up to the largest drop ({drop})"
    return f"{n_kept} coordinates, the minimum; the largest drop ({drop}) is after the first"


def _largest_drop(eigenvalues: NDArray[np.float64]) -> int:
    return int(np.argmax(eigenvalues[:-1] - eigenvalues[1:])) + 1


def warn_of_standstill(
    spectrum: Spectrum, weights: NDArray[np.float64], dtype: np.dtype[Any], *, n_groups: int = 1
) -> None:
    """Warn when the walk hardly moves, or when more eigenvalues are 1 to rounding than there are groups known."""
    ones = int((1.0 - spectrum.eigenvalues < _NOISE * float(np.finfo(dtype).eps)).sum())
    stays = float(np.median(spectrum.stay_probabilities(weights)))
    if ones > max(1, n_groups - 1):
        what = (
            f"eigenvalue 1 is degenerate to rounding: the data form {ones + 1} (nearly) disconnected groups, so the "
            f"first {ones} coordinates are defined only up to a rotation among themselves"
        )
    elif stays > STANDSTILL:
        what = (
            f"the median self-transition probability is {stays:.3g}: epsilon is too small compared with "
            "nearest-neighbour distances, so the coordinates single out points instead of showing how the data "
            "are connected"
        )
    else:
        return
    warn(SpectrumWarning(f"{what}; use a larger epsilon or more landmarks"))


def check_extensible(eigenvalues: NDArray[np.float64], dtype: np.dtype[Any]) -> None:
    """Refuse or warn of eigenvalues too small for Nyström's division by λ."""
    noise = _NOISE * float(np.finfo(dtype).eps)
    last = float(eigenvalues[-1])
    if last <= noise:
        usable = int((eigenvalues > noise).sum())
        if usable:
            raise InvalidInputError(
                f"coordinate {len(eigenvalues)} has eigenvalue {last:.3g}, which is zero to rounding, so it cannot be "
                "extended to new points; use at most ",
                Named("n_components", usable),
                ", or a smaller epsilon",
            )
        raise InvalidInputError(
            f"all non-trivial eigenvalues vanish to rounding (the largest is {float(eigenvalues[0]):.3g}): epsilon is "
            "too large to distinguish points; use a smaller one"
        )
    if last < 16.0 * noise:
        warn(
            SpectrumWarning(
                f"eigenvalue {len(eigenvalues)} is {last:.3g}: the Nyström extension divides by it, which "
                "amplifies rounding errors; use fewer components or a smaller epsilon"
            )
        )


def check_time(eigenvalues: NDArray[np.float64], time: float) -> None:
    """Refuse a diffusion time after which nothing is left of a coordinate, λᵗψ."""
    last = float(eigenvalues[-1])
    if last**time < _FADED:
        raise InvalidInputError(
            f"coordinate {len(eigenvalues)} decays to zero at diffusion time t = {time:g}: it is multiplied by "
            f"{last:.6g}^t, which is below {_FADED:g}. Use fewer components or a smaller t; this coordinate decays "
            f"over about t = {1.0 / (1.0 - last):.3g}"
        )


#: Entries of a stored matrix that make a product worth another thread, and into how many parts one is cut at most.
MIN_PRODUCT = 1 << 20
MAX_BANDS = 64


def multiply(matrix: Any, vector: NDArray[np.float64], n_threads: int = 1) -> NDArray[np.float64]:
    """Return ``matrix @ vector``, dense or CSR, accumulated in float64 whatever the matrix is stored in."""
    out = np.empty(matrix.shape[0])
    is_sparse = scipy.sparse.issparse(matrix)

    def work(rows: slice) -> None:
        if is_sparse:
            # Only the entries of these rows: the kernel checks every column that it is given.
            starts = matrix.indptr[rows.start : rows.stop + 1]
            entries = slice(starts[0], starts[-1])
            columns, data = matrix.indices[entries], matrix.data[entries]
            kernels.sparse_matvec_rows(starts - starts[0], columns, data, vector, out[rows])
        else:
            kernels.matvec_rows(matrix[rows], vector, out[rows])

    # A tile that is read quicker than a thread wakes up is not worth handing over.
    run_tiles(len(out), max(512, MIN_PRODUCT // max(1, matrix.shape[1])), work, n_threads, asks_metric=False)
    return out


def symmetric_product(
    matrix: NDArray[Any], vector: NDArray[np.float64], n_threads: int = 1
) -> NDArray[np.float64]:
    """Return ``matrix @ vector`` of a symmetric dense matrix, of which only the upper half is read."""
    n = len(matrix)
    bands = equal_bands(n, min(MAX_BANDS, max(1, n * n // 2 // MIN_PRODUCT)))
    # Each band has its own sums, added up in order, so that threads cannot change the rounding.
    parts = {band.start: np.empty(n) for band in bands}

    def work(band: slice) -> None:
        kernels.symmetric_matvec_band(matrix, band.start, band.stop, vector, parts[band.start])

    run_slices(bands, work, n_threads, asks_metric=False)
    total = parts.pop(0)
    for start, part in parts.items():
        total[start:] += part[start:]
    return total


@cache
def equal_bands(n: int, n_bands: int) -> list[slice]:
    """Cut the rows of an n×n matrix, at multiples of four, so that its upper half falls into equal parts."""
    shares = 1.0 - np.sqrt(1.0 - np.arange(n_bands) / n_bands)
    bounds = [*(4 * np.round(n * shares / 4).astype(int)).tolist(), n]
    return [slice(first, last) for first, last in itertools.pairwise(bounds) if first < last]


def transposed_product(
    left: NDArray[np.float64], right: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return leftᵀ·right, cut by the shapes alone; only the lower half is computed where both are one array."""
    out = np.empty((left.shape[1], right.shape[1]))
    symmetric = left is right

    def work(rows: slice) -> None:
        wide = slice(0, rows.stop) if symmetric else slice(0, right.shape[1])
        np.matmul(left[:, rows].T, right[:, wide], out=out[rows, wide])
        if symmetric:
            out[: rows.start, rows] = out[rows, : rows.start].T

    with single_threaded_blas():
        run_tiles(len(out), 128, work, resolve_threads(n_threads))
    return out
