"""What each stage of a fit takes, as it runs, and the law c + a·N + b·N² (a, b, c ≥ 0) for more points.

Stages are those that a fit shows as progress, so a new one is measured without a word here.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.optimize import nnls

from ldmaps.progress import Progress, Stage

#: What a fit does outside its stages.
OUTSIDE = "preparation"
#: Seconds between two looks at the memory.
INTERVAL = 2e-3


class StageMeter(Progress):
    """Takes what each outermost stage that opens while it runs costs: [seconds, seconds on processors, most bytes]."""

    def __init__(self) -> None:
        super().__init__(show=False)
        self.costs: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._open, self._since = OUTSIDE, (0.0, 0.0)
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._since = time.perf_counter(), time.process_time()
        self._looking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._begin(OUTSIDE)
        self._ended.set()
        self._looking.join()

    @contextmanager
    def stage(self, name: str, *arguments: Any, **settings: Any) -> Iterator[Stage]:
        """Open a stage; one inside another is part of it."""
        is_part = self._open != OUTSIDE
        with super().stage(name, *arguments, **settings) as stage:
            if not is_part:
                self._begin(name)
            try:
                yield stage
            finally:
                if not is_part:
                    self._begin(OUTSIDE)

    def _begin(self, name: str) -> None:
        """Count what has passed for the stage that was open, and open another."""
        self._look()
        cost, now = self.costs[self._open], (time.perf_counter(), time.process_time())
        cost[0] += now[0] - self._since[0]
        cost[1] += now[1] - self._since[1]
        self._open, self._since = name, now

    def _look(self) -> None:
        cost = self.costs[self._open]
        cost[2] = max(cost[2], resident_bytes())

    def _look_on(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._look()


def law(sizes: Sequence[int], values: Sequence[float], *, degree: int = 2) -> np.poly1d:
    """Return c + a·N + b·N² by what was measured, none of the three negative, and without b for degree 1."""
    x, y = np.asarray(sizes, float) / max(sizes), np.asarray(values, float)
    powers = list(range(degree + 1))
    if len(x) < 3:  # two sizes cannot tell three numbers
        powers = [1, 2] if degree == 2 and y[-1] * x[0] > y[0] * x[-1] else [0, 1]
    # A tenth of a small time is as bad as one of a long one; but none counts for more than a quadratic law gives it.
    error = np.maximum(y, y.max() * x**2) + 1e-9
    found, _ = nnls(np.power.outer(x, powers) / error[:, None], y / error)
    coefficients = np.zeros(3)
    coefficients[powers] = found / float(max(sizes)) ** np.array(powers)
    return np.poly1d(coefficients[::-1])


def resident_bytes() -> float:
    """Return the memory of this process now; where only its highest so far is known, that, and 0 where nothing is."""
    with suppress(OSError, IndexError, ValueError):
        return float(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    with suppress(ImportError):  # Windows has none
        import resource

        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(highest) * (1 if sys.platform == "darwin" else 1024)
    return 0.0


def give_back() -> None:
    """Give memory that earlier work has freed back to the system, if it can be asked to, so that it counts no more."""
    with suppress(AttributeError, OSError, TypeError):  # glibc's
        ctypes.CDLL(None).malloc_trim(0)


def free_bytes() -> float:
    """Return how much memory this machine has left, all of it where that is unknown, infinity where nothing is."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    with suppress(AttributeError, OSError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES")) * mmap.PAGESIZE
    return math.inf
