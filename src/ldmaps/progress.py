"""Showing how far long work has come: a bar on a terminal or in a notebook, lines of the log "ldmaps" elsewhere."""

# Not tqdm: loops tick without knowing who shows that, a remaining time waits for what it can be told from, logs get
# a line per stage, and a notebook shows HTML's own bar without ipywidgets. tqdm would replace a third of this file.

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TextIO

_log = logging.getLogger("ldmaps")
#: Seconds between two drawings; more often would cost time and flicker.
REDRAW = 0.1
#: Seconds of work after the first items before a remaining time is shown: fewer say nothing about it.
ETA_AFTER = 1.0
#: Seconds after which a log hears of a stage that goes on.
TELL_AFTER = 30.0
#: A stage that had a line already gets another one if it takes so many seconds again.
REPEATED_AFTER = 1.0
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Screen:
    """Where a bar is seen: a line of a terminal that is drawn over itself or, without a stream, HTML in a notebook."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream, self._width = stream, 0
        self._display: Any = None

    def show(self, line: str, page: str = "") -> None:
        """Put a line, or what a notebook shows for it, in the place of the last."""
        if self._stream is not None:
            self._stream.write("\r" + line.ljust(self._width))
            self._stream.flush()
            self._width = len(line)
            return
        from IPython.display import display

        both = {"text/plain": line, "text/html": f"<div>{page}</div>"}
        if self._display is None:
            self._display = display(both, raw=True, display_id=True)
        else:
            self._display.update(both, raw=True)

    def end(self, summary: str = "") -> None:
        """Take the bar away, and leave a line if there is one."""
        if self._stream is None:
            self.show(summary, html.escape(summary))
            self._display = None
        else:
            self.show("")
            self._stream.write("\r" + (summary + "\n" if summary else ""))


class Stage:
    """One stretch of work; :meth:`advance` it as items are done."""

    def __init__(self, name: str, total: int | None, unit: str, screen: Screen | None) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self._screen, self._began = screen, time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first items were done, and how many
        self._drawn = 0.0
        self._lock = threading.Lock()
        self.on_advance: Callable[[Stage], None] = lambda stage: None

    def advance(self, count: int) -> None:
        """Note that ``count`` more items are done."""
        with self._lock:
            self.done += count
            if self._first is None:
                self._first = time.monotonic(), self.done
            if time.monotonic() - self._drawn >= REDRAW:
                self.draw()
        self.on_advance(self)

    def draw(self) -> None:
        """Show it, if it is seen."""
        if self._screen is not None:
            share = "" if self.share is None else f' value="{self.share:.4f}"'
            bar = f'<progress max="1"{share} style="width: 16em; vertical-align: middle"></progress>'
            page = f"{html.escape(self.name)}&ensp;{bar}&ensp;{html.escape(self.figures())}"
            self._screen.show(self.line(), page)
            self._drawn = time.monotonic()

    @property
    def share(self) -> float | None:
        """Which part is done, if that is known."""
        return min(1.0, self.done / self.total) if self.total else None

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

    def _counted(self) -> tuple[str, str]:
        """Return how much is done and how fast; empty without a unit: what a loop counts then means nothing."""
        if not self.done or not self.unit:
            return "", ""
        # A loop may look at a point twice.
        done = self.done if self.total is None else min(self.done, self.total)
        rate = done / max(self.seconds, 1e-9)
        return f"{done:,} {self.unit}", f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"

    def summary(self) -> str:
        """Say in a line what was done and how fast."""
        done, rate = self._counted()
        more = f" ({rate} {self.unit}/s)" if done else ""
        return f"{self.name}: {done}{' in ' if done else ''}{self.seconds:.1f} s{more}"

    def line(self) -> str:
        """Return what the terminal shows now."""
        return "  ".join([self.name, *([] if self.share is None else [_bar(self.share)]), self.figures()])

    def figures(self) -> str:
        """Return how much is done, how fast, and how long the rest will take."""
        parts = [] if self.share is None else [f"{100 * self.share:3.0f} %"]
        done, rate = self._counted()
        parts += [done, f"{rate}/s"] if done else []
        remaining = self.remaining
        if remaining is not None:
            parts.append(f"ETA {_clock(remaining)}")
        elif not done:
            parts.append("...")
        return "  ".join(parts)


#: The stages under way, for loops that do not know who called them.
_under_way: list[Stage] = []


def tick(count: int) -> None:
    """Advance the fit's stage under way, if there is one; cheap enough for every tile of a walk."""
    if _under_way:
        _under_way[-1].advance(count)


class Progress:
    """Shows stages: True as a bar on a terminal or in a notebook, and log lines elsewhere; None on a terminal only."""

    def __init__(self, show: bool | None = None, stream: TextIO | None = None) -> None:
        target = sys.stderr if stream is None else stream
        self._screen: Screen | None = None
        is_terminal = False
        with suppress(AttributeError, ValueError):  # no stream, or one that is closed
            is_terminal = target.isatty()
        if show is not False and is_terminal:
            self._screen = Screen(target)
        elif show and stream is None and "ipykernel" in sys.modules:
            self._screen = Screen(None)
        self._keep_lines = (
            show is True
        )  # at level INFO of the log, where there is no screen; others are at DEBUG
        self._reported = time.monotonic()
        self._named = set[str]()  # stages that have a line

    @property
    def visible(self) -> bool:
        """Whether a bar is shown, so that finding out a total is worth it."""
        return self._screen is not None

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, unit: str = "points", *, ticked: bool = False
    ) -> Iterator[Stage]:
        """Open a stage; its bar goes when the block ends. If it is ticked, :func:`tick` advances it."""
        stage = Stage(name, total, unit, self._screen)
        if self._keep_lines and self._screen is None:
            stage.on_advance = self._tell
        stage.draw()
        is_part = bool(_under_way)  # of a stage that gets a line of its own
        if ticked:
            _under_way.append(stage)
        keep = False
        try:
            yield stage
            # A search goes through the same stages again and again: those that take no time need no line each.
            is_news = stage.name not in self._named or stage.seconds >= REPEATED_AFTER
            keep = self._keep_lines and not is_part and is_news
            self._named.add(stage.name)
        finally:
            if ticked:
                _under_way.remove(stage)
            if self._screen is not None:
                self._screen.end(stage.summary() if keep else "")
        if keep and self._screen is None:
            self._reported = time.monotonic()
            with _shown():
                _log.info("%s", stage.summary())
        else:
            _log.debug("%s", stage.summary())

    def _tell(self, stage: Stage) -> None:
        """Log how far a long stage is, so that nobody who reads a file thinks that nothing happens."""
        if time.monotonic() - self._reported < TELL_AFTER:
            return
        self._reported = time.monotonic()
        whole = _under_way[0] if _under_way else stage
        part = f" ({stage.name})" if stage is not whole else ""
        with _shown():
            _log.info("%s: %.0f s so far%s  %s", whole.name, whole.seconds, part, stage.figures())


#: Who shows the stages of the fit under way.
_reporter: list[Progress] = []


@contextmanager
def reporting(show: bool | Progress) -> Iterator[None]:
    """Let the stages that open inside the block be shown; False leaves a fit in a fit to report as the outer one."""
    if show is False:
        yield
        return
    _reporter.append(show if isinstance(show, Progress) else Progress(show=True))
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
    level, handler = _log.level, logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    if not _log.hasHandlers():
        _log.addHandler(handler)
    if not _log.isEnabledFor(logging.INFO):
        _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(level)
        _log.removeHandler(handler)


def _bar(share: float) -> str:
    """Draw a bar in eighths of a character."""
    whole, part = divmod(int(share * BAR_WIDTH * 8), 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(BAR_WIDTH, "·")


def _clock(seconds: float) -> str:
    """Write a duration as people read clocks: 1:15, 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
