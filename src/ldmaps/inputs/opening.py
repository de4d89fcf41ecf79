"""One way to open trajectories, tables and objects of other packages, which are known without importing those."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.formats import format_of, known_format
from ldmaps.inputs.objects import AtomGroupFrames, MDTrajObject, SeveralGroups
from ldmaps.inputs.source import PointSource, Reading

if TYPE_CHECKING:
    from ldmaps.inputs.weights import WeightTable


def open_files(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Any,
    top: Any = None,
    *,
    select: str | None = None,
    columns: Sequence[str] | None = None,
    time: str | None = None,
    array: str | None = None,
    stride: int = 1,
    start: int | None = None,
    stop: int | None = None,
    chunk: int | None = None,
    periodic: str = "whole",
    missing: str | None = None,
    window: int | str | None = None,
    step: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    kt: float | None = None,
    model_facts: Mapping[str, Any] | None = None,
    match_atoms: bool = False,
) -> PointSource:
    """Open trajectories or tables for reading in chunks.

    Parameters
    ----------
    path_or_paths : path, glob pattern, several of them, or an object
        Trajectories of the same atoms (xtc, trr, dcd, h5, netcdf, pdb and whatever else mdtraj or MDAnalysis
        reads), or tables of the same columns (csv, tsv, txt, npy, npz, parquet, zarr, h5ad; "-" is CSV from stdin);
        or an mdtraj Trajectory, MDAnalysis Universe or AtomGroup, or a list of them. A file's suffix says what it is.
    top : path or mdtraj Topology, optional
        File that names the atoms, for trajectories that hold coordinates only: PDB, GRO,
        PSF, prmtop, or TPR and others that MDAnalysis reads.
    select : str, optional
        Atoms to keep, in mdtraj's selection language (MDAnalysis' for its objects).
        Fewer atoms make distances cheaper; the map shows their motions only.
    columns : sequence of str, optional
        Columns of tables to take, by name or by number from 1. By default all that are numbers, but for
        the time, row numbers and an index of pandas.
    time : str, optional
        Column of tables that holds the rows' times, in seconds or as dates (which become seconds since 1970); "none"
        takes the rows as independent of each other. By default one that is called so, or that holds dates, among
        all columns that are not taken as features.
    array : str, optional
        Which array of an npz archive to take, needed where it holds several; of an h5ad file "obsm/X_pca" by default.
    stride, start, stop : int, optional
        Every ``stride``-th frame or row from ``start`` to before ``stop``, counted from 0 in each file.
    chunk : int, optional
        Frames or rows per chunk; about 4 MB by default.
    periodic : {"whole", "keep"}
        What to do with molecules that a periodic box has split. "whole" joins them along their bonds and puts
        molecules into the image nearest to the largest one; where there are no bonds and the atoms spread over
        more than half the box, it refuses. "keep" takes coordinates as they are.
    missing : {"error", "drop"}, optional
        What a missing value in a column that is used does: an empty cell, NaN, NA, null and the like. It is an error
        by default; "drop" leaves the row out, and ``remarks`` says how many were. A model does as it was fitted.
    window : int or "auto", optional
        Points are windows of so many consecutive rows of a table (:class:`Windows`); "auto" finds the number
        from the rows' autocorrelation. A model cuts its windows itself.
    step : int, optional
        Every ``step``-th window is taken; 1 by default, or that of the model.
    weights : str or path, optional
        Weights of the points for ``fit``: a column of the tables, which is then not a feature,
        or ``FILE`` or ``FILE:COLUMN``: a table, an array or a PLUMED COLVAR. Its rows belong
        to points by its columns ``file`` and ``frame``, by ``time``, or by their order.
    kt : float, optional
        k_BT in the unit of that column, which is then the energy V of a bias: a point
        weighs exp(V/k_BT), which undoes a static bias, or one that no longer grows.
    model_facts : mapping, optional
        ``model.source_`` of a fitted map: its selection or columns are taken where none are given, and other
        atoms or columns than its own are refused. Where a file has the same atoms, by residue and name, in
        another order, they are put into the model's order, and a warning says so.
    match_atoms : bool
        Whether to match atoms also where residues are named or numbered differently: the
        first residue with the first and so on, their atoms by name.

    Returns
    -------
    PointSource
        Iterate it for :class:`FrameChunk`, or pass it to ``fit`` and ``transform``.
        Coordinates of trajectories are in nm whatever the file's unit.

    See Also
    --------
    Windows : windows of consecutive rows as points.
    ldmaps.cluster.open_blocks : files that workers read.

    Examples
    --------
    >>> import ldmaps.inputs
    >>> source = ldmaps.inputs.open_files("run.xtc", top="run.pdb", select="not element H")  # doctest: +SKIP
    >>> model = LandmarkDiffusionMap(metric="rmsd").fit(source)  # doctest: +SKIP
    >>> table = ldmaps.inputs.open_files("sensors*.csv", columns=["flow", "load"])  # doctest: +SKIP
    """
    weights = None if weights is None else os.fspath(weights)
    facts = model_facts or {}
    reading = Reading(facts.get("select") if select is None else select, stride, start, stop, chunk, periodic)
    source = None
    if not isinstance(path_or_paths, (str, os.PathLike)):
        source = as_source(path_or_paths, reading)
    if source is None:
        files = expanded(path_or_paths)
        if _are_tables(files):
            from ldmaps.inputs.tables import TableSource
            from ldmaps.inputs.weights import split_column

            _refuse(files[0], "a table of numbers", "trajectories", top=top, select=select)
            weighed_by = weights if weights and split_column(weights)[0] is None else None
            source = TableSource(files, reading, columns, array, facts, weighed_by, missing, time)
        else:
            from ldmaps.inputs.trajectory_files import TrajectoryFiles

            of_tables = {
                "columns": columns,
                "time": time,
                "array": array,
                "missing": missing,
                "window": window,
                "step": step,
            }
            _refuse(files[0], "a trajectory", "tables", **of_tables)
            source = TrajectoryFiles(files, top, reading)
    source = source.matched(model_facts, match_atoms=match_atoms)
    if window is not None or step is not None or stride != 1:
        source = _windowed(source, window, step, stride)
    source.weights = _weights(weights, source, kt)
    return source


def _windowed(source: PointSource, length: int | str | None, step: int | None, stride: int) -> PointSource:
    """Return the windows of a table, or those of a model with another step."""
    from ldmaps.inputs.windows import WindowedSource, Windows

    if stride != 1 and (length is not None or isinstance(source, WindowedSource)):
        raise InvalidInputError(
            Named("stride", stride),
            " cannot be combined with windows, which are cut from consecutive rows; use ",
            Named("step", stride),
            " to subsample windows",
        )
    if isinstance(source, WindowedSource) and length in (None, source.windows.length):
        return WindowedSource(source.rows, replace(source.windows, step=step or source.windows.step))
    if length is None and step is not None:
        raise InvalidInputError(
            Named("step", step),
            " requires windows, but these are single rows; fit with ",
            Named("window", ...),
            ", or leave it out",
        )
    if length is None:
        return source
    is_found = length == "auto"
    windows = Windows.suggested(source, step or 1) if is_found else Windows(length, step or 1)  # type: ignore[arg-type]
    return windows.of(source)


def _weights(what: str | None, source: PointSource, kt: float | None) -> WeightTable | None:
    if what is None:
        if kt is not None:
            remedy = (
                " is used only with weights; give the file or column that holds the bias with ",
                Named("weights", ...),
            )
            raise InvalidInputError(Named("kt", kt), *remedy)
        return None
    from ldmaps.inputs.weights import WeightTable, split_column

    path, column = split_column(what)
    if path is not None:
        return WeightTable.read(path, column, kt)
    if source.item == "frames" or not source.files:
        raise InvalidInputError(
            f"there is no file {what!r} with weights; give a table, an array or a COLVAR, as FILE or FILE:COLUMN"
        )
    if "stdin" in source.files:
        raise InvalidInputError(
            "weights cannot be a column of stdin, which is read only once; write it to a file"
        )
    return WeightTable.of_column(what, source.files, kt)


def _refuse(file: str, kind: str, what: str, **settings: Any) -> None:
    """Raise if settings were given that a kind of file does not have."""
    for name, value in settings.items():
        if value is not None:
            raise InvalidInputError(Named(name), f" applies to {what}, but {file} is {kind}; leave it out")


def expanded(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files meant by paths and glob patterns, in the order given, or raise."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise InvalidInputError("no file was given; pass at least one path")
    files: list[str] = []
    for entry in listed:
        name = os.fspath(entry)
        form = format_of(name)
        if os.path.isdir(name) and not (form and form.name in ("Desmond", "Zarr")):
            raise InvalidInputError(f"{name} is a directory; name the files in it, for example {name}/*.xtc")
        if name == "-" or os.path.exists(name):
            files.append(name)
            continue
        matches = sorted(glob.glob(name)) if glob.has_magic(name) else []
        if not matches:
            what = "no file matches the pattern" if glob.has_magic(name) else "there is no file"
            raise FileNotFoundError(f"{what} {name!r}; check the path")
        files += matches
    return files


def _are_tables(files: list[str]) -> bool:
    """Say whether files are tables, not trajectories; raise if some are and others are not."""
    are_tables = [path == "-" or known_format(path).kind == "table" for path in files]
    if any(are_tables) and not all(are_tables):
        table, other = files[are_tables.index(True)], files[are_tables.index(False)]
        raise InvalidInputError(f"{table} is a table and {other} a trajectory; give inputs of one kind")
    return all(are_tables)


def as_source(X: Any, reading: Reading | None = None) -> PointSource | None:
    """Return ``X`` as a source, or None when its kind is not known.

    It may be a PointSource, an mdtraj Trajectory, an MDAnalysis Universe or AtomGroup, or a list of these;
    ``reading`` says what to read of it, unless it is a source already.
    """
    if isinstance(X, np.ndarray):
        return None
    if isinstance(X, PointSource):
        if reading is not None:
            raise InvalidInputError("this is a frame source already; give its settings where it is made")
        return X
    if is_atom_group(X):
        return AtomGroupFrames(X.atoms, reading or Reading())
    if _is_of(X, "mdtraj", "Trajectory"):
        return MDTrajObject([X], reading or Reading())
    if _is_of(X, "MDAnalysis", "ProtoReader", "ReaderBase", "FrameIteratorBase"):
        raise InvalidInputError(
            f"got an MDAnalysis {type(X).__name__}, which knows no atoms and reads every frame into the same memory; "
            "pass the atoms instead, and every n-th frame by stride: "
            "ldmaps.inputs.open_files(u.select_atoms('protein'), stride=10)"
        )
    if _is_of(X, "anndata", "AnnData"):
        raise InvalidInputError(
            "got an AnnData, which holds several arrays; use ldmaps.anndata.diffmap(adata, use_rep='X_pca'), or pass "
            "the array that points should be compared by, such as adata.obsm['X_pca']"
        )
    if isinstance(X, (list, tuple)) and X:
        return _listed(X, reading)
    return None


def _listed(entries: Sequence[Any], reading: Reading | None) -> PointSource | None:
    """Return a list of trajectories as one source, None for a list of points; raise for other lists."""
    if _is_of(entries[0], "mdtraj", "Trajectory"):
        for entry in entries:
            if not _is_of(entry, "mdtraj", "Trajectory"):
                raise InvalidInputError(
                    f"a list of mdtraj Trajectories also holds a {type(entry).__name__}; pass data of one kind"
                )
        return MDTrajObject(entries, reading or Reading())
    if is_atom_group(entries[0]):
        for entry in entries:
            if not is_atom_group(entry):
                raise InvalidInputError(
                    f"a list of MDAnalysis objects also holds a {type(entry).__name__}; pass data of one kind"
                )
        return SeveralGroups.of(entries, reading or Reading())
    if not isinstance(entries[0], np.ndarray):
        return None
    shapes = [np.shape(entry) for entry in entries]
    if any(len(shape) > 2 for shape in shapes) or len(set(shapes)) > 1:
        shown = ", ".join(map(str, shapes[:4])) + (", ..." if len(shapes) > 4 else "")
        raise InvalidInputError(
            f"got a list of {len(entries)} arrays of shapes {shown}; join them into one array first: "
            "numpy.concatenate(arrays)"
        )
    places = {entry.__array_interface__["data"][0] for entry in entries if isinstance(entry, np.ndarray)}
    if len(entries) > 1 and len(shapes[0]) == 2 and entries[0].size and len(places) == 1:
        raise InvalidInputError(
            f"all {len(entries)} frames of the list are the same memory, so they all hold the last one: MDAnalysis, "
            "for one, reads every frame into the same array; copy each frame, "
            "[ts.positions.copy() for ts in u.trajectory], or pass the atoms, u.atoms"
        )
    return None


def is_atom_group(X: Any) -> bool:
    """Say whether an object is an MDAnalysis Universe or AtomGroup."""
    return _is_of(X, "MDAnalysis", "Universe", "AtomGroup")


def _is_of(X: Any, package: str, *names: str) -> bool:
    return any(
        kind.__module__.partition(".")[0] == package and kind.__name__ in names for kind in type(X).__mro__
    )


class InBlocks:
    """Base class of points that workers read in blocks, known here without importing what reads them."""

    source: PointSource  # the same points as this process reads them, in chunks


def is_dask_array(X: Any) -> bool:
    """Say whether ``X``, which may be anything, is a dask array."""
    return _is_of(X, "dask", "Array")


def is_blocked(X: Any) -> bool:
    """Say whether points ``X`` are in blocks for workers: a dask array, or files opened by ``open_blocks``."""
    return isinstance(X, InBlocks) or is_dask_array(X)
