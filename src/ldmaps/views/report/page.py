"""From contents to one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from html import escape
from importlib.resources import files as package_files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps._version import __version__
from ldmaps.files import written_whole
from ldmaps.maps.training_record import MAX_RECORDED
from ldmaps.views.report.colours import CATEGORIES, PALETTES, palette
from ldmaps.views.report.contents import Contents, gather
from ldmaps.views.report.sections import charts, coordinate_name, facts, subtitle, summary

__all__ = ["report_html", "write_report"]

_SCRIPTS = ("read.js", "axes.js", "scatter.js", "pick.js", "energy.js", "pinch.js", "molecule.js", "page.js")


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    points: ArrayLike | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    frames: ArrayLike | None = None,
    times: ArrayLike | None = None,
    files: ArrayLike | None = None,
    distance: ArrayLike | None = None,
    nearest: ArrayLike | None = None,
    errors: Any = None,
    molecule: Any = None,
    max_points: int = MAX_RECORDED,
) -> None:
    """Write a page that shows a map: everything in one HTML file that needs no network.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        Fitted, or loaded from a file.
    path : path-like
        Where to write; the file appears whole or not at all, and replaces what was there.
    title : str, optional
        Heading; by default the name of the file the map was fitted on.
    points : array-like of shape (n, n_components_), optional
        Coordinates on the map to show instead of the training points, as
        ``model.transform`` returns them.
    columns : mapping of str to array-like of shape (n,), optional
        Numbers to colour points by, such as an angle or a radius of gyration.
    frames, times, files : array-like of shape (n,), optional
        Where each point is from; times in ps. A map fitted on a trajectory knows them.
    distance, nearest : array-like of shape (n,), optional
        ``model.coverage(...)`` of ``points``; known for training points.
    errors : ErrorEstimate or array-like of shape (n,), optional
        ``model.error_estimate(X)`` of the points, or ζ in percent.
    molecule : object or mapping, optional
        With ``elements``, ``bonds`` and ``atom_names`` of the atoms the map was fitted on,
        such as :func:`ldmaps.datasets.alanine_dipeptide` returns. Without it, elements come
        from atom names or masses and bonds from distances.
    max_points : int
        Of more points, so many are drawn, evenly spread. The page takes about
        6 bytes a point and number.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000)
    >>> model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll.points)
    >>> write_report(model, "roll.html", columns={"height": roll.points[:, 1]})  # doctest: +SKIP
    """
    text = report_html(
        model,
        title=title,
        points=points,
        columns=columns,
        frames=frames,
        times=times,
        files=files,
        distance=distance,
        nearest=nearest,
        errors=errors,
        molecule=molecule,
        max_points=max_points,
    )
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))


def report_html(model: Any, **shown: Any) -> str:
    """Return the page that :func:`write_report` writes, with the same arguments."""
    names = (
        "title", "points", "columns", "frames", "times", "files", "distance", "nearest", "errors", "molecule",
    )  # fmt: skip
    settings = {"max_points": MAX_RECORDED, **dict.fromkeys(names), **shown}
    contents = gather(model, **settings)
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    parts = {
        "title": escape(contents.title),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        "style": _asset("style.css"),
        "script": script,
        "data": _for_script(_payload(contents)),
        "subtitle": escape(subtitle(contents)),
        "facts": facts(contents),
        "notes": "".join(f"<p>{escape(note)}</p>" for note in contents.notes),
        "charts": charts(contents),
        "summary": summary(contents),
        "version": escape(__version__),
        "structure_class": "" if contents.structures is not None else " without-structure",
    }
    text = _asset("page.html")
    # One pass over the template, so that nothing inserted is looked at again.
    pieces = text.split("%%")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return package_files("ldmaps.views.report").joinpath("assets", name).read_text(encoding="utf-8")


# -- data for the script ----------------------------------------------------------


def _for_script(value: Any) -> str:
    """Write JSON that cannot end or reopen the script element around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _packed(values: NDArray[Any] | None, kind: str = "f4") -> dict[str, Any] | None:
    """Encode an array as base64, or as a rule where it is one."""
    if values is None:
        return None
    array = np.ascontiguousarray(values)
    if kind == "f4" and len(array) > 2:
        step = (float(array[-1]) - float(array[0])) / (len(array) - 1)
        if np.isfinite(step) and step:
            ruled = float(array[0]) + step * np.arange(len(array))
            if np.abs(ruled - array).max() <= 1e-6 * abs(step):
                return {"type": "linear", "start": float(array[0]), "step": step, "n": len(array)}
        # Frames and times beyond 16 million need more digits than single precision has.
        if np.nanmax(np.abs(array), initial=0.0) >= 2**24 and array.dtype.kind in "iuf":
            kind = "f8"
    data = array.astype(f"<{kind}" if kind != "u1" else "u1")
    return {"type": kind, "data": base64.b64encode(data.tobytes()).decode("ascii")}


def _payload(contents: Contents) -> dict[str, Any]:
    model, rows = contents.model, contents.landmark_rows
    landmarks = np.asarray(model.landmark_embedding_, dtype=np.float32)[rows]
    k = model.n_components_
    place = np.full(len(model.multiplicities_), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    nearest = None
    if contents.nearest is not None:
        belongs = place[contents.nearest]
        nearest = np.where(belongs < 0, 2**32 - 1, belongs)
    return {
        "n": len(contents.coordinates),
        "names": [coordinate_name(index) for index in range(k)],
        "coordinates": [_packed(column) for column in contents.coordinates.T],
        "fields": [
            {"key": entry.key, "label": entry.label, "unit": entry.unit, "values": _packed(entry.values)}
            for entry in contents.fields
        ],
        "files": contents.files,
        "fileOf": _packed(contents.file_of, "u2" if len(contents.files) < 2**16 else "u4"),
        "nearest": _packed(nearest, "u4"),
        "kind": "frame" if model.metric_.takes_frames else "point",
        "timeUnit": contents.time_unit,
        "landmarks": {
            "n": len(rows),
            "all": len(model.multiplicities_),
            "number": _packed(rows, "u4"),
            "coordinates": [_packed(column) for column in landmarks.T],
            "multiplicity": _packed(np.asarray(model.multiplicities_)[rows], "f8"),
            "point": _packed(
                np.where(contents.landmark_points < 0, 2**32 - 1, contents.landmark_points), "u4"
            ),
            "frame": _packed(contents.landmark_frames, "f8"),
            "time": _packed(contents.landmark_times, "f8"),
        },
        "energies": [_packed_surface(pair, surface) for pair, surface in contents.surfaces.items()],
        "structures": _packed_structures(contents),
        "palettes": {name: _packed(palette(name), "u1") for name in PALETTES},
        "categories": list(CATEGORIES),
    }


def _packed_surface(pair: tuple[int, int], surface: Any) -> dict[str, Any]:
    highest = surface.highest or 1.0
    # 65535 is "no data"; the rest is 0 to the highest in steps too small to see.
    scaled = np.where(np.isnan(surface.energy), 65535, np.round(surface.energy / highest * 65534))
    return {
        "pair": list(pair),
        "cells": len(surface.energy),
        "low": surface.low.tolist(),
        "high": surface.high.tolist(),
        "highest": highest,
        "values": _packed(scaled.ravel(), "u2"),
    }


def _packed_structures(contents: Contents) -> dict[str, Any] | None:
    shown = contents.structures
    if shown is None:
        return None
    scale = float(np.abs(shown.coordinates).max()) / 32767 or 1.0
    return {
        "n": len(shown.coordinates),
        "atoms": shown.coordinates.shape[1],
        "scale": scale,
        "coordinates": _packed(np.round(shown.coordinates / scale).ravel(), "i2"),
        "elements": list(shown.elements),
        "names": list(shown.names),
        "bonds": _packed(shown.bonds.ravel(), "u4"),
        "trace": shown.is_trace,
    }
