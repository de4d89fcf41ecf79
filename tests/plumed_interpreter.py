"""The few actions of PLUMED that exported maps use, written down from its manual.

Where the manual (https://www.plumed.org/doc-v2.10/user-doc/html/) says what is relied on:

* "label: ACTION KEY=value": Getting started. Lines that begin with # are comments. "..." is not used.
* INCLUDE FILE=: INCLUDE. UNITS LENGTH= ENERGY= TIME= and NATURAL: UNITS; atoms' positions are in nm by default.
* PROPERTYMAP: X = Σ X_i exp(−λD_i)/Σ exp(−λD_i), zzz = −ln(Σ exp(−λD_i))/λ; D_i is the mean squared displacement
  after optimal alignment; properties are in REMARK lines as NAME=VALUE without blanks; frames end with END.
* PDB files ("PDB format"): columns 7-11 serial (hybrid-36 above 99,999), 31-54 places, 55-60 occupancy = weight in the
  alignment, 61-66 beta = weight in the displacement; "any real number that can be parsed is OK"; places are in Å
  unless units are natural.
* CUSTOM ARG= VAR= FUNC= PERIODIC=: arguments are x, y, z unless VAR names them; Lepton's operators and functions.
* COMBINE ARG= COEFFICIENTS= PARAMETERS= POWERS=: Σ c (x − a)^p, as many numbers as arguments. For arguments with a
  period 2.10 wraps x − a and 2.9 does not, so such arguments are an error here. SORT: label.1 is the lowest.
* TORSION, ANGLE, DISTANCE ATOMS=: radians and the unit of length. BIASVALUE ARG=: the values are the energy.
* PRINT ARG= FILE= FMT=: a header "#! FIELDS time ..." and one line per step.
* UPPER_WALLS ARG= AT= KAPPA=: label.bias = Σ κ (x − a)² where x > a (EXP = 2 by default; there is no ½).
* METAD ARG= SIGMA= HEIGHT= PACE= BIASFACTOR= TEMP= GRID_MIN= GRID_MAX= GRID_BIN= FILE=: its keywords alone are
  checked here, and label.bias is 0, as at the first step.

Derivatives are JAX', so nothing of ours is used.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

KEYWORDS = {
    "UNITS": {"LENGTH", "ENERGY", "TIME", "NATURAL"},
    "INCLUDE": {"FILE"},
    "PROPERTYMAP": {"REFERENCE", "PROPERTY", "LAMBDA"},
    "CUSTOM": {"ARG", "VAR", "FUNC", "PERIODIC"},
    "COMBINE": {"ARG", "COEFFICIENTS", "PARAMETERS", "POWERS", "PERIODIC"},
    "SORT": {"ARG"},
    "TORSION": {"ATOMS"},
    "ANGLE": {"ATOMS"},
    "DISTANCE": {"ATOMS"},
    "BIASVALUE": {"ARG"},
    "PRINT": {"ARG", "FILE", "FMT", "STRIDE"},
    "UPPER_WALLS": {"ARG", "AT", "KAPPA"},
    "METAD": {
        *("ARG", "SIGMA", "HEIGHT", "PACE", "BIASFACTOR", "TEMP"),
        *("GRID_MIN", "GRID_MAX", "GRID_BIN", "FILE"),
    },
}
NEEDED = {
    "PROPERTYMAP": {"REFERENCE", "PROPERTY", "LAMBDA"},
    "CUSTOM": {"ARG", "FUNC", "PERIODIC"},
    "COMBINE": {"ARG", "PERIODIC"},
}


class Reference:
    """One structure of a reference file."""

    def __init__(self, natural: bool) -> None:
        self.scale = 1.0 if natural else 0.1
        self.properties: dict[str, float] = {}
        self.serials: list[int] = []
        self.rows: list[list[float]] = []
        self.align: list[float] = []
        self.displace: list[float] = []

    def take(self, line: str) -> None:
        line = line.ljust(80)
        if line[:6] == "REMARK":
            for word in line[6:].split():
                name, _, value = word.partition("=")
                self.properties.setdefault(name, float(value))
        elif line[:6] in ("ATOM  ", "HETATM"):
            self.serials.append(decoded(line[6:11].strip()))
            assert line[12:16].strip(), "an atom without a name"
            int(line[22:26])
            self.rows.append([self.scale * float(line[at : at + 8]) for at in (30, 38, 46)])
            self.align.append(float(line[54:60]))
            self.displace.append(float(line[60:66]))


def decoded(serial: str) -> int:
    """Read hybrid-36: plain numbers up to 99,999, then A0000."""
    if serial[0].isdigit():
        return int(serial)
    return int(serial, 36) - 10 * 36**4 + 100_000


def read_references(path: Path, natural: bool) -> list[Reference]:
    found, current = [], Reference(natural)
    for line in path.read_text().splitlines():
        if line[:3] == "END":
            found.append(current)
            current = Reference(natural)
        else:
            current.take(line)
    assert all(one.serials == found[0].serials for one in found), "frames should contain the same atoms"
    return found


def displacements(x, references: list[Reference]):
    """Mean squared displacements after the rotations and shifts that are best for the weights of the alignment."""
    align, displace = (
        jnp.stack([jnp.asarray(w) / sum(w) for w in weights])
        for weights in ([one.align for one in references], [one.displace for one in references])
    )

    def one(align, displace, z):
        y, z = x - align @ x, z - align @ z
        u, _, v = jnp.linalg.svd(y.T @ (align[:, None] * z))
        flip = jnp.ones(3).at[2].set(jnp.sign(jnp.linalg.det(u) * jnp.linalg.det(v)))
        return displace @ ((y @ u * flip @ v - z) ** 2).sum(axis=1)

    return jax.vmap(one)(align, displace, jnp.asarray([one.rows for one in references]))


def distance(x):
    return jnp.linalg.norm(x[0] - x[1])


def angle(x):
    a, b = x[0] - x[1], x[2] - x[1]
    return jnp.arctan2(jnp.linalg.norm(jnp.cross(a, b)), a @ b)


def torsion(x):
    a, b, c = x[1] - x[0], x[2] - x[1], x[3] - x[2]
    m, n = jnp.cross(a, b), jnp.cross(b, c)
    return jnp.arctan2(jnp.cross(m, n) @ b / jnp.linalg.norm(b), m @ n)


OF_ATOMS = {"DISTANCE": distance, "ANGLE": angle, "TORSION": torsion}
FUNCTIONS = {"exp": jnp.exp, "log": jnp.log, "floor": jnp.floor, "sqrt": jnp.sqrt, "acos": jnp.arccos}


def evaluated(function: str, values: dict):
    assert re.fullmatch(r"[\w.+\-*/^()]+", function), f"{function} has characters that are no formula's"
    return eval(function.replace("^", "**"), {"__builtins__": {}}, {**FUNCTIONS, **values})


class Plumed:
    """An input file, and what it computes for positions of shape (atoms, 3) in nm (σ with natural units)."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self.actions: list[tuple[str, str, dict[str, str]]] = []
        self.natural = False
        self._read(path)
        self.printed = [given for _, name, given in self.actions if name == "PRINT"]

    def _read(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            words = line.partition("#")[0].split()
            if not words:
                continue
            label = words.pop(0)[:-1] if words[0].endswith(":") else ""
            name = words.pop(0)
            given = dict(word.partition("=")[::2] for word in words)
            assert set(given) <= KEYWORDS[name], f"{line} has a keyword that {name} does not know"
            assert NEEDED.get(name, set()) <= set(given), f"{line} lacks a keyword"
            if name == "INCLUDE":
                self._read(self.folder / given["FILE"])
                continue
            if name == "UNITS":
                assert not self.actions, "UNITS must be the first action"
                self.natural = "NATURAL" in given
                assert self.natural or (given["LENGTH"], given["ENERGY"]) == ("nm", "kj/mol")
            assert not label or label not in [known for known, *_ in self.actions], f"{label} is there twice"
            self.actions.append((label, name, given))

    def values(self, positions) -> dict:
        """Return all values by name, label or label.component."""
        known = self._of_atoms(positions)
        for label, name, given in self.actions:
            if "ARG" in given and name not in ("METAD", "PRINT"):
                arguments = [known[one] for one in given["ARG"].split(",")]
            if name == "PROPERTYMAP":
                known |= self._property_map(label, given, positions)
            elif name == "CUSTOM":
                names = given["VAR"].split(",") if "VAR" in given else ["x", "y", "z"][: len(arguments)]
                known[label] = evaluated(given["FUNC"], dict(zip(names, arguments, strict=True)))
            elif name == "COMBINE":
                torsions = {known for known, action, _ in self.actions if action == "TORSION"}
                assert torsions.isdisjoint(given["ARG"].split(",")), "COMBINE of what has a period"
                ones = {"COEFFICIENTS": 1.0, "PARAMETERS": 0.0, "POWERS": 1.0}
                c, a, p = (
                    [float(v) for v in given[key].split(",")] if key in given else [one] * len(arguments)
                    for key, one in ones.items()
                )
                assert len(c) == len(a) == len(p) == len(arguments)
                known[label] = jnp.asarray(c) @ (jnp.stack(arguments) - jnp.asarray(a)) ** jnp.asarray(p)
            elif name == "SORT":
                known |= {f"{label}.{i}": v for i, v in enumerate(jnp.sort(jnp.stack(arguments)), 1)}
            elif name == "METAD":
                known[f"{label}.bias"] = jnp.zeros(())
            elif name == "UPPER_WALLS":
                limits, factors = ([float(v) for v in given[key].split(",")] for key in ("AT", "KAPPA"))
                known[f"{label}.bias"] = sum(
                    k * jnp.maximum(x - a, 0.0) ** 2
                    for k, x, a in zip(factors, arguments, limits, strict=True)
                )
            elif name == "BIASVALUE":
                known[f"{label}.bias"] = sum(arguments)
        return known

    def _of_atoms(self, positions) -> dict:
        """Return the values of all actions of each kind in ``OF_ATOMS`` by label, computed at once.

        JAX compiles a function of an array much sooner than as many functions of numbers.
        """
        known: dict = {}
        for kind, function in OF_ATOMS.items():
            atoms = {label: given["ATOMS"].split(",") for label, name, given in self.actions if name == kind}
            if atoms:
                places = positions[jnp.asarray([[int(one) - 1 for one in own] for own in atoms.values()])]
                known |= dict(zip(atoms, jax.vmap(function)(places), strict=True))
        return known

    def _property_map(self, label: str, given: dict[str, str], positions) -> dict:
        references = read_references(self.folder / given["REFERENCE"], self.natural)
        rate = float(given["LAMBDA"])
        x = positions[jnp.asarray(references[0].serials) - 1]
        exponents = -rate * displacements(x, references)
        highest = exponents.max()  # as PLUMED 2.10 does
        shares = jnp.exp(exponents - highest)
        found = {f"{label}.zzz": -(jnp.log(shares.sum()) + highest) / rate}
        for name in given["PROPERTY"].split(","):
            values = jnp.asarray([one.properties[name] for one in references])
            found[f"{label}.{name}"] = shares @ values / shares.sum()
        return found

    @cached_property
    def _step(self):
        """Takes positions; returns the energy with what PRINT prints, and the energy's gradient. Compiled once."""
        names = self.printed[0]["ARG"].split(",")

        def energy(x):
            values = self.values(x)
            total = sum((v for name, v in values.items() if name.endswith(".bias")), jnp.zeros(()))
            return total, jnp.stack([values[name] for name in names])

        # A few frames run at once, however it is compiled; compiling well takes seconds.
        quickly = {"xla_backend_optimization_level": 0}
        return jax.jit(jax.value_and_grad(energy, has_aux=True), compiler_options=quickly)

    def drive(self, frames: np.ndarray, times=None) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return what PRINT prints and the forces of BIASVALUE for frames (n, atoms, 3); writes PRINT's file.

        Times, in ps, are 0, 1, … by default.
        """
        printed = self.printed[0]
        names = printed["ARG"].split(",")
        with jax.enable_x64(True):
            rows, forces = [], []
            for frame in frames:
                (_, row), gradient = self._step(jnp.asarray(frame, jnp.float64))
                rows.append(np.asarray(row))
                forces.append(-np.asarray(gradient))
        lines = [f"#! FIELDS time {' '.join(names)}"]
        lines += [
            " ".join([f"{time:.6f}", *(printed["FMT"] % value for value in row)])
            for time, row in zip(range(len(rows)) if times is None else times, rows, strict=True)
        ]
        (self.folder / printed["FILE"]).write_text("\n".join(lines) + "\n")
        return dict(zip(names, np.transpose(rows), strict=True)), np.stack(forces)


def read_xyz(path: Path) -> np.ndarray:
    """Return the frames of an xyz file as ``plumed driver --ixyz`` reads them: a count, the box, the atoms."""
    lines, frames = path.read_text().splitlines(), []
    while lines:
        count = int(lines[0])
        assert len(lines[1].split()) in (3, 9), "needed box in second line of xyz file"
        frames.append([[float(word) for word in line.split()[1:4]] for line in lines[2 : 2 + count]])
        lines = lines[2 + count :]
    return np.asarray(frames)


def write_forces(path: Path, forces: np.ndarray) -> None:
    """Write forces as ``plumed driver --dump-forces`` does: a count, the virial, the atoms."""
    lines = []
    for frame in forces:
        lines += [
            str(len(frame)),
            "0.0 0.0 0.0",
            *("X " + " ".join(f"{v:.12g}" for v in row) for row in frame),
        ]
    path.write_text("\n".join(lines) + "\n")
