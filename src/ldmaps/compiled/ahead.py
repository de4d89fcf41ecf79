"""Loops compiled by a second process while this one compiles others.

numba compiles one loop at a time, whatever the number of cores, and a first fit
needs a dozen. Which ones it needs is known early: :func:`expect` names them in the
order in which they will be called. This process compiles each when it comes to it.
A companion process compiles them from the other end, into the folder of compiled
code, where this process finds them.

    this process   prepare_frames   squared_block   nearest_in_rows ─►
    companion      (starts)         extend   gaussian ─►

Where the two meet, this process waits for the loop that the companion is at. Nothing
depends on the companion: where it does not start, fails or ends, loops are compiled here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ldmaps.compiled import announce

__all__ = ["expect", "is_compiled_elsewhere", "serve", "sharing"]

#: Seconds to wait for a loop that the companion is at: several times what the slowest takes.
PATIENCE = 60.0
#: Seconds to wait for the end of a companion that has nothing to do.
FAREWELL = 1.0
#: Searches the modules of this process, whatever has changed its path, and nothing before them.
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ldmaps.compiled import ahead
ahead.serve()
"""


class _Loop(NamedTuple):
    """A loop for certain types of arguments."""

    name: str
    types: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> _Loop:
        """Return the loop that ``module.function(float64[:, ::1], int64)`` names."""
        from numba.core.sigutils import normalize_signature

        name, bracket, types = text.partition("(")
        return cls(name, tuple(normalize_signature(bracket + types)[0]))


class _Companion:
    """A process that compiles, and the list of what is to be compiled."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._expected: list[str] = []
        self._left: dict[_Loop, str] = {}  # those that neither process has begun, in the order of need
        self._current: _Loop | None = None  # what the companion is at
        self._done: set[_Loop] = set()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._ended = False

    def expect(self, loops: Iterable[str]) -> None:
        """Add loops that will be needed; they are only looked at if something must be compiled."""
        with self._changed:
            self._expected = list(loops)
            if self._process is not None:
                self._list_expected()

    def takes(self, name: str, types: tuple[Any, ...]) -> bool:
        """Return whether the companion has compiled a loop; else it is this process's, whether listed or not."""
        with self._changed:
            if self._process is None and not self._ended:
                self._start()
            loop = _Loop(name, types)
            self._left.pop(loop, None)
            if loop == self._current:
                announce(True)
                try:
                    self._changed.wait_for(lambda: loop != self._current, PATIENCE)
                finally:
                    announce(False)
            return loop in self._done

    def close(self) -> None:
        """End the companion; what it was at, nobody needs."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        process = self._process
        if process is None or self._thread is None:
            return
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(0.0 if self._current else FAREWELL)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join()
        process.stdout.close()  # type: ignore[union-attr]

    def _start(self) -> None:
        from numba.core import config

        folder = {"NUMBA_CACHE_DIR": config.CACHE_DIR} if config.CACHE_DIR else {}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **folder},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError:
            self._ended = True
            return
        self._list_expected()
        self._thread = threading.Thread(target=self._hand_out, args=(self._process,), daemon=True)
        self._thread.start()

    def _list_expected(self) -> None:
        for text in self._expected:
            self._left[_Loop.parse(text)] = text
        self._changed.notify_all()

    def _hand_out(self, process: Any) -> None:
        """Give the companion loop after loop, the last one first."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._left or self._ended)
                    if self._ended:
                        return
                    self._current, text = self._left.popitem()
                process.stdin.write(text + "\n")
                process.stdin.flush()
                if not process.stdout.readline():
                    return
                with self._changed:
                    self._done.add(self._current)
                    self._current = None
                    self._changed.notify_all()
        except (OSError, ValueError):  # it has ended, or we have closed its pipes
            return
        finally:
            with self._changed:
                self._ended, self._current = True, None
                self._left.clear()
                self._changed.notify_all()


_active: _Companion | None = None
_one_at_a_time = threading.Lock()


@contextmanager
def sharing(n_processes: int) -> Iterator[None]:
    """Let a companion compile some of the loops that are compiled within; it starts when the first one is.

    Parameters
    ----------
    n_processes : int
        How many processes may compile; fewer than two start no companion.
    """
    global _active
    with _one_at_a_time:
        companion = _Companion() if _active is None and n_processes > 1 and _is_python() else None
        _active = companion or _active
    try:
        yield
    finally:
        if companion is not None:
            with _one_at_a_time:
                _active = None
            companion.close()


def expect(loops: Iterable[str]) -> None:
    """Name loops that will be called, in their order, as ``module.function(types of arguments)``.

    Parameters
    ----------
    loops : iterable of str
        Types as numba writes them. A loop that is named but never called costs time on
        another core; one that is called but not named is compiled here.
    """
    companion = _active
    if companion is not None:
        companion.expect(loops)


def is_compiled_elsewhere(name: str, types: tuple[Any, ...]) -> bool:
    """Return whether the companion has compiled a loop, after waiting for it if it is about to.

    Parameters
    ----------
    name : str
        Module and function.
    types : tuple
        numba's types of the arguments.
    """
    companion = _active
    return companion is not None and companion.takes(name, types)


def serve() -> None:
    """Compile each loop that a line of stdin names, and answer with an empty line."""
    for line in sys.stdin:
        loop = _Loop.parse(line.strip())
        module, _, function = loop.name.partition(".")
        getattr(import_module(f"{__package__}.{module}"), function).compile(loop.types)
        print(flush=True)


def _is_python() -> bool:
    """Return whether another Python can be started as this one was; in a frozen program that would start it again."""
    return not getattr(sys, "frozen", False) and Path(sys.executable or "").name.startswith("python")


def _forget() -> None:
    """Forget the companion in a forked child, which has none of the threads that would answer it."""
    global _active, _one_at_a_time
    _active, _one_at_a_time = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
