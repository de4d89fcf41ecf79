"""Showing how far long work has come: a bar on a terminal or in a notebook, log lines elsewhere.

Every stage's end is also logged to the logger "ldmaps": at level INFO where lines
are shown, at DEBUG otherwise.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

__all__ = ["Progress", "Stage", "is_shown", "reporting", "stage", "tick"]

_log = logging.getLogger("ldmaps")
#: Seconds between two drawings; more often would cost time and flicker.
REDRAW = 0.1
#: Seconds of work after the first items before a remaining time is shown: fewer say nothing about it.
ETA_AFTER = 1.0
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Stage:
    """One stretch of work; :meth:`advance` it as items are done."""

    def __init__(self, name: str, total: int | None, unit: str, stream: TextIO | None) -> None:
        self.name = name
        self.total = total
        self.unit = unit
        self.done = 0
        self._stream = stream
        self._began = time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first items were done, and how many
        self._drawn = 0.0
        self._width = 0
        self._lock = threading.Lock()

    def advance(self, count: int) -> None:
        """Note that ``count`` more items are done."""
        with self._lock:
            self.done += count
            if self._first is None:
                self._first = time.monotonic(), self.done
            if self._stream is not None and time.monotonic() - self._drawn >= REDRAW:
                self._draw()

    @property
    def seconds(self) -> float:
        """Time since the stage began."""
        return time.monotonic() - self._began

    @property
    def remaining(self) -> float | None:
        """Seconds to go, by the rate since the first items were done; None while that says nothing."""
        if self.total is None or self._first is None:
            return None
        began, already = self._first
        seconds, done = time.monotonic() - began, self.done - already
        if self.done >= self.total:
            return 0.0
        return (self.total - self.done) * seconds / done if done and seconds >= ETA_AFTER else None

    def summary(self) -> str:
        """Say in a line what was done and how fast."""
        if not self.done:
            return f"{self.name}: {self.seconds:.1f} s"
        rate = self.done / max(self.seconds, 1e-9)
        return (
            f"{self.name}: {self.done:,} {self.unit} in {self.seconds:.1f} s ({_count(rate)} {self.unit}/s)"
        )

    def line(self) -> str:
        """Return what the terminal shows now."""
        parts = [self.name]
        rate = self.done / max(self.seconds, 1e-9)
        if self.total:
            share = min(1.0, self.done / self.total)
            parts += [_bar(share), f"{100 * share:3.0f} %"]
        if self.done:
            parts += [f"{self.done:,} {self.unit}", f"{_count(rate)}/s"]
        remaining = self.remaining
        if remaining is not None:
            parts.append(f"ETA {_clock(remaining)}")
        elif not self.done:
            parts.append("...")
        return "  ".join(parts)

    def _draw(self) -> None:
        if self._stream is None:
            return
        text = self.line()
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
        self._drawn = time.monotonic()

    def _clear(self) -> None:
        if self._stream is not None and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


#: The stage under way, for loops that do not know who called them.
_under_way: list[Stage] = []


def tick(count: int) -> None:
    """Advance the fit's stage under way, if there is one; cheap enough for every tile of a walk."""
    if _under_way:
        _under_way[-1].advance(count)


class Progress:
    """Shows stages.

    Parameters
    ----------
    show : bool or None
        True shows a bar on a terminal or in a notebook, and log lines elsewhere. None
        shows a bar on a terminal and nothing elsewhere. False shows nothing.
    stream : text file, optional
        Where bars go; stderr by default.

    Examples
    --------
    >>> with Progress(show=False).stage("embedding", 10, "frames") as stage:
    ...     stage.advance(10)
    >>> stage.done
    10
    """

    def __init__(self, show: bool | None = None, stream: TextIO | None = None) -> None:
        target = sys.stderr if stream is None else stream
        on_screen = _is_terminal(target) or (bool(show) and stream is None and _in_notebook())
        self._stream = target if show is not False and on_screen else None
        self._log_lines = show is True and not on_screen
        self._keep_lines = show is True

    @property
    def visible(self) -> bool:
        """Whether a bar is shown, so that finding out a total is worth it."""
        return self._stream is not None

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, unit: str = "points", *, ticked: bool = False
    ) -> Iterator[Stage]:
        """Open a stage; its bar goes when the block ends.

        Parameters
        ----------
        name, unit : str
        total : int or None
            Items to do, if known.
        ticked : bool
            Whether :func:`tick` advances it; otherwise only its own ``advance`` does.
        """
        stage = Stage(name, total, unit, self._stream)
        stage._draw()
        if ticked:
            _under_way.append(stage)
        try:
            yield stage
        finally:
            if ticked:
                _under_way.remove(stage)
            stage._clear()
        if self._stream is not None and self._keep_lines:
            self._stream.write(stage.summary() + "\n")
        if self._log_lines:
            with _shown():
                _log.info("%s", stage.summary())
        else:
            _log.debug("%s", stage.summary())


#: Who shows the stages of the fit under way.
_reporter: list[Progress] = []


@contextmanager
def reporting(show: bool | Progress) -> Iterator[None]:
    """Let the stages that open inside the block be shown.

    Parameters
    ----------
    show : bool or Progress
        False leaves things as they are, so that a fit inside a fit reports as the
        outer one does.
    """
    if show is False:
        yield
        return
    progress = show if isinstance(show, Progress) else Progress(show=True)
    _reporter.append(progress)
    try:
        yield
    finally:
        _reporter.pop()


def stage(name: str, total: int | None = None, unit: str = "points") -> AbstractContextManager[Stage]:
    """Open a stage of whatever is being reported; silent when nothing is."""
    return (_reporter[-1] if _reporter else Progress(show=False)).stage(name, total, unit, ticked=True)


def is_shown() -> bool:
    """Say whether a bar is shown for the stages that open now, so that finding out a total is worth it."""
    return bool(_reporter) and _reporter[-1].visible


@contextmanager
def _shown() -> Iterator[None]:
    """Make sure that INFO lines of the library are seen, without touching the user's own logging set-up."""
    level = _log.level
    handler = None
    if not _log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        _log.addHandler(handler)
    if not _log.isEnabledFor(logging.INFO):
        _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(level)
        if handler is not None:
            _log.removeHandler(handler)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def _bar(share: float) -> str:
    """Draw a bar in eighths of a character.

    >>> _bar(0.5).count("█")
    12
    """
    eighths = int(share * BAR_WIDTH * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(BAR_WIDTH, "·")


def _count(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _clock(seconds: float) -> str:
    """Write a duration as people read clocks.

    >>> _clock(75), _clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
