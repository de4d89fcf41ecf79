"""The report: one HTML page that shows a map, works offline, and needs only a browser."""
