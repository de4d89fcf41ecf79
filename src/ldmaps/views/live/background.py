"""What the live page draws beneath the stream, and the files it is made of; the report's parts do most of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ldmaps._version import __version__
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Region
from ldmaps.views.own_points import PointsOfMap
from ldmaps.views.report.contents import MAX_SURFACE_COORDINATES, gather
from ldmaps.views.report.page import asset, packed, payload

#: Coordinates that are sent; pairs of more have no surface to be drawn on.
MAX_COORDINATES = MAX_SURFACE_COORDINATES

_OUTLINED = ("box", "ball", "polygon")


def map_data(model: Any, regions: Mapping[str, Region], title: str | None = None) -> dict[str, Any]:
    """Return the map for the report's script, without points; regions with no outline are shown by their landmarks."""
    contents = gather(model, title=title)
    rows, points = contents.landmarks.numbers, contents.points
    the_map = payload(
        replace(contents, points=PointsOfMap(points.coordinates[:0]), fields=[], structures=None)
    )
    the_map["names"] = the_map["names"][:MAX_COORDINATES]
    the_map["landmarks"]["coordinates"] = the_map["landmarks"]["coordinates"][:MAX_COORDINATES]
    landmarks = np.asarray(model.landmark_embedding_)[rows]
    covered = Coverage(np.zeros(len(rows)), np.ones(len(rows), dtype=bool), rows)
    the_map["regions"] = [
        {
            "name": name,
            "kind": region.kind,
            "off": region.explains,
            "rate": getattr(region, "rate", None),
            "facts": region.as_dict() if region.kind in _OUTLINED else None,
            "members": packed(region.masks(landmarks, covered)[0].astype(np.uint8), "u1"),
        }
        for name, region in regions.items()
    ]
    the_map["reach"] = float(np.sqrt(np.median(model.embedder_.squared_radii) / model.epsilon_))
    the_map["title"] = contents.title
    count = f"{points.total:,} {points.what}, " if points.total else ""
    the_map["subtitle"] = (
        f"{count}{len(model.multiplicities_):,} landmarks, {model.n_components_} coordinates"
    )
    the_map["version"] = __version__
    text = json.dumps(the_map, sort_keys=True, ensure_ascii=False)
    the_map["id"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return the_map


def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the page's files by path; none of them holds anything about a map or a stream."""
    # What draws the map reads it when it starts, so it is a function that the connection calls.
    drawing = [asset("report", f"{name}.js") for name in ("read", "axes", "energy")]
    drawing += [asset("live", f"{name}.js") for name in ("regions", "trail", "picture", "words", "live")]
    lines = ["(() => {", "'use strict';", asset("live", "connection.js")]
    lines += ["function startMap() {", *drawing, "}", "connect();", "})();", ""]
    script = "\n".join(lines)
    style = asset("report", "style.css") + asset("live", "live.css")
    return {
        "/": ("text/html; charset=utf-8", asset("live", "live.html").encode()),
        "/live.js": ("text/javascript; charset=utf-8", script.encode()),
        "/live.css": ("text/css; charset=utf-8", style.encode()),
    }
