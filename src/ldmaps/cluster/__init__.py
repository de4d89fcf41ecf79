"""Points beyond one process: dask arrays, blocks on workers, files that workers read.

Dask is an extra, and is imported only by those who pass its arrays or ask for workers.
With a ``distributed.Client`` work goes to its workers, otherwise to Dask's threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.cluster.engine import workers as workers
    from ldmaps.cluster.reading import BlockedFiles as BlockedFiles
    from ldmaps.cluster.reading import open_blocks as open_blocks

load_on_first_use(
    __name__,
    {"engine": "workers", "reading": "BlockedFiles open_blocks"},
)
