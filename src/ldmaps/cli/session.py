"""How every command behaves: messages in its own options, exit codes, interruptions, pipes, existing outputs."""

from __future__ import annotations

import _thread
import argparse
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from ldmaps.errors import InvalidInputError, LdmapsError, Message, Named, one_line
from ldmaps.settings import LANDMARK_FIT, LIMITS

if TYPE_CHECKING:
    from ldmaps.progress import Progress

DONE, FAULTY_INPUT, FAULTY_PROGRAM = 0, 1, 3
#: Everything was done, but the points hardly belong to the map.
NOTHING_INSIDE = 5
#: Options that name files to write; whatever else names a file is read.
_WRITTEN = frozenset({"output", "table", "events", "quarantine", "outside", "checkpoint", "resume", "plot"})
INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143


def guarded(run: Callable[[argparse.Namespace], int | None], arguments: argparse.Namespace) -> int:
    """Run a command and turn whatever happens into a message and an exit status."""
    debug, quiet = (bool(getattr(arguments, name, False)) for name in ("debug", "quiet"))
    parser = getattr(arguments, "command_parser", None)
    try:
        with (
            _clean_streams(debug),
            _warnings_in_a_line(quiet, parser),
            _terminated_like_interrupted(),
        ):
            check_named_files(arguments)
            status = run(arguments)
            sys.stdout.flush()
        return DONE if status is None else status
    except KeyboardInterrupt:
        complain("interrupted; no partial output was left")
        return INTERRUPTED
    except _Terminated:
        return TERMINATED
    except BrokenPipeError:
        _close_stdout()
        return PIPE_CLOSED
    except (LdmapsError, OSError, MemoryError) as error:
        if debug:
            raise
        text = in_flags(error, parser)
        if isinstance(error, MemoryError):
            text = f"not enough memory ({text}); use fewer frames with --stride, or fewer landmarks"
        elif isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror.lower()}"
        complain(f"error: {text}")
        return FAULTY_INPUT
    except ImportError as error:
        if debug:
            raise
        if (package := _absent_package(error)) is not None:
            complain(
                f"error: this command line needs the package {package}, which is missing from this installation of "
                "ldmaps; install ldmaps again to get it"
            )
            return FAULTY_INPUT
        # A compiled part is missing, damaged or made of other sources, or another package is missing.
        remedy = "; install it again with pip install --force-reinstall ldmaps" if error.name else ""
        complain(f"error: ldmaps is not installed as it should be: {one_line(error)}{remedy}")
        return FAULTY_INPUT
    except Exception as error:
        if debug:
            raise
        complain(
            f"internal error: {type(error).__name__}: {one_line(error)}; "
            "please report this with what the same command prints with --debug"
        )
        return FAULTY_PROGRAM


def _absent_package(error: ImportError) -> str | None:
    """Return the package of ldmaps that an import did not find, if that is the error: some may be deleted."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    is_our_package = name is not None and name.startswith("ldmaps.") and name.count(".") == 1
    return name if is_our_package else None


def leave(status: int) -> NoReturn:
    """End the process with the status of a command that has run."""
    if status in (INTERRUPTED, TERMINATED):
        # Files are closed or removed by now. Python would wait for threads that may never end: a signal that comes
        # while a pool starts a thread leaves one that nobody will tell to stop.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; Ctrl-C has nothing left to interrupt
    sys.exit(status)


def shown_progress(arguments: argparse.Namespace) -> Progress:
    """Return what shows stages: bars that go again on a terminal, a line per stage elsewhere, nothing with --quiet."""
    from ldmaps.progress import Progress

    return Progress(not arguments.quiet and (None if sys.stderr.isatty() else True))


def say(arguments: argparse.Namespace, text: str) -> None:
    """Tell the user something, on stderr, unless --quiet."""
    if not arguments.quiet:
        print(printable(text), file=sys.stderr, flush=True)


def tell(arguments: argparse.Namespace, facts: Any, text: str) -> None:
    """Say what was done: as JSON on stdout, or in words on stderr."""
    if arguments.json:
        write_json(facts)
    else:
        say(arguments, text)


def printable(text: str) -> str:
    r"""Return text that moves no cursor and turns no line round: a name in a file may hold an escape.

    >>> print(printable("café\x1b[31m"))
    café\u001b[31m
    """
    if text.replace("\n", "").isprintable():
        return text
    import json

    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)


def write_json(value: Any, stream: TextIO | None = None) -> None:
    """Write a value as JSON, to stdout by default."""
    import json

    print(printable(json.dumps(value, indent=2, ensure_ascii=False)), file=stream or sys.stdout)


def check_named_files(arguments: argparse.Namespace) -> None:
    """Raise where an option names a file to write that another one names as well, through a link too."""
    from ldmaps.files import check_distinct

    read: list[str | int] = []
    written: list[str] = []
    for name, value in vars(arguments).items():
        values = value if isinstance(value, (list, tuple)) else [value]
        files = [one for one in values if isinstance(one, str) and one and one != "-" and "://" not in one]
        if name in _WRITTEN:
            written += files
        else:
            read += (one for one in files if os.path.isfile(one))
    check_distinct(read, written)


def check_output(path: str, force: bool, *, is_folder: bool = False) -> None:
    """Raise when an output, a file or a folder, cannot or must not be written, before any work is done."""
    if path == "-":
        return
    if os.path.isdir(path) and not is_folder:
        raise InvalidInputError(f"the output {path} is a directory; name a file")
    if os.path.exists(path) and not force:
        raise InvalidInputError(f"{path} exists already; name another output, or overwrite it with --force")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InvalidInputError(f"there is no directory {folder} for the output; create it first")
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"the directory {folder} cannot be written to; name another output")


def opened_map(arguments: argparse.Namespace) -> Any:
    """Return the map that a command is about, once its output can be written."""
    from ldmaps.maps.loading import load

    if arguments.output is not None:
        check_output(arguments.output, arguments.force)
    model = load(arguments.model)
    model.n_threads = getattr(arguments, "threads", model.n_threads)
    return model


class _Terminated(BaseException):
    """SIGTERM arrived."""


#: What a signal raises in the main thread.
_RAISED: dict[int, type[BaseException]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: _Terminated}
#: Seconds after which a signal that ended nothing is sent again.
_REMINDED_AFTER = 1.0


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that half-written files are removed."""
    # An exception that a signal raises can get lost: Python drops it in finalisers and in a callback of every import,
    # and C code that imports a module may clear it. So a signal is sent again until the command ends.
    arrived: list[int] = []
    reminders: list[int] = []
    has_ended = False
    ending = (
        _thread.allocate_lock()
    )  # held to send a signal: none is sent once the handlers are the former ones

    def remind(number: int) -> None:
        while True:
            time.sleep(_REMINDED_AFTER)
            with ending:
                if has_ended:
                    return
                reminders.append(number)
                _signal_main_thread(number)

    def stop(number: int, *_: object) -> None:
        is_reminder = bool(reminders) and reminders.pop() == number
        if is_reminder and _is_stopping():
            return
        if not arrived:
            # Not by threading, whose locks the main thread may hold just now.
            with suppress(RuntimeError):
                _thread.start_new_thread(remind, (number,))
        arrived.append(number)
        raise _RAISED[number]

    if threading.current_thread() is not threading.main_thread():  # main() was called by a program
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    try:
        with _dropped_signals_unreported():
            yield
    except (LdmapsError, OSError, MemoryError):
        raise
    except Exception:
        # What was raised may have become another error, even one that does not name its cause: an ImportError where C
        # code imports, a RuntimeError in the body of a class (Python 3.11).
        if not arrived:
            raise
        raise _RAISED[arrived[0]] from None
    finally:
        with ending:
            has_ended = True
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_main_thread(number: int) -> None:
    """Send the main thread a signal that wakes it from a system call too, such as reading a pipe that stays open."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:  # Windows, where nothing wakes it
        _thread.interrupt_main(signal.Signals(number))


def _is_stopping() -> bool:
    """Say whether the main thread is cleaning up after a signal, which must not be interrupted."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, tuple(_RAISED.values())):
        error = error.__context__
    return error is not None


@contextmanager
def _dropped_signals_unreported() -> Iterator[None]:
    """Print nothing of a signal's exception that Python drops."""
    report = sys.unraisablehook

    def report_others(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type not in _RAISED.values():
            report(dropped)

    sys.unraisablehook = report_others
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def _warnings_in_a_line(quiet: bool, parser: argparse.ArgumentParser | None) -> Iterator[None]:
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = in_flags(message, parser).removeprefix("Warning: ")
        if not quiet and text not in shown:  # other packages warn again with every file they open
            shown.add(text)
            if (progress := sys.modules.get("ldmaps.progress")) is not None:
                progress.clear()
            complain(f"warning: {text}")

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield


@contextmanager
def _clean_streams(debug: bool) -> Iterator[None]:
    """Keep what C libraries print (mdtraj's readers do) out of our streams."""
    # Python's own stdout and stderr move to copies of their descriptors; 1 and 2 lead nowhere until the command ends.
    streams = sys.stdout, sys.stderr
    copies: tuple[int, ...] = ()
    if not debug and streams == (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, AttributeError):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            copies = os.dup(1), os.dup(2)
    if not copies:
        yield
        return
    sys.stdout = os.fdopen(copies[0], "w", encoding="utf-8", newline="")
    sys.stderr = os.fdopen(copies[1], "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
        sys.stdout.flush()
    finally:
        if "numpy" in sys.modules:  # or else no such library has been loaded
            with suppress(ImportError, OSError, AttributeError, TypeError):
                import ctypes

                ctypes.CDLL(None).fflush(None)  # the C library's buffers, while 1 still leads nowhere
        os.dup2(copies[0], 1)
        os.dup2(copies[1], 2)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.close()
        sys.stdout, sys.stderr = streams


def _close_stdout() -> None:
    # The interpreter flushes stdout when it ends, and would complain.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def complain(text: str) -> None:
    """Say on stderr what is wrong."""
    print(printable(f"ldmaps: {text}"), file=sys.stderr, flush=True)


def in_flags(error: object, parser: argparse.ArgumentParser | None = None) -> str:
    """Return the text of an error or warning, in one line, with options of a command where it names settings.

    >>> from ldmaps.errors import InvalidInputError
    >>> in_flags(InvalidInputError(Named("n_landmarks", 400), " is too many; use ", Named("epsilon", "connected")))
    '--n-landmarks 400 is too many; use --epsilon connected'
    """
    if isinstance(error, Message):
        return one_line(error.worded(lambda named: _spelled(named, parser)))
    return one_line(error)


def _option_of(setting: str, parser: argparse.ArgumentParser | None) -> str | None:
    described = {**LIMITS, **LANDMARK_FIT}
    if setting in described:
        return described[setting].option or None
    if setting == "top":
        return "-t"  # as all examples spell it
    actions = parser._actions if parser else ()
    return next((max(one.option_strings, key=len) for one in actions if one.dest == setting), None)


def _spelled(named: Named, parser: argparse.ArgumentParser | None) -> str:
    option = _option_of(named.setting, parser)
    if option is None:
        return str(named)
    value = named.value
    if value is None or value is True or value is ...:
        return option
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, (list, tuple)):
        text = ",".join(map(str, value))
    return f'{option} "{text}"' if " " in text else f"{option} {text}"
