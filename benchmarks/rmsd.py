"""Speed of RMSD blocks on one thread: against mdtraj, and against the machine's own matrix product.

The share of the sgemm bound is the time that sgemm takes for the (3·rows × atoms)
(atoms × 3·cols) product alone, divided by the time of our whole block: products,
roots and all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
from harness import Row, median_ratio, turns
from threadpoolctl import threadpool_limits

from ldmaps.metrics.rmsd import RMSD


class RMSDBlocks:
    atoms = (22, 24, 100, 300, 500)
    rows, cols = 64, 2000
    rounds = 15

    def __init__(self, n_atoms: int, dtype: type = np.float32, spread: float = 0.5) -> None:
        rng = np.random.default_rng(0)
        shape = rng.normal(size=(n_atoms, 3))
        noise = rng.normal(size=(self.rows + self.cols, n_atoms, 3))
        frames = (shape + spread * noise).astype(dtype)
        self.metric = RMSD()
        self.a = self.metric.prepare(frames[: self.rows])
        self.b = self.metric.prepare(frames[self.rows :])
        self.out = np.empty((self.rows, self.cols), dtype)
        self.left = rng.normal(size=(3 * self.rows, n_atoms)).astype(dtype)
        self.right = rng.normal(size=(n_atoms, 3 * self.cols)).astype(dtype)
        self.product = np.empty((3 * self.rows, 3 * self.cols), dtype)
        self.frames = frames

    def block(self) -> None:
        self.metric.squared_block(self.a, slice(0, self.rows), self.b, slice(0, self.cols), self.out)

    def sgemm(self) -> None:
        np.dot(self.left, self.right, out=self.product)

    def mdtraj(self, n_rows: int = 8) -> Callable[[], None]:
        import mdtraj

        reference = mdtraj.Trajectory(self.frames[: self.rows].copy(), None)
        target = mdtraj.Trajectory(self.frames[self.rows :].copy(), None)
        reference.center_coordinates()
        target.center_coordinates()

        def run() -> None:
            for i in range(n_rows):
                mdtraj.rmsd(target, reference, i, parallel=False, precentered=True)

        return run


def run() -> list[Row]:
    rows = []
    with threadpool_limits(1):
        for n_atoms in RMSDBlocks.atoms:
            case = RMSDBlocks(n_atoms)
            pairs = case.rows * case.cols
            block, sgemm, mdtraj = turns([case.block, case.sgemm, case.mdtraj()], case.rounds, 3)
            # mdtraj does 8 of the 64 rows: all would only make the run longer.
            theirs = [t / 8 * case.rows for t in mdtraj]
            rows.append(
                Row(
                    f"RMSD of all pairs, {n_atoms} atoms",
                    "mdtraj.rmsd",
                    f"{pairs / statistics.median(block) / 1e6:.0f} M pairs/s",
                    f"{pairs / statistics.median(theirs) / 1e6:.1f} M pairs/s",
                    median_ratio(theirs, block),
                    "≥ 10×" if n_atoms < 100 else "≥ 10×, ≥ 0.5 of sgemm",
                    f"{median_ratio(sgemm, block):.2f} of the sgemm bound; sgemm alone would be "
                    f"{median_ratio(theirs, sgemm):.1f}×",
                )
            )
    return rows
