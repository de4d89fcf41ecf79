"""The report: one HTML page that shows a map, works offline, and needs only a browser."""

from __future__ import annotations

from ldmaps.views.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
