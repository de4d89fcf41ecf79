"""The report: one HTML page that shows a map, works offline, and needs only a browser."""

from __future__ import annotations

from ldmaps.views.report.page import write_report

__all__ = ["write_report"]
