"""Scripts, styles and templates that pages are made of."""

from __future__ import annotations

from importlib.resources import files


def asset(page: str, name: str) -> str:
    """Return the text of a file of a page, "report" or "live"."""
    return files("ldmaps.views").joinpath(page, "assets", name).read_text(encoding="utf-8")
