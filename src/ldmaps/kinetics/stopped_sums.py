"""Sums over pairs of frames that stop at a set: all that committors and passage times need of the data.

A pair begins at a frame x_t of the domain D, which is all that is not stopped at, and ends a lag τ later, or at the
first frame of the set that comes before that, at s(t) = min(t + τ, first entry after t):

    K = Σ_t v_t f_t (1_D f_s − f_t)ᵀ,    r = Σ_t v_t f_t 1_B(x_s),    d = Σ_t v_t f_t (s − t),    G = Σ_t v_t f_t f_tᵀ

over t in D whose run lasts until t + τ. K b = −r gives the chance to stop in B, K b = −d the mean time until the stop
(dynamical Galerkin approximation: Thiede, Giannakis, Dinner & Weare 2019). They add up over files, chunks and blocks.

What flows from one set to the other, per frame, is the Dirichlet form of the committor q = 1_B + g·b, g = 1_D f, over
consecutive frames,

    F = ½ ⟨(q(x_{t+1}) − q(x_t))²⟩ = Σ_{i in A} π_i Σ_j P_ij q_j        for a reversible chain of frames,

least at the true q, so that an error of q counts twice over. Rates are F/⟨1 − q⟩ and F/⟨q⟩ (transition path theory:
E & Vanden-Eijnden 2006).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.kinetics.blocks import Blocks

#: Directions whose variance is a smaller share of the largest are left out: functions are nearly dependent.
RANK_TOLERANCE = 1e-9

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class StoppedSums:
    """K, r, d and G over some rows."""

    n_rows: int
    change: _Array  # (n, n): K
    arrivals: _Array  # (n,): r
    durations: _Array  # (n,): d, in rows
    gram: _Array  # (n, n): G
    #: how often a run comes to B, and to the other set, if it was not there when it was last in a set; a run that
    #: begins between them has come to the first that it reaches
    n_arrivals: int
    n_returns: int
    # Of pairs of consecutive frames, and of all frames: with Δg and Δ1_B from the first to the second,
    steps: _Array  # (n, n): Σ v Δg Δgᵀ
    crossings: _Array  # (n,): Σ v Δ1_B Δg
    jumps: float  # Σ v (Δ1_B)²
    pairs: float  # Σ v over pairs
    present: _Array  # (n,): Σ v g over frames
    in_target: float  # Σ v 1_B
    frames: float  # Σ v

    def plus(self, other: StoppedSums) -> StoppedSums:
        """Return the sums over the rows of both."""
        return StoppedSums(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(StoppedSums))
        )

    def leading(self, n_functions: int) -> StoppedSums:
        """Return the sums of the first functions alone."""
        part = slice(n_functions)
        return StoppedSums(
            self.n_rows,
            self.change[part, part],
            self.arrivals[part],
            self.durations[part],
            self.gram[part, part],
            self.n_arrivals,
            self.n_returns,
            self.steps[part, part],
            self.crossings[part],
            self.jumps,
            self.pairs,
            self.present[part],
            self.in_target,
            self.frames,
        )

    def flux(self, combination: _Array) -> float:
        """Return how often, per frame, a run goes from the other set to B, given b of the committor; NaN if unknown."""
        form = combination @ self.steps @ combination + 2.0 * combination @ self.crossings + self.jumps
        return float(0.5 * form / self.pairs) if self.pairs > 0 else np.nan

    def mean_committor(self, combination: _Array) -> float:
        """Return the mean of the committor over all frames: the share of time that B was the last set, in reverse."""
        return (
            float((combination @ self.present + self.in_target) / self.frames) if self.frames > 0 else np.nan
        )

    def solve(self, wanted: _Array, ridge: float) -> _Array:
        """Return b with (K − ρ) b = −wanted, ρ in units of the mean diagonal of G, where functions are independent."""
        lengths, turns = scipy.linalg.eigh(self.gram)
        keep = lengths > RANK_TOLERANCE * max(float(lengths[-1]), 0.0)
        axes = turns[:, keep] / np.sqrt(lengths[keep])
        damped = self.change - ridge * np.trace(self.gram) / len(self.gram) * np.eye(len(self.gram))
        reduced = axes.T @ damped @ axes
        return np.asarray(axes @ scipy.linalg.lstsq(reduced, -(axes.T @ wanted))[0])

    def loss(self, combination: _Array, wanted: _Array) -> float:
        """Return −bᵀKb − 2 b·wanted per pair: lowest at the solution of a reversible process."""
        weight = max(float(self.gram[0, 0]), 1e-300)
        quadratic = combination @ self.change @ combination
        return float((-quadratic - 2.0 * combination @ wanted) / weight)


class StoppedPairs:
    """Takes rows of functions and what set each row is in, and adds up stopped pairs in blocks.

    Parameters
    ----------
    lag : int
        In rows.
    n_sets : int
        Whether pairs stop in B alone (1) or in another set too (2).
    """

    def __init__(self, lag: int, n_sets: int = 2) -> None:
        self.lag = lag
        self._n_sets = n_sets
        # The last set of the run: 1 is B, 0 another, -1 none yet.
        self._visited: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self.blocks: Blocks[StoppedSums] = Blocks()
        # The last rows of the run, as many as the lag: functions, whether it stops there, whether in B, weight.
        self._recent: tuple[_Array, _Mask, _Mask, _Array] | None = None

    def add(
        self,
        functions: _Array,
        stops: _Mask,
        arrives: _Mask,
        weights: _Array | None,
        *,
        begins_run: bool,
        leaves: _Mask | None = None,
    ) -> None:
        """Add rows that follow those before, or begin a run; ``arrives`` are those in B, which stop as well.

        ``leaves`` are those from which coming to B counts as a passage: where pairs stop in B alone, any row outside B
        by default.
        """
        weights = np.ones(len(functions)) if weights is None else weights
        if leaves is None:
            leaves = stops if self._n_sets == 2 else np.ones(len(stops), dtype=bool)
        ends = leaves | arrives
        rows = functions, stops, arrives, weights
        if begins_run or self._recent is None:
            self._recent = functions[:0], stops[:0], arrives[:0], weights[:0]
            self._visited = np.full(int(not ends[:1].any()), -1, dtype=np.intp)
        begins = begins_run
        for piece in self.blocks.pieces(len(functions)):
            before = self._recent
            known = tuple(np.concatenate([old, new[piece]]) for old, new in zip(before, rows, strict=True))
            passages = self._passages(arrives[piece][ends[piece]])
            sums = self._sums(known[0], known[1], known[2], known[3], piece.stop - piece.start, passages)
            self.blocks.add(sums, begins_run=begins)
            begins = False
            self._recent = (
                known[0][-self.lag :],
                known[1][-self.lag :],
                known[2][-self.lag :],
                known[3][-self.lag :],
            )

    def _passages(self, seen: _Mask) -> tuple[int, int]:
        """Return how often B, and the other set, is reached, given which rows in either are in B."""
        # A run that crosses the border of one again and again has come there once.
        visited = np.concatenate([self._visited, seen.astype(np.intp)])
        reached, self._visited = visited[1:][np.diff(visited) != 0], visited[-1:]
        return int((reached == 1).sum()), int((reached == 0).sum())

    def _sums(
        self,
        functions: _Array,
        stops: _Mask,
        arrives: _Mask,
        weights: _Array,
        n_new: int,
        passages: tuple[int, int],
    ) -> StoppedSums:
        """Return the sums over pairs that would end, unless they stop before, at one of the last ``n_new`` rows."""
        n, size = len(functions), functions.shape[1]
        flow = self._flow(functions, stops, arrives, weights, n_new)
        last = n - self.lag
        starts = np.arange(max(last - n_new, 0), max(last, 0))
        starts = starts[~stops[starts]]
        # Where the next stop at or after each row is; n where there is none.
        places = np.where(stops, np.arange(n), n)
        following = np.minimum.accumulate(places[::-1])[::-1]
        ends = np.minimum(following[starts + 1], starts + self.lag)
        first = functions[starts]
        weighted = _weighted(first, weights[starts])
        going_on = functions[ends] * ~stops[ends, None]
        return StoppedSums(
            n_new,
            weighted.T @ (going_on - first) if len(starts) else np.zeros((size, size)),
            arrives[ends].astype(np.float64) @ weighted,
            (ends - starts).astype(np.float64) @ weighted,
            weighted.T @ first,
            passages[0],
            passages[1],
            *flow,
        )

    def _flow(
        self, functions: _Array, stops: _Mask, arrives: _Mask, weights: _Array, n_new: int
    ) -> tuple[_Array, _Array, float, float, _Array, float, float]:
        """Return the sums over consecutive frames, and those over frames, whose last one is one of the new."""
        size = functions.shape[1]
        if self._n_sets == 1:  # there is no other set to come from
            return np.zeros((size, size)), np.zeros(size), 0.0, 0.0, np.zeros(size), 0.0, 0.0
        new = slice(len(functions) - n_new, None)
        present = weights[new] @ (functions[new] * ~stops[new, None])
        rows = slice(max(len(functions) - n_new - 1, 0), None)
        outside = functions[rows] * ~stops[rows, None]
        v, moves, jumps = (
            weights[rows][:-1],
            np.diff(outside, axis=0),
            np.diff(arrives[rows].astype(np.float64)),
        )
        weighted = _weighted(moves, v)
        return (
            weighted.T @ moves,
            jumps @ weighted,
            float(v @ jumps**2),
            float(v.sum()),
            present,
            float(weights[new] @ arrives[new]),
            float(weights[new].sum()),
        )


def _weighted(rows: _Array, weights: _Array) -> _Array:
    """Return rows times weights; the same array if these are 1, of whose product with itself BLAS computes half."""
    return rows if (weights == 1.0).all() else rows * weights[:, None]
