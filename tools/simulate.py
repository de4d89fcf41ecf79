"""Run streams in simulated worlds that fail in every way we know, each world decided by its seed: ``make simulate``.

The engine is the real one; disk, clock, signals, pipe and Redis server are those of ``simulated_world.py``. A stream
is started, disturbed (killed, out of power, a full disk, a server that goes …), and started again until it comes to its
end. Then its outputs must be, byte by byte, those of a stream that nothing disturbed. An attempt may fail only with an
error of ldmaps, or the error of the disk itself; the last one, in a world that is sound again, must not fail.

    python tools/simulate.py --worlds 100000 --processes 2
    python tools/simulate.py --seed 4711      # that world again, with the fewest of its faults that show the failure
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulated_world import Crash, Fault, Terminated, World

from ldmaps import LandmarkDiffusionMap, archive
from ldmaps.datasets import swiss_roll
from ldmaps.errors import LdmapsError, SourceError
from ldmaps.inputs.windows import Cutter, Windows
from ldmaps.regions import Box, RegionTracker
from ldmaps.streaming import EventsFile, OutputFile, QuarantineFile, Sink, StreamEmbedder
from ldmaps.streaming.reservoir import OutsideFile, Reservoir
from ldmaps.streaming.running import Run
from ldmaps.streaming.sinks.files import TextSink
from ldmaps.streaming.sinks.redis import RedisSink
from ldmaps.streaming.sources import open_source
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory
from ldmaps.streaming.sources.redis import RedisSource
from ldmaps.streaming.sources.tables import FileSource, PipeSource

__all__ = ["PLANTED", "Failure", "main", "planted", "simulate"]

#: Records of a stream.
RECORDS = 20
FATAL = ("kill", "power", "SIGTERM")
HARMLESS = ("short write", "short read", "clock")
BAD_DISK = ("full disk", "bad write", "bad sync", "bad folder", "bad read", "no rename")
SERVER = ("server gone", "answer lost")
CHECKPOINT, OUTPUT, EVENTS, BAD = "/state/c", "/out/psi", "/out/events.ndjson", "/out/bad.ndjson"
OUTSIDE = "/out/outside.npz"
#: Stands for "all lines", of which a source that failed for good may have delivered any number.
ANY = -1


class Failure(Exception):  # noqa: N818 - what is looked for
    """A world in which the promise was broken."""


# -- what is streamed ----------------------------------------------------------------------


@cache
def _model() -> Any:
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=12).fit(swiss_roll(60, random_state=0).points)


@cache
def _model_of_windows() -> Any:
    windows: Any = Windows(4).of(swiss_roll(60, random_state=0).points)
    return LandmarkDiffusionMap(2, n_landmarks=12).fit(windows)


def _rows(variant: int) -> list[list[float]]:
    rng = np.random.default_rng(variant)
    rows = np.round(swiss_roll(60, random_state=0).points[rng.integers(0, 60, RECORDS)], 3)
    rows[::7] += 40.0
    found: list[list[float]] = rows.tolist()
    return found


@cache
def _lines(form: str, variant: int) -> tuple[bytes, ...]:
    """Return lines, some of which are no records."""
    lines = [json.dumps(row) if form == "ndjson" else ",".join(map(str, row)) for row in _rows(variant)]
    lines[3 + variant % 5] = "rubbish"
    if form == "csv" and variant % 2:
        lines.insert(0, "x,y,z")
    return tuple(line.encode() + b"\n" for line in lines)


@cache
def _frames_model() -> Any:
    return LandmarkDiffusionMap(2, "connected", "rmsd", n_landmarks=12).fit(_frames(60))


def _frames(count: int, seed: int = 0) -> Any:
    """Return frames of a chain of six atoms that bends."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.uniform(-0.6, 0.6, (count, 6)), axis=1)
    bent = np.cumsum(np.stack([np.cos(steps), np.sin(steps), 0.3 * steps], axis=2), axis=1)
    return np.round(bent / 3, 3)


@cache
def _trajectory(form: str, variant: int) -> bytes:
    """Return a trajectory file; in every other one a frame is damaged."""
    import mdtraj

    from ldmaps.inputs.frame_formats import FRAME_FORMATS

    with tempfile.TemporaryDirectory() as folder:
        name = f"{folder}/run.{form}"
        mdtraj.Trajectory(_frames(RECORDS, 1 + variant), _topology()).save(name)
        data = bytearray(Path(name).read_bytes())
    if variant % 2:
        reader = FRAME_FORMATS[form.upper()]()
        reader.read_header(bytes(data))
        place = reader.index(lambda byte, count: bytes(data[byte : byte + count]), len(data)).starts[7]
        data[place : place + 4] = b"\xff\xff\xff\xff"
    return bytes(data)


@cache
def _topology() -> Any:
    import mdtraj

    topology = mdtraj.Topology()
    residue = topology.add_residue("ARG", topology.add_chain())
    for _ in range(6):
        topology.add_atom("Ar", mdtraj.element.argon, residue)
    return topology


@cache
def _npy(variant: int) -> bytes:
    stream, rows = io.BytesIO(), np.array(_rows(variant))
    for part in (rows[:7], rows[7], np.ones((2, 2)), rows[8:]):
        np.save(stream, part)
    return stream.getvalue()


@dataclass
class Scene:
    """A world with its inputs, and how a stream is started in it."""

    world: World
    variant: int
    source: Callable[[], Any]
    output: Callable[[], Sink]
    faults: tuple[str, ...] = (*FATAL, *FATAL, *HARMLESS, *BAD_DISK)
    checkpoint: str | None = CHECKPOINT
    #: Lines that had come when the source failed for good, or ANY; None where it does not.
    cut_at: Callable[[], int | None] = field(default=lambda: None)
    model: Callable[[], Any] = _model
    more: Callable[[], list[Sink]] = list

    def stream(self) -> None:
        """Start it, or go on with it."""
        tracker = RegionTracker({"right": Box({"psi2": (0.0, None)})}, dwell_every=3)
        engine = StreamEmbedder(
            self.model(), max_batch=6, tracker=tracker, bad_records="quarantine", n_threads=1
        )
        sinks = [self.output(), EventsFile(EVENTS), QuarantineFile(BAD), *self.more()]
        every = (0.0, 0.001, 1.0)[self.variant % 3]
        engine.run(self.source(), sinks, checkpoint=self.checkpoint, checkpoint_every=every)

    def written(self) -> dict[str, Any]:
        """Return everything that was written, by the name of its output."""
        content: dict[str, Any] = {
            name: bytes(inode.data)
            for name, inode in self.world.names.items()
            if name.startswith("/out/") and not name.endswith(".part")  # a later run removes it
        }
        entries = self.world.redis.streams.get("out", [])
        content["redis"] = [(identifier.split(b"-")[0], fields) for identifier, fields in entries]
        return content


def _table(world: World, variant: int, form: str) -> Scene:
    data = _npy(variant) if form == "npy" else b"".join(_lines(form, variant))
    world.put(f"/in/table.{form}", data)
    output = partial(OutputFile, f"{OUTPUT}.{'ndjson' if form == 'ndjson' else 'csv'}", regions=["right"])
    return Scene(world, variant, lambda: open_source(f"/in/table.{form}"), output)


def _windows(world: World, variant: int) -> Scene:
    """Stream a table over a map of windows, which a restart cuts anywhere."""
    scene = _table(world, variant, "csv")
    scene.model = _model_of_windows
    return scene


def _with_outside(world: World, variant: int) -> Scene:
    """Keep some of the records outside of the map, as ``--outside`` does."""
    scene = _table(world, variant, "csv")
    scene.more = lambda: [OutsideFile(OUTSIDE, _model(), capacity=2 + variant % 2)]
    return scene


def _followed_trajectory(world: World, variant: int, form: str) -> Scene:
    scene = _followed(world, variant, form, _trajectory(form, variant))
    scene.source = partial(GrowingTrajectory, f"/in/table.{form}", top=_topology(), idle_end=1e8)
    scene.model = _frames_model
    return scene


def _followed(world: World, variant: int, form: str, data: bytes = b"") -> Scene:
    """Let another process write a table (or a trajectory, ``data``), piece by piece, cut anywhere."""
    behaviour = world.rng.choice(["grow"] * 4 + ["truncate", "rotate"]) if not data else "grow"
    data = data or b"".join(_lines(form, variant))
    name, last = f"/in/table.{form}", [world.now]
    inode = world.put(name, b"")
    limit = world.rng.randint(1, len(data)) if behaviour != "grow" else len(data)
    spoilt: list[int] = []

    def work() -> bool:
        if world.now - last[0] < 0.04 or spoilt:
            return not spoilt
        last[0] = world.now
        if len(inode.data) >= limit and behaviour == "truncate":
            spoilt.append(data[:limit].count(b"\n"))
            inode.data = inode.data[: limit // 2]
        elif len(inode.data) >= limit and behaviour == "rotate":
            spoilt.append(data[:limit].count(b"\n"))
            world.put(name, b"1,2,3\n")
        elif world.rng.random() < 0.8:  # otherwise it stalls
            inode.data += data[len(inode.data) :][: min(world.rng.randint(1, 200), limit - len(inode.data))]
        inode.sync()
        return len(inode.data) < limit or behaviour != "grow"

    world.writers.append(work)
    source = partial(open_source, name, follow=True, idle_end=1e8)
    scene = Scene(world, variant, source, partial(OutputFile, f"{OUTPUT}.csv", regions=["right"]))
    if behaviour != "grow":
        scene.faults = ("short write", "clock")  # what is read in time must not depend on faults
        scene.cut_at = lambda: spoilt[0] if spoilt else None
    return scene


def _pipe(world: World, variant: int) -> Scene:
    """Send lines through a pipe, which ends, or is reset."""
    data, sent = b"".join(_lines("csv", variant)), [0]
    world.pipe = world._new_inode()

    def work() -> bool:
        pipe = world.pipe
        assert pipe is not None
        if sent[0] < len(data):
            step = world.rng.randint(1, 120)
            pipe.data += data[sent[0] : sent[0] + step]
            sent[0] += step
        else:
            pipe.locked_by = 0
        return True

    world.writers.append(work)
    work()
    scene = Scene(
        world,
        variant,
        lambda: PipeSource(0, "csv", {"n_features": 3}),
        partial(OutputFile, f"{OUTPUT}.csv", regions=["right"]),
        faults=("reset", "short write", "clock"),
        checkpoint=None,
    )

    def lines_received() -> int | None:
        assert world.pipe is not None
        return world.pipe.safe.count(b"\n")

    scene.cut_at = lines_received
    return scene


def _from_redis(world: World, variant: int, trimmed: bool = False) -> Scene:
    """Add entries while they are read; where they are trimmed, or deleted, some may go before that."""
    rows, added, removed = _rows(variant), [0], list[int]()

    def is_begun() -> bool:
        """Say whether a position is safe: before that, a stream begins with the oldest entry that is there."""
        checkpoint = world.safe_names.get(CHECKPOINT)
        return checkpoint is not None and b'"position": {' in checkpoint.safe

    def work() -> bool:
        for _ in range(world.rng.randint(0, 4)):
            if added[0] < len(rows):
                text = json.dumps(rows[added[0]]) if added[0] % 9 != 4 else "rubbish"
                world.redis.add("in", f"{added[0] + 1}-0", {b"x": text.encode()})
                added[0] += 1
        if trimmed and is_begun() and world.rng.random() < 0.2 and world.redis.remove("in", world.rng):
            removed.append(ANY)
        return added[0] < len(rows)

    world.writers.append(work)
    work()
    source = partial(open_source, "redis://server:1/in", idle_end=1e8)
    output = partial(OutputFile, f"{OUTPUT}.csv", regions=["right"])
    scene = Scene(world, variant, source, output, faults=(*FATAL, *SERVER, *SERVER, *HARMLESS, *BAD_DISK))
    scene.cut_at = lambda: removed[0] if removed else None
    return scene


def _to_redis(world: World, variant: int) -> Scene:
    scene = _table(world, variant, "csv")
    scene.output = partial(RedisSink, "redis://server:1/out", regions=["right"])
    scene.faults = (*FATAL, *SERVER, *SERVER, *HARMLESS, *BAD_DISK)
    return scene


SCENES: tuple[Callable[[World, int], Scene], ...] = (
    partial(_table, form="csv"),
    partial(_table, form="ndjson"),
    partial(_table, form="npy"),
    partial(_followed, form="csv"),
    partial(_followed, form="ndjson"),
    _pipe,
    _from_redis,
    _to_redis,
    partial(_from_redis, trimmed=True),
    _with_outside,
    partial(_followed_trajectory, form="xtc"),
    partial(_followed_trajectory, form="trr"),
    partial(_followed_trajectory, form="dcd"),
    _windows,
)


# -- one world -----------------------------------------------------------------------------


def _scene(which: int, variant: int, rng: Random) -> Scene:
    world = World(rng)
    world.folders |= {"/in", "/out", "/state"}
    return SCENES[which](world, variant)


@contextmanager
def _process(world: World, faults: list[Fault]) -> Iterator[None]:
    """Let one process live in a world; archives, which are not read through the door, are read from its disk."""
    real = archive._read

    def read(path: Any, **settings: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "archive")
            copy.write_bytes(world.names[os.fspath(path)].data)
            return real(copy, **settings)

    archive._read = read
    try:
        with world.process(faults):
            yield
    finally:
        archive._read = real


@cache
def _undisturbed(which: int, variant: int, lines: int | None = None) -> tuple[dict[str, Any], int]:
    """Return what a stream writes that nothing disturbs, of the first lines, and the steps that it takes."""
    if lines is None:
        for seed in range(100):
            scene = _scene(which, variant, Random(seed))
            with _process(scene.world, []):
                try:
                    scene.stream()
                except SourceError:
                    continue  # a writer that spoils its file
            return scene.written(), scene.world.steps
        raise RuntimeError("no world is sound")
    form = "ndjson" if which == 4 else "csv"
    scene = _scene(which, variant, Random(0))
    scene.world.put("/in/part", b"".join(_lines(form, variant)[:lines]))
    scene.source = lambda: FileSource("/in/part", form, {"n_features": 3})
    scene.checkpoint = None
    with _process(scene.world, []):
        scene.stream()
    return scene.written(), scene.world.steps


def simulate(seed: int, most_faults: int | None = None, unsynced: tuple[str, ...] = ()) -> list[str]:
    """Live through the world of a seed; return the faults that happened, or raise :class:`Failure`."""
    rng = Random(seed)
    which, variant = rng.randrange(len(SCENES)), rng.randrange(6)
    wanted, steps = _undisturbed(which, variant)
    scene = _scene(which, variant, Random(rng.random()))
    scene.world.unsynced = unsynced
    plan = [
        [Fault(rng.randint(1, steps), rng.choice(scene.faults)) for _ in range(rng.choice((1, 1, 2, 3)))]
        for _ in range(rng.choice((1, 1, 2, 3)) if scene.checkpoint else 1)
    ]
    left = sum(map(len, plan)) if most_faults is None else most_faults
    spoilt = ended = False
    for faults in [*plan, [], []]:
        taken, left = faults[:left], max(0, left - len(faults))
        is_sound = all(fault.kind in HARMLESS for fault in taken)
        with _process(scene.world, list(taken)):
            try:
                scene.stream()
                ended = True
            except (Crash, Terminated):
                pass
            except SourceError as error:
                spoilt = scene.cut_at() is not None
                if not spoilt and is_sound:
                    raise _failure(seed, scene, f"a sound world, but {error}") from error
            except (LdmapsError, OSError) as error:
                if is_sound:
                    raise _failure(
                        seed, scene, f"a sound world, but {type(error).__name__}: {error}"
                    ) from error
            except Exception as error:
                raise _failure(seed, scene, f"{type(error).__name__}: {error}") from error
        if ended or spoilt:
            break
    if not (ended or spoilt):
        raise _failure(seed, scene, "it never came to its end")
    if spoilt:
        lines = scene.cut_at()
        wanted, _ = _undisturbed(which, variant, None if lines == ANY else lines)
    written = scene.written()
    for name in sorted(wanted.keys() | written.keys()):
        if written.get(name, b"") != wanted.get(name, b"") and not (
            spoilt and _is_part(written, wanted, name)
        ):
            raise _failure(
                seed, scene, f"{name} is {written.get(name)!r:.2000}, not {wanted.get(name)!r:.2000}"
            )
    return scene.world.happened


def _is_part(written: dict[str, Any], wanted: dict[str, Any], name: str) -> bool:
    """Return whether an output has whole lines from the beginning: a file cut short loses what was not read."""
    text = written.get(name, b"")
    return not text or (text.endswith(b"\n") and wanted.get(name, b"").startswith(text))


def _failure(seed: int, scene: Scene, why: str) -> Failure:
    return Failure(f"seed {seed}: {why}; after {'; '.join(scene.world.happened) or 'no fault'}")


def shortest(seed: int, unsynced: tuple[str, ...] = ()) -> Failure | None:
    """Return the failure of a world with the fewest of its faults, from the first on, that show one."""
    for most in range(12):
        try:
            simulate(seed, most, unsynced)
        except Failure as failure:
            return failure
    return None


# -- planted bugs --------------------------------------------------------------------------


def _late_sync(flush: Callable[[TextSink], Any]) -> Callable[[TextSink], Any]:
    """Return a flush that promises before it syncs: the sync comes with the next one."""

    def promise_first(self: TextSink) -> Any:
        if self._descriptor is None:
            return flush(self)
        mark = {"bytes": self._written.end, "checksums": self._written.mark()}
        if getattr(self, "_promised", False):
            flush(self)
        self._promised = True  # type: ignore[attr-defined]
        return mark

    return promise_first


def _early_position(pass_on: Callable[[Run, Any], None]) -> Callable[[Run, Any], None]:
    """Return a step that takes the position before the sinks have the records."""

    def position_first(self: Run, records: Any) -> None:
        self._position, self._uncommitted = records.position, True
        try:
            pass_on(self, records)
        except Exception:
            self._commit()
            raise

    return position_first


#: Bugs that must be found, by name: files and folders whose fsync is left out, or a method and what takes its place.
PLANTED: dict[str, tuple[str, ...] | tuple[type, str, Callable[[Any], Any]]] = {
    "no fsync of outputs": (".csv", ".ndjson"),
    "no fsync of the checkpoint": (".part",),
    "no fsync of the output's folder": ("/out",),
    "no fsync of the checkpoint's folder": ("/state",),
    "promised before it is flushed": (TextSink, "flush", _late_sync),
    "position before the records": (Run, "_pass_on", _early_position),
    "outputs not cut back": (TextSink, "_begin", lambda _: lambda self: setattr(self, "_begun", True)),
    "outputs not compared with their marks": (TextSink, "_compare", lambda _: lambda self, mark: None),
    "tables read again from the beginning": (
        FileSource,
        "open",
        lambda real: lambda self, position=None: real(self),
    ),
    "windows begun anew": (Cutter, "restore", lambda _: lambda self, state: None),
    "frames read again from the beginning": (
        GrowingTrajectory,
        "open",
        lambda real: lambda self, position=None: real(self),
    ),
    "removed entries not missed": (RedisSource, "_check_gap", lambda _: lambda self, entries, info: None),
    "records outside counted twice": (Reservoir, "rewind", lambda _: lambda self, mark: None),
    "entries read again from the beginning": (
        RedisSource,
        "open",
        lambda real: lambda self, position=None: real(self),
    ),
}


@contextmanager
def planted(name: str) -> Iterator[tuple[str, ...]]:
    """Plant a bug; yields the names that are not synced."""
    bug = PLANTED[name]
    if isinstance(bug[0], str):
        yield bug
        return
    owner, method, change = bug
    real = getattr(owner, method)
    setattr(owner, method, change(real))
    try:
        yield ()
    finally:
        setattr(owner, method, real)


# -- many worlds ---------------------------------------------------------------------------


def _quiet() -> None:
    """Leave out what a stream tells people, and threads, which no seed decides."""
    logging.getLogger("ldmaps").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    FileSource.reads_ahead = False
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def worlds(
    seeds: range, unsynced: tuple[str, ...] = (), stop_at: int = 5
) -> tuple[int, Counter[str], list[str]]:
    """Live through worlds; return how many, the faults by kind, and the first failures."""
    reads_ahead = FileSource.reads_ahead
    done, happened, failures = 0, Counter[str](), list[str]()
    with warnings.catch_warnings():
        _quiet()
        try:
            for seed in seeds:
                done += 1
                try:
                    happened.update(one.split(" at step")[0] for one in simulate(seed, None, unsynced))
                except Failure as failure:
                    failures.append(str(shortest(seed, unsynced) or failure))
                    if len(failures) >= stop_at:
                        break
        finally:
            FileSource.reads_ahead = reads_ahead
    return done, happened, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate worlds; return 1 if the promise was broken in one."""
    parser = argparse.ArgumentParser(
        prog="simulate", description="Run streams in simulated worlds that fail."
    )
    parser.add_argument("--worlds", type=int, default=100_000, help="how many (default: 100,000)")
    parser.add_argument(
        "--first", type=int, default=None, help="the first seed; by default another one each time"
    )
    parser.add_argument("--seed", type=int, default=None, help="only the world of this seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="by default one per core")
    parser.add_argument("--plant", choices=PLANTED, help="a bug that must be found, within so many worlds")
    options = parser.parse_args(arguments)
    first = Random().randrange(10**9) if options.first is None else options.first
    if options.seed is not None:
        first, options.worlds, options.processes = options.seed, 1, 1
    began = time.monotonic()
    if options.plant:
        with planted(options.plant) as unsynced:
            done, _, failures = worlds(range(first, first + options.worlds), unsynced, stop_at=1)
        print(
            f"{options.plant}: {f'found in world {done}: {failures[0]}' if failures else f'not found in {done}'}"
        )
        return 0 if failures else 1
    size = -(-options.worlds // max(1, 20 * options.processes))
    parts = [
        range(at, min(at + size, first + options.worlds)) for at in range(first, first + options.worlds, size)
    ]
    total, happened, failed = 0, Counter[str](), list[str]()
    if options.processes == 1:
        results: Any = map(worlds, parts)
    else:
        results = ProcessPoolExecutor(options.processes).map(worlds, parts)
    for done, faults, failures in results:
        total, happened, failed = total + done, happened + faults, failed + failures
        for failure in failures:
            print(f"FAILED {failure}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in happened.most_common()))
    seconds = time.monotonic() - began
    print(
        f"{total} worlds from seed {first}, {len(failed)} failed, {seconds:.0f} s, {1000 * seconds / total:.1f} ms each"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
