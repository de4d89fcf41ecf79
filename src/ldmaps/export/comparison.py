"""What an engine computed of an exported map, compared with what ldmaps computes of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, OutsideDomainWarning
from ldmaps.export import definition as defining
from ldmaps.export.engine_run import EmbeddedRun, common_rows, embedded_run
from ldmaps.inputs.tables import read_columns
from ldmaps.user_warnings import warn

_Path = str | os.PathLike[str]
#: Columns of numbers by name.
_Values = dict[str, NDArray[np.float64]]
#: What the engine must find for the frames of a check.
VALUES, FORCES = "check.csv", "check_forces.csv"
#: Largest difference that rounding of the engine's files explains, as a share of the range of the values.
TOLERANCE = 1e-4
#: Standard errors of rounding that a difference of one of many thousand frames may have.
MOST_ERRORS = 8.0
_CAUSE = (
    "the engine numbers its atoms differently (export with the engine's own topology), has other units, or ran other "
    "frames or another map"
)


def check_export(
    files: Sequence[_Path],
    folder: _Path | None = None,
    *,
    model: Any = None,
    names: Sequence[str] | None = None,
    traj: Any = None,
    top: Any = None,
    select: str | None = None,
    periodic: str = "whole",
) -> dict[str, float]:
    """Compare what an engine printed with what ldmaps computes; raise where they differ.

    The check in the folder finds errors of the input and of units. It cannot find that the engine numbers its atoms
    differently, because its frames are in the folder's own numbering: frames that the engine wrote (``traj``) can.

    Parameters
    ----------
    files : sequence of paths
        PLUMED's COLVAR or Colvars' ``.colvars.traj`` of the check, and where they are to be compared,
        too, the forces: what ``plumed driver --dump-forces`` or LAMMPS' dump wrote.
    folder : path-like, optional
        What :func:`export_map` wrote; by default where the first file is.
    model : LandmarkDiffusionMap or DiffusionMap, optional
        Compare with a run of the engine instead: the frames in ``traj``, or of a map of columns the columns in
        the file.
    names : sequence of str, optional
        What the engine calls the columns, as they were exported. By default as in the table.
    traj : path or sequence of paths, optional
        Frames that the engine wrote in the run that printed the file. Rows and frames of the same time are compared,
        or all, if there are as many.
    top, select, periodic
        The engine's full system, as for :func:`export_map`, and whether its molecules must be made whole, as for
        :func:`ldmaps.inputs.open_files`.

    Returns
    -------
    dict of str to float
        The largest difference of each coordinate, and of "forces", as a share of the range of its values.

    Raises
    ------
    InvalidInputError
        Where the largest difference is above 0.01 % of the range and what the trajectory's rounding explains, with
        the frame and what may be wrong.
    """
    home = Path(files[0]).parent if folder is None else Path(folder)
    if traj is not None and (model is None or not model.metric_.has_structures):
        raise InvalidInputError(
            "only a map fitted on frames can be checked against a trajectory; give such a map, or leave out ",
            Named("traj"),
        )
    if traj is not None:
        return _of_run(files[0], model, embedded_run(model, traj, top, select, periodic))
    if model is not None:
        if model.metric_.has_structures:
            raise InvalidInputError(
                "the map was fitted on frames, so the check needs the frames of the run: give them with ",
                Named("traj", "run.xtc"),
                " and the engine's system with ",
                Named("top", "system.gro"),
                "; or compare the check in the folder, without the map",
            )
        found, expected = _of_columns(files[0], model, names)
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


def _of_run(path: _Path, model: Any, run: EmbeddedRun) -> dict[str, float]:
    """Return the largest difference of each coordinate in a run of the engine, or raise where it is too large."""
    names = model.coordinate_names_
    printed = _table(path, names, extra=("time",))
    rows, frames = common_rows(printed.get("time"), len(printed[names[0]]), run, os.fspath(path))
    share = float(run.inside[frames].mean())
    if share < 0.5:
        warn(
            OutsideDomainWarning(
                f"{100 * share:.0f} % of the {len(frames)} frames that were compared are in the map's domain, so the "
                "check says little about the rest; if the run should be inside, its atoms are others than the map's"
            )
        )
    differences = {}
    for column, name in enumerate(names):
        scale = float(np.ptp(model.embedder_.coefficients[column]))
        room = MOST_ERRORS * run.rounding[frames, column] / scale
        ours = run.coordinates[frames, column]
        differences[name] = _difference(name, printed[name][rows], ours, path, scale, room, rows)
    return differences


def _of_columns(path: _Path, model: Any, names: Sequence[str] | None) -> tuple[_Values, _Values]:
    """Return coordinates that an engine printed, and those that a map of a table has for the columns beside them."""
    places, scales = model.metric_.places(model.embedder_.landmarks)
    # A column that never varied has no weight, and the engine need not know it.
    columns = {name: place for place, name in enumerate(defining.column_names(model, names)) if scales[place]}
    coordinates = model.coordinate_names_
    found = _table(path, [*columns, *coordinates])
    rows = np.repeat(places[:1], len(found[coordinates[0]]), axis=0)
    for name, place in columns.items():
        rows[:, place] = found[name]
    return found, dict(zip(coordinates, model.transform(rows).T, strict=True))


def _table(path: _Path, names: Sequence[str] | None = None, *, extra: Sequence[str] = ()) -> _Values:
    """Return columns of a table of numbers by name, all or those asked for, and extra ones that it may have."""
    columns = read_columns(os.fspath(path), named=False)
    missing = [name for name in names or () if name not in columns]
    if missing:
        raise InvalidInputError(
            f"{os.fspath(path)} has no column {missing[0]} (there are: {', '.join(columns)}); have the engine print it"
        )
    wanted = [*names, *(name for name in extra if name in columns)] if names else list(columns)
    try:
        return {name: columns[name].astype(np.float64) for name in wanted}
    except ValueError as error:
        raise InvalidInputError(f"{os.fspath(path)}: {error}; wait for the engine to end") from error


def _difference(
    name: str,
    found: NDArray[np.float64],
    expected: NDArray[np.float64],
    path: _Path,
    scale: float = 0.0,
    room: NDArray[np.float64] | float = 0.0,
    rows: NDArray[np.intp] | None = None,
) -> float:
    """Return the largest difference as a share of a scale, by default the range; raise where it is too large.

    ``room`` is what may be added to the tolerance, ``rows`` where the values are in the file.
    """
    if len(found) != len(expected):
        raise InvalidInputError(
            f"{os.fspath(path)} has {len(found)} rows of {name}, and the check {len(expected)} frames; run the engine "
            "on the check's frames alone, from the first"
        )
    scale = scale or float(np.ptp(expected)) or float(np.abs(expected).max()) or 1.0
    differences = np.abs(found - expected) / scale
    beyond = np.where(np.isnan(differences), np.inf, differences) - room
    worst = int(np.argmax(beyond))
    if not beyond[worst] <= TOLERANCE:
        row = worst if rows is None else int(rows[worst])
        raise InvalidInputError(
            f"{name} is {found[worst]:.8g} in row {row} of {os.fspath(path)}, where ldmaps finds "
            f"{expected[worst]:.8g}: {_CAUSE}"
        )
    return float(differences.max())


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
