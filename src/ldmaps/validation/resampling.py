r"""Maps of other data from the same system: blocks of training points drawn again, and which modes that gives again.

A block bootstrap changes the landmarks' multiplicities alone: c'_j is the weight of the points of cell j in as many
blocks as there are, drawn with replacement. A block must be longer than points remember. With c' the walk is
P' f = A(s'f) / A s', s' = c'(A c')^-α, symmetric by μ = s'·A s'; where μ is 0, P' gives a landmark's value as for a new
point. The fitted modes span a first guess (Rayleigh–Ritz), which is solved again with a step of Davidson's method: the
residuals r_i = P'f_i − λ_i f_i are divided by λ_i − λ_l mode by mode, as first-order perturbation theory has it,

    z_i = Σ_{l ≥ q} ψ_l ⟨ψ_l, r_i⟩/(λ_i − λ_l) + (1/λ_i)(1 − Σ_l ψ_l⟨ψ_l, ·⟩) r_i.

Two modes of nearly the same eigenvalue span a plane that is well defined, but any two axes in it are as good. So what
is compared with each resample is the span of a group: the smallest cosine between it and that of its matches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.correlation_times import runs_of
from ldmaps.diffusion.spectrum import largest_eigenpairs
from ldmaps.errors import InvalidInputError
from ldmaps.threads import resolve_threads, run_tiles, single_threaded_blas

#: Most blocks: a variance of so many is known to 4 %.
MOST_BLOCKS = 1000
#: Fewest blocks that time is cut into, however long the points remember; `Blocks.are_long_enough` says so then.
FEWEST_BLOCKS = 12
#: Length of a block in correlation times (beyond the half that uncorrelated points have).
BLOCK_LENGTH = 8.0
#: Modes of the fitted walk that residuals are divided by one by one.
N_MODES = 80
#: Modes beyond those asked for in the first guess.
FURTHER = 8
#: Steps of Davidson's method.
STEPS = 1
#: Values per tile of resamples.
TILE_VALUES = 200_000
#: A group is reproducible when its cosine is at least this in all resamples but LOST of them.
REPRODUCIBLE, LOST = 0.9, 0.05
#: Most modes that are taken as a group, unless they tell states apart. Harmonics do not count in that of another mode:
#: in data of few dimensions there are many of about the same eigenvalue, which a resample mixes.
LARGEST_GROUP = 4

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Blocks:
    """Which block each training point is in."""

    kind: str  # "time": consecutive points; "files": whole files; "rows": points at random
    labels: NDArray[np.int32]  # (N,): the block of each point, from 0
    count: int
    #: of the slowest coordinate, in points, or an upper estimate; 0.5 where there is no order or memory
    correlation_time: float = 0.5

    @property
    def length(self) -> float:
        """Points per block, on average."""
        return len(self.labels) / self.count

    @property
    def are_long_enough(self) -> bool:
        """Whether a block forgets the one before: it is several correlation times long."""
        return self.kind != "time" or self.length >= 0.5 * BLOCK_LENGTH * (self.correlation_time - 0.5)

    @property
    def inflation(self) -> float:
        """What deviations of resamples are multiplied by, for what blocks cannot show."""
        # n blocks vary by (n − 1)/n of the variance around their own mean, and neighbours that remember each other for
        # τ points take the share τ/length of it (exact for exponential memory).
        scale = self.count / max(self.count - 1, 1)
        if self.kind == "time" and self.length > 1.5:
            scale /= max(1.0 - max(self.correlation_time - 0.5, 0.0) / self.length, 0.25)
        return float(np.sqrt(scale))


def cut_blocks(
    n_points: int,
    kind: str,
    *,
    correlation_time: float = 0.5,
    files: NDArray[np.int32] | None = None,
    rng: np.random.Generator | None = None,
) -> Blocks:
    """Put training points, in the order of time where there is one, into blocks; one of "time" is of one file."""
    if kind == "files":
        if files is None or len(np.unique(files)) < 2:
            raise InvalidInputError(
                "resampling whole files needs points of two files at least; leave it out, or fit on several files"
            )
        labels = np.unique(files, return_inverse=True)[1]
        return Blocks(kind, labels.astype(np.int32), int(labels.max()) + 1, correlation_time)
    if kind == "rows":
        count = min(n_points, MOST_BLOCKS)
        labels = np.arange(n_points) % count
        (rng or np.random.default_rng(0)).shuffle(labels)
        return Blocks(kind, labels.astype(np.int32), count)
    length = max(1.0, BLOCK_LENGTH * (correlation_time - 0.5), n_points / MOST_BLOCKS)
    length = min(length, max(1.0, n_points / FEWEST_BLOCKS))
    count, places = 0, np.empty(n_points, dtype=np.int32)
    for run in runs_of(n_points, files):
        size = run.stop - run.start
        here = max(1, round(size / length))
        places[run] = count + np.arange(size) * here // size
        count += here
    return Blocks(kind, places, count, correlation_time)


def resampled_multiplicities(
    cells: NDArray[np.intp],
    weights: _Array,
    n_landmarks: int,
    blocks: Blocks,
    n_resamples: int,
    rng: np.random.Generator,
) -> _Array:
    """Return c' of every resample, (resamples, M), each with the total weight of the points."""
    by_block = scipy.sparse.csr_array(
        (weights, (blocks.labels, cells)), shape=(blocks.count, n_landmarks), dtype=np.float64
    )
    draws = rng.multinomial(blocks.count, np.full(blocks.count, 1.0 / blocks.count), size=n_resamples)
    drawn = np.asarray(by_block.T.dot(draws.T.astype(np.float64))).T
    # Blocks may all have been drawn that weigh nothing.
    drawn = drawn[drawn.sum(axis=1) > 0]
    return np.ascontiguousarray(drawn * (weights.sum() / drawn.sum(axis=1, keepdims=True)))


def block_error(values: _Array, weights: _Array, blocks: Blocks) -> _Array:
    """Return the standard error of weighted means of values, (N, m), by the spread of blocks."""
    means = weights @ values / weights.sum()
    deviations = weights[:, None] * (values - means)  # of a ratio of sums, to first order
    sums = np.stack([np.bincount(blocks.labels, column, blocks.count) for column in deviations.T], axis=1)
    return np.asarray(blocks.inflation * np.sqrt((sums**2).sum(axis=0)) / weights.sum())


@dataclass(frozen=True)
class FittedModes:
    """The fitted walk and its modes."""

    kernel: _Array  # A, (M, M)
    alpha: float  # density normalisation
    measure: _Array  # (M,): μ of the fitted multiplicities
    eigenvalues: _Array  # (p,), the trivial one first
    vectors: _Array  # ψ, (M, p), orthonormal by μ


def fitted_modes(kernel: _Array, multiplicities: _Array, alpha: float = 0.0) -> FittedModes:
    """Solve the fitted walk for as many modes as resamples make use of."""
    source, row_sums = _walk(kernel, multiplicities[None], alpha)
    measure = (source * row_sums)[0]
    scale, count = np.sqrt(source / row_sums)[0], min(N_MODES + 1, len(kernel))
    # The trivial mode is known. Groups without a transition between them have modes of the same eigenvalue, which
    # would mix with it.
    trivial = np.sqrt(measure / measure.sum())
    symmetric = scale[:, None] * kernel * scale - 3.0 * np.outer(trivial, trivial)
    with single_threaded_blas():
        values, vectors = largest_eigenpairs(symmetric, count - 1)
    values = np.append(1.0, values[::-1])
    vectors = np.column_stack([trivial, vectors[:, ::-1]]) / np.sqrt(measure)[:, None]
    vectors = vectors / np.sqrt(measure @ vectors**2)
    return FittedModes(kernel, alpha, measure, values, vectors)


def _walk(kernel: _Array, multiplicities: _Array, alpha: float) -> tuple[_Array, _Array]:
    """Return s' and A s' of each set of multiplicities, both of shape (n, M)."""
    source = multiplicities
    if alpha:
        source = source * (multiplicities @ kernel) ** -alpha
    return source, source @ kernel


def resampled_modes(
    fitted: FittedModes, multiplicities: _Array, n_modes: int, n_threads: int | None = None
) -> tuple[_Array, _Array]:
    """Return the leading non-trivial eigenpairs of every set of multiplicities, (n, M): λ', largest first, and ψ'."""
    # Of any sign, with Σ_j c'_j ψ'_j² = 1.
    n, n_landmarks = multiplicities.shape
    values, vectors = np.empty((n, n_modes)), np.empty((n, n_landmarks, n_modes))
    most = min(len(fitted.eigenvalues), n_modes + 1 + FURTHER)
    tile = max(1, TILE_VALUES // (most * n_landmarks))

    def work(rows: slice) -> None:
        _solve(fitted, multiplicities[rows], most, values[rows], vectors[rows])

    with single_threaded_blas():
        run_tiles(n, tile, work, resolve_threads(n_threads))
    return values, vectors


def _solve(
    fitted: FittedModes, multiplicities: _Array, n_guess: int, values: _Array, vectors: _Array
) -> None:
    """Fill ``values`` and ``vectors`` for some resamples."""
    source, row_sums = _walk(fitted.kernel, multiplicities, fitted.alpha)
    measure = source * row_sums
    n, n_landmarks = multiplicities.shape
    n_wanted = values.shape[1]

    def apply(functions: _Array) -> _Array:
        columns = (source[:, :, None] * functions).transpose(1, 0, 2).reshape(n_landmarks, -1)
        products = (fitted.kernel @ columns).reshape(n_landmarks, n, -1)
        return np.asarray(products.transpose(1, 0, 2) / row_sums[:, :, None])

    def without_trivial(functions: _Array) -> _Array:
        means = np.einsum("nm,nmi->ni", measure, functions) / measure.sum(axis=1)[:, None]
        return np.asarray(functions - means[:, None])

    n_kept = n_guess - 1
    guess = without_trivial(np.broadcast_to(fitted.vectors[:, 1:n_guess], (n, n_landmarks, n_kept)))
    ritz = _rayleigh_ritz(measure, guess, apply(guess), n_kept)
    for _ in range(STEPS):
        lam, guess, images = ritz
        if n_guess >= min(n_landmarks, len(fitted.eigenvalues)):
            break  # the guess spans all there is
        residuals = (images - guess * lam[:, None])[:, :, :n_wanted]
        further = without_trivial(_divided_by_gaps(fitted, lam[:, :n_wanted], residuals, n_guess))
        ritz = _rayleigh_ritz(
            measure, np.concatenate([guess, further], 2), np.concatenate([images, apply(further)], 2), n_kept
        )
    lam, _, images = ritz
    values[:] = lam[:, :n_wanted]
    vectors[:] = images[:, :, :n_wanted]  # P'ψ' = λ'ψ' where c' is 0 as well
    # Fewer landmarks with points than modes: the last have no length.
    lengths = np.sqrt(np.einsum("nm,nmi->ni", multiplicities, vectors**2))
    vectors /= np.where(lengths > 0, lengths, 1.0)[:, None]


def _divided_by_gaps(fitted: FittedModes, lam: _Array, residuals: _Array, first: int) -> _Array:
    """Return z of every residual; modes before ``first`` are left to Rayleigh–Ritz."""
    shares = (fitted.vectors.T * fitted.measure) @ residuals  # (n, p, wanted)
    gaps = lam[:, None] - fitted.eigenvalues[None, :, None]
    gaps[:, :first] = np.inf
    gaps = np.where(np.abs(gaps) < 1e-9, 1e-9, gaps)
    inverse = 1.0 / np.maximum(lam, 1e-9)[:, None]
    further = fitted.vectors @ (shares * (1.0 / gaps - inverse)) + residuals * inverse
    lengths = np.sqrt(np.einsum("m,nmi->ni", fitted.measure, further**2))[:, None]
    return np.asarray(further / np.maximum(lengths, 1e-300))


def _rayleigh_ritz(
    measure: _Array, basis: _Array, images: _Array, keep: int
) -> tuple[_Array, _Array, _Array]:
    """Return the leading Ritz values of P', their vectors of length 1 by μ, and P' of these."""
    weighted = (measure[:, :, None] * basis).transpose(0, 2, 1)
    gram, form = weighted @ basis, weighted @ images
    # Directions of the basis that are in it already, to rounding, are left out: their length is set to 0.
    lengths, turns = np.linalg.eigh(gram)
    is_new = lengths > 1e-11 * lengths[:, -1:]
    turns = turns * np.where(is_new, 1.0 / np.sqrt(np.where(is_new, lengths, 1.0)), 0.0)[:, None]
    form = turns.transpose(0, 2, 1) @ (0.5 * (form + form.transpose(0, 2, 1))) @ turns
    values, mixed = np.linalg.eigh(form)
    mixed = turns @ mixed[:, :, ::-1][:, :, :keep]
    return values[:, ::-1][:, :keep], basis @ mixed, images @ mixed


@dataclass(frozen=True)
class Matches:
    """How modes of resamples, n of them, correspond to the p fitted ones."""

    places: NDArray[np.intp]  # (n, p): which mode of the resample each fitted one is matched to
    correlations: _Array  # (n, p, q): of each fitted mode with each mode of the resample
    overlaps: (
        _Array  # (n, q, q): between the modes of a resample, which are orthogonal by its own measure only
    )

    def cosines(self, group: tuple[int, ...]) -> _Array:
        """Return the smallest cosine between the span of some fitted modes and that of their matches, (n,)."""
        members = self.places[:, list(group)]
        rows = np.arange(len(members))[:, None, None]
        block = self.correlations[:, list(group)][rows, np.arange(len(group))[:, None], members[:, None]]
        overlaps = self.overlaps[rows, members[:, :, None], members[:, None]]
        # Of an orthonormal basis of the matches' span, singular values of the products are cosines.
        lengths, turns = np.linalg.eigh(overlaps)
        basis = turns / np.sqrt(np.maximum(lengths, 1e-12))[:, None]
        return np.asarray(np.linalg.svd(block @ basis, compute_uv=False)[:, -1])


def matched(measure: _Array, fitted: _Array, vectors: _Array) -> Matches:
    """Match modes of resamples, (n, M, q), to the ``fitted`` ones, (M, p), by their correlation."""
    # A resample's modes have mean 0 by its own weights. By ours they have another, which says nothing of their shape:
    # with separate states, whose populations differ, all of the difference may be there.
    means = np.einsum("m,nmi->ni", measure, vectors) / measure.sum()
    centred = vectors - means[:, None]
    products = np.einsum("nmi,m,nmj->nij", centred, measure, centred, optimize=True)
    lengths = np.sqrt(np.einsum("nii->ni", products))
    lengths = np.where(lengths > 0, lengths, 1.0)
    correlations = (fitted.T * measure) @ centred / lengths[:, None]
    places = np.stack([scipy.optimize.linear_sum_assignment(-(table**2))[1] for table in correlations])
    return Matches(places, correlations, products / lengths[:, None] / lengths[:, :, None])


def reproduced(
    matches: Matches, n_separating: int = 0, is_harmonic: NDArray[np.bool_] | None = None
) -> tuple[_Array, NDArray[np.int32], _Array]:
    """Return 5 % quantiles of each mode's |correlation| with its match, the group it is in, and quantiles of that.

    The first ``n_separating`` modes tell metastable states apart, which may be a group however many they are. So may
    a mode that is no harmonic and others that are.
    """
    # A group is the smallest that is reproducible; a mode that is in none stands alone.
    taken = np.take_along_axis(
        matches.correlations, matches.places[:, None], axis=2
    )  # matches on the diagonal
    count = taken.shape[1]
    alone = np.quantile(np.abs(np.einsum("nii->ni", taken)), LOST, axis=0)
    strengths = np.mean(taken**2, axis=0)
    strengths = strengths + strengths.T
    groups: list[tuple[int, ...]] = [(mode,) for mode in range(count)]
    found = {group: float(alone[group]) for group in groups}
    counts = np.ones(count, dtype=np.intp) if is_harmonic is None else (~is_harmonic).astype(np.intp)
    for mode in range(count):
        group = next(group for group in groups if mode in group)
        largest = max(LARGEST_GROUP, n_separating if mode < n_separating else 0)
        sizes = counts if counts[mode] else np.ones_like(counts)
        while found[group] < REPRODUCIBLE and sizes[list(group)].sum() < largest and len(group) < count:
            others = [other for other in range(count) if other not in group]
            nearest = max(others, key=lambda other: strengths[list(group), other].sum())
            group = tuple(sorted({*group, *next(other for other in groups if nearest in other)}))
            found[group] = float(np.quantile(matches.cosines(group), LOST))
        if found[group] >= REPRODUCIBLE and len(group) > 1:
            groups = [other for other in groups if not set(other) & set(group)] + [group]
    numbers, together = np.empty(count, np.int32), np.empty(count)
    for number, group in enumerate(sorted(groups)):
        numbers[list(group)], together[list(group)] = number, found[group]
    return alone, numbers, together
