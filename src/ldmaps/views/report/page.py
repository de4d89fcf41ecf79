"""From contents to one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from html import escape
from typing import Any

from numpy.typing import ArrayLike

from ldmaps._version import __version__
from ldmaps.files import written_whole
from ldmaps.maps.fitted_map import MAX_RECORDED
from ldmaps.views.assets import asset
from ldmaps.views.report.contents import gather
from ldmaps.views.report.payload import payload
from ldmaps.views.report.sections import charts, facts, subtitle, summary

#: Files of the page's script, in order.
SCRIPTS = (
    "read.js",
    "axes.js",
    "scatter.js",
    "pick.js",
    "energy.js",
    "pinch.js",
    "molecule.js",
    "export.js",
    "page.js",
)


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
        Most points to draw, evenly spread. The page takes about 6 bytes per point and
        number.

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
        "charts": charts(contents),
        "summary": summary(contents),
        "version": escape(__version__),
        "structure_class": "" if contents.structures is not None else " without-structure",
    }
    text = asset("report", "page.html")
    # One pass over the template, so that nothing inserted is looked at again.
    pieces = text.split("%%")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _for_script(value: Any) -> str:
    """Write JSON that cannot end or reopen the script element around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
