"""One landmark that stands for a region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Region

__all__ = ["representatives"]


def representatives(model: Any, regions: Mapping[str, Region]) -> dict[str, int]:
    """Return the landmark in the middle of each region.

    Among the landmarks in a region it is the one nearest to their mean, weighted by
    multiplicity, in the coordinates ψ, which are all of the same length and so need no scale.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted.
    regions : mapping of str to Region
        Such as ``learn_basins(model).regions``.

    Returns
    -------
    dict of str to int
        Landmark by region, counted from 0.
    """
    psi = np.asarray(model.landmark_embedding_, dtype=np.float64)
    weights = np.asarray(model.multiplicities_, dtype=np.float64)
    at_home = Coverage(np.zeros(len(psi)), np.ones(len(psi), dtype=bool), np.arange(len(psi)))
    middles = {}
    for name, region in regions.items():
        members = np.flatnonzero(region.masks(psi, at_home)[0])
        if not len(members):
            raise InvalidInputError(
                f"no landmark lies in the region {name!r}, so none can stand for it; leave it out"
            )
        mean = np.average(psi[members], axis=0, weights=weights[members])
        middles[name] = int(members[np.argmin(((psi[members] - mean) ** 2).sum(axis=1))])
    return middles
