"""Points beyond one process: dask arrays, blocks on workers, files that workers read.

Dask is an extra, and is imported only by those who pass its arrays or ask for workers.
With a ``distributed.Client`` work goes to its workers, otherwise to Dask's threads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.cluster.engine import workers as workers
    from ldmaps.cluster.reading import BlockedFiles as BlockedFiles
    from ldmaps.cluster.reading import open_blocks as open_blocks

load_on_first_use(
    __name__,
    {"": "is_blocked is_dask_array", "engine": "workers", "reading": "BlockedFiles open_blocks"},
)


class InBlocks:
    """Base class of points that workers read in blocks, known here without importing what reads them."""


def is_dask_array(X: Any) -> bool:
    """Say whether something is a dask array, without importing dask.

    Parameters
    ----------
    X : object
        Anything.

    Examples
    --------
    >>> import numpy as np
    >>> is_dask_array(np.ones(3))
    False
    """
    dask = sys.modules.get("dask.array")  # who has such an array has imported it
    return dask is not None and isinstance(X, dask.Array)


def is_blocked(X: Any) -> bool:
    """Say whether points are in blocks for workers: a dask array, or files opened by :func:`open_blocks`.

    Parameters
    ----------
    X : object
        Anything.
    """
    return isinstance(X, InBlocks) or is_dask_array(X)
