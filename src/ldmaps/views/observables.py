"""What the coordinates of a map follow: their correlation with shapes of the molecule, time, and any column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import Atoms

__all__ = ["correlations", "shape_of_frames"]


def correlations(coordinates: ArrayLike, columns: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.float64]]:
    """Return Spearman's rank correlation of each coordinate with each column.

    A coordinate may follow a quantity along a curve, so ranks say more than values do.

    Parameters
    ----------
    coordinates : array-like of shape (n, k)
        Of a map.
    columns : mapping of str to array-like of shape (n,)
        By name; rows with NaN are skipped.

    Returns
    -------
    dict of str to ndarray of shape (k,)
        From -1 to 1; NaN for a column that does not vary.

    Examples
    --------
    >>> psi = np.linspace(0, 1, 20)[:, None]
    >>> correlations(psi, {"exponential": np.exp(5 * psi[:, 0]), "turned": -psi[:, 0]})
    {'exponential': array([1.]), 'turned': array([-1.])}
    """
    from scipy.stats import rankdata

    psi = np.asarray(coordinates, dtype=np.float64)
    found = {}
    for name, values in columns.items():
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (len(psi),):
            raise InvalidInputError(
                f"{name!r} needs one number per point, ({len(psi)},), got shape {column.shape}"
            )
        known = np.isfinite(column)
        ranks = rankdata(np.column_stack([psi[known], column[known]]), axis=0)
        ranks -= ranks.mean(axis=0)
        lengths = np.sqrt((ranks**2).sum(axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[name] = np.round(ranks[:, :-1].T @ ranks[:, -1] / (lengths[:-1] * lengths[-1]), 12)
    return found


def shape_of_frames(
    frames: ArrayLike, atoms: Atoms | None = None, reference: ArrayLike | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return radius of gyration, end-to-end distance and RMSD to a reference of frames.

    Parameters
    ----------
    frames : array-like of shape (n, atoms, 3)
        The molecule must be whole.
    atoms : Atoms, optional
        With masses, the radius of gyration is mass-weighted. With several atoms
        called CA, the ends are the first and the last of these; otherwise they are the
        first and the last atom.
    reference : array-like of shape (atoms, 3), optional
        By default the first frame.

    Returns
    -------
    dict of str to ndarray of shape (n,)
        "rg", "end_to_end" and "rmsd" (superposed, equal weights), in the unit of the frames.
    """
    xyz = np.asarray(frames, dtype=np.float64)
    if xyz.ndim != 3 or xyz.shape[2] != 3 or not len(xyz):
        raise InvalidInputError(f"frames have shape (n, atoms, 3), got {xyz.shape}")
    target = xyz[0] if reference is None else np.asarray(reference, dtype=np.float64)
    if target.shape != xyz.shape[1:]:
        raise InvalidInputError(
            f"the reference needs the atoms of the frames, {xyz.shape[1:]}, got {target.shape}"
        )
    masses = None if atoms is None else atoms.masses
    share = np.full(xyz.shape[1], 1.0 / xyz.shape[1]) if masses is None else masses / masses.sum()
    centred = xyz - np.einsum("a,nai->ni", share, xyz)[:, None]
    carbons = [] if atoms is None else [place for place, name in enumerate(atoms.names) if name == "CA"]
    first, last = (carbons[0], carbons[-1]) if len(carbons) > 1 else (0, -1)
    return {
        "rg": np.sqrt(np.einsum("a,nai,nai->n", share, centred, centred)),
        "end_to_end": np.linalg.norm(xyz[:, last] - xyz[:, first], axis=1),
        "rmsd": _rmsd(xyz, target),
    }


def _rmsd(xyz: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[Any]:
    """Return root mean square deviations after superposition (Kabsch): a reflection does not count as a rotation."""
    centred = xyz - xyz.mean(axis=1, keepdims=True)
    fixed = target - target.mean(axis=0)
    covariance = np.einsum("nai,aj->nij", centred, fixed)
    values = np.linalg.svd(covariance, compute_uv=False)
    values[:, 2] *= np.sign(np.linalg.det(covariance))
    squares = (centred**2).sum(axis=(1, 2)) + (fixed**2).sum() - 2.0 * values.sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / xyz.shape[1]))
