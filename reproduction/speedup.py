"""Figure 5: how much faster new points are embedded over M landmarks than over all N points."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension import Embedder, OnlineStep
from ldmaps.landmarks.base import assign
from ldmaps.threads import single_threaded_blas
from reproduction.drawing import BLUE, GREEN, GREY, ORANGE, new_figure, plain_ticks, save
from reproduction.exact_maps import solved_map
from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Arrays, Piece
from reproduction.plan import CONNECTED, DataPlan
from reproduction.table1 import plain_title
from reproduction.tables import Table

__all__ = ["NAME", "TITLE", "SpeedUps", "make_timing", "medoids", "pieces", "speed_ups", "timing", "write"]

NAME = "figure5"
TITLE = "Figure 5: speed-up"


class SpeedUps(NamedTuple):
    """Median and quartiles of t_full/t_landmark over rounds, for each M."""

    data: DataPlan
    n: int
    n_new: int
    m: NDArray[np.intp]
    full_seconds: float
    landmark_seconds: NDArray[np.float64]
    low: NDArray[np.float64]
    median: NDArray[np.float64]
    high: NDArray[np.float64]


def timing(lab: Laboratory, data: DataPlan, methods: tuple[Method, ...]) -> Piece:
    """Name the timings of some landmark maps."""
    keys = tuple(method.key for method in methods)
    return lab.piece("timing", data, 0, width=CONNECTED.key, methods=keys, rounds=lab.plan.timing_rounds)


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the figure is made of."""
    for data in lab.plan.sets:
        yield timing(lab, data, medoids(data))


def medoids(data: DataPlan) -> tuple[Method, ...]:
    """Return the landmark maps that are timed."""
    return tuple(Method("kmedoids", m) for m in data.timing_landmarks)


def make_timing(lab: Laboratory, piece: Piece) -> Arrays:
    """Time Nyström over all N points and landmark maps, in turns, on one thread.

    Distances, kernel and product are the same compiled loops for both, and
    preparing the new points counts for both.
    """
    data = lab.data(piece)
    train, test = lab.split(piece)
    points = data.metric.prepare(data.points[train])
    exact = solved_map(lab, piece, points)
    full = exact.embedder()
    embedders = []
    for key in piece["methods"]:
        indices = lab.landmarks_of(piece, Method(*key))
        cells = assign(exact.walk, indices)
        # Which numbers the coefficients are does not change the time: those of the exact map save solving.
        step = OnlineStep(
            coefficients=np.ascontiguousarray(full.coefficients.T[indices]),
            source_weights=cells.multiplicities,
            bandwidth=full.epsilon,
        )
        embedders.append(
            Embedder.build(data.metric, points.take(indices), full.epsilon, step, cells.squared_radii)
        )
    new = data.points[test]
    rounds: int = lab.plan.timing_rounds
    seconds = np.empty((rounds, 1 + len(embedders)))
    with single_threaded_blas():
        for embedder in (full, *embedders):
            embedder.extend(embedder.prepare(new[:64]), 1)  # compiles, if nothing has yet
        for turn in range(rounds):
            for place, embedder in enumerate((full, *embedders)):
                seconds[turn, place] = _seconds_to_embed(embedder, new, lab.plan.timing_seconds)
    return {
        "m": np.array([embedder.n_landmarks for embedder in embedders]),
        "n": np.array(len(points)),
        "n_new": np.array(len(new)),
        "full": seconds[:, 0],
        "landmark": seconds[:, 1:],
    }


def _seconds_to_embed(embedder: Embedder, new: NDArray[Any], shortest: float) -> float:
    """Return this thread's time on the processor for one batch: others on the machine do not count."""
    repeats, passed, start = 0, 0.0, time.thread_time()
    while passed < shortest:
        embedder.extend(embedder.prepare(new), 1)
        repeats += 1
        passed = time.thread_time() - start
    return passed / repeats


def speed_ups(data: DataPlan, times: Arrays) -> SpeedUps:
    """Reduce timings; each landmark map is compared with the full one of its own round."""
    ratios = times["full"][:, None] / times["landmark"]
    low, median, high = np.percentile(ratios, (25, 50, 75), axis=0)
    return SpeedUps(
        data,
        int(times["n"]),
        int(times["n_new"]),
        times["m"],
        float(np.median(times["full"])),
        np.median(times["landmark"], axis=0),
        low,
        median,
        high,
    )


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Draw the figure; return its part of the page."""
    entries = [
        speed_ups(data, lab.get(timing(lab, data, medoids(data))))
        for data in lab.plan.sets
        if lab.store.has(timing(lab, data, medoids(data)))
    ]
    if not entries:
        return "*Not computed yet.*"
    picture, vector = save(_draw(entries), folder, NAME, remark)
    csv_table = Table(
        (
            *("data", "N", "new_points", "M", "N_over_M", "full_us_per_point", "landmark_us_per_point"),
            *("speed_up", "speed_up_lower_quartile", "speed_up_upper_quartile"),
        )
    )
    for entry in entries:
        for place, m in enumerate(entry.m):
            full, short = (1e6 * t / entry.n_new for t in (entry.full_seconds, entry.landmark_seconds[place]))
            expected = entry.n / int(m)
            csv_table.rows.append(
                (
                    *(entry.data.key, entry.n, entry.n_new, int(m), expected, full, short),
                    *(entry.median[place], entry.low[place], entry.high[place]),
                )
            )
    csv_table.write_csv(folder / "figure5.csv", remark)
    return "\n\n".join(
        [
            f"![Speed-up against N/M on logarithmic axes]({picture})",
            "S = t_full/t_landmark for embedding all test points, against N/M: the same kernels on one thread, "
            f"preparation of the points included, median (bars: quartiles) of {lab.plan.timing_rounds} turns. A "
            f"distilled map of M landmarks has the speed-up of any other. [Vector version]({vector}), "
            "[numbers](figure5.csv).",
        ]
    )


def _draw(entries: list[SpeedUps]) -> Any:
    figure = new_figure(5.2, 4.2)
    panel = figure.subplots()
    widest = 1.0
    for entry, colour, marker in zip(entries, (BLUE, ORANGE, GREEN), "os^", strict=False):
        expected = entry.n / entry.m
        order = np.argsort(expected)
        errors = np.maximum(np.stack([entry.median - entry.low, entry.high - entry.median]), 0.0)
        panel.errorbar(
            expected[order],
            entry.median[order],
            yerr=errors[:, order],
            fmt=f"{marker}-",
            color=colour,
            markersize=5,
            linewidth=1.1,
            capsize=2,
            label=f"{plain_title(entry.data)}, N = {entry.n:,}",
        )
        widest = max(widest, float(expected.max()))
    line = np.array([1.0, 1.5 * widest])
    panel.plot(line, line, color=GREY, linestyle="--", linewidth=1.0, zorder=0, label="S = N/M")
    panel.set(xscale="log", yscale="log", xlim=(1.0, 1.5 * widest), ylim=(1.0, 1.5 * widest))
    panel.set_xlabel("N/M", fontsize=10)
    panel.set_ylabel("speed-up S = t(full) / t(landmarks)", fontsize=10)
    plain_ticks(panel)
    panel.grid(True, which="major", linewidth=0.4, alpha=0.5)
    panel.tick_params(labelsize=9)
    panel.legend(fontsize=8, frameon=False)
    return figure
