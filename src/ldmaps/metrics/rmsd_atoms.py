"""Which atoms count in an RMSD, how much, and which of them decide the superposition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError

#: Least weight of an atom that counts, as a share of all.
LEAST_SHARE = 1e-24


class WeighedAtoms(NamedTuple):
    """Which atoms count and how much: weights as sqrt(w_i/Σw), so that norms need no division."""

    kept: NDArray[np.intp]
    root_weights: NDArray[np.float64]
    fitted: NDArray[np.intp] | None
    root_fit_weights: NDArray[np.float64] | None


def resolve_atoms(weights: ArrayLike | None, align: ArrayLike | None, n_atoms: int) -> WeighedAtoms:
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
    if align is None:
        return WeighedAtoms(kept, root_weights, None, None)

    fitted = _numbers("align", align)
    if fitted.dtype.kind not in "iu" or fitted.ndim != 1:
        raise InvalidInputError(
            f"align must be a list of atom indices, got {fitted.dtype} values of shape {fitted.shape}; "
            "turn a mask into indices with numpy.flatnonzero"
        )
    outside = fitted[(fitted < 0) | (fitted >= n_atoms)]
    if len(outside):
        raise InvalidInputError(
            f"align holds the index {outside[0]}, but frames have {n_atoms} atoms; "
            f"indices must lie between 0 and {n_atoms - 1}"
        )
    fitted = fitted.astype(np.intp)
    names, counts = np.unique(fitted, return_counts=True)
    if (counts > 1).any():
        raise InvalidInputError(
            f"align names atom {names[counts > 1][0]} more than once; "
            "name every atom once and use weights instead"
        )
    fitted = fitted[values[fitted] > 0]
    if len(fitted) < 3:
        raise InvalidInputError(
            "align must name at least 3 atoms with a weight to determine a superposition, "
            f"got {len(fitted)}; add atoms to align or give those atoms weights"
        )
    return WeighedAtoms(kept, root_weights, fitted, np.sqrt(values[fitted] / values[fitted].sum()))


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got values of type {array.dtype}")
    return array
