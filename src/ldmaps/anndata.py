"""Maps of cells: read from an AnnData, and written where scanpy's plots look for coordinates.

Nothing of anndata is imported: an object with ``X``, ``obsm``, ``obs`` and ``uns`` is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ldmaps.errors import InvalidInputError
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

__all__ = ["diffmap", "project"]


def diffmap(
    adata: Any, use_rep: str = "X_pca", *, key_added: str = "ldmap", **settings: Any
) -> LandmarkDiffusionMap:
    """Fit a landmark diffusion map to cells, write their coordinates into ``adata``, and return the map.

    Written are ``obsm["X_ldmap"]``, ``uns["ldmap"]`` (eigenvalues, ε, number of landmarks, representation) and what
    :func:`project` writes.

    Parameters
    ----------
    adata : AnnData
        Cells; changed in place.
    use_rep : str
        What cells are compared by: a key of ``obsm``, or "X". Sparse matrices are not taken: compute their principal
        components first.
    key_added : str
        Name of the results: "ldmap" gives ``obsm["X_ldmap"]``, ``uns["ldmap"]``, ``obs["ldmap_inside"]``.
    **settings
        Of the :class:`~ldmaps.LandmarkDiffusionMap`, such as ``n_components=10`` or ``tolerance=1``.

    Returns
    -------
    LandmarkDiffusionMap
        The fitted map, for :func:`project` and ``save``.

    Notes
    -----
    scanpy's ``X_diffmap`` has the trivial component first, a kernel of nearest neighbours whose width varies, and
    removes the influence of density (``alpha=1`` here). Other cells cannot be projected onto it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from ldmaps.anndata import diffmap
    >>> scores = np.random.default_rng(0).uniform(size=(500, 3)) * [5.0, 1.0, 1.0]
    >>> cells = SimpleNamespace(obsm={"X_pca": scores}, obs={}, uns={})  # an AnnData
    >>> model = diffmap(cells, n_components=2, epsilon=0.1)
    >>> cells.obsm["X_ldmap"].shape
    (500, 2)
    """
    model = LandmarkDiffusionMap(**settings).fit(_representation(adata, use_rep))
    project(adata, model, use_rep, key_added=key_added)
    return model


def project(adata: Any, model: Any, use_rep: str = "X_pca", *, key_added: str = "ldmap") -> None:
    """Write the coordinates of cells in a fitted map into ``adata``.

    Written are ``obsm["X_ldmap"]``, ``uns["ldmap"]``, ``obs["ldmap_distance"]`` (distance to the nearest landmark in
    √ε), ``obs["ldmap_inside"]`` (whether the map covers the cell) and, if the map is calibrated,
    ``obs["ldmap_p_value"]``.

    Parameters
    ----------
    adata : AnnData
        Cells; changed in place. Principal components must be those of the cells that the map was fitted to:
        ``(new.X - old.X.mean(axis=0)) @ old.varm["PCs"]``.
    model : LandmarkDiffusionMap or DiffusionMap
        A fitted map, from :func:`diffmap` or :func:`ldmaps.load`.
    use_rep : str
        What the map was fitted to, as for :func:`diffmap`.
    key_added : str
        Name of the results.

    See Also
    --------
    diffmap : fit the map.
    """
    if not hasattr(model, "embedder_"):
        raise InvalidInputError(
            f"model must be a fitted map, got {model!r}; fit one with ldmaps.anndata.diffmap"
        )
    points = _representation(adata, use_rep)
    coverage = model.coverage(points)
    adata.obsm[f"X_{key_added}"] = model.transform(points)
    adata.obs[f"{key_added}_distance"] = coverage.distance
    adata.obs[f"{key_added}_inside"] = coverage.inside
    if not np.isnan(coverage.p_value).all():  # as they are where the map is not calibrated
        adata.obs[f"{key_added}_p_value"] = coverage.p_value
    adata.uns[key_added] = {
        "eigenvalues": np.asarray(model.eigenvalues_),
        "epsilon": float(model.epsilon_),
        "n_landmarks": int(model.embedder_.n_landmarks),
        "use_rep": use_rep,
    }


def _representation(adata: Any, use_rep: str) -> NDArray[Any]:
    """Return what cells are compared by, or raise saying how to get it."""
    if use_rep == "X":
        values = adata.X
    elif use_rep in adata.obsm:
        values = adata.obsm[use_rep]
    else:
        known = ", ".join(map(repr, adata.obsm)) or "none"
        raise InvalidInputError(
            f"adata.obsm has no {use_rep!r} (there: {known}); compute principal components with "
            'scanpy.pp.pca(adata), or choose another representation with use_rep=, "X" for adata.X'
        )
    if issparse(values) or hasattr(
        values, "to_memory"
    ):  # which sparse matrices have that are still in a file
        raise InvalidInputError(
            f"the representation {use_rep!r} is a sparse matrix of shape {values.shape}, which is not supported; "
            'compute its principal components with scanpy.pp.pca(adata) and use use_rep="X_pca", or make it dense with '
            ".toarray() if it has few columns"
        )
    return np.asarray(values)
