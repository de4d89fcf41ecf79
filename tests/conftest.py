"""What several kinds of tests need."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """A shell that runs the tests in the background has them, and all they start, ignore Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Iterator[None]:
    """Tests share a process in any order, and matplotlib warns of the twenty-first figure."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


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
