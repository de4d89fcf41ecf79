"""Frames as an RMSD takes them: which atoms count, and panels, one register's worth of frames side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Points

#: Least weight of an atom that counts, as a share of all.
LEAST_SHARE = 1e-24
#: Bytes of a cache line, to which panels are aligned.
ALIGNMENT = 64


class WeighedAtoms(NamedTuple):
    """Which atoms count and how much: weights as sqrt(w_i/Σw), so that norms need no division."""

    kept: NDArray[np.intp]
    root_weights: NDArray[np.float64]
    fitted: NDArray[np.intp] | None
    root_fit_weights: NDArray[np.float64] | None


def resolve_atoms(weights: ArrayLike | None, superpose_on: ArrayLike | None, n_atoms: int) -> WeighedAtoms:
    """Return the atoms that :class:`~ldmaps.metrics.RMSD`'s settings mean, for frames of so many, or raise."""
    if weights is None:
        values = np.ones(n_atoms)
    else:
        values = _numbers("weights", weights).astype(np.float64)
        if values.shape != (n_atoms,):
            raise InvalidInputError(
                f"weights must have one value per atom, got shape {values.shape} for frames of "
                f"{n_atoms} atoms; select the same atoms for both"
            )
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise InvalidInputError(
                f"weights must be finite and not negative, got {values[bad[0]]} for atom {bad[0]}; "
                "use 0 to leave an atom out"
            )
        if not values.any():
            raise InvalidInputError(
                f"all {n_atoms} weights are 0, so no atom is left; give some atom a weight"
            )
    values = values / values.max()  # so that no sum overflows
    kept = np.flatnonzero(values > 0)
    least, total = values[kept].min(), values.sum()
    if least < LEAST_SHARE * total:
        raise InvalidInputError(
            f"weights must be 0 or at least {LEAST_SHARE:g} of their sum, or forces on these atoms overflow; got "
            f"{least / total:g} of it"
        )
    root_weights = np.sqrt(values[kept] / total)
    if superpose_on is None:
        return WeighedAtoms(kept, root_weights, None, None)

    fitted = _numbers("superpose_on", superpose_on)
    if fitted.dtype.kind not in "iu" or fitted.ndim != 1:
        raise InvalidInputError(
            f"superpose_on must be a list of atom indices, got {fitted.dtype} values of shape {fitted.shape}; "
            "turn a mask into indices with numpy.flatnonzero"
        )
    outside = fitted[(fitted < 0) | (fitted >= n_atoms)]
    if len(outside):
        raise InvalidInputError(
            f"superpose_on holds the index {outside[0]}, but frames have {n_atoms} atoms; "
            f"indices must lie between 0 and {n_atoms - 1}"
        )
    fitted = fitted.astype(np.intp)
    names, counts = np.unique(fitted, return_counts=True)
    if (counts > 1).any():
        raise InvalidInputError(
            f"superpose_on names atom {names[counts > 1][0]} more than once; "
            "name every atom once and use weights instead"
        )
    fitted = fitted[values[fitted] > 0]
    if len(fitted) < 3:
        raise InvalidInputError(
            "superpose_on must name at least 3 atoms with a weight to determine a superposition, "
            f"got {len(fitted)}; add atoms to superpose_on or give those atoms weights"
        )
    return WeighedAtoms(kept, root_weights, fitted, np.sqrt(values[fitted] / values[fitted].sum()))


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got values of type {array.dtype}")
    return array


@dataclass(eq=False)
class RMSDPoints(Points):
    """Frames, prepared: see ``kernels/panels.h`` for what is stored."""

    length: int
    dtype: np.dtype[Any]
    panels: NDArray[
        Any
    ]  # (panels, 3·atoms, lanes): centred and weighed coordinates, ``lanes`` frames per panel
    moments: NDArray[
        Any
    ]  # (3, panels·lanes): squared norm, norm and area; with ``superpose_on`` the squared norm alone
    fit_panels: NDArray[Any] | None = (
        None  # the atoms that determine the superposition, with ``superpose_on``
    )

    def __len__(self) -> int:
        return self.length

    @property
    def n_atoms(self) -> int:
        """Number of atoms that have a weight."""
        return int(self.panels.shape[1]) // 3

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the frames at ``indices``, in that order, as a copy."""
        places = np.arange(self.length)[indices]
        moments = np.zeros((len(self.moments), padded(len(places), self.panels.dtype)), self.moments.dtype)
        moments[:, : len(places)] = self.moments[:, places]
        fit_panels = None if self.fit_panels is None else _take_panels(self.fit_panels, places)
        return type(self)(len(places), self.dtype, _take_panels(self.panels, places), moments, fit_panels)


def _lanes(dtype: np.dtype[Any]) -> int:
    """Return how many frames one panel holds."""
    return int(kernels.PANEL_BYTES // dtype.itemsize)


def padded(n: int, dtype: np.dtype[Any]) -> int:
    """Return ``n`` rounded up to whole panels."""
    lanes = _lanes(dtype)
    return -(-n // lanes) * lanes


def new_panels(n: int, depth: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return panels for ``n`` frames, to be filled in; the last one is zeros, so that its padding is harmless."""
    lanes = _lanes(dtype)
    count = -(-n // lanes)
    if count == 1:
        return np.zeros((1, depth, lanes), dtype)
    # Aligned, because a register that straddles two cache lines loads at half the speed.
    size = count * depth * lanes
    raw = np.empty(size + ALIGNMENT // dtype.itemsize, dtype)
    start = -raw.ctypes.data % ALIGNMENT // dtype.itemsize
    panels = raw[start : start + size].reshape(count, depth, lanes)
    panels[-1] = 0
    return panels


def to_panels(frames: NDArray[Any]) -> NDArray[Any]:
    """Return frames, (n, 3·atoms), in panels."""
    n, depth = frames.shape
    panels = new_panels(n, depth, frames.dtype)
    lanes = panels.shape[2]
    n_full = n // lanes
    panels[:n_full] = frames[: n_full * lanes].reshape(n_full, lanes, depth).transpose(0, 2, 1)
    if n % lanes:
        panels[-1, :, : n % lanes] = frames[n_full * lanes :].T
    return panels


def _take_panels(panels: NDArray[Any], indices: NDArray[np.intp]) -> NDArray[Any]:
    taken = new_panels(len(indices), panels.shape[1], panels.dtype)
    kernels.take_frames(panels, np.ascontiguousarray(indices), taken)
    return taken


def from_panels(panels: NDArray[Any], indices: NDArray[np.intp]) -> NDArray[Any]:
    """Return the frames at ``indices``, (n, 3·atoms), out of their panels."""
    lanes = panels.shape[2]
    frames: NDArray[Any] = panels[indices // lanes, :, indices % lanes]
    return frames
