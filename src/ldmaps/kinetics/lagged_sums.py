"""Sums over pairs of frames a lag apart: the only thing that slow modes need of the data.

    C₀ = Σ_t v_t ½ (f_t f_tᵀ + f_{t+τ} f_{t+τ}ᵀ),    C_τ = Σ_t v_t ½ (f_t f_{t+τ}ᵀ + f_{t+τ} f_tᵀ)

over pairs within one run, v_t being the weight of the first frame. They add up over files, chunks and blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps.kinetics.blocks import Blocks

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class LaggedSums:
    """C₀ and C_τ of several lags over some rows; the first function is the constant 1."""

    n_rows: int
    instant: _Array  # (lags, functions, functions): C₀
    lagged: _Array  # (lags, functions, functions): C_τ

    def plus(self, other: LaggedSums) -> LaggedSums:
        """Return the sums over the rows of both."""
        return LaggedSums(
            self.n_rows + other.n_rows, self.instant + other.instant, self.lagged + other.lagged
        )

    def leading(self, n_functions: int) -> LaggedSums:
        """Return the sums of the first functions alone."""
        part = slice(None), slice(n_functions), slice(n_functions)
        return LaggedSums(self.n_rows, self.instant[part], self.lagged[part])

    def covariances(self, place: int = 0) -> tuple[_Array, _Array] | None:
        """Return C₀ and C_τ of one lag about the mean, without the constant; None where there is no pair."""
        instant, lagged = self.instant[place], self.lagged[place]
        weight = instant[0, 0]
        if not weight > 0:
            return None
        mean = instant[0, 1:] / weight
        product = np.outer(mean, mean)
        return instant[1:, 1:] / weight - product, lagged[1:, 1:] / weight - product

    def mean(self, place: int = 0) -> _Array:
        """Return the mean of all functions but the constant, over the pairs of one lag."""
        return np.asarray(self.instant[place, 0, 1:] / self.instant[place, 0, 0])


class LaggedPairs:
    """Takes rows of functions as they come and adds up pairs in blocks.

    Parameters
    ----------
    lags : list of int
        In rows.
    """

    def __init__(self, lags: list[int]) -> None:
        self.lags = lags
        self.blocks: Blocks[LaggedSums] = Blocks()
        self._recent: _Array | None = None  # the last rows of the run, as many as the longest lag
        self._weights: _Array = np.empty(0)  # theirs

    def add(self, functions: _Array, weights: _Array | None, *, begins_run: bool) -> None:
        """Add rows that follow those before, or begin a run."""
        weights = np.ones(len(functions)) if weights is None else weights
        if begins_run or self._recent is None:
            self._recent, self._weights = functions[:0], weights[:0]
        begins = begins_run
        for rows in self.blocks.pieces(len(functions)):
            known = np.concatenate([self._recent, functions[rows]])
            those = np.concatenate([self._weights, weights[rows]])
            self.blocks.add(self._sums(known, those, rows.stop - rows.start), begins_run=begins)
            begins = False
            kept = max(self.lags)
            self._recent, self._weights = known[-kept:], those[-kept:]

    def _sums(self, known: _Array, weights: _Array, n_new: int) -> LaggedSums:
        """Return the sums over pairs whose second row is one of the last ``n_new``."""
        shape = len(self.lags), known.shape[1], known.shape[1]
        instant, lagged = np.zeros(shape), np.zeros(shape)
        begin = len(known) - n_new
        new = known[begin:]
        own = new.T @ new if (weights == 1.0).all() else None
        for place, lag in enumerate(self.lags):
            last = len(known) - lag  # where the first rows of pairs end
            first = max(begin - lag, 0)
            if last <= first:
                continue
            now, later = known[first:last], known[first + lag :]
            if own is not None and first + lag == begin and 2 * lag < n_new:
                # Without weights all lags share the sum over new rows; first rows of pairs are those, moved by the lag.
                before, after = known[first:begin], known[last:]
                instant[place] = own + 0.5 * (before.T @ before - after.T @ after)
                product = now.T @ later
            else:
                scale = weights[first:last, None]
                weighted = now * scale
                instant[place] = 0.5 * (weighted.T @ now + (later * scale).T @ later)
                product = weighted.T @ later
            lagged[place] = 0.5 * (product + product.T)
        return LaggedSums(n_new, instant, lagged)
