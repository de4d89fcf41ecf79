"""The live page in a real browser, with a running stream: it moves, lists alarms, reconnects, and asks nobody else."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import numpy as np
import pytest
from live_streams import Feeder, embedded

from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis import LivePage
from ldmaps.regions import Ball, Box, OutOfDomain, Polygon, RegionTracker

#: Small made-up data, on which the diagnosis of a fit is right and beside the point.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")

for _part in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(
        _part, reason=f"the live page needs {_part}: pip install starlette uvicorn websockets"
    )

TOKEN = "a-token-for-tests-0123456789"
HOSTILE = '<img src="http://evil.example/x" onerror="document.title=1">'
DATA = "(document.documentElement ?? {dataset: {}}).dataset"
PICTURE = "document.getElementById('over').toDataURL()"
BACK = "document.getElementById('energy').toDataURL()"


@pytest.fixture(scope="module")
def points():
    """A walk to and fro along an arc, with a few points far from it."""
    rng = np.random.default_rng(0)
    angle = 1.5 - 1.5 * np.cos(np.arange(400) * 2 * np.pi / 400)
    walk = np.column_stack([np.cos(angle), np.sin(angle), 0.05 * rng.normal(size=400)])
    walk[50::100] += 4.0
    return walk


@pytest.fixture(scope="module")
def model(points):
    inside = np.delete(points, np.s_[50::100], axis=0)
    return LandmarkDiffusionMap(3, n_landmarks=60, extension="nystrom").fit(inside)


@pytest.fixture(scope="module")
def regions(model):
    low, high = model.embedding_.min(axis=0), model.embedding_.max(axis=0)
    middle = 0.5 * (low + high)
    corners = [[low[0], low[1]], [middle[0], low[1]], [low[0], middle[1]]]
    return {
        "left": Box({"psi2": (None, float(low[0] + 0.2 * (high[0] - low[0])))}),
        "ball": Ball({"psi2": float(high[0]), "psi3": float(high[1])}, float(0.3 * (high[0] - low[0]))),
        HOSTILE: Polygon(corners),
        "off": OutOfDomain(),
    }


@pytest.fixture(scope="module")
def served(model, points, regions):
    """A page with a stream that runs all the time."""
    with (
        LivePage(model, regions=regions, title=f"A map {HOSTILE}") as page,
        Feeder(page, model, points, RegionTracker(regions), batch=4),
    ):
        yield page


@pytest.fixture
def open_page(browser):
    """Open pages; at the end none may have thrown, logged an error, or asked another server for anything."""
    opened = []

    def open_it(page, *size, lost=False, **settings):
        shown = browser.open(page.address, *size, **settings)
        opened.append((shown, page.port, lost))
        return shown

    yield open_it
    for shown, port, lost in opened:
        problems, asked = shown.problems(), shown.requests()
        shown.close()
        # A browser logs by itself that a server it lost does not answer.
        assert [text for text in problems if not (lost and "ERR_CONNECTION" in text)] == []
        assert asked
        assert {urlsplit(address).netloc for address in asked} == {f"127.0.0.1:{port}"}


def text_of(page, name):
    return page.evaluate(f"document.getElementById({name!r}).textContent")


def click(page, name):
    page.evaluate(f"document.getElementById({name!r}).click()")
    page.settle()


def wait_for_frames(page, more):
    seen = int(page.evaluate(f"{DATA}.frames"))
    page.wait_for(f"{DATA}.frames >= {seen + more}")


def test_the_stream_moves_over_the_map(open_page, served):
    page = open_page(served)
    assert page.evaluate("document.title") == f"A map {HOSTILE}"
    pictures, records = set(), []
    for _ in range(3):
        wait_for_frames(page, 5)
        page.settle()
        pictures.add(page.evaluate(PICTURE))
        records.append(int(text_of(page, "records").replace(",", "")))
    assert len(pictures) == 3
    assert records == sorted(set(records))
    assert text_of(page, "status") == "Live"
    assert int(page.evaluate(f"{DATA}.drawn")) > 50
    assert float(text_of(page, "rate").replace(",", "")) > 0
    assert "ms" in text_of(page, "latency")
    assert text_of(page, "viewers") == "1"


def test_the_density_and_the_regions_are_drawn(open_page, served, model):
    page = open_page(served)
    with_regions = page.evaluate(BACK)
    colours = page.evaluate(
        "(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();"
        " for (let i = 0; i < d.length; i += 4) seen.add(d[i] + 256 * d[i + 1] + 65536 * d[i + 2]);"
        " return seen.size; })(document.getElementById('energy'))"
    )
    assert colours > 100
    with LivePage(model) as plain:
        other = open_page(plain)
        assert other.evaluate(BACK) != with_regions
        assert other.evaluate("document.getElementById('regions-card').hidden")
        assert text_of(other, "status") == "Waiting for records"


def test_alarms_are_listed_newest_first(open_page, served):
    page = open_page(served)
    page.wait_for("document.querySelectorAll('#alarms li.fresh').length > 0")
    numbers = page.evaluate(
        "[...document.querySelectorAll('#alarms .more:not(.why)')].map(e => Number(/record ([\\d,]+)/.exec("
        "e.textContent)[1].replaceAll(',', '')))"
    )
    assert numbers == sorted(numbers, reverse=True)
    words = page.evaluate("[...document.querySelectorAll('#alarms .what')].map(e => e.textContent)")
    assert {"entered left", "left left", "off"} <= set(words)
    # Off the map, one entry tells beginning, end, peak and reasons.
    over = page.evaluate("document.querySelector('#alarms li.over .more').textContent")
    assert re.fullmatch(r"record [\d,]+ to [\d,]+ · peak [\d.]+ √ε( · .*)?", over)
    assert "%" in page.evaluate("document.querySelector('#alarms li.over .why').textContent")
    assert len(words) <= 100
    page.wait_for("document.getElementById('announce').textContent.startsWith('Entered ')")
    assert page.evaluate("document.getElementById('announce').getAttribute('aria-live')") == "polite"
    page.wait_for("document.querySelectorAll('#regions li[data-here]').length === 1")
    assert page.evaluate("document.querySelectorAll('#regions .name').length") == 4


def test_names_are_text_whatever_they_hold(open_page, served):
    page = open_page(served)
    page.wait_for("document.querySelectorAll('#alarms li').length > 0")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert HOSTILE in page.evaluate(
        "[...document.querySelectorAll('#regions .name')].map(e => e.textContent)"
    )


def test_pause_freezes_the_picture_and_not_the_counters(open_page, served):
    page = open_page(served)
    click(page, "pause")
    before, records = page.evaluate(PICTURE), text_of(page, "records")
    wait_for_frames(page, 6)
    page.settle()
    assert page.evaluate(PICTURE) == before
    assert text_of(page, "records") != records
    assert text_of(page, "status") == "Paused (live)"
    click(page, "pause")
    wait_for_frames(page, 2)
    page.settle()
    assert page.evaluate(PICTURE) != before
    assert text_of(page, "status") == "Live"


def test_choices_change_the_picture(open_page, served):
    page = open_page(served)
    click(page, "pause")
    for control, choice in (
        ("colour", "Region"),
        ("colour", "One colour"),
        ("x-axis", "ψ₄"),
        ("y-axis", "Time from now (s)"),
    ):
        before = page.evaluate(PICTURE)
        page.choose(control, choice)
        page.settle()
        page.wait_for(f"{PICTURE} !== {before!r}")


def test_following_magnifies_and_clearing_clears(open_page, served):
    page = open_page(served)
    before = page.evaluate(BACK)
    click(page, "follow")
    assert page.evaluate(BACK) != before
    assert page.evaluate("document.getElementById('follow').getAttribute('aria-pressed')") == "true"
    click(page, "follow")
    page.wait_for(f"{DATA}.drawn > 60")
    click(page, "clear")
    page.wait_for(f"{DATA}.drawn < 50")


def test_keys_work_on_the_picture_and_only_there(open_page, served):
    page = open_page(served)
    page.key("f")
    assert page.evaluate("document.getElementById('follow').getAttribute('aria-pressed')") == "false"
    page.evaluate("document.getElementById('over').focus()")
    page.key("f")
    assert page.evaluate("document.getElementById('follow').getAttribute('aria-pressed')") == "true"
    page.key(" ")
    assert text_of(page, "status").startswith("Paused")


def test_every_control_has_a_name(open_page, served):
    page = open_page(served)
    assert page.nameless_controls() == []
    assert page.evaluate(
        "[...document.querySelectorAll('canvas[id]')].every(c => c.getAttribute('aria-label'))"
    )


def test_a_restarted_server_is_found_again(open_page, model, points, regions):
    first = LivePage(model, regions=regions).start()
    port = first.port
    try:
        first.write(embedded(model, points[:300]))
        page = open_page(first, lost=True)
        assert text_of(page, "records") == "300"
    finally:
        first.stop()
    page.wait_for(f"{DATA}.connection === 'closed'")
    assert text_of(page, "status").startswith("Disconnected")
    assert not page.evaluate("document.getElementById('retry').hidden")
    with LivePage(model, regions=regions, port=port) as again:
        again.write(embedded(model, points[:7], 0, RegionTracker(regions)))
        page.wait_for(f"{DATA}.connection === 'open'")
        page.wait_for("document.getElementById('records').textContent === '7'")
        assert page.evaluate("document.getElementById('retry').hidden")
        again.write(embedded(model, points[7:20], 7))
        page.wait_for("document.getElementById('records').textContent === '20'")
        again.close()
        page.wait_for("document.getElementById('status').textContent === 'Stream ended'")


def test_another_map_on_the_same_port_is_shown(open_page, model, points):
    first = LivePage(model, title="One").start()
    try:
        page = open_page(first, lost=True)
    finally:
        first.stop()
    with LivePage(model, title="Another", port=first.port):
        page.wait_for("document.title === 'Another'")
        page.wait_for(f"{DATA}.connection === 'open'")


def test_a_token_is_taken_from_the_address_and_hidden(open_page, model):
    with LivePage(model, token=TOKEN) as served:
        page = open_page(served)
        page.wait_for(f"{DATA}.connection === 'open'")
        assert page.evaluate("location.href") == f"http://127.0.0.1:{served.port}/"
        assert all(TOKEN not in address for address in page.requests())
        page.command("Page.reload")
        page.wait_for(f"{DATA}.connection === 'open'")


def test_without_the_token_it_is_asked_for(browser, model):
    with LivePage(model, token=TOKEN) as served:
        page = browser.open(f"http://127.0.0.1:{served.port}/")
        try:
            assert text_of(page, "status") == "A token is needed"
            assert text_of(page, "title") == "ldmaps live"
            for given, outcome in (("wrong", "refused"), (TOKEN, "open")):
                page.evaluate(f"document.getElementById('token').value = {given!r}")
                page.evaluate("document.getElementById('token-form').requestSubmit()")
                page.wait_for(f"{DATA}.connection === {outcome!r}")
                if outcome == "refused":
                    page.wait_for("document.getElementById('token-problem').textContent !== ''")
            assert page.evaluate("document.getElementById('token-form').hidden")
            assert page.problems() == []
        finally:
            page.close()


def test_a_phone_shows_it_without_scrolling_sideways(open_page, served):
    page = open_page(served, 390, 844, mobile=True, scale=2)
    wait_for_frames(page, 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate(
        "[...document.querySelectorAll('.controls select, .buttons button, .top button')]"
        ".filter(e => !e.hidden && e.getBoundingClientRect().height < 36).map(e => e.id)"
    )
    assert small == []
    assert page.evaluate("document.getElementById('over').width") == 2 * page.evaluate(
        "Math.round(document.getElementById('live-plot').getBoundingClientRect().width)"
    )


def test_a_desktop_shows_it_all_at_once(open_page, served):
    page = open_page(served, 1400, 900)
    assert page.evaluate("document.documentElement.scrollHeight") <= 900
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


def test_light_and_dark(open_page, served):
    page = open_page(served, dark=True)
    assert page.evaluate(f"{DATA}.theme") == "dark"
    before = page.evaluate(BACK)
    click(page, "theme")
    assert page.evaluate(BACK) != before


def test_reduced_motion_is_respected(open_page, served):
    page = open_page(served)
    page.wait_for("document.querySelectorAll('#alarms li').length > 0")
    moving = "getComputedStyle(document.querySelector('#alarms li')).transitionDuration"
    assert page.evaluate(moving) != "0s"
    page.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]
    )
    assert page.evaluate(moving) == "0s"
    before = page.evaluate(PICTURE)
    page.wait_for(f"{PICTURE} !== {before!r}")


def test_a_map_of_one_coordinate_is_shown_against_time(open_page, points):
    line = LandmarkDiffusionMap(1, n_landmarks=30, extension="nystrom").fit(points)
    with LivePage(line) as served:
        served.write(embedded(line, points[:100]))
        page = open_page(served)
        assert (
            page.evaluate("document.getElementById('x-axis').selectedOptions[0].text") == "Time from now (s)"
        )
        page.wait_for(f"{DATA}.drawn == 100")


def test_the_scale_of_distances_ends_beyond_the_reach_of_the_cells(open_page, served, model):
    page = open_page(served)
    reach = np.sqrt(np.median(model.embedder_.squared_radii) / model.epsilon_)
    legend = page.evaluate("document.body.textContent")
    assert f"≥ {float(f'{1.5 * reach:.2g}'):g} √ε" in legend
