"""Draining sources in tests: bounded in time and in number of polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

#: Longer than anything here takes on a slow machine; only a hanging test gets there.
PATIENCE = 180.0


def drain(source, *, position=None, most=7, wait=0.05, enough=None):
    """Open a source and poll it until it ends, or has given ``enough`` records; close it; return all parts."""
    parts = []
    try:
        source.open(position)
        deadline = time.monotonic() + PATIENCE
        while enough is None or sum(len(part) + len(part.rejected) for part in parts) < enough:
            assert time.monotonic() < deadline, (
                f"{source.name} gave {sum(map(len, parts))} records, then nothing"
            )
            part = source.poll(most, wait)
            if part is None:
                break
            assert len(part) <= most
            if len(part) or part.rejected:
                parts.append(part)
    finally:
        source.close()
    return parts


def joined(parts):
    """Return points, numbers and times of all parts."""
    parts = [part for part in parts if len(part)] or parts
    times = [part.times for part in parts]
    return (
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        None if any(one is None for one in times) else np.concatenate(times),
    )


@contextmanager
def in_background(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Run something in a thread, and join it; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(PATIENCE)
    assert not thread.is_alive()
    if raised:
        raise raised[0]
