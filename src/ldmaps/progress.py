"""Showing how far long work has come: a bar on a terminal or in a notebook, lines of the log "ldmaps" elsewhere."""

# Not tqdm: loops tick without knowing who shows that, a remaining time waits for what it can be told from, logs get
# a line per stage, and a notebook shows HTML's own bar without ipywidgets. tqdm would replace a third of this file.

from __future__ import annotations

import html
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
#: Width of a terminal that says nothing of it.
FEWEST_COLUMNS = 80
#: A stage that takes longer than expected stays at this share of its part of the whole until it ends.
MOST_GUESSED = 0.95
#: Before this share of the whole is done, no remaining time of it is shown.
LEAST_DONE = 0.02
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Screen:
    """Where a bar is seen: a line of a terminal that is drawn over itself or, without a stream, HTML in a notebook."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream, self._width = stream, 0
        self._display: Any = None

    def show(self, line: str, page: str = "") -> None:
        """Put a line, or what a notebook shows for it, in the place of the last."""
        if self._stream is not None:
            line = line[: _columns(self._stream) - 1]  # a line that wraps cannot be drawn over
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


class Work:
    """All stages of some work as one bar: how much is done of the time that they should take together.

    Parameters
    ----------
    name : str
        Of the work.
    expected : mapping of str to float
        About how many seconds each outermost stage takes, in the order in which they come; only their ratios matter
        once one has ended. A stage that is not there, or comes again, counts for nothing; one that is left out counts
        as done when a later one ends.
    """

    def __init__(self, name: str, expected: Mapping[str, float]) -> None:
        self.name = name
        self._left = dict(expected)
        self._total = sum(expected.values())
        self._done = self._seconds = self._took = self._highest = 0.0
        self._began = time.monotonic()

    def end(self, stage: Stage) -> None:
        """Count an outermost stage as done, and what was left out before it."""
        if stage.name not in self._left:
            return
        self._seconds += self._left[stage.name]
        self._took += stage.seconds
        for name in list(self._left):
            self._done += self._left.pop(name)
            if name == stage.name:
                return

    def share(self, stage: Stage) -> float:
        """Return which part is done while an outermost stage is under way; it never falls."""
        done = self._done
        if stage.name in self._left:
            for name, seconds in self._left.items():
                if name == stage.name:
                    break
                done += seconds
            done += seconds * self._share_of(stage, seconds)
        if self._total > 0:
            self._highest = max(self._highest, min(1.0, done / self._total))
        return self._highest

    def _share_of(self, stage: Stage, expected: float) -> float:
        """Return which part of a stage is done; where it does not say, by its time and how right others were."""
        if stage.share is not None:
            return stage.share
        pace = self._took / self._seconds if self._seconds > 0 and self._took > 0 else 1.0
        return min(MOST_GUESSED, stage.seconds / (pace * expected)) if expected > 0 else 0.0

    def figures(self, share: float) -> str:
        """Return how much is done, and how long the rest will take."""
        seconds = time.monotonic() - self._began
        is_known = seconds >= ETA_AFTER and share >= LEAST_DONE
        return f"{100 * share:3.0f} %" + (f"  ETA {_clock(seconds / share - seconds)}" if is_known else "")


class Stage:
    """One stretch of work; :meth:`advance` it as items are done."""

    def __init__(
        self, name: str, total: int | None, unit: str, screen: Screen | None, work: Work | None = None
    ) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self._screen, self._work, self._began = screen, work, time.monotonic()
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
            name, share, figures = self._seen()
            value = "" if share is None else f' value="{share:.4f}"'
            bar = f'<progress max="1"{value} style="width: 16em; vertical-align: middle"></progress>'
            page = f"{html.escape(name)}&ensp;{bar}&ensp;{html.escape(figures)}"
            self._screen.show(self.line(), page)
            self._drawn = time.monotonic()

    def _seen(self) -> tuple[str, float | None, str]:
        """Return the name, share and figures of the bar: of the whole that this is a stage of, if there is one."""
        if self._work is None:
            return self.name, self.share, self.figures()
        share = self._work.share(self.outermost)
        own = "" if self.share is None else f" {100 * self.share:.0f} %"
        return self._work.name, share, f"{self._work.figures(share)}  {self.name}{own}"

    @property
    def outermost(self) -> Stage:
        """The stage that this one is a part of."""
        return _under_way[0] if _under_way else self

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
        name, share, figures = self._seen()
        return "  ".join([name, *([] if share is None else [_bar(share)]), figures])

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
        self._work: Work | None = None

    @property
    def visible(self) -> bool:
        """Whether a bar is shown, so that finding out a total is worth it."""
        return self._screen is not None

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, unit: str = "points", *, ticked: bool = False
    ) -> Iterator[Stage]:
        """Open a stage; its bar goes when the block ends. If it is ticked, :func:`tick` advances it."""
        stage = Stage(name, total, unit, self._screen, self._work)
        if self._keep_lines and self._screen is None:
            stage.on_advance = self._tell
        is_part = bool(_under_way)  # of a stage that gets a line of its own
        if ticked:
            _under_way.append(stage)
        stage.draw()
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
            if self._work is not None and not is_part:
                self._work.end(stage)
            if self._screen is not None and (keep or self._work is None):
                self._screen.end(stage.summary() if keep else "")
        if keep and self._screen is None:
            self._reported = time.monotonic()
            with _shown():
                _log.info("%s", stage.summary())
        else:
            _log.debug("%s", stage.summary())

    @contextmanager
    def work(self, name: str, expected: Mapping[str, float]) -> Iterator[None]:
        """Show the stages that open inside the block as one bar (:class:`Work`); one within another is part of it."""
        if self._work is not None or _under_way:
            yield
            return
        self._work = Work(name, expected)
        try:
            yield
        finally:
            self._work = None
            if self._screen is not None:
                self._screen.end()

    def clear(self) -> None:
        """Take the bar away from a terminal; the next step draws it again."""
        if self._screen is not None:
            self._screen.end()

    def _tell(self, stage: Stage) -> None:
        """Log how far a long stage is, so that nobody who reads a file thinks that nothing happens."""
        if time.monotonic() - self._reported < TELL_AFTER:
            return
        self._reported = time.monotonic()
        outermost = stage.outermost
        part = f" ({stage.name})" if stage is not outermost else ""
        of_all = ""
        if self._work is not None:
            of_all = f"; {self._work.name}: {self._work.figures(self._work.share(outermost)).strip()}"
        with _shown():
            _log.info(
                "%s: %.0f s so far%s  %s%s", outermost.name, outermost.seconds, part, stage.figures(), of_all
            )


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


def work(name: str, expected: Mapping[str, float]) -> AbstractContextManager[None]:
    """Show the stages of what is being reported as one bar; nothing when nothing is."""
    return _reporter[-1].work(name, expected) if _reporter else nullcontext()


def clear() -> None:
    """Take the bar away, if one is drawn, so that something else can be printed; the next step draws it again."""
    for reporter in _reporter:
        reporter.clear()


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


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal; standard output may lead elsewhere."""
    with suppress(AttributeError, OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or FEWEST_COLUMNS
    return shutil.get_terminal_size().columns


def _bar(share: float) -> str:
    """Draw a bar in eighths of a character."""
    full, part = divmod(int(share * BAR_WIDTH * 8), 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(BAR_WIDTH, "·")


def _clock(seconds: float) -> str:
    """Write a duration as people read clocks: 1:15, 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
