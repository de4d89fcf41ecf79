"""The live page as a sink, and what it draws beneath the stream: the report's parts do most of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from ldmaps._version import __version__
from ldmaps.analysis.live.access import Access
from ldmaps.analysis.live.server import LiveServer
from ldmaps.analysis.live.state import LiveState
from ldmaps.analysis.own_points import PointsOfMap
from ldmaps.analysis.report.contents import MAX_SURFACE_COORDINATES, gather
from ldmaps.analysis.report.page import asset, packed, payload
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Region
from ldmaps.settings import check_whole
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink

#: Coordinates that are sent; pairs of more have no surface to be drawn on.
MAX_COORDINATES = MAX_SURFACE_COORDINATES
_OUTLINED = ("box", "ball", "polygon")


class LivePage(Sink):
    """Shows a stream on its map, in any number of browsers at once.

    Writing never waits for a viewer: a thread sends a bounded summary out at a fixed rate. The page stays when the
    stream ends (:meth:`close`), until :meth:`stop` or the end of the ``with`` block.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted or loaded.
    regions : mapping of str to Region, optional
        Those of the stream's tracker, in the same order (``tracker.regions``).
    host, port : str, int
        Where to bind. Any other host than loopback needs a token; port 0 takes any that is free (:attr:`address`).
    token : str, optional
        What a viewer must know, at least 16 characters.
    allowed_hosts : sequence of str
        Further names the page may be opened by, such as that of a proxy in front of it.
    title : str, optional
        Heading; by default the name of the file the map was fitted on.
    max_viewers, frame_rate : int, float
        Others are asked to try again later; frames sent per second.

    Examples
    --------
    >>> with LivePage(model, regions=tracker.regions) as page:  # doctest: +SKIP
    ...     print(page.address)
    ...     StreamEmbedder(model, tracker=tracker).run(source, [page])
    """

    name = "live page"

    def __init__(
        self,
        model: Any,
        *,
        regions: Mapping[str, Region] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        allowed_hosts: Sequence[str] = (),
        title: str | None = None,
        max_viewers: int = 64,
        frame_rate: float = 20.0,
    ) -> None:
        check_whole("max_viewers", max_viewers, 1)
        check_whole("port", port, 0, 65535)
        if not 0 < frame_rate <= 60:
            raise InvalidInputError(
                f"frame_rate must be above 0 and at most 60 per second, got {frame_rate!r}"
            )
        self._model, self._title, self._token = model, title, token
        self._regions = dict(regions or {})
        access = Access(host, token, allowed_hosts)
        self.state = LiveState(min(model.n_components_, MAX_COORDINATES), tuple(self._regions))
        # What is off the map by its first region, an alarm, is so on the page.
        self.state.has_alarm = any(region.explains for region in list(self._regions.values())[:1])
        limits: dict[str, Any] = {"max_viewers": max_viewers, "frame_rate": frame_rate}
        self._server = LiveServer(self.state, access, host=host, port=int(port), **limits)

    @property
    def port(self) -> int:
        """The port it is served on, once it is."""
        return self._server.port

    @property
    def address(self) -> str:
        """Where to open the page; with the token, in the part of an address that a browser keeps to itself."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._server.host, self._server.host)
        host = f"[{host}]" if ":" in host else host
        secret = "" if self._token is None else f"#token={quote(self._token, safe='')}"
        return f"http://{host}:{self.port}/{secret}"

    @property
    def viewers(self) -> int:
        """How many are looking now."""
        return self.state.viewers

    @property
    def is_served(self) -> bool:
        """Whether browsers can connect."""
        return self._server.running

    def start(self) -> Self:
        """Serve the page, which is returned; do nothing if it is served already."""
        if not self.is_served:
            self._server.start(map_data(self._model, self._regions, self._title), page_files())
        return self

    def write(self, embedded: Embedded) -> None:
        """Show a batch of records on the page, which is served from the first ones on."""
        self.start()
        self.state.take(embedded)

    def close(self) -> None:
        """Show on the page that the stream has ended; the page itself stays until :meth:`stop`."""
        self.state.finish()

    def fail(self, problem: str) -> None:
        """Show on the page what stopped the stream.

        Parameters
        ----------
        problem : str
            One line.
        """
        self.state.finish(problem)

    def stop(self) -> None:
        """Stop the page: close all connections and end the server's thread."""
        self._server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


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
    for region in regions.values():
        region.check_model(model)
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
    count = f"{points.total:,} {points.what}, " if points.total else ""
    the_map |= {
        "reach": float(np.sqrt(np.median(model.embedder_.squared_radii) / model.epsilon_)),
        "title": contents.title,
        "subtitle": f"{count}{len(model.multiplicities_):,} landmarks, {model.n_components_} coordinates",
        "version": __version__,
    }
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
