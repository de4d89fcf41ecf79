"""Euclidean blocks and Gaussian kernels on one thread, against scikit-learn.

Rows are exp(−d²/(2ε)) of raw points to prepared landmarks, against
``rbf_kernel``. The errors are the largest relative ones of d², against float64
differences.
"""

from __future__ import annotations

import statistics

import numpy as np
from harness import Row, median_ratio, turns
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from threadpoolctl import threadpool_limits

from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.metrics import Euclidean
from ldmaps.metrics.base import squared_matrix


class EuclideanBlocks:
    features = (3, 100)
    dtypes = (np.float32, np.float64)
    rows, cols, parts = 256, 2000, 10
    epsilon = 0.5

    def __init__(self, n_features: int, dtype: type, clusters: int | None = None) -> None:
        rng = np.random.default_rng(0)
        data = rng.normal(size=(self.rows + self.cols, n_features))
        if clusters is not None:
            centres = rng.normal(size=(clusters, n_features))
            data = centres[rng.integers(clusters, size=len(data))] + 0.05 * data
        data = data.astype(dtype)
        self.x, self.y = data[: self.rows], data[self.rows :]
        self.metric = Euclidean()
        self.a, self.b = self.metric.prepare(self.x), self.metric.prepare(self.y)
        self.out = np.empty((self.rows, self.cols), dtype)
        self.resident = np.zeros((self.rows, self.cols // self.parts), dtype)

    def block(self) -> None:
        self.metric.squared_block(self.a, slice(0, self.rows), self.b, slice(0, self.cols), self.out)

    def sklearn_block(self) -> None:
        euclidean_distances(self.x, self.y, squared=True)

    def gaussian(self) -> None:
        # Landmarks are prepared once; the points that come are not.
        gaussian_kernel(squared_matrix(self.metric, self.metric.prepare(self.x), self.b, 1), self.epsilon, 1)

    def sklearn_gaussian(self) -> None:
        rbf_kernel(self.x, self.y, gamma=0.5 / self.epsilon)

    def least(self) -> None:
        """Do what no way to these rows can do without: the product, and as many exponentials in cache."""
        np.dot(self.x, self.y.T, out=self.out)
        for _ in range(self.parts):
            gaussian_kernel(self.resident, self.epsilon, 1)

    def errors(self) -> tuple[float, float]:
        """Return the largest relative error of d², ours and scikit-learn's."""
        exact = cdist(self.x.astype(float), self.y.astype(float), "sqeuclidean")
        self.block()
        theirs = euclidean_distances(self.x, self.y, squared=True)
        return float((np.abs(self.out - exact) / exact).max()), float((np.abs(theirs - exact) / exact).max())


def run() -> list[Row]:
    rows = []
    with threadpool_limits(1):
        for n_features in EuclideanBlocks.features:
            for dtype in EuclideanBlocks.dtypes:
                case = EuclideanBlocks(n_features, dtype)
                pairs = case.rows * case.cols
                ours, theirs, least = turns([case.gaussian, case.sklearn_gaussian, case.least], 15, 3)
                own_error, their_error = case.errors()
                bound = (
                    f"; the matrix product and the exponentials take {median_ratio(least, ours):.2f} of our time, so "
                    f"that {median_ratio(theirs, least):.1f}× is the limit"
                )
                rows.append(
                    Row(
                        f"Gaussian kernel rows, {n_features}-D, {np.dtype(dtype).name}",
                        "scikit-learn rbf_kernel",
                        f"{pairs / statistics.median(ours) / 1e6:.0f} M pairs/s",
                        f"{pairs / statistics.median(theirs) / 1e6:.0f} M pairs/s",
                        median_ratio(theirs, ours),
                        "≥ 4×",
                        f"error of d² {own_error:.0e}, theirs {their_error:.0e}"
                        + (bound if n_features > 32 else ""),
                    )
                )
    return rows
