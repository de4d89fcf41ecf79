"""Whether an engine computes an exported map: its output beside what ldmaps computed for the same frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import coordinate_names
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.tables import read_columns

_Path = str | os.PathLike[str]
#: What the engine must find for the frames of a check.
VALUES, FORCES = "check.csv", "check_forces.csv"
#: Largest difference that rounding of the engine's files explains, as a share of the range of the values.
TOLERANCE = 1e-4
_CAUSE = (
    "the engine numbers its atoms differently (export with the engine's own topology), has other units, or ran other "
    "frames or another map"
)


def check_export(
    files: Sequence[_Path], folder: _Path | None = None, *, model: Any = None
) -> dict[str, float]:
    """Compare what an engine printed with what ldmaps computes; raise where they differ.

    Parameters
    ----------
    files : sequence of paths
        PLUMED's COLVAR or Colvars' ``.colvars.traj`` of the check, and where they are to be compared,
        too, the forces: what ``plumed driver --dump-forces`` or LAMMPS' dump wrote.
    folder : path-like, optional
        What :func:`export_map` wrote; by default where the first file is.
    model : LandmarkDiffusionMap or DiffusionMap, optional
        Of a map of columns: compare with its coordinates of the columns in the file, of any run.

    Returns
    -------
    dict of str to float
        The largest difference of each coordinate, and of "forces", as a share of the range of its values.

    Raises
    ------
    InvalidInputError
        Where the largest difference is above 0.01 % of the range, with the frame and what may be wrong.
    """
    home = Path(files[0]).parent if folder is None else Path(folder)
    if model is not None:
        columns = (model.source_ or {}).get("columns")
        if not columns:
            raise InvalidInputError(
                "the map has no columns with names to look for; compare the check that ldmaps export wrote, without "
                "the map"
            )
        names = coordinate_names(model.n_components_)
        found = _table(files[0], [*columns, *names])
        ours = model.transform(np.stack([found[name] for name in columns], axis=1))
        expected = dict(zip(names, ours.T, strict=True))
    elif not (home / VALUES).exists():
        raise InvalidInputError(
            f"there is no {VALUES} in {home}: name the folder that ldmaps export wrote, or for a map of columns the map"
        )
    else:
        expected = _table(home / VALUES)
        del expected["frame"]
        found = _table(files[0], list(expected))
    differences = {name: _difference(name, found[name], ours, files[0]) for name, ours in expected.items()}
    if len(files) > 1:
        wanted = _table(home / FORCES)
        ours = np.stack([wanted[axis] for axis in ("fx", "fy", "fz")], axis=1)
        theirs = _forces(files[1], wanted["frame"].astype(int), wanted["atom"].astype(int))
        differences["forces"] = _difference("forces", theirs.ravel(), ours.ravel(), files[1])
    return differences


def _table(path: _Path, names: Sequence[str] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return columns of a table of numbers by name, all or those asked for."""
    columns = read_columns(os.fspath(path), named=False)
    missing = [name for name in names or () if name not in columns]
    if missing:
        raise InvalidInputError(
            f"{os.fspath(path)} has no column {missing[0]} (there are: {', '.join(columns)}); have the engine print it"
        )
    try:
        return {name: columns[name].astype(np.float64) for name in names or columns}
    except ValueError as error:
        raise InvalidInputError(f"{os.fspath(path)}: {error}; wait for the engine to end") from error


def _difference(name: str, found: NDArray[np.float64], expected: NDArray[np.float64], path: _Path) -> float:
    """Return the largest difference as a share of the range, or raise where it is too large."""
    if len(found) != len(expected):
        raise InvalidInputError(
            f"{os.fspath(path)} has {len(found)} rows of {name}, and the check {len(expected)} frames; run the engine "
            "on the check's frames alone, from the first"
        )
    scale = float(np.ptp(expected)) or float(np.abs(expected).max()) or 1.0
    differences = np.abs(found - expected) / scale
    worst = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
    if not differences[worst] <= TOLERANCE:
        raise InvalidInputError(
            f"{name} is {found[worst]:.8g} in row {worst} of {os.fspath(path)}, where ldmaps finds "
            f"{expected[worst]:.8g}: {_CAUSE}"
        )
    return float(differences[worst])


def _forces(path: _Path, frames: NDArray[np.int64], atoms: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return forces of an xyz file, or of LAMMPS' dump of the columns id fx fy fz, on such atoms of such frames."""
    blocks: list[dict[int, list[str]]] = [{}]
    is_dump = False
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        words = line.split()
        is_dump |= words[:1] == ["ITEM:"]
        if len(words) == 4 and words[0] != "ITEM:":
            blocks[-1][int(words[0]) if is_dump else len(blocks[-1]) + 1] = words[1:]
        elif blocks[-1]:
            blocks.append({})
    try:
        return np.array([blocks[i][atom] for i, atom in zip(frames, atoms, strict=True)], dtype=np.float64)
    except (LookupError, ValueError) as error:
        raise InvalidInputError(
            f"{os.fspath(path)} lacks forces of the check's atoms ({type(error).__name__} {error}): {_CAUSE}"
        ) from error
