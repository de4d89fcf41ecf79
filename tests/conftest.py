"""What several kinds of tests need."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, or a skip that says what is missing."""
    headless_browser = pytest.importorskip(
        "headless_browser", reason="no fcntl here, which driving a browser needs", exc_type=ImportError
    )
    path = headless_browser.find_browser()
    if path is None:
        pytest.skip(
            "no Chromium on this machine: install one (apt-get install chromium) or name it in LDMAPS_BROWSER"
        )
    try:
        running = headless_browser.Browser(path)
    except (headless_browser.BrowserError, OSError) as error:
        pytest.skip(f"{path} does not start here ({error}), so the page is not tried in a browser")
    with running:
        yield running
