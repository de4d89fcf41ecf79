"""What a fit on worker processes will cost, before it is begun.

    time    = sample and eigenproblem here + N · (2 · preparation + assignment + embedding + reading) / threads
              of all workers, or what the scheduler needs for its tasks if that is longer
    memory  = of a worker: a few pieces per thread, and its share of labels and coordinates
    traffic = sample and landmarks, and per piece the sums of the cells

Speeds are those of one thread of this machine. Workers that have room keep prepared points, and read and prepare
once less than is counted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldmaps.cluster.bracket import FARTHEST, FIRST, PASSES
from ldmaps.cluster.reading import even_rows, piece_bytes, rows_of_piece
from ldmaps.maps.blocked_training import GATHERED
from ldmaps.maps.planning import PROGRAM_BYTES, as_bytes, as_duration, plan
from ldmaps.maps.training_record import MAX_RECORDED
from ldmaps.metrics import resolve_metric
from ldmaps.settings import check_whole

__all__ = ["ClusterPlan", "plan_on_workers"]

#: Seconds that a Dask scheduler takes for a task; see docs/benchmarks/cluster.md.
TASK_SECONDS = 1e-3
#: Tasks for each piece: read and gather; read, prepare, assign and its two results; read, embed and its two results.
TASKS_PER_PIECE = 11
#: Bytes per second that a thread gets out of a file that the system holds in memory, and times that a fit reads all:
#: sample, assignment, embedding. Slower storage adds to this; compressed trajectories take a few µs per frame.
READING_RATE, READS = 1e9, 3
#: Pieces that a thread of a worker holds at a time, raw or prepared: one in work, one read ahead.
PIECES_HELD = 4


@dataclass(frozen=True)
class ClusterPlan:
    """Predicted cost of a landmark map that is fitted on workers.

    Attributes
    ----------
    n_points, n_landmarks, n_workers, n_threads : int
        N, M, processes, and threads of each.
    fit_seconds : float
        All of it.
    here_seconds : float
        Of it, what this process does while workers wait: k-medoids on a sample, the eigenproblem.
    computing_seconds, scheduling_seconds : float
        What workers read and compute, and what the scheduler takes for their tasks; these overlap.
    transform_seconds : float
        To embed as many points again, and leave the coordinates with the workers.
    worker_bytes, here_bytes : float
        Memory of a worker, and of this process.
    traffic_bytes : float
        What goes over the network.
    """

    n_points: int
    n_landmarks: int
    n_workers: int
    n_threads: int
    fit_seconds: float
    here_seconds: float
    computing_seconds: float
    scheduling_seconds: float
    transform_seconds: float
    worker_bytes: float
    here_bytes: float
    traffic_bytes: float

    def __str__(self) -> str:
        threads = "a thread each" if self.n_threads == 1 else f"{self.n_threads} threads each"
        text = (
            f"fit of {self.n_points:,} points to {self.n_landmarks:,} landmarks on {self.n_workers:,} workers of "
            f"{threads}: about {as_duration(self.fit_seconds)} (landmarks here "
            f"{as_duration(self.here_seconds)}, workers {as_duration(self.computing_seconds)}, scheduler "
            f"{as_duration(self.scheduling_seconds)}); {as_bytes(self.worker_bytes)} per "
            f"worker, {as_bytes(self.here_bytes)} here, {as_bytes(self.traffic_bytes)} over the network"
        )
        if self.scheduling_seconds <= self.computing_seconds:
            return text
        busy = math.ceil(self.computing_seconds * self.n_workers / self.scheduling_seconds)
        return (
            f"{text}\nThe scheduler is the limit: more than {busy:,} workers do not make it quicker; larger pieces "
            "(--piece) do."
        )


def plan_on_workers(
    n: int,
    n_features_or_atoms: int,
    metric: Any = "euclidean",
    n_landmarks: int | None = None,
    *,
    n_workers: int,
    n_threads: int = 1,
    piece: int | str | None = None,
    epsilon: float | str = "connected",
    n_components: int | str = 2,
    dtype: Any = np.float32,
    **settings: Any,
) -> ClusterPlan:
    """Predict the cost of :class:`~ldmaps.LandmarkDiffusionMap` on the workers of a cluster.

    Parameters
    ----------
    n_workers, n_threads : int
        Processes, and threads of each.
    piece : int or str, optional
        Size of the pieces that workers read, as for :func:`ldmaps.cluster.open_blocks`.
    n, n_features_or_atoms, metric, n_landmarks, epsilon, n_components, dtype, settings
        As for :func:`ldmaps.plan`.
    """
    check_whole("n_workers", n_workers, 1)
    check_whole("n_threads", n_threads, 1)
    # The bracket of "connected" is found by workers; everything else that needs more than blocks, on a sample here.
    is_bracketed = epsilon == "connected" and n > GATHERED
    here = plan(
        min(n, GATHERED),
        n_features_or_atoms,
        metric,
        n_landmarks,
        epsilon=1.0 if is_bracketed else epsilon,
        n_components=n_components,
        dtype=dtype,
        n_threads=1,
        **settings,
    )
    numbers = n_features_or_atoms * (3 if resolve_metric(metric).takes_frames else 1)
    row = float(numbers * np.dtype(dtype).itemsize)
    size = piece_bytes(piece)
    threads = n_workers * n_threads
    pieces = math.ceil(n / even_rows(n, rows_of_piece(row, size), threads))
    m = here.n_landmarks
    reading = row / READING_RATE
    preparing = here.steps["preparation"] / here.n_points
    embedding = here.seconds_per_point  # preparation included
    per_point = READS * reading + preparing + here.assignment_seconds + embedding
    if is_bracketed:
        # A pass compares with those of S that are new: farthest points, and nearest neighbours of the last new ones.
        new = sum(FIRST + 2 * FARTHEST * number for number in range(PASSES))
        per_point += PASSES * reading + new / m * embedding
    computing = n * per_point / threads
    scheduling = pieces * TASKS_PER_PIECE * TASK_SECONDS
    k = 2 if isinstance(n_components, str) else int(n_components)
    kept = n * (4.0 + k * np.dtype(dtype).itemsize) / n_workers
    return ClusterPlan(
        n_points=int(n),
        n_landmarks=m,
        n_workers=int(n_workers),
        n_threads=int(n_threads),
        fit_seconds=here.fit_seconds + max(computing, scheduling),
        here_seconds=here.fit_seconds,
        computing_seconds=computing,
        scheduling_seconds=scheduling,
        transform_seconds=max(n * (reading + embedding) / threads, pieces * 3 * TASK_SECONDS),
        worker_bytes=PROGRAM_BYTES + n_threads * PIECES_HELD * min(size, n * row) + kept + m * row,
        here_bytes=here.peak_bytes + MAX_RECORDED * 32.0,
        traffic_bytes=min(n, GATHERED) * row
        + 2.0 * n_workers * m * row
        + pieces * 16.0 * m
        + MAX_RECORDED * 16.0,
    )
