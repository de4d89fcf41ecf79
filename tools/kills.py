"""Kill streams again and again, start them again each time, and compare what they wrote byte by byte: ``make kills``.

Every attempt is a process of its own (forked, so that importing is paid once). It is killed from outside with SIGKILL
after a random time, or kills itself at the worst moments: in the middle of a write, between making an output safe and
renaming the checkpoint, right after the renaming. Others get SIGINT or SIGTERM and end in good order. A round is over
when an attempt reaches the end of its source; then its outputs must be those of a stream that was left alone.

    python tools/kills.py --kills 1000 --seed 7 --only csv

Where strace is installed, ``--faults 60`` lets calls of the system fail as well: a full or broken disk, a read that
fails, a file system without locks. An attempt may then end with an error of ldmaps or of the disk; the next goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ldmaps import LandmarkDiffusionMap, door
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import LdmapsError
from ldmaps.regions import Box, RegionTracker
from ldmaps.streaming import EventsFile, OutputFile, QuarantineFile, Sink, StreamEmbedder
from ldmaps.streaming.reservoir import OutsideFile
from ldmaps.streaming.sources import open_source

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

__all__ = ["CASES", "main"]

#: Records of a stream, and to a batch of it.
RECORDS, BATCH = 3000, 16
#: Seconds that a case may take for each kill.
PATIENCE = 5.0
#: How an attempt ends, unless it comes to the end of its source before.
WAYS = (
    "SIGKILL at any time",
    "SIGINT at any time",
    "SIGTERM at any time",
    "in a write",
    "before a rename",
    "after a rename",
    "after an fsync",
)


@dataclass(frozen=True)
class Case:
    """A source and a form of output.

    Attributes
    ----------
    name : str
    prepare : callable
        Takes a folder, writes the input there, and returns the model and a function that
        makes the source.
    output : str
        Suffix of the output's file; "redis" for a Redis stream.
    needs : tuple of str
        Modules and programs without which the case is left out.
    """

    name: str
    prepare: Callable[[Path], tuple[Any, Callable[[], Any]]]
    output: str
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What this machine does not have."""
        from importlib.util import find_spec

        return [name for name in self.needs if find_spec(name) is None and shutil.which(name) is None]


# -- inputs ------------------------------------------------------------------------------


def _model() -> Any:
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(swiss_roll(300, random_state=0).points)


def _rows() -> list[list[float]]:
    """Return points, some of them outside of the map."""
    points, rng = swiss_roll(400, random_state=0).points, np.random.default_rng(1)
    rows = np.round(points[rng.integers(0, 400, RECORDS)], 6)
    rows[::61] += 40.0
    found: list[list[float]] = rows.tolist()
    return found


def _lines(form: str) -> str:
    """Return records as text, some of which are bad."""
    lines = []
    for number, row in enumerate(_rows()):
        text = json.dumps(row) if form == "ndjson" else ",".join(map(str, row))
        if number % 97 == 5:
            text = "[NaN,1,2]" if form == "ndjson" else "nan,1,2"
        elif number % 101 == 7:
            text = '{"x": [1, 2' if form == "ndjson" else "rubbish"
        lines.append(text)
    return "\n".join(lines) + "\n"


def _table(folder: Path, form: str, follow: bool) -> tuple[Any, Callable[[], Any]]:
    path = folder / f"input.{form}"
    path.write_text(_lines(form))
    return _model(), partial(open_source, path, follow=follow, idle_end=0.0 if follow else None)


def _npy(folder: Path) -> tuple[Any, Callable[[], Any]]:
    """Write messages of one point, of many, and of points that are none."""
    rows = np.array(_rows())
    rows[5::97] = np.nan
    with open(folder / "input.npy", "wb") as stream:
        for part in (rows[:1000], rows[1000], rows[1001:1002], np.ones((7, 2)), rows[1002:]):
            np.save(stream, part)
    return _model(), partial(open_source, folder / "input.npy")


def _in_memory(folder: Path, as_list: bool) -> tuple[Any, Callable[[], Any]]:
    rows = _rows()
    items = [*rows[:100], "no point", *rows[100:]] if as_list else np.array(rows)
    return _model(), lambda: items


def _trajectory(folder: Path, form: str, follow: bool) -> tuple[Any, Callable[[], Any]]:
    from written_trajectories import mdtraj_trajectory  # type: ignore[import-not-found]

    trajectory = mdtraj_trajectory(stride=20)
    trajectory[0].save_pdb(str(folder / "top.pdb"))
    path = folder / f"input.{form}"
    trajectory.save(str(path))
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=30, extension="nystrom")
    model.fit(alanine_dipeptide(stride=60).frames)
    return model, partial(
        open_source, path, top=folder / "top.pdb", follow=follow, idle_end=0.0 if follow else None
    )


def _redis(
    folder: Path, url: Callable[[str], str], client: Callable[[], Any]
) -> tuple[Any, Callable[[], Any]]:
    pipeline = client().pipeline()
    for number, row in enumerate(_rows()):
        fields = {"x": json.dumps(row)} if number % 97 != 5 else {"x": "rubbish"}
        pipeline.xadd("input", fields)
    pipeline.execute()
    return _model(), partial(open_source, url("input"), idle_end=0.0)


class _Server:
    """The Redis server of the tests, started when the first case needs it."""

    def __init__(self) -> None:
        self._running: Any = None

    def get(self) -> Any:
        """Return it, running."""
        if self._running is None:
            from redis_server import RedisServer  # type: ignore[import-not-found]

            self._folder = tempfile.TemporaryDirectory(prefix="kills-redis-")
            self._running = RedisServer(Path(self._folder.name))
            self._running.start()
        return self._running

    def stop(self) -> None:
        """End it, if it was started."""
        if self._running is not None:
            self._running.kill()
            self._folder.cleanup()
            self._running = None


SERVER = _Server()
_TRAJECTORY, _REDIS = ("mdtraj",), ("redis", "redis-server")
CASES = (
    Case("csv", partial(_table, form="csv", follow=False), "csv"),
    Case("ndjson", partial(_table, form="ndjson", follow=False), "ndjson"),
    Case("npy", _npy, "tsv"),
    Case("followed csv", partial(_table, form="csv", follow=True), "ndjson"),
    Case("followed ndjson", partial(_table, form="ndjson", follow=True), "csv"),
    Case("array", partial(_in_memory, as_list=False), "csv"),
    Case("list", partial(_in_memory, as_list=True), "csv"),
    Case("xtc", partial(_trajectory, form="xtc", follow=False), "csv", _TRAJECTORY),
    Case("followed xtc", partial(_trajectory, form="xtc", follow=True), "csv", _TRAJECTORY),
    Case("followed trr", partial(_trajectory, form="trr", follow=True), "csv", _TRAJECTORY),
    Case("followed dcd", partial(_trajectory, form="dcd", follow=True), "csv", _TRAJECTORY),
    Case(
        "redis",
        lambda folder: _redis(folder, SERVER.get().url, lambda: SERVER.get().client),
        "csv",
        _REDIS,
    ),
    Case("to redis", partial(_table, form="csv", follow=False), "redis", _REDIS),
)


# -- one attempt -------------------------------------------------------------------------


def _stream(
    case: Case, model: Any, make_source: Callable[[], Any], place: Path, checkpoint: Path | None
) -> None:
    tracker = RegionTracker({"right": Box({"psi2": (0.0, None)})}, enter_after=2, dwell_every=7)
    engine = StreamEmbedder(model, max_batch=BATCH, tracker=tracker, bad_records="quarantine", n_threads=1)
    output: Sink
    if case.output == "redis":
        from ldmaps.streaming.sinks.redis import RedisSink

        output = RedisSink(SERVER.get().url(place.name), regions=tracker.names)
    else:
        output = OutputFile(place / f"psi.{case.output}", regions=tracker.names)
    sinks = [
        output,
        EventsFile(place / "events.ndjson"),
        QuarantineFile(place / "bad.ndjson"),
        OutsideFile(place / "outside.npz", model, capacity=20, overwrite=True),
    ]
    engine.run(make_source(), sinks, checkpoint=checkpoint, checkpoint_every=0.002)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit("SIGKILL did not kill")


def _sabotage(way: str, countdown: int) -> None:
    """Let this process kill itself at the countdown-th call of something."""
    write, replace, fsync = door.write, door.replace, door.fsync
    left = [countdown]

    def is_time() -> bool:
        left[0] -= 1
        return left[0] <= 0

    def torn_write(descriptor: int, data: Any) -> int:
        if is_time():
            write(descriptor, data[: len(data) // 2])
            _die()
        return write(descriptor, data)

    def no_rename(old: str, new: str) -> None:
        if is_time():
            _die()
        replace(old, new)

    def only_rename(old: str, new: str) -> None:
        replace(old, new)
        if is_time():
            _die()

    def only_fsync(descriptor: int) -> None:
        fsync(descriptor)
        if is_time():
            _die()

    name, function = {
        "in a write": ("write", torn_write),
        "before a rename": ("replace", no_rename),
        "after a rename": ("replace", only_rename),
        "after an fsync": ("fsync", only_fsync),
    }[way]
    setattr(door, name, function)


def _attempt(run: Callable[[], None], rng: random.Random, way: str | None) -> bool:
    """Run a stream in another process; return whether it was ended before its source was."""
    countdown, pause = rng.randint(1, 40), rng.uniform(0, 0.3)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            if way is not None and way.startswith(("in", "before", "after")):
                _sabotage(way, countdown)
            run()
            status = 0
        except KeyboardInterrupt:
            status = 3
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)
    if way is not None and way.endswith("at any time"):
        time.sleep(pause)
        os.kill(child, getattr(signal, way.split()[0]))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 3:
        return True
    if os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"an attempt that was to be ended {way or 'by its source'} failed by itself")
    return False


# -- calls that fail -----------------------------------------------------------------------

#: Calls of the system, and what they may answer.
FAULTS = (
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("fsync", "EIO"),
    ("fsync", "ENOSPC"),
    ("rename", "EIO"),
    ("ftruncate", "EIO"),
    ("pread64", "EIO"),
    ("read", "EIO"),
    ("flock", "ENOLCK"),
    ("flock", "ENOSYS"),
    ("unlink", "EIO"),
)
_FAILED = 4  # exit status of an attempt that ended with an error which it may end with


def _with_fault(case: Case, folder: Path, place: Path, rng: random.Random) -> tuple[str, int]:
    """Run an attempt under strace, which lets one call fail; return which, and the exit status."""
    call, answer = rng.choice(FAULTS)
    # Only of the stream's own files: what Python loads is no matter of ours.
    outputs = [place / f"psi.{case.output}", place / "events.ndjson", place / "bad.ndjson"]
    source = folder / f"input.{case.name.split()[-1]}"
    paths = {"read": [place / "checkpoint"], "write": outputs, "pread64": [source, *outputs]}.get(call, [])
    fault = f"{call}:error={answer}:when={rng.randint(1, 12)}"
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        *(word for path in paths for word in ("-P", str(path))),
    ]
    command += ["-e", f"trace={call}", "-e", f"inject={fault}", sys.executable, __file__]
    command += ["--attempt", str(folder), str(place), "--only", case.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, _FAILED):
        raise RuntimeError(
            f"{case.name}: {fault} ended an attempt with status {done.returncode}: {done.stderr[-800:]}"
        )
    return fault, done.returncode


def _one_attempt(case: Case, folder: Path, place: Path) -> int:
    """Do what an attempt under strace is to do."""
    model, make_source = case.prepare(folder)
    try:
        _stream(case, model, make_source, place, place / "checkpoint")
    except (LdmapsError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return _FAILED
    return 0


def fail_calls(case: Case, faults: int, seed: int, folder: Path) -> tuple[int, int]:
    """Let so many calls of a case's streams fail; return how many did, and the rounds, or raise RuntimeError."""
    rng, happened, done, rounds = random.Random(f"{seed} {case.name}"), 0, 0, 0
    expected = folder / "expected"
    expected.mkdir()
    if _one_attempt(case, folder, expected):
        raise RuntimeError(f"{case.name}: an attempt that nothing disturbed failed")
    wanted = _written(case, expected)
    while done < faults:
        place = folder / f"faults{rounds}"
        place.mkdir()
        history = []
        for _ in range(4):
            fault, status = _with_fault(case, folder, place, rng)
            history.append(fault)
            done, happened = done + 1, happened + (status == _FAILED)
            if status == 0:
                break
        else:
            if _one_attempt(case, folder, place):
                raise RuntimeError(f"{case.name}: a sound attempt failed after {history}, seed {seed}")
        if _written(case, place) != wanted:
            raise RuntimeError(f"{case.name}: an output differs after {history}, seed {seed}")
        rounds += 1
    return happened, rounds


# -- a case ------------------------------------------------------------------------------


def _written(case: Case, place: Path) -> dict[str, Any]:
    """Return everything that a stream wrote, by the name of its output."""
    content: dict[str, Any] = {
        path.name: path.read_bytes()
        for path in place.iterdir()
        # A lock that could not be removed is empty, and the next stream takes it.
        if path.name not in ("checkpoint", "checkpoint.lock") and not path.name.startswith(".")
    }
    if case.output == "redis":
        entries = SERVER.get().client.xrange(place.name)
        # The second half of an identifier is the run, a random number.
        content["redis"] = [(identifier.split(b"-")[0], fields) for identifier, fields in entries]
    return content


def kill(case: Case, kills: int, seed: int, folder: Path) -> tuple[Counter[str], int]:
    """Kill a case's streams so many times; return how often in which way and the rounds, or raise RuntimeError."""
    rng = random.Random(f"{seed} {case.name}")
    if case.output == "redis":
        SERVER.get()  # not by each child its own
    model, make_source = case.prepare(folder)
    StreamEmbedder(model).warm_up()  # so that not every attempt loads the compiled loops
    expected = folder / "expected"
    expected.mkdir()
    # In a process of its own as well: threads that were begun here would not be there after a fork.
    _attempt(partial(_stream, case, model, make_source, expected, None), rng, None)
    wanted = _written(case, expected)
    if len(wanted["redis" if case.output == "redis" else f"psi.{case.output}"]) < 1000:
        raise RuntimeError(f"{case.name}: next to nothing was written, so that nothing is compared")
    done: Counter[str] = Counter()
    rounds = 0
    deadline = time.monotonic() + 60 + PATIENCE * kills
    while done.total() < kills or not rounds:
        place = folder / f"round{rounds}"
        place.mkdir()
        run = partial(_stream, case, model, make_source, place, place / "checkpoint")
        while True:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{case.name}: not done in time: {dict(done)}")
            way = rng.choice(WAYS) if done.total() < kills else None
            if not _attempt(run, rng, way):
                break
            done[str(way)] += 1
        written = _written(case, place)
        for name in sorted(wanted.keys() | written.keys()):
            if written.get(name) != wanted.get(name):
                raise RuntimeError(
                    f"{case.name}: {name} differs in round {rounds} with seed {seed}, after {dict(done)}"
                )
        shutil.rmtree(place)
        rounds += 1
    return done, rounds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 1 if an output differed."""
    parser = argparse.ArgumentParser(
        prog="kills", description="Kill streams, start them again, compare outputs."
    )
    parser.add_argument("--kills", type=int, default=1000, help="in all, shared by the cases (default: 1000)")
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    parser.add_argument("--only", metavar="NAME", help="one case: " + ", ".join(case.name for case in CASES))
    parser.add_argument(
        "--faults", type=int, default=0, help="calls of the system that fail, in all (default: 0)"
    )
    parser.add_argument("--attempt", nargs=2, type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    cases = [case for case in CASES if options.only in (None, case.name)]
    if not cases:
        parser.error(f"no case is called {options.only!r}")
    if options.attempt:
        return _one_attempt(cases[0], *options.attempt)
    for case in [case for case in cases if case.missing]:
        print(f"{case.name:16} left out: {', '.join(case.missing)} is not installed")
        cases.remove(case)
    each = -(-options.kills // max(1, len(cases)))
    total, failed = 0, 0
    with ExitStack() as stack:
        stack.callback(SERVER.stop)
        for case in cases:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
            try:
                done, rounds = kill(case, each, seed, folder)
            except RuntimeError as error:
                failed += 1
                print(f"FAILED {error}", flush=True)
                continue
            total += done.total()
            ways = ", ".join(f"{done[way]} {way}" for way in WAYS if done[way])
            print(f"{case.name:16} {done.total()} kills in {rounds} rounds: {ways}", flush=True)
        plain = [case for case in cases if case.name in ("csv", "ndjson", "followed csv")]
        for case in plain if options.faults and shutil.which("strace") else []:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
            try:
                happened, rounds = fail_calls(case, -(-options.faults // len(plain)), seed, folder)
            except RuntimeError as error:
                failed += 1
                print(f"FAILED {error}", flush=True)
                continue
            print(
                f"{case.name:16} {happened} attempts failed by calls that did, in {rounds} rounds", flush=True
            )
    print(f"{total} kills, {failed} of {len(cases)} cases failed, seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
