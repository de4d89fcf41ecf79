"""Send signals to commands at random moments, and see that every command ends as documented: ``make signals``.

``fit``, ``embed``, ``stream`` and ``frames`` get SIGTERM at any moment, from the start of Python to its end, and SIGINT
while they work. ``embed`` and ``stream`` read a pipe that stays open, so nothing but the signal ends them. A command
must end within a minute with a status that ``ldmaps --help`` lists, leave no file half-written and print no traceback.

    python -m tools.signals --signals 300 --seed 7 --only embed stream
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll

__all__ = ["COMMANDS", "Signalled", "main", "prepare", "signalled"]

#: Seconds within which a command must have ended. Long, because the machine may be busy with other work.
LIMIT = 60.0
#: What stands on stderr only if something went wrong.
TROUBLE = ("Traceback", "terminate called", "Fatal Python error", "Exception ignored", "internal error")
#: Arguments of each command, and whether its rows come from a pipe. {0} is the folder of the inputs, {1} of the output.
COMMANDS = {
    "fit": (["{0}/table.csv", "-m", "40", "-o", "{1}/out.ldm"], False),
    "embed": (["{0}/table.ldm", "-", "-c", "16", "-o", "{1}/out.csv"], True),
    "stream": (["{0}/table.ldm", "-o", "{1}/out.csv"], True),
    "frames": (
        ["{0}/molecule.ldm", "{0}/run.xtc", "-t", "{0}/top.pdb", "--landmarks", "-o", "{1}/out.xtc"],
        False,
    ),
}
#: Commands whose output is valid whenever they stop; the others must leave none behind when they are stopped.
KEEPS_OUTPUT = {"stream"}


@dataclass(frozen=True)
class Signalled:
    """How a command ended after a signal.

    Attributes
    ----------
    status : int or None
        Exit status as a shell has it; None if the command had not ended within the limit.
    seconds : float
        From the signal to the end.
    trouble : str
        What is not as documented; empty if nothing.
    """

    status: int | None
    seconds: float
    trouble: str


def prepare(folder: Path) -> None:
    """Write the tables, trajectories and maps that the commands read."""
    points = swiss_roll(1500, random_state=0).points
    np.savetxt(folder / "table.csv", points, delimiter=",")
    LandmarkDiffusionMap(2, n_landmarks=40).fit(points).save(folder / "table.ldm")
    molecule = alanine_dipeptide(stride=100)
    atoms = zip(molecule.atom_names, molecule.residue_names, molecule.residue_numbers, strict=True)
    lines = [
        f"ATOM  {place + 1:5d} {name:<4s} {residue:3s} A{number:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00"
        for place, ((name, residue, number), (x, y, z)) in enumerate(
            zip(atoms, 10.0 * molecule.frames[0], strict=True)
        )
    ]
    (folder / "top.pdb").write_text("\n".join([*lines, "END", ""]))
    _write_trajectory(folder / "run.xtc", molecule.frames, folder / "top.pdb")
    fit = f"fit {folder}/run.xtc -t {folder}/top.pdb -m 40 -o {folder}/molecule.ldm --quiet"
    subprocess.run([sys.executable, "-m", "ldmaps", *fit.split()], check=True)


def signalled(name: str, folder: Path, number: int, chance: random.Random) -> Signalled:
    """Start a command, send it a signal at a random moment, and say how it ended."""
    arguments, reads_pipe = COMMANDS[name]
    with tempfile.TemporaryDirectory() as output, tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "ldmaps", name, *(text.format(folder, output) for text in arguments)]
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        ended = threading.Event()
        feeder = threading.Thread(target=_feed, args=(process, ended, chance.random() * 0.01))
        if reads_pipe:
            feeder.start()
        try:
            _wait_for_moment(process, number, Path(output), chance, begin)
            sent = time.monotonic()
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LIMIT)
            seconds = time.monotonic() - sent
            status = process.returncode
            left = sorted(os.listdir(output))
        finally:
            ended.set()
            process.kill()
            process.wait()
            if reads_pipe:
                feeder.join()
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
        said.seek(0)
        text = said.read().decode(errors="replace")
    if status is None:
        return Signalled(None, seconds, f"had not ended after {LIMIT:g} s; it said {text!r}")
    as_in_a_shell = 128 - status if status < 0 else status
    return Signalled(as_in_a_shell, seconds, _trouble(name, number, as_in_a_shell, left, text))


def main(argv: Sequence[str] | None = None) -> int:
    """Send signals in turn to the commands; return 1 if one did not end as documented."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--signals", type=int, default=300, help="how many to send (300)")
    parser.add_argument(
        "--seed", type=int, default=0, help="decides the moments, as far as a machine repeats itself (0)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS), metavar="COMMAND"
    )
    settings = parser.parse_args(argv)
    counts: Counter[tuple[str, str, int | None]] = Counter()
    slowest, failures = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for turn in range(settings.signals):
            name = settings.only[turn % len(settings.only)]
            number = (signal.SIGTERM, signal.SIGINT)[turn // len(settings.only) % 3 == 2]
            found = signalled(name, Path(folder), number, random.Random(f"{settings.seed} {turn}"))
            counts[name, signal.Signals(number).name, found.status] += 1
            slowest = max(slowest, found.seconds)
            if found.trouble:
                failures += 1
                print(f"turn {turn}: {name}, {signal.Signals(number).name}: {found.trouble}", flush=True)
    for (name, kind, status), count in sorted(counts.items(), key=str):
        print(f"{name:7s} {kind:8s} status {status}: {count}")
    print(f"{settings.signals} signals, {failures} not as documented; the slowest end took {slowest:.1f} s")
    return int(failures > 0)


def _trouble(name: str, number: int, status: int, left: list[str], said: str) -> str:
    """Say what is wrong with how a command ended."""
    ends_by_itself = not COMMANDS[name][1]
    documented = {128 + number, 0} if ends_by_itself else {128 + number}
    if status not in documented:
        return f"ended with status {status}; it said {said!r}"
    outputs = [file for file in left if file.startswith("out.")]
    if left != outputs or (left and not ends_by_itself and name not in KEEPS_OUTPUT):
        return f"left {left} behind"
    # Before its command begins Python itself answers Ctrl-C, so SIGINT is sent later; what comes then is ours.
    if any(words in said for words in TROUBLE):
        return f"said {said!r}"
    return ""


def _wait_for_moment(
    process: subprocess.Popen[bytes], number: int, output: Path, chance: random.Random, begin: float
) -> None:
    """Wait for a moment: any at all, any while the command works, or one right after the output was begun."""
    is_at_output = chance.random() < 0.4
    is_at_work = number == signal.SIGINT  # before, Python itself answers Ctrl-C
    # Early moments, while modules are imported, are as likely as all later ones.
    pause = 3.0 * chance.random() ** 2
    deadline = begin + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        if is_at_output and any(output.iterdir()):
            time.sleep(0.1 * pause)
            return
        if not is_at_output and (not is_at_work or _is_at_work(process.pid, output)):
            time.sleep(pause)
            return
        time.sleep(0.002)


def _is_at_work(process: int, output: Path) -> bool:
    """Say whether a command has begun: not before then it imports numpy."""
    maps = Path(f"/proc/{process}/maps")
    if not maps.exists():
        return any(output.iterdir())
    return "numpy" in maps.read_text()


def _feed(process: subprocess.Popen[bytes], ended: threading.Event, pause: float) -> None:
    """Write rows to a command's stdin until it ends; the pipe stays open."""
    assert process.stdin is not None
    rows = b"".join(b"%d.5,%d,3.25\n" % (place % 9, place % 7) for place in range(200))
    # A full pipe must not keep this thread for ever. So few bytes are written all or not at all.
    os.set_blocking(process.stdin.fileno(), False)
    while not ended.wait(pause):
        try:
            os.write(process.stdin.fileno(), rows)
        except BlockingIOError:
            continue
        except OSError:
            return


def _write_trajectory(path: Path, frames: np.ndarray, topology: Path) -> None:
    import mdtraj

    mdtraj.Trajectory(frames, mdtraj.load_topology(str(topology))).save(str(path))


if __name__ == "__main__":
    sys.exit(main())
