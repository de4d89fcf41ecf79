"""From contents to one HTML file; the live page takes its scripts and its map from here, too."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from html import escape
from importlib.resources import files as resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator

from ldmaps._version import __version__
from ldmaps.analysis.report.contents import CRISP, Contents, gather
from ldmaps.analysis.report.sections import cards, display_names, facts, subtitle, summary
from ldmaps.files import written_whole
from ldmaps.fit.fitted_map import MAX_RECORDED

#: Files of the page's script, in order.
SCRIPTS = tuple(
    f"{name}.js"
    for name in ["read", "axes", "scatter", "pick", "energy", "pinch", "molecule", "export", "page"]
)
#: viridis (van der Walt, Smith) and cividis (Nuñez, Anderton, Renslow, PLoS ONE 13, e0199239 (2018)), sampled
#: at equal steps from 0 to 1.
PALETTES = {
    "viridis": "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725",
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
}

#: Okabe and Ito's colours, black left out: it would vanish in the dark.
CATEGORIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


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
        Where to write. An existing file is replaced, completely or not at all.
    title : str, optional
        Heading; by default the name of the file the map was fitted on.
    points : array-like of shape (n, n_components_), optional
        Coordinates to show instead of the training points, as ``model.transform`` returns them.
    columns : mapping of str to array-like of shape (n,), optional
        Numbers to colour points by, such as an angle or a radius of gyration.
    frames, times, files : array-like of shape (n,), optional
        Where each point is from; times in ps for frames, in seconds for rows of tables. A map that was
        fitted on files knows them.
    distance, nearest : array-like of shape (n,), optional
        ``model.coverage(...)`` of ``points``; known for training points.
    errors : ErrorEstimate or array-like of shape (n,), optional
        ``model.error_estimate(X)`` of the points, or ζ in percent.
    molecule : object or mapping, optional
        With ``elements``, ``bonds`` and ``atom_names`` of the atoms the map was fitted on, as datasets have them.
        Without it, elements come from atom names or masses and bonds from distances.
    max_points : int
        Most points to draw, evenly spread; each takes about 6 bytes per number.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000)
    >>> model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll.points)
    >>> write_report(model, "roll.html", columns={"height": roll.points[:, 1]})  # doctest: +SKIP
    """
    settings = {name: value for name, value in locals().items() if name not in ("model", "path")}
    text = report_html(model, **settings)
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))


def report_html(model: Any, **settings: Any) -> str:
    """Return the page that :func:`write_report` writes, whose arguments these are but for the path."""
    contents = gather(model, **settings)
    script = "(() => {\n'use strict';\n" + "\n".join(asset("report", name) for name in SCRIPTS) + "\n})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    parts = {
        "title": escape(contents.title),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        "style": asset("report", "style.css"),
        "script": script,
        "data": _for_script(payload(contents)),
        "subtitle": escape(subtitle(contents)),
        "facts": facts(contents),
        "notes": "".join(f"<p>{escape(note)}</p>" for note in contents.notes),
        "charts": cards(contents),
        "summary": summary(contents),
        "version": escape(__version__),
        "structure_class": "" if contents.structures is not None else " without-structure",
    }
    # One pass over the template, so that nothing inserted is looked at again.
    pieces = asset("report", "page.html").split("%%")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def asset(page: str, name: str) -> str:
    """Return the text of a file of a page, "report" or "live"."""
    return resources("ldmaps.analysis").joinpath(page, "assets", name).read_text(encoding="utf-8")


def _for_script(value: Any) -> str:
    """Write JSON that cannot end or reopen the script element around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def packed(values: NDArray[Any] | None, kind: str = "f4") -> dict[str, Any] | None:
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


def payload(contents: Contents) -> dict[str, Any]:
    """Return everything the script draws, as JSON values."""
    model, points, shown = contents.model, contents.points, contents.landmarks
    rows = shown.numbers
    landmarks = np.asarray(model.landmark_embedding_, dtype=np.float32)[rows]
    place = np.full(len(model.multiplicities_), -1, dtype=np.int64)  # 2³² − 1 to the script
    place[rows] = np.arange(len(rows))
    belongs = None if points.nearest is None else place[points.nearest.astype(np.intp)]
    return {
        "n": len(points.coordinates),
        "names": display_names(model),
        "keys": list(model.coordinate_names_),
        "coordinates": [packed(column) for column in points.coordinates.T],
        "fields": [
            {**entry._asdict(), "values": packed(entry.values), "texts": list(entry.texts)}
            for entry in contents.fields
        ],
        "files": list(points.file_names),
        "fileOf": packed(points.files, "u2" if len(points.file_names) < 2**16 else "u4"),
        "nearest": packed(belongs, "u4"),
        "inside": packed(contents.inside, "u1"),
        "opensWith": "basin" if contents.basins and contents.basins.basins.crispness >= CRISP else "",
        "kind": "frame" if model.metric_.takes_frames else "point",
        "timeUnit": contents.clock.unit,
        "timeLabel": contents.clock.label,
        "landmarks": {
            "n": len(rows),
            "all": len(model.multiplicities_),
            "number": packed(rows, "u4"),
            "coordinates": [packed(column) for column in landmarks.T],
            "multiplicity": packed(np.asarray(model.multiplicities_)[rows], "f8"),
            "point": packed(shown.points, "u4"),
            "frame": packed(shown.frames, "f8"),
            "time": packed(shown.times, "f8"),
            "features": [{"label": name, "values": packed(one)} for name, one in shown.features.items()],
        },
        "energies": [_packed_surface(pair, surface) for pair, surface in contents.surfaces.items()],
        "structures": _packed_structures(contents),
        "palettes": {name: packed(palette(name), "u1") for name in PALETTES},
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
        "values": packed(scaled.ravel(), "u2"),
    }


def _packed_structures(contents: Contents) -> dict[str, Any] | None:
    structures = contents.structures
    if structures is None:
        return None
    scale = float(np.abs(structures.coordinates).max()) / 32767 or 1.0
    return {
        "n": len(structures.coordinates),
        "atoms": structures.coordinates.shape[1],
        "scale": scale,
        "coordinates": packed(np.round(structures.coordinates / scale).ravel(), "i2"),
        "elements": list(structures.elements),
        "names": list(structures.names),
        "bonds": packed(structures.bonds.ravel(), "u4"),
        "trace": structures.is_trace,
    }


def palette(name: str) -> NDArray[np.uint8]:
    """Return 256 colours of shape (256, 3), interpolated so that no channel overshoots."""
    samples = np.array([list(bytes.fromhex(text)) for text in PALETTES[name].split()], dtype=np.float64)
    places = np.linspace(0.0, 1.0, len(samples))
    smooth = PchipInterpolator(places, samples, axis=0)(np.linspace(0.0, 1.0, 256))
    return np.asarray(np.clip(np.round(smooth), 0, 255), dtype=np.uint8)
