"""Draw ``images/report.png``, the picture of a report: ``python docs/report_picture.py``.

Needs Chromium, which the tests drive the same way.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ldmaps.demo.files import write_files

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from headless_browser import Browser, find_browser  # noqa: E402


def main() -> None:
    """Write the demo's files, and photograph the report among them."""
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium on PATH; install one, or name it with LDMAPS_BROWSER")
    with tempfile.TemporaryDirectory() as folder, Browser(browser, timeout=120) as chromium:
        write_files(folder)
        page = chromium.open((Path(folder) / "map.html").as_uri(), width=1280, height=1098)
        page.hover(760, 700)
        (HERE / "images" / "report.png").write_bytes(page.screenshot())
        print(page.problems() or "images/report.png")


if __name__ == "__main__":
    main()
