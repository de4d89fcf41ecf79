"""Run by test_durability: a stream that is killed with SIGKILL again and again, and started again each time.

    python killed_stream.py FOLDER SEED KILLS SUFFIX

FOLDER holds map.ldm and input.SUFFIX. Every attempt is a process of its own (forked, so that importing is paid
once). It is killed from outside after a random time, or kills itself at the worst moments: in the middle of a
write, between making an output safe and renaming the checkpoint, right after the renaming.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from ldmaps import load
from ldmaps.regions import Box, RegionTracker
from ldmaps.streaming import EventsFile, OutputFile, QuarantineFile, StreamEmbedder

OUTPUTS = ("psi.csv", "events.ndjson", "bad.ndjson")
PATIENCE = 240


def stream(model, source, folder, checkpoint):
    tracker = RegionTracker({"right": Box({"psi2": (0.0, None)})}, enter_after=2, dwell_every=7)
    engine = StreamEmbedder(model, max_batch=16, tracker=tracker, bad_records="quarantine", n_threads=1)
    psi, events, bad = (folder / name for name in OUTPUTS)
    sinks = [OutputFile(psi, regions=tracker.names), EventsFile(events), QuarantineFile(bad)]
    return engine.run(source, sinks, checkpoint=checkpoint, checkpoint_every=0.002)


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def sabotage(how, countdown):
    """Let this process kill itself at the countdown-th call of something."""
    write, replace, fsync = os.write, os.replace, os.fsync
    left = [countdown]

    def is_time():
        left[0] -= 1
        return left[0] <= 0

    def torn_write(descriptor, data):
        if is_time():
            write(descriptor, data[: len(data) // 2])
            die()
        return write(descriptor, data)

    def no_rename(*names):
        if is_time():
            die()
        replace(*names)

    def only_rename(*names):
        replace(*names)
        if is_time():
            die()

    def only_fsync(descriptor):
        fsync(descriptor)
        if is_time():
            die()

    name, function = {
        "in a write": ("write", torn_write),
        "before the rename": ("replace", no_rename),
        "after the rename": ("replace", only_rename),
        "after an fsync": ("fsync", only_fsync),
    }[how]
    setattr(os, name, function)


def attempt(model, source, folder, rng, how):
    """Run the stream in another process; return whether it was killed."""
    countdown, pause = rng.randint(1, 40), rng.uniform(0, 0.15)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if how != "at any time":
                sabotage(how, countdown)
            stream(model, source, folder, folder / "checkpoint")
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    if how == "at any time":
        time.sleep(pause)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status) != 0:
        sys.exit(f"an attempt failed by itself after being killed {how}")
    return False


def main(folder, seed, kills, suffix):
    folder = Path(folder)
    rng = random.Random(int(seed))
    model = load(folder / "map.ldm")
    StreamEmbedder(model).warm_up()  # so that not every attempt loads the compiled loops
    source = folder / f"input.{suffix}"
    expected = folder / "expected"
    expected.mkdir()
    # In a process of its own as well: threads that were begun here would not be there after a fork.
    child = os.fork()
    if child == 0:
        stream(model, source, expected, None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    done = {"kills": 0, "rounds": 0}
    deadline = time.monotonic() + PATIENCE
    while done["kills"] < int(kills):
        round_folder = folder / f"round{done['rounds']}"
        round_folder.mkdir()
        in_this_round = 0
        while True:
            if time.monotonic() > deadline:
                sys.exit(f"not done after {PATIENCE} s: {done}")
            ways = ("at any time", "in a write", "before the rename", "after the rename", "after an fsync")
            how = rng.choice(ways) if done["kills"] < int(kills) else None
            if how is None:
                stream_to_the_end(model, source, round_folder)
                break
            if not attempt(model, source, round_folder, rng, how):
                break
            done["kills"] += 1
            done[how] = done.get(how, 0) + 1
            in_this_round += 1
        for name in OUTPUTS:
            if (round_folder / name).read_bytes() != (expected / name).read_bytes():
                sys.exit(f"{name} differs after {in_this_round} kills in round {done['rounds']}, seed {seed}")
        done["rounds"] += 1
    print(json.dumps(done))


def stream_to_the_end(model, source, folder):
    child = os.fork()
    if child == 0:
        stream(model, source, folder, folder / "checkpoint")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
