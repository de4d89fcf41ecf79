"""The exact solver's pass over all pairs, its bands of rows done by the workers of a cluster.

The points travel once, the vectors once a pass. A worker adds up consecutive bands before it answers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.engine import client_in_use, faults, lost
from ldmaps.diffusion.streamed_kernel import PartialProduct, StreamedKernel
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import ClusterError

#: Groups of bands for each thread of the cluster in a pass: more balance better and bring back more.
GROUPS_PER_THREAD = 4
#: Times that points are sent again because all workers that held them died.
RESENT = 3


def kernel_of(walk: Walk) -> StreamedKernel:
    """Return the walk's kernel, multiplied by the workers of the ``distributed.Client`` in use if there is one."""
    kind = StreamedKernel if client_in_use() is None else SharedKernel
    return kind(walk.metric, walk.points, walk.epsilon)


class SharedKernel(StreamedKernel):
    """A kernel whose products are made by a cluster; see :class:`~ldmaps.diffusion.streamed_kernel.StreamedKernel`."""

    @cached_property
    def _plain(self) -> StreamedKernel:
        return StreamedKernel(self.metric, self.points, self.epsilon)

    def product(
        self,
        vectors: NDArray[np.float64],
        n_threads: int | None = None,
        *,
        partial: PartialProduct | None = None,
        on_band: Callable[[PartialProduct], None] | None = None,
    ) -> NDArray[np.float64]:
        """Return A V, to the rounding of sums that were added in another order."""
        from concurrent.futures import CancelledError

        client = client_in_use()
        if client is None:  # closed since
            return super().product(vectors, n_threads, partial=partial, on_band=on_band)
        so_far = PartialProduct(np.zeros(vectors.shape)) if partial is None else partial
        with faults(client):
            for _ in range(RESENT + 1):
                try:
                    self._run(client, vectors, so_far, on_band)
                except (CancelledError, KeyError):
                    # The points went with the last worker that held them, or a worker went while they were sent (the
                    # scheduler then looks for its address); if the cluster lives, they are sent again.
                    if client.status != "running":
                        raise
                    self.__dict__.pop("_sent", None)
                    continue
                return so_far.sums
        raise ClusterError(lost(client))

    def _run(
        self,
        client: Any,
        vectors: NDArray[np.float64],
        so_far: PartialProduct,
        on_band: Callable[[PartialProduct], None] | None,
    ) -> None:
        """Do the bands that are left, in order."""
        sent = self.__dict__.get("_sent")
        if sent is None or sent.client is not client:
            sent = self.__dict__["_sent"] = client.scatter(self._plain, broadcast=True, hash=False)
        block = client.scatter(vectors, broadcast=True, hash=False)
        bands = self.bands()[so_far.n_bands :]
        threads = max(1, sum(client.nthreads().values()))
        size = math.ceil(len(bands) / (GROUPS_PER_THREAD * threads)) or 1
        groups = deque(bands[at : at + size] for at in range(0, len(bands), size))
        waiting: deque[tuple[list[slice], Any]] = deque()
        while groups or waiting:
            # No more under way than keeps everybody busy: results wait on the workers.
            while groups and len(waiting) < 2 * threads:
                group = groups.popleft()
                key = f"ldmaps: pass-{uuid4().hex}"
                waiting.append((group, client.submit(add_bands, sent, group, block, key=key, pure=False)))
            group, future = waiting.popleft()
            so_far.sums[group[0].start :] += future.result()
            so_far.n_bands += len(group)
            if on_band is not None:
                on_band(so_far)


def add_bands(
    kernel: StreamedKernel, bands: list[slice], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what consecutive bands add to A V, from the first one's first row on."""
    first = bands[0].start
    total = kernel.band_product(bands[0], vectors)
    for band in bands[1:]:
        total[band.start - first :] += kernel.band_product(band, vectors)
    return total
