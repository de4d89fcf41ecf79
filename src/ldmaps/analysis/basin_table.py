"""Basins of a map with populations, transitions and dwell times, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.analysis.own_points import PointsOfMap
from ldmaps.regions.basins import Basins, representatives
from ldmaps.regions.transitions import Transitions, count_transitions, region_labels
from ldmaps.time_units import readable_unit
from ldmaps.validation.resampling import BLOCK_LENGTH, Blocks, block_error


@dataclass(frozen=True)
class BasinTable:
    """A table of basins: the share of points in each core, the landmark that stands for each, remarks for readers."""

    basins: Basins
    populations: NDArray[np.float64]  # of these points: those in a core count whole, others by membership
    core: NDArray[np.float64]
    landmarks: tuple[int, ...]
    transitions: Transitions
    notes: tuple[str, ...]
    population_errors: NDArray[np.float64] | None  # standard errors, where points were resampled in time

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers as JSON values."""
        moves = self.transitions
        columns = {
            "population": self.populations,
            "population_error": self.population_errors,
            "core": self.core,
            "landmark": self.landmarks,
            "dwell": moves.dwell,
            "error": moves.error,
            "longest": moves.longest,
            "time_in": moves.time_in,
        }
        basins = [
            {
                "name": name,
                **{
                    key: None if values is None else _or_none(values[place])
                    for key, values in columns.items()
                },
                "transitions": dict(zip(moves.names, moves.counts[place].tolist(), strict=True)),
            }
            for place, name in enumerate(moves.names)
        ]
        return {
            "crispness": self.basins.crispness,
            "unit": moves.unit,
            "basins": basins,
            "notes": [*self.notes],
        }


def basin_table(model: Any, points: PointsOfMap, basins: Basins) -> BasinTable:
    """Return populations, transitions and dwell times of points in the order of time."""
    labels = region_labels(points.coordinates, basins.regions)
    moves = count_transitions(
        labels, basins.names, times=points.times, files=points.files, unit=points.time_unit
    )
    notes = []
    if moves.counts.sum() < 10:
        notes.append(
            f"{int(moves.counts.sum())} transitions are too few to trust dwell times; errors are those of counting"
        )
    record = getattr(model, "training_", None)
    if record is not None and record.weights is not None and (record.weights > 0).all():
        notes.append("The points have weights: times between transitions are those of the biased run.")
    weights = np.ones(len(labels)) if points.weights is None else points.weights.astype(np.float64)
    in_core = labels[:, None] == np.arange(len(basins.names))
    shares = _shares(basins.memberships(points.coordinates), in_core)
    core, populations = (np.average(part, axis=0, weights=weights) for part in (in_core, shares))
    middles = representatives(model, basins.regions)
    errors = _population_errors(model, shares, weights)
    return BasinTable(basins, populations, core, tuple(middles.values()), moves, tuple(notes), errors)


def _shares(memberships: NDArray[Any], in_core: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how much of each point belongs to each basin: all of one in a core, so no core exceeds its population."""
    shares = np.clip(memberships.astype(np.float64), 0.0, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    is_core = in_core.any(axis=1)
    shares[is_core] = in_core[is_core]
    return shares


def _population_errors(
    model: Any, shares: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return standard errors of populations over blocks as long as those that the fit was resampled by."""
    sampling, n = getattr(model, "sampling_", None), len(shares)
    if sampling is None or sampling.kind != "time" or n < 2 * sampling.n_blocks:
        return None
    labels = (np.arange(n) * sampling.n_blocks // n).astype(np.int32)
    blocks = Blocks("time", labels, sampling.n_blocks, 0.5 + n / sampling.n_blocks / BLOCK_LENGTH)
    return block_error(shares, weights, blocks)


def basin_rows(table: BasinTable) -> list[list[str]]:
    """Return the table as text, a heading first."""
    moves, errors = table.transitions, table.population_errors
    scale, unit = readable_unit(moves.unit, float(np.nanmax(moves.time_in)))
    heading = ["", "population", "core", "landmark", f"dwell ({unit})", f"longest ({unit})"]
    rows = [[*heading, *(f"to {name.removeprefix('basin ')}" for name in moves.names)]]
    for place, name in enumerate(moves.names):
        dwell, error = scale * moves.dwell[place], scale * moves.error[place]
        plus_minus = "" if errors is None else f" ± {100 * errors[place]:.1f}"
        rows.append(
            [
                name,
                f"{100 * table.populations[place]:.1f}{plus_minus} %",
                f"{100 * table.core[place]:.1f} %",
                str(table.landmarks[place]),
                "never left" if np.isnan(dwell) else f"{dwell:.3g} ± {error:.2g}",
                f"{scale * moves.longest[place]:.4g}",
                *("–" if other == place else str(count) for other, count in enumerate(moves.counts[place])),
            ]
        )
    return rows


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else np.asarray(value).item()
