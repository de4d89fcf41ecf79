"""Just enough of a headless Chromium: it speaks the DevTools protocol over two pipes, so nothing else is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """Return the path of a Chromium, from LDMAPS_BROWSER or PATH; None if there is none."""
    named = os.environ.get("LDMAPS_BROWSER")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    """The browser refused a command, did not answer, or a script failed."""


class Browser:
    """A running Chromium; use as a context manager."""

    def __init__(self, path: str, timeout: float = 120.0) -> None:
        self.timeout = timeout
        self._folder = tempfile.TemporaryDirectory(prefix="ldmaps-browser-", ignore_cleanup_errors=True)
        # High numbers first, because the browser wants the pipes at 3 and 4 and those may be taken here.
        pairs = [os.pipe(), os.pipe()]
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pair in pairs for end in pair]
        for pair in pairs:
            for end in pair:
                os.close(end)
        child_in, self._out, self._in, child_out = ends

        def connect() -> None:
            os.dup2(child_in, 3)
            os.dup2(child_out, 4)

        self._process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect,
            close_fds=False,
        )
        os.close(child_in)
        os.close(child_out)
        self._buffer = b""
        self._number = 0
        self.events: list[dict] = []
        self.version = self.command("Browser.getVersion")["product"]

    def command(self, method: str, session: str | None = None, **parameters) -> dict:
        """Send a command and wait for its answer; events on the way are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _read(self, deadline: float, method: str) -> dict:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise BrowserError(f"no answer to {method} within {self.timeout:g} s")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise BrowserError("the browser has gone")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def open(self, url: str, width: int = 1400, height: int = 1000, **settings) -> Page:
        """Open a page and wait until it has drawn itself."""
        return Page(self, url, width, height, **settings)

    def close(self) -> None:
        try:
            self.command("Browser.close")
            self._process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Page:
    """One tab."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        width: int,
        height: int,
        *,
        mobile: bool = False,
        scale: float = 1.0,
        dark: bool = False,
    ) -> None:
        self._browser = browser
        self.width, self.height = width, height
        target = browser.command("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", features=features)
        self.command("Page.navigate", url=url)
        self.wait_for("document.documentElement?.dataset.firstDraw !== undefined")

    def command(self, method: str, **parameters) -> dict:
        return self._browser.command(method, self._session, **parameters)

    def nameless_controls(self) -> list[str]:
        """Return the controls that a screen reader could not name."""
        return self.evaluate(
            "[...document.querySelectorAll('select, input, button')].filter(e =>"
            " !(e.textContent.trim() && e.tagName === 'BUTTON') && !e.getAttribute('aria-label') &&"
            " !(e.labels && e.labels.length && e.labels[0].textContent.trim())).map(e => e.id)"
        )

    def evaluate(self, expression: str):
        """Return the value of a script's expression."""
        answer = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        deadline = time.monotonic() + self._browser.timeout
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise BrowserError(f"{condition} did not come true; problems: {self.problems()}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until what was asked for in animation frames has been drawn."""
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def mouse(self, kind: str, x: float, y: float, button: str = "none", **more) -> None:
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, **more)

    def hover(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, "left", clickCount=1, buttons=1)
        self.mouse("mouseReleased", x, y, "left", clickCount=1)
        self.settle()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, "left", clickCount=1, buttons=1)
        for share in (0.3, 0.7, 1.0):
            place = [a + share * (b - a) for a, b in zip(start, end, strict=True)]
            self.mouse("mouseMoved", *place, "left", buttons=1)
            self.settle()
        self.mouse("mouseReleased", *end, "left", clickCount=1)
        self.settle()

    def key(self, name: str) -> None:
        text = {"text": name} if len(name) == 1 else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=name)
        self.settle()

    def choose(self, select: str, text: str) -> None:
        """Choose an option by its text, as a user's click would."""
        found = self.evaluate(
            f"(() => {{ const s = document.getElementById({select!r});"
            f"const o = [...s.options].find(o => o.text === {json.dumps(text)}); if (!o) return false;"
            "s.value = o.value; s.dispatchEvent(new Event('change')); return true; })()"
        )
        if not found:
            raise BrowserError(f"{select} has no option {text!r}")
        self.settle()

    def problems(self) -> list[str]:
        """Return what scripts threw or logged as errors, refused policies among them."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"])[:500])
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Return every address that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, *, full: bool = False) -> bytes:
        """Return a PNG of what is in view, or of the whole page."""
        settings: dict = {"format": "png"}
        if full:
            size = self.command("Page.getLayoutMetrics")["cssContentSize"]
            settings |= {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
            }
        return base64.b64decode(self.command("Page.captureScreenshot", **settings)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(
            self.command("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        )

    def close(self) -> None:
        self._browser.command("Target.closeTarget", targetId=self._target)
