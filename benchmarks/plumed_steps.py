"""Compute frames in PLUMED's library: run by plumed_maps.py in a process of its own, because PLUMED's errors end it.

python benchmarks/plumed_steps.py KERNEL INPUT FRAMES.npy OUTPUT.npz [ROUNDS]

The frames, (n, atoms, 3) in nm, are the steps of a run. OUTPUT has the forces, the seconds of the start (the first step
included) and the seconds of each step. With ROUNDS, frames are computed as often, and forces are left out.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import numpy as np

TIME_STEP = 0.002  # ps


class Kernel:
    """One PLUMED object; units are PLUMED's own: nm, kJ/mol, ps."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_GLOBAL)
        self._library.plumed_plumedmain_create.restype = ctypes.c_void_p
        self._library.plumed_plumedmain_cmd.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._library.plumed_plumedmain_finalize.argtypes = [ctypes.c_void_p]
        self._plumed = self._library.plumed_plumedmain_create()

    def __call__(self, command: str, value: object = None) -> None:
        if isinstance(value, str):
            value = ctypes.c_char_p(value.encode())
        elif isinstance(value, int):
            value = ctypes.byref(ctypes.c_int(value))
        elif isinstance(value, float):
            value = ctypes.byref(ctypes.c_double(value))
        elif isinstance(value, np.ndarray):
            value = value.ctypes.data_as(ctypes.c_void_p)
        self._library.plumed_plumedmain_cmd(self._plumed, command.encode(), value)

    def close(self) -> None:
        self._library.plumed_plumedmain_finalize(self._plumed)


def main(kernel: str, text: str, frames_path: str, output: str, rounds: int = 0) -> None:
    frames = np.load(frames_path)
    os.chdir(Path(text).parent)
    n_atoms = frames.shape[1]
    masses, charges = np.ones(n_atoms), np.zeros(n_atoms)
    forces, virial = np.zeros((n_atoms, 3)), np.zeros((3, 3))
    begun = time.perf_counter()
    plumed = Kernel(kernel)
    for command, value in (
        ("setRealPrecision", 8),
        ("setMDEngine", "none"),
        ("setNatoms", n_atoms),
        ("setTimestep", TIME_STEP),
        ("setPlumedDat", Path(text).name),
        ("setLogFile", "plumed.log"),
        ("init", None),
    ):
        plumed(command, value)
    kept, seconds = [], []
    for step in range(max(rounds, 1) * len(frames)):
        positions = np.ascontiguousarray(frames[step % len(frames)])
        forces[:] = 0
        if step:
            begun = time.perf_counter()
        for command, value in (
            ("setStep", step),
            ("setMasses", masses),
            ("setCharges", charges),
            ("setPositions", positions),
            ("setForces", forces),
            ("setVirial", virial),
            ("calc", None),
        ):
            plumed(command, value)
        seconds.append(time.perf_counter() - begun)
        if not rounds:
            kept.append(forces.copy())
    plumed.close()
    np.savez(output, forces=np.array(kept), start=seconds[0], steps=seconds[1:])


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(int, sys.argv[5:]))
