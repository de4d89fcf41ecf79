"""What the paper prints: Table 1 and the numbers in its text, to stand beside ours."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CITATION", "FIGURE_2", "SPEED_UPS", "TABLE_1", "PrintedFigure2", "PrintedRow", "PrintedSet"]

CITATION = (
    "A. W. Long and A. L. Ferguson, *Landmark diffusion maps (L-dMaps): Accelerated manifold learning "
    "out-of-sample extension*, Appl. Comput. Harmon. Anal. 47, 190 (2019), "
    "[arXiv:1706.09396](https://arxiv.org/abs/1706.09396)"
)


class PrintedRow(NamedTuple):
    """One line of Table 1; errors in percent, mean and standard deviation over five folds."""

    n_landmarks: float
    z_train: float
    z_train_sd: float
    z_test: float
    z_test_sd: float


class PrintedSet(NamedTuple):
    """One block of Table 1."""

    n_train: int
    epsilon: float
    tree: PrintedRow
    medoids: tuple[PrintedRow, ...]

    @property
    def share(self) -> float:
        """M/N of the tree."""
        return self.tree.n_landmarks / self.n_train


TABLE_1 = {
    "swiss_roll": PrintedSet(
        16_000,
        1.0,
        PrintedRow(4551.0, 2.42, 1.94, 2.43, 1.95),
        (
            PrintedRow(2000, 13.43, 13.41, 13.37, 13.30),
            PrintedRow(4000, 3.74, 3.15, 3.75, 3.15),
            PrintedRow(8000, 1.22, 1.05, 1.22, 1.04),
        ),
    ),
    "c24h50": PrintedSet(
        8_000,
        2.87e-2,
        PrintedRow(95.2, 7.85, 3.44, 8.48, 3.56),
        (
            PrintedRow(50, 9.97, 2.86, 10.65, 2.93),
            PrintedRow(100, 5.38, 1.23, 5.76, 1.47),
            PrintedRow(300, 3.19, 0.53, 3.49, 0.65),
        ),
    ),
    "alanine_dipeptide": PrintedSet(
        20_000,
        1.06e-3,
        PrintedRow(347.2, 0.88, 0.26, 0.94, 0.30),
        (
            PrintedRow(200, 5.93, 2.81, 6.31, 3.04),
            PrintedRow(400, 2.92, 0.92, 3.05, 0.84),
            PrintedRow(1000, 1.43, 0.57, 1.50, 0.60),
        ),
    ),
}


class PrintedFigure2(NamedTuple):
    """The numbers in the caption of Figure 2 and the text around it."""

    n_landmarks: int
    largest_zeta: float
    z_train: float
    z_test: float


#: What the text says of Figure 5: M, and how much faster new points are embedded.
SPEED_UPS = {"swiss_roll": (4000, 2.0), "c24h50": (300, 25.0), "alanine_dipeptide": (400, 50.0)}

FIGURE_2 = PrintedFigure2(4513, 3.2, 0.643, 0.632)
