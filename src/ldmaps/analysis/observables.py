"""What the coordinates of a map follow: their correlation with shapes of the molecule, time, and any column."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.topology import Atoms
from ldmaps.metrics import RMSD
from ldmaps.metrics.base import squared_matrix

#: Of columns that ldmaps embed and ldmaps correlate write, but for the time, whose unit depends on the input.
UNITS = {"rg": "nm", "end_to_end": "nm", "rmsd": "nm", "distance": "√ε"}


def correlations(coordinates: ArrayLike, columns: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.float64]]:
    """Return the rank correlation of each coordinate with each column: Spearman's, of angles the circular one.

    A coordinate may follow a quantity along a curve, so ranks say more than values do. A column within ±180 (or ±π)
    that comes within 2 % of both ends is taken for an angle: ranks jump where a circle is cut.

    Parameters
    ----------
    coordinates : array-like of shape (n, k)
        Of a map.
    columns : mapping of str to array-like of shape (n,)
        By name; rows with NaN are skipped.

    Returns
    -------
    dict of str to ndarray of shape (k,)
        From -1 to 1, of angles from 0 to 1 (multiple correlation of ranks with sine and cosine); NaN for a constant.

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
        if not known.any():
            found[name] = np.full(psi.shape[1], np.nan)
        elif turn := _turn(column[known]):
            found[name] = _circular(rankdata(psi[known], axis=0), 2 * np.pi / turn * column[known])
        else:
            ranks = rankdata(np.column_stack([psi[known], column[known]]), axis=0)
            ranks -= ranks.mean(axis=0)
            lengths = np.sqrt((ranks**2).sum(axis=0))
            with np.errstate(invalid="ignore", divide="ignore"):
                found[name] = np.round(ranks[:, :-1].T @ ranks[:, -1] / (lengths[:-1] * lengths[-1]), 12)
    return found


def _turn(column: NDArray[np.float64]) -> float:
    """Return 360 or 2π where a column is an angle that goes round, 0 where it is not."""
    largest = np.abs(column).max()
    for turn in (360.0, 2 * np.pi):
        if largest <= 0.5 * turn * (1 + 1e-6) and min(column.max(), -column.min()) >= 0.49 * turn:
            return turn
    return 0.0


def _circular(ranks: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the multiple correlation R of ranks with cos and sin of an angle (Mardia's, of ranks)."""
    wave = np.column_stack([np.ones(len(angle)), np.cos(angle), np.sin(angle)])
    centred = ranks - ranks.mean(axis=0)
    left = centred - wave @ np.linalg.lstsq(wave, centred, rcond=None)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1.0 - (left**2).sum(axis=0) / (centred**2).sum(axis=0)
    return np.asarray(np.sqrt(np.clip(share, 0.0, 1.0)).round(12))


def shape_of_frames(
    frames: ArrayLike, atoms: Atoms | None = None, reference: ArrayLike | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return "rg" (by masses, if all are known), "end_to_end" (of CA) and "rmsd" to a reference (the first frame)."""
    xyz = np.asarray(frames, dtype=np.float64)
    if xyz.ndim != 3 or xyz.shape[2] != 3 or not len(xyz):
        raise InvalidInputError(f"frames have shape (n, atoms, 3), got {xyz.shape}")
    target = xyz[0] if reference is None else np.asarray(reference, dtype=np.float64)
    if target.shape != xyz.shape[1:]:
        raise InvalidInputError(
            f"the reference needs the atoms of the frames, {xyz.shape[1:]}, got {target.shape}"
        )
    metric, masses = RMSD(), None if atoms is None else atoms.masses
    if masses is None or not 0 < masses.sum() < np.inf:  # NaN where that of an atom is unknown
        masses = np.ones(xyz.shape[1])
    share = masses / masses.sum()
    centred = xyz - np.einsum("a,nai->ni", share, xyz)[:, None]
    carbons = [] if atoms is None else [place for place, name in enumerate(atoms.names) if name == "CA"]
    first, last = (carbons[0], carbons[-1]) if len(carbons) > 1 else (0, -1)
    return {
        "rg": np.sqrt(np.einsum("a,nai,nai->n", share, centred, centred)),
        "end_to_end": np.linalg.norm(xyz[:, last] - xyz[:, first], axis=1),
        "rmsd": np.sqrt(squared_matrix(metric, metric.prepare(xyz), metric.prepare(target[None])))[:, 0],
    }
