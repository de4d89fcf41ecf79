"""Dask arrays: checked, and embedded lazily."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.engine import shared, task_key
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.threads import single_threaded_blas


def rows_in_blocks(X: Any) -> Any:
    """Return a dask array whose blocks hold whole rows, and raise where it cannot hold points."""
    if X.ndim not in (2, 3) or (X.ndim == 3 and X.shape[2] != 3):
        raise InvalidInputError(
            f"points must be a dask array of shape (n, features) or (n, atoms, 3), got {X.shape}"
        )
    if X.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"points must be real numbers, got a dask array of {X.dtype}; convert it first"
        )
    cut = [axis for axis in range(1, X.ndim) if X.numblocks[axis] > 1]
    return X.rechunk(dict.fromkeys(cut, -1)) if cut else X


def lazy_transform(X: Any, embedder: Embedder) -> Any:
    """Return the coordinates of a dask array as one, with its chunks of rows; nothing is computed."""
    k, dtype = embedder.n_components, embedder.landmarks.dtype
    return rows_in_blocks(X).map_blocks(
        embed_block,
        shared("map", embedder),
        token="ldmaps: embed",
        drop_axis=list(range(2, X.ndim)),
        chunks=(X.chunks[0], (k,)),
        meta=np.empty((0, k), dtype=dtype),
    )


def lazy_coverage(X: Any, embedder: Embedder) -> Coverage:
    """Return the coverage of a dask array, each part of it one; nothing is computed."""
    judged = rows_in_blocks(X).map_blocks(
        judge_block,
        shared("map", embedder),
        token="ldmaps: coverage",
        drop_axis=list(range(1, X.ndim)),
        chunks=(X.chunks[0],),
        meta=np.empty(0, dtype=coverage_dtype(embedder)),
    )
    return Coverage(**{name: judged[name] for name in judged.dtype.names})


def array_of(
    name: str, parts: list[Any], sizes: list[int], dtype: np.dtype[Any], shape: tuple[int, ...] = ()
) -> Any:
    """Return the results of tasks, a block of rows each, as one dask array."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    name = task_key(name)
    corner = (0,) * len(shape)
    layer = {(name, number, *corner): part.key for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
    chunks = (tuple(sizes), *((width,) for width in shape))
    return da.Array(graph, name, chunks, meta=np.empty((0, *shape), dtype))


def embed_block(block: NDArray[Any], embedder: Embedder) -> NDArray[Any]:
    """Return the coordinates of a block, shape (n, k)."""
    if not len(block):  # no metric takes nothing
        return np.empty((0, embedder.n_components), dtype=embedder.landmarks.dtype)
    with single_threaded_blas():
        return embedder.project(block, 1).coordinates


def judge_block(block: NDArray[Any], embedder: Embedder) -> NDArray[Any]:
    """Return the parts of a block's coverage as the fields of one array, shape (n,)."""
    result = np.empty(len(block), dtype=coverage_dtype(embedder))
    if not len(block):
        return result
    with single_threaded_blas():
        coverage = embedder.project(block, 1).coverage
    for name in result.dtype.names or ():
        result[name] = getattr(coverage, name)
    return result


def coverage_dtype(embedder: Embedder) -> np.dtype[Any]:
    """Return the type of the rows of :func:`judge_block`."""
    fields = [("distance", embedder.landmarks.dtype), ("inside", np.bool_), ("nearest", np.intp)]
    return np.dtype([*fields, ("p_value", np.float64)], align=True)
