"""Feed the library what nobody should send it, and see that only documented errors come: ``make fuzz``.

Every target of tools/fuzz_targets.py is tried in turn until the time is over. An attempt is decided by the seed, the
target's name and its number alone, so that what was found is found again with ``--seed S --only NAME --first N``.
Time and memory of an attempt are limited; whatever passes a limit counts as found, as does any other exception than
:class:`ldmaps.errors.LdmapsError` and, where the file system is at fault, :class:`OSError`.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fuzz_targets import TARGETS, Target
from fuzz_world import World

__all__ = ["attempt", "main"]

#: Seconds that one attempt may take, and bytes that the process may take more than it has when it begins.
PATIENCE, MEMORY = 20.0, 1 << 30
#: Attempts of a target in a row.
IN_A_ROW = 20


class TooSlowError(BaseException):
    """An attempt took too long; no Exception, so that nothing catches it on the way."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TooSlowError` in a block that takes too long, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooSlowError(f"not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bound_memory(more: int) -> None:
    """Let the process take no more than so many bytes on top of what it has; MemoryError is then found."""
    try:
        import resource

        status = Path("/proc/self/status").read_text()
    except (ImportError, OSError):
        return
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
    limit = 1024 * kilobytes + more
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def attempt(world: World, target: Target, seed: int, number: int) -> BaseException | None:
    """Carry out one attempt; return what should not have come."""
    rng = np.random.default_rng([seed, *target.__name__.encode(), number])
    with tempfile.TemporaryDirectory(dir=world.folder) as folder:
        try:
            with limited(PATIENCE):
                target(world, rng, Path(folder))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all targets until the time is over; return 1 if something was found."""
    names = [target.__name__ for target in TARGETS]
    parser = argparse.ArgumentParser(
        prog="fuzz", description="Hostile input; only documented errors may come."
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (600)")
    parser.add_argument("--seed", type=int, default=0, help="which attempts (0)")
    parser.add_argument(
        "--only", choices=names, nargs="+", metavar="TARGET", help=f"some of {', '.join(names)}"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first attempt (0)")
    options = parser.parse_args(arguments)
    only = options.only or names
    targets = [target for target in TARGETS if target.__name__ in only]
    counts: Counter[str] = Counter()
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, World(Path(folder)) as world:
        bound_memory(MEMORY)
        end = time.monotonic() + options.seconds
        for block in itertools.count(0, IN_A_ROW):
            if time.monotonic() > end:
                break
            for target, step in itertools.product(targets, range(IN_A_ROW)):
                if time.monotonic() > end:
                    break
                number = options.first + block + step
                counts[target.__name__] += 1
                error = attempt(world, target, options.seed, number)
                if error is not None:
                    replay = f"--seed {options.seed} --only {target.__name__} --first {number}"
                    found[target.__name__].setdefault(_place(error), f"{replay}\n{_text(error)}")
    for name in (target.__name__ for target in targets):
        print(f"{name:12} {counts[name]:6} attempts, {len(found[name])} found")
        for text in found[name].values():
            print(text, file=sys.stderr)
    return 1 if any(found.values()) else 0


def _place(error: BaseException) -> str:
    """Return what tells one finding from another: the kind of error, and the last line of ours that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "ldmaps" in frame.filename] or list(frames)
    return f"{type(error).__name__} {ours[-1].filename}:{ours[-1].lineno}"


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-6:])


if __name__ == "__main__":
    sys.exit(main())
