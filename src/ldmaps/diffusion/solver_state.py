"""What a streamed solve knows between two bands, and the file that keeps it."""

from __future__ import annotations

import os
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import squared_tile
from ldmaps.diffusion.streamed_kernel import PartialProduct, StreamedKernel
from ldmaps.errors import CheckpointError
from ldmaps.files import written_whole

FORMAT = 1
#: Seconds between two writings, and the largest share of the time that writing may take.
INTERVAL, MAX_SHARE = 60.0, 0.05
#: Points by whose distances to all others data are recognised, and how exactly: processors differ in roundings.
PROBES, PROBE_TOLERANCE = 8, 1e-3


@dataclass
class SolverState:
    """Everything a solve has learnt so far."""

    basis: NDArray[np.float64]  # (n, m): orthonormal Q and S Q
    images: NDArray[np.float64]
    n_passes: int = 0  # passes that were finished
    density: NDArray[np.float64] | None = None  # (n,): q, once it is known; never with α = 0
    row_sums: NDArray[np.float64] | None = None  # (n,): Σ_j A_ij s_j, once they are known
    #: (n, b): what the pass under way multiplies A by, and ``partial`` as far as it has come
    block: NDArray[np.float64] | None = None
    partial: PartialProduct | None = None

    def arrays(self) -> dict[str, Any]:
        """Return what a file keeps."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        partial = known.pop("partial", None)
        return known if partial is None else {**known, **vars(partial)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> SolverState:
        """Rebuild the state from :meth:`arrays`."""
        partial = PartialProduct(arrays["sums"], int(arrays["n_bands"])) if "sums" in arrays else None
        names = ("basis", "images", "density", "row_sums", "block")
        known: dict[str, Any] = {name: arrays[name] for name in names if name in arrays}
        return cls(**known, n_passes=int(arrays["n_passes"]), partial=partial)


class StateFile:
    """Keeps the state of one eigenproblem in a file, or nowhere."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        kernel: StreamedKernel,
        weights: NDArray[np.float64],
        alpha: float,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._next = time.monotonic() + INTERVAL
        self._problem: dict[str, Any] = {}
        if self.path is not None:
            self._problem = {"format": FORMAT, "epsilon": kernel.epsilon, "alpha": alpha, "weights": weights}
            self._problem["probes"] = _probes(kernel)

    def read(self) -> SolverState | None:
        """Return the state in the file, or None where there is no file yet."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            state = SolverState.from_arrays(arrays)
            given = {name: arrays[name] for name in self._problem}
        except (OSError, EOFError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"{self.path} is not the saved state of a streamed solver, or is damaged ({error}); remove it "
                "to start again"
            ) from error
        self._check(given)
        return state

    def write(self, state: SolverState) -> None:
        """Write the state, whole or not at all."""
        if self.path is None:
            return
        began = time.monotonic()
        with written_whole(self.path) as stream:
            np.savez(stream, **self._problem, **state.arrays())
        ended = time.monotonic()
        self._next = ended + max(INTERVAL, (ended - began) / MAX_SHARE)

    def write_if_due(self, state: SolverState) -> None:
        """Write the state unless it was written a short while ago."""
        if self.path is not None and time.monotonic() >= self._next:
            self.write(state)

    def _check(self, given: dict[str, NDArray[Any]]) -> None:
        ours = self._problem
        if int(given["format"]) != FORMAT:
            raise CheckpointError(
                f"{self.path} has format {int(given['format'])}, this version reads {FORMAT}; remove it to start again"
            )
        different = [
            f"{name} = {float(given[name]):.9g} instead of {ours[name]:.9g}"
            for name in ("epsilon", "alpha")
            if float(given[name]) != ours[name]
        ]
        scale = PROBE_TOLERANCE * float(ours["probes"].max(initial=0.0))
        if given["probes"].shape != ours["probes"].shape or not np.allclose(
            given["probes"], ours["probes"], rtol=PROBE_TOLERANCE, atol=scale
        ):
            different.append("other points or another metric")
        elif not np.array_equal(given["weights"], ours["weights"]):
            different.append("other weights")
        if different:
            raise CheckpointError(
                f"{self.path} holds the state of another eigenproblem: {', '.join(different)}; "
                "remove it, or name another file"
            )


def _probes(kernel: StreamedKernel) -> NDArray[Any]:
    """Return d² from a few points to all, which identify data, their order and the metric."""
    n = len(kernel)
    rows = kernel.points.take(np.linspace(0, n - 1, min(n, PROBES)).astype(np.intp))
    return squared_tile(kernel.metric, rows, slice(0, len(rows)), kernel.points)
