"""The folder that an export writes: the engine's input, an example, a README, and frames to check it with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps._lazy import needed
from ldmaps._version import __version__
from ldmaps.errors import InvalidInputError, LdmapsWarning, Named
from ldmaps.export import colvars, plumed
from ldmaps.export import definition as defining
from ldmaps.export.comparison import FORCES, VALUES
from ldmaps.export.definition import Columns, Definition, EngineAtoms, Frames
from ldmaps.files import written_whole
from ldmaps.maps.model_digest import model_digest
from ldmaps.user_warnings import warn

_LIBRARIES = {"plumed": plumed, "colvars": colvars}
#: Frames of a check, and how far they are from landmarks in units of the map's width √h.
N_FRAMES, JITTER = 5, 0.3
#: How far atoms of landmarks are moved for the check of a map of internal coordinates, in nm.
SMALL_MOVE = 0.005
#: Share of the points at the ends of a coordinate above which metadynamics along it deserves a warning.
MOST_AT_ENDS = 0.5
#: A box of an engine is rarely smaller than twice this, in nm.
WIDE_GAP = 1.5


def export_map(
    model: Any,
    folder: str | os.PathLike[str],
    to: str,
    *,
    top: Any = None,
    select: str | None = None,
    atoms: ArrayLike | None = None,
    units: str | None = None,
    names: Sequence[str] | None = None,
    define_columns: str = "",
) -> Path:
    """Write a map as input of PLUMED or Colvars, with an example, a check and a README, or as a program of torch.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        A fitted map of frames (RMSD, Features) or of a table (Euclidean, StandardizedEuclidean, Periodic).
    folder : path-like
        Where to write; made if it does not exist. Files of the same names are replaced. For torch, the file.
    to : {"plumed", "colvars", "torch"}
        PLUMED is what GROMACS, Amber and many others have; Colvars is part of LAMMPS and NAMD. What is written for
        torch, ``torch.export.load`` reads; it needs none of the settings below.
    top : path or mdtraj topology, optional
        The engine's full system, to find the atoms' numbers in. By default the topology
        that the map was fitted with.
    select : str, optional
        Which atoms of ``top``, in mdtraj's language. By default as in the fit.
    atoms : array-like of int, optional
        The atoms' indices in the engine's system from 0, instead of ``top`` and ``select``.
    units : {"nm", "real", "metal", "lj"}, optional
        The engine's units of length and energy: "nm" (the default) or "lj" for PLUMED, and "real"
        (NAMD, too), "metal" or "lj", LAMMPS' words, for Colvars.
    names : sequence of str, optional
        Of a map of a table: what the engine calls its columns. By default as in the table.
    define_columns : str
        Of a map of a table: what defines these names in the engine's language. PLUMED's
        lines may be elsewhere in your input; Colvars needs its components here.

    Returns
    -------
    Path
        The folder, or the file.

    Raises
    ------
    InvalidInputError
        For a map that the engine cannot compute, atoms that are not the map's, or unknown units.
    """
    if not hasattr(model, "embedder_"):
        raise InvalidInputError(f"only a fitted map can be exported, got {model!r}; call fit first")
    if to == "torch":
        needed("torch", "a program of torch is written with torch", "install it with pip install torch")
        from ldmaps.torch import export_program

        given = {"top": top, "select": select, "atoms": atoms, "units": units, "names": names}
        if settings := [name for name, value in given.items() if value is not None]:
            raise InvalidInputError(
                "a program of torch takes points as the map does, without an engine's atoms or units; leave out ",
                Named(settings[0]),
            )
        return export_program(model, folder)
    if to not in _LIBRARIES:
        raise InvalidInputError(Named("to"), f' must be "plumed", "colvars" or "torch", got {to!r}')
    chosen, library = defining.engine_units(units, to), _LIBRARIES[to]
    metric, found = model.metric_, None
    geometry: Frames | Columns
    if metric.has_local_scales:
        raise InvalidInputError(
            "the map has a bandwidth for each point, which PLUMED and Colvars cannot compute; fit one with ",
            Named("epsilon", float(f"{model.epsilon_:.3g}")),
            " or larger, or to a part of the data without transitions to others",
        )
    if metric.has_structures:
        if names is not None or define_columns:
            raise InvalidInputError(
                "the map was fitted on frames, which have no columns; leave out ", Named("names")
            )
        found = defining.engine_atoms(model, top, select, atoms)
        if getattr(metric, "kinds", None):  # internal coordinates
            geometry = defining.columns_of_features(model, found, chosen, library)
        else:
            geometry = defining.frames_of(model, found, chosen)
    elif metric.is_differentiable:
        if not (top is select is atoms is None):
            raise InvalidInputError(
                "the map was fitted on a table, which has no atoms; leave out ", Named("top")
            )
        geometry = defining.columns_of_table(model, names, define_columns)
    else:
        raise InvalidInputError(
            f"the metric {metric!r} has no gradient, so a map fitted with it cannot be exported to PLUMED or Colvars; "
            "fit the map with RMSD, Features, Euclidean, StandardizedEuclidean or Periodic"
        )
    definition = Definition(model, chosen, geometry, model_digest(model))
    files = library.map_files(definition)
    if found is not None:
        files |= _check(model, definition, found.numbers, library)
    if to == "plumed" and isinstance(geometry, Frames) and geometry.largest_gap * chosen.nm > WIDE_GAP:
        warn(
            LdmapsWarning(
                f"consecutive atoms of the map are up to {geometry.largest_gap:.3g} {chosen.length} apart; PLUMED "
                "makes molecules whole in this order, so every length of the periodic box must exceed twice this "
                "distance"
            )
        )
    if definition.at_ends[0] > MOST_AT_ENDS:
        warn(
            LdmapsWarning(
                f"{100 * definition.at_ends[0]:.0f} % of the map's points are within one hill width "
                f"({definition.bumps[0]:.3g}) of an end of {definition.names[0]}: it hardly varies within basins. "
                "Metadynamics along it alone gives inaccurate free energies near the ends; bias a second coordinate as "
                "well (see README.md in the folder)"
            )
        )
    files["README.md"] = _readme(model, definition, to, found, names)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with written_whole(path / name) as stream:
            stream.write(text.encode())
    return path


def _check(model: Any, definition: Definition, numbers: NDArray[np.intp], library: Any) -> dict[str, str]:
    """Return frames near landmarks for the engine, and the tables of what it must find for them."""
    embedder, geometry, n_atoms = model.embedder_, definition.geometry, len(numbers)
    metric, counted = embedder.metric, np.ones(n_atoms, bool)
    # In float64, so that rounding of a float32 map is no part of the comparison.
    if isinstance(geometry, Frames):
        counted = np.isin(numbers, geometry.numbers)
        places = metric.places(embedder.landmarks).values.reshape(-1, n_atoms, 3)
        landmarks, scale = metric.prepare(places, np.float64), JITTER * np.sqrt(embedder.bandwidth / 3)
    else:
        places = metric.structures(model.map_.landmark_points, n_atoms)
        landmarks = metric.import_points({"values": embedder.landmarks.values.astype(np.float64)})
        scale = SMALL_MOVE
    chosen = np.unique(np.linspace(0, len(places) - 1, N_FRAMES).round().astype(int))
    noise = np.random.default_rng(0).normal(scale=scale, size=(len(chosen), n_atoms, 3))
    # As the engine reads them, rounded once; off the origin, where atoms without a weight are.
    frames = np.round((places[chosen] + noise) * geometry.length + 0.5, 9)
    double = replace(
        embedder, landmarks=landmarks, coefficients=definition.coefficients, source_weights=definition.weights
    )
    extended, gradient = double.extend_with_gradient(frames / geometry.length, 1)
    forces = -gradient.sum(axis=1) / geometry.length
    values = [f"{i},{','.join(map(repr, row))}\n" for i, row in enumerate(extended.coordinates.tolist())]
    rows = [
        f"{i},{numbers[a]},{','.join(map(repr, frame[a].tolist()))}\n"
        for i, frame in enumerate(forces)
        for a in np.flatnonzero(counted)
    ]
    return {
        VALUES: f"frame,{','.join(definition.names)}\n{''.join(values)}",
        FORCES: f"frame,atom,fx,fy,fz\n{''.join(rows)}",
        **library.check_files(definition, numbers[counted], frames[:, counted]),
    }


def _readme(
    model: Any, definition: Definition, to: str, found: EngineAtoms | None, columns: Sequence[str] | None
) -> str:
    """Fill the README in; a part of it that begins with words after %% is for exports that all of them fit."""
    geometry, units = definition.geometry, definition.units
    unit = model.metric_.distance_unit(model.units_)
    fits = {to, "columns" if found is None else "atoms"}
    if isinstance(geometry, Frames):
        fits.add("frames")
        listed = [
            f"{number} {label}" for number, label in zip(geometry.numbers, geometry.labels, strict=True)
        ]
        text = ", ".join(listed[:40]) + (f", … ({len(listed)} in all)" if len(listed) > 40 else "")
    elif found is not None:
        fits.add("features")
        text = "\n".join(f"- {meaning}" for meaning in geometry.meanings)
    else:
        periods = [f" (period {period:g})" if period else "" for period in geometry.periods]
        text = ", ".join(map(str.__add__, geometry.names, periods))
    if definition.at_ends[0] > MOST_AT_ENDS:
        fits.add("ends")
    if units.name == "lj" and model.units_:
        fits.add("lj")
    renamed = ""
    if isinstance(geometry, Columns) and geometry.of_table:
        given = defining.column_names(model, columns)
        renamed = "" if given == (model.source_ or {}).get("columns") else f" --names {','.join(given)}"
    page = definition.filled_in(
        "readme.md",
        library={"plumed": "PLUMED", "colvars": "Colvars"}[to],
        version=__version__,
        digest=definition.digest,
        names=", ".join(definition.names),
        count=len(definition.names),
        landmarks=len(definition.weights),
        epsilon=f"{model.epsilon_:.6g} {f'{unit}²' if unit else 'in units of d²'}",
        width=f"{definition.bandwidth:.6g} {f'{units.length}²' if 'frames' in fits else 'in the same'}",
        length=units.length,
        energy=units.energy,
        kt=f"{units.kt:g}",
        temperature=f"{units.temperature:g} {'ε/k_B' if units.name == 'lj' else 'K'}",
        origin="" if found is None else found.origin,
        gap=f"{geometry.largest_gap:.3g}" if isinstance(geometry, Frames) else "",
        listed=text,
        renamed=renamed,
    )
    parts = [part.partition("\n") for part in f"\n{page}".split("%%")]
    return "".join(body for words, _, body in parts if fits >= set(words.split()))
