"""The live page: a map in a browser, with a stream that moves over it."""

from __future__ import annotations

from ldmaps.views.live.sink import LivePage

__all__ = ["LivePage"]
