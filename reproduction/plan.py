"""What is computed: data sets, sizes and grids, in full and reduced.

Everything that changes a number is here or derived from here, so that a cached
result can be told from one made with other settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reproduction.printed import TABLE_1

__all__ = ["CONNECTED", "DataPlan", "Plan", "Width", "full_plan", "reduced_plan"]


@dataclass(frozen=True)
class Width:
    """A bandwidth: so many times the smallest connected ε of the fold, or a number.

    >>> Width().key, Width(factor=2.0).key, Width(value=1.0).key
    ('connected', 'connected x 2', '1')
    """

    factor: float = 1.0
    value: float | None = None

    @property
    def key(self) -> str:
        """Name that cached results are filed under."""
        if self.value is not None:
            return f"{self.value:g}"
        return "connected" if self.factor == 1.0 else f"connected x {self.factor:g}"


CONNECTED = Width()


@dataclass(frozen=True)
class DataPlan:
    """One data set: how much of it, and at which M and ε it is looked at.

    Attributes
    ----------
    key, title : str
    n_components : int
        k, the paper's.
    n_points : int
        Points to split into folds.
    stride : int
        Of the trajectory's frames.
    table_landmarks : tuple of int
        M of k-medoids in Table 1.
    widths : tuple of Width
        Bandwidths of Figure 3, the smallest connected one first.
    waterfall_landmarks, parity_landmarks, timing_landmarks : tuple of int
        M of k-medoids in Figures 3, 4 and 5.
    n_modes : int
        Modes of the exact map for the expansions of Figure 4.
    sparse_widths : tuple of Width
        Bandwidths so small that most of the exact kernel is zero to rounding, and is left out.
    """

    key: str
    title: str
    unit: str
    n_components: int
    n_points: int
    stride: int
    table_landmarks: tuple[int, ...]
    widths: tuple[Width, ...]
    waterfall_landmarks: tuple[int, ...]
    parity_landmarks: tuple[int, ...]
    timing_landmarks: tuple[int, ...]
    n_modes: int
    sparse_widths: tuple[Width, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The whole reproduction.

    Attributes
    ----------
    n_folds : int
        Of Table 1.
    waterfall_folds : int
        Of Figure 3, and of everything at bandwidths other than the smallest connected one.
    distilled_limit, distilled_ceiling : int
        Distilling takes M²N operations: above the limit one fold is distilled, above the ceiling none.
    draws : int
        How often landmarks are drawn in one fold, to see how far Z scatters.
    timing_rounds : int
        How often the contestants of Figure 5 take turns.
    timing_seconds : float
        Shortest turn; what is quicker is repeated.
    """

    reduced: bool
    seed: int
    n_folds: int
    waterfall_folds: int
    distilled_limit: int
    distilled_ceiling: int
    draws: int
    timing_rounds: int
    timing_seconds: float
    sets: tuple[DataPlan, ...]
    #: Other atoms and weights: data sets that share everything but the metric with the one they are a variant of.
    variants: tuple[tuple[str, str], ...] = field(
        default=(
            ("alanine_dipeptide", "masses"),
            ("alanine_dipeptide", "equal"),
            ("alanine_dipeptide", "heavy"),
            ("c24h50", "masses"),
            ("c24h50", "equal"),
        )
    )

    def of(self, key: str) -> DataPlan:
        """Return the plan of one data set."""
        return next(data for data in self.sets if data.key == key)


def full_plan(seed: int = 0) -> Plan:
    """Return the paper's sizes: 16,000 + 4,000, 8,000 + 2,000 and 20,000 + 5,000 points, five folds."""
    return Plan(
        reduced=False,
        seed=seed,
        n_folds=5,
        waterfall_folds=2,
        distilled_limit=4700,
        distilled_ceiling=6000,
        draws=16,
        timing_rounds=9,
        timing_seconds=0.05,
        sets=(
            DataPlan(
                "swiss_roll",
                "Swiss roll",
                "",
                n_components=2,
                n_points=20_000,
                stride=1,
                table_landmarks=_printed_landmarks("swiss_roll"),
                widths=(CONNECTED, Width(value=1.0), Width(value=2.0), Width(value=4.0)),
                waterfall_landmarks=(250, 500, 1000, 2000, 4000, 8000),
                parity_landmarks=(500, 1000, 2000, 4000),
                timing_landmarks=(50, 100, 250, 500, 1000, 2000, 4000, 8000),
                n_modes=300,
                sparse_widths=(CONNECTED, Width(value=1.0)),
            ),
            DataPlan(
                "c24h50",
                "C$_{24}$H$_{50}$",
                "nm²",
                n_components=4,
                n_points=10_000,
                stride=1,
                table_landmarks=_printed_landmarks("c24h50"),
                widths=(CONNECTED, Width(factor=1.5), Width(factor=2.0), Width(factor=4.0)),
                waterfall_landmarks=(25, 50, 100, 200, 300, 500, 1000, 2000, 4000),
                parity_landmarks=(100, 300, 1000, 3000),
                timing_landmarks=(20, 50, 100, 300, 1000, 2000, 4000),
                n_modes=40,
            ),
            DataPlan(
                "alanine_dipeptide",
                "alanine dipeptide",
                "nm²",
                n_components=2,
                n_points=25_000,
                stride=1,
                table_landmarks=_printed_landmarks("alanine_dipeptide"),
                widths=(CONNECTED, Width(factor=1.5), Width(factor=2.0), Width(factor=4.0)),
                waterfall_landmarks=(25, 50, 100, 200, 400, 1000, 2000, 4000),
                parity_landmarks=(100, 400, 1000, 4000),
                timing_landmarks=(20, 50, 100, 200, 400, 1000, 4000, 10_000),
                n_modes=40,
            ),
        ),
    )


def reduced_plan(seed: int = 0) -> Plan:
    """Return a plan of seconds: every result, from about a thousand points of each set."""
    return Plan(
        reduced=True,
        seed=seed,
        n_folds=2,
        waterfall_folds=1,
        distilled_limit=100,
        distilled_ceiling=400,
        draws=3,
        timing_rounds=5,
        timing_seconds=0.01,
        sets=(
            DataPlan(
                "swiss_roll",
                "Swiss roll",
                "",
                n_components=2,
                n_points=1250,
                stride=1,
                table_landmarks=(60, 125, 250),
                widths=(CONNECTED, Width(value=16.0)),
                waterfall_landmarks=(60, 125, 250, 500),
                parity_landmarks=(125, 500),
                timing_landmarks=(20, 100, 500),
                n_modes=30,
                sparse_widths=(CONNECTED,),
            ),
            DataPlan(
                "c24h50",
                "C$_{24}$H$_{50}$",
                "nm²",
                n_components=4,
                n_points=1000,
                stride=10,
                table_landmarks=(50, 100, 300),
                widths=(CONNECTED, Width(factor=2.0)),
                waterfall_landmarks=(25, 50, 100, 300),
                parity_landmarks=(100, 400),
                timing_landmarks=(20, 80, 320),
                n_modes=20,
            ),
            DataPlan(
                "alanine_dipeptide",
                "alanine dipeptide",
                "nm²",
                n_components=2,
                n_points=1250,
                stride=20,
                table_landmarks=(25, 100, 300),
                widths=(CONNECTED, Width(factor=2.0)),
                waterfall_landmarks=(25, 50, 100, 300),
                parity_landmarks=(100, 400),
                timing_landmarks=(20, 80, 320),
                n_modes=20,
            ),
        ),
    )


def _printed_landmarks(key: str) -> tuple[int, ...]:
    return tuple(int(row.n_landmarks) for row in TABLE_1[key].medoids)
