"""The live page's server over real sockets: what viewers are told, who is turned away, and that none of them matters
to the stream."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import types
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from live_streams import Feeder, embedded
from polling import PATIENCE

from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis import LivePage
from ldmaps.analysis.live import server
from ldmaps.analysis.live.access import Access
from ldmaps.analysis.live.server import DROPPED_BEYOND, LARGEST_MESSAGE, _connections
from ldmaps.analysis.live.state import BURST, EVENTS, HISTORY, MOST, MOST_AT_FIRST, LiveState
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions import Box, Event, OutOfDomain, RegionTracker
from ldmaps.streaming import Embedded, Records

REASON = "the live page needs starlette, uvicorn and websockets: pip install starlette uvicorn websockets"
for _part in ("starlette", "uvicorn"):
    pytest.importorskip(_part, reason=REASON)
connect = pytest.importorskip("websockets.sync.client", reason=REASON).connect
exceptions = pytest.importorskip("websockets.exceptions", reason=REASON)
ConnectionClosed, InvalidStatus = exceptions.ConnectionClosed, exceptions.InvalidStatus

TOKEN = "a-token-for-tests-0123456789"


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 3, 600)
    return np.column_stack([np.cos(angle), np.sin(angle), 0.05 * rng.normal(size=600)])


@pytest.fixture(scope="module")
def model(points):
    return LandmarkDiffusionMap(2, n_landmarks=40, extension="nystrom").fit(points)


@pytest.fixture(scope="module")
def regions(model):
    middle = float(np.median(model.embedding_[:, 0]))
    return {"right": Box({"psi2": (middle, None)}), "off": OutOfDomain()}


@pytest.fixture
def page(model, regions):
    with LivePage(model, regions=regions) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(model, regions):
    """A page that nobody writes to, for those who are turned away."""
    with LivePage(model, regions=regions) as running:
        yield running


class Viewer:
    """A viewer that is not a browser."""

    def __init__(self, page, token="", have=None, **settings):
        here = f"127.0.0.1:{page.port}"
        settings = {"origin": f"http://{here}", "compression": None, "proxy": None, **settings}
        opened = connect(f"ws://{here}/stream", open_timeout=PATIENCE, close_timeout=5, **settings)
        self.socket = opened.__enter__()
        self.socket.send(json.dumps({"token": token, "have": have}))

    def map(self):
        return json.loads(self.socket.recv(timeout=PATIENCE))

    def frame(self):
        message = self.socket.recv(timeout=PATIENCE)
        length = int.from_bytes(message[:4], "little")
        head = json.loads(message[4 : 4 + length])
        rows = np.frombuffer(message[4 + length :], dtype="<f4").reshape(-1, head["width"])
        return types.SimpleNamespace(head=head, rows=rows, size=len(message))

    def frames_until(self, done, most=400):
        found = []
        for _ in range(most):
            found.append(self.frame())
            if done(found[-1].head):
                return found
        raise AssertionError(f"{most} frames later: {found[-1].head}")

    def close_code(self):
        try:
            for _ in range(400):
                self.socket.recv(timeout=PATIENCE)
        except ConnectionClosed:
            return self.socket.protocol.close_code
        raise AssertionError("the connection was not closed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def get(page, path="/", host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{page.port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


# -- what viewers are told -------------------------------------------------------------


def test_a_viewer_gets_the_map_then_the_past_then_what_is_new(page, model, points):
    page.write(embedded(model, points[:50]))
    with Viewer(page) as viewer:
        the_map = viewer.map()
        assert the_map["names"] == ["ψ₂", "ψ₃"]
        assert [region["name"] for region in the_map["regions"]] == ["right", "off"]
        assert len(the_map["energies"]) == 1
        first = viewer.frame()
        assert first.head["records"] == 50
        np.testing.assert_allclose(first.rows[:, 3:], model.transform(points[:50]), rtol=1e-4, atol=1e-6)
        page.write(embedded(model, points[50:53], first=50))
        later = viewer.frames_until(lambda head: head["records"] == 53)
        assert sum(len(frame.rows) for frame in later) == 3
        np.testing.assert_allclose(
            later[-1].rows[-1, 3:], model.transform(points[52:53])[0], rtol=1e-4, atol=1e-6
        )
        assert later[-1].head["current"]["number"] == 52
        assert later[-1].head["current"]["time"] == 26.0


def test_frames_come_in_order_and_lose_no_event(page, model, points, regions):
    tracker = RegionTracker(regions)
    with Viewer(page) as viewer:
        viewer.map()
        with Feeder(page, model, points, tracker) as feeder:
            frames = viewer.frames_until(lambda head: head["records"] > 400)
        frames += viewer.frames_until(lambda head: head["records"] == feeder.written)
    records = [frame.head["records"] for frame in frames]
    assert records == sorted(records)
    told = [event["id"] for frame in frames for event in frame.head["events"]]
    assert told == list(range(frames[-1].head["alarms"]))
    assert told
    assert {event["kind"] for frame in frames for event in frame.head["events"]} == {"enter", "leave"}
    assert frames[-1].head["rate"] >= 0
    assert frames[-1].head["latency"][0] >= 0.002


def test_counts_are_of_all_records_however_few_are_shown(page, model, points, regions):
    tracker = RegionTracker(regions)
    far = points.copy()
    far[::10] += 30.0
    batch = embedded(model, far, 0, tracker, rejected=3)
    page.write(batch)
    with Viewer(page) as viewer:
        viewer.map()
        head = viewer.frame().head
    assert head["records"] == 600
    assert head["outside"] == np.count_nonzero(~batch.coverage.inside) >= 60
    assert head["rejected"] == 3
    assert head["byRegion"] == np.bincount(batch.regions + 1, minlength=3).tolist()
    assert sum(head["byRegion"]) == 600
    assert head["problem"] == "3 numbers are needed, got 2"


def test_twenty_viewers_see_the_same(page, model, points):
    viewers = [Viewer(page) for _ in range(20)]
    try:
        for viewer in viewers:
            viewer.map()
        wait_until(lambda: page.viewers == 20)
        page.write(embedded(model, points[:40]))
        heads = [viewer.frames_until(lambda head: head["records"] == 40)[-1].head for viewer in viewers]
        assert {head["current"]["number"] for head in heads} == {39}
    finally:
        for viewer in viewers:
            viewer.socket.close()
    wait_until(lambda: page.viewers == 0)


def test_who_comes_back_gets_the_past_and_not_the_map_again(page, model, points, regions):
    tracker = RegionTracker(regions)
    with Viewer(page) as viewer:
        known = viewer.map()["id"]
    page.write(embedded(model, points[:200], 0, tracker))
    with Viewer(page, have=known) as viewer:
        assert viewer.map() == {"id": "same"}
        first = viewer.frame()
    assert len(first.rows) == 200
    assert [event["id"] for event in first.head["events"]] == list(range(first.head["alarms"]))


def test_an_idle_stream_still_says_that_it_lives(page):
    with Viewer(page) as viewer:
        viewer.map()
        frames = [viewer.frame() for _ in range(2)]
    assert [frame.head["status"] for frame in frames] == 2 * ["waiting"]


def test_the_end_of_a_stream_is_told_and_the_page_stays(page, model, points):
    page.write(embedded(model, points[:5]))
    page.close()
    with Viewer(page) as viewer:
        viewer.map()
        assert viewer.frame().head["status"] == "ended"
        page.fail("the sensor is gone")
        head = viewer.frames_until(lambda head: head["status"] == "failed")[-1].head
    assert head["problem"] == "the sensor is gone"


def test_one_coordinate_and_no_regions(points):
    line = LandmarkDiffusionMap(1, n_landmarks=30, extension="nystrom").fit(points)
    with LivePage(line) as page:
        page.write(embedded(line, points[:10], times=False))
        with Viewer(page) as viewer:
            the_map = viewer.map()
            frame = viewer.frame()
    assert the_map["energies"] == []
    assert frame.rows.shape == (10, 4)
    assert frame.head["current"]["time"] is None


# -- bounds ------------------------------------------------------------------------------


def fast_batch(n, first=0, k=2, events=0):
    rng = np.random.default_rng(first)
    happened = tuple(Event("enter", "right", first + i, None, 0) for i in range(events))
    coverage = Coverage(np.ones(n, np.float32), np.ones(n, bool), np.zeros(n, np.intp))
    coordinates = rng.normal(size=(n, k)).astype(np.float32)
    records = Records(coordinates, np.arange(first, first + n), None, np.full(n, time.monotonic()))
    return Embedded(records, coordinates, coverage, np.zeros(n, np.intp), happened)


def test_a_fast_stream_is_thinned_and_its_last_record_kept():
    state = LiveState(2, ("right",))
    for first in range(0, 2_000_000, 100_000):
        batch = fast_batch(100_000, first, events=500)
        state.take(batch)
    frame = state.frame(None)
    length = int.from_bytes(frame.data[:4], "little")
    head = json.loads(frame.data[4 : 4 + length])
    rows = np.frombuffer(frame.data[4 + length :], "<f4").reshape(-1, 5)
    assert head["records"] == 2_000_000
    assert head["byRegion"] == [0, 2_000_000]
    assert len(rows) <= MOST_AT_FIRST
    assert len(head["events"]) == EVENTS
    assert [event["id"] for event in head["events"]] == list(range(20 * 500 - EVENTS, 20 * 500))
    np.testing.assert_array_equal(head["current"]["coordinates"], batch.coordinates[-1].astype(float))


def test_a_frame_is_bounded_however_much_came(monkeypatch):
    clock = types.SimpleNamespace(monotonic=lambda: clock.now, time=time.time, now=100.0)
    monkeypatch.setattr("ldmaps.analysis.live.state.time", clock)
    state = LiveState(2)
    cursor = state.frame(None).cursor
    for step in range(30):
        clock.now += 5.0
        state.take(fast_batch(5000, 5000 * step))
    state.tick()
    frame = state.frame(cursor)
    rows = (len(frame.data) - 4 - int.from_bytes(frame.data[:4], "little")) / 20
    assert 0.5 * MOST < rows <= MOST
    assert frame.cursor.point > HISTORY > BURST
    rows = (len(state.frame(None).data) - 4 - int.from_bytes(state.frame(None).data[:4], "little")) / 20
    assert 0.5 * MOST_AT_FIRST < rows <= MOST_AT_FIRST


def test_records_kept_of_a_batch_are_spread_evenly_up_to_its_last():
    state = LiveState(2)
    batch = fast_batch(5 * BURST)
    state.take(batch)
    frame = state.frame(None)
    length = int.from_bytes(frame.data[:4], "little")
    rows = np.frombuffer(frame.data[4 + length :], "<f4").reshape(-1, 5)
    np.testing.assert_array_equal(rows[:, 3:], batch.coordinates[4::5])


def test_coordinates_that_are_no_numbers_do_no_harm():
    state = LiveState(2)
    batch = fast_batch(3)
    batch.coordinates[:] = np.nan
    state.take(batch)
    data = state.frame(None).data
    length = int.from_bytes(data[:4], "little")
    assert json.loads(data[4 : 4 + length])["current"]["coordinates"] == [None, None]


def large_batch():
    """Return records whose events make frames of 400 kB."""
    batch = fast_batch(EVENTS, events=EVENTS)
    return replace(batch, events=tuple(replace(event, region="x" * 2000) for event in batch.events))


HANDSHAKE = (
    "GET /stream HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PING = b"\x89\xfd" + b"\0" * 4 + b"x" * 125  # masked by nothing


def text_frame(text):
    """Return a short message as it is sent, masked by nothing."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


@contextmanager
def stalled(page, greeting=b'{"token":""}'):
    """A WebSocket that greets, or does not, and then reads nothing; a raw one, because a library would read ahead."""
    with socket.socket() as opened:
        # Before it connects: a window that was larger once would lose what is sent into it, acknowledgements and all.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.settimeout(PATIENCE)
        opened.connect(("127.0.0.1", page.port))
        opened.sendall(HANDSHAKE.format(here=f"127.0.0.1:{page.port}").encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += opened.recv(1)
        assert answer.startswith(b"HTTP/1.1 101 ")
        if greeting:
            opened.sendall(text_frame(greeting))
            assert opened.recv(1) == b"\x81"  # the map begins: it is a viewer now
        yield opened


def drops(opened, pings):
    """Whether a server drops a connection that sends so many pings before it reads any answer."""
    last, said = PING.replace(b"x", b"y"), b""
    try:
        for _ in range(pings // 100):
            opened.sendall(PING * 100)
        opened.sendall(last)
        while b"y" * 125 not in said:
            answers = opened.recv(1 << 16)
            if not answers:
                return True
            said = said[-125:] + answers
    except ConnectionError:
        return True
    return False


def connections(page):
    return list(page._server._server.server_state.connections)


def test_a_viewer_that_does_not_read_holds_nobody_up(model):
    """Its socket fills; writing and the other viewer go on, and what waits for it stays below two frames."""
    batch = large_batch()
    with LivePage(model, frame_rate=60) as page, Viewer(page) as other, stalled(page):
        other.map()
        wait_until(lambda: page.viewers == 2)
        waiting, frame_size = [], 0
        for step in range(60):
            page.write(batch)
            frames = other.frames_until(lambda head, step=step: head["records"] == (step + 1) * EVENTS)
            frame_size = max(frame_size, *(frame.size for frame in frames))
            waiting.append(max(one.transport.get_write_buffer_size() for one in connections(page)))
        assert frame_size > 400_000
        assert waiting[-1] > 100_000, "the viewer did not stall, so nothing was tried"
        assert max(waiting) < 2 * frame_size
        page.stop()  # nor does it keep the server from ending
        assert not page.is_served


def test_a_viewer_that_takes_nothing_for_long_is_dropped(model, monkeypatch):
    monkeypatch.setattr(server, "STALLED", 0.3)
    batch = large_batch()
    with LivePage(model, frame_rate=60) as page, stalled(page):

        def dropped():
            page.write(batch)
            return page.viewers == 0 and not connections(page)

        wait_until(dropped)


def test_too_many_viewers_are_told_to_come_back(model):
    with LivePage(model, max_viewers=1) as page, Viewer(page) as first:
        first.map()
        with Viewer(page) as second:
            assert second.close_code() == 1013
        assert first.frame().head["viewers"] == 1


# -- who is turned away --------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:1", "null", "https://127.0.0.1.evil.example", None, "file://"],
)
def test_a_foreign_origin_is_refused(guarded, origin):
    with pytest.raises(InvalidStatus) as refused:
        Viewer(guarded, origin=origin)
    assert refused.value.response.status_code == 403
    assert guarded.viewers == 0


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "192.168.1.7", "127.0.0.1@evil", "a b", ""]
)
def test_a_foreign_host_is_refused(guarded, host):
    status, headers, body = get(guarded, host=host or " ")
    assert status in (400, 403)
    assert b"canvas" not in body
    if status == 403:
        assert headers["X-Content-Type-Options"] == "nosniff"
        with pytest.raises(InvalidStatus) as refused:
            Viewer(guarded, additional_headers={"Host": host}, origin=f"http://{host}")
        assert refused.value.response.status_code in (400, 403)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.maps.example.org:80",
        "http://evilmaps.example.org:80",
        "http://maps.example.org:80.evil.example",
        "http://user@maps.example.org:80",
        "http://maps.example.org:8",
        "http://maps.example.org",
        "ftp://maps.example.org:80",
        "//maps.example.org:80",
        "http://[maps.example.org:80",
    ],
)
def test_an_origin_is_the_whole_of_our_own(origin):
    access = Access("0.0.0.0", TOKEN, ["maps.example.org"])
    assert access.accepts_origin("http://maps.example.org:80", "maps.example.org:80")
    assert access.accepts_origin("https://MAPS.example.org:80", "maps.example.org:80")
    assert not access.accepts_origin(origin, "maps.example.org:80")


def handshake(page, host, origin):
    """Ask for a WebSocket byte by byte, as no library would, and return the answer's first line."""
    lines = [
        "GET /stream HTTP/1.1",
        f"Host: {host}",
        f"Origin: {origin}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
    ]
    with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection.recv(4096).split(b"\r\n")[0]


def test_a_websocket_under_a_foreign_name_is_refused_though_its_origin_agrees(guarded):
    """DNS rebinding: the name is the attacker's, points here, and is sent as Host and as Origin."""
    here = f"127.0.0.1:{guarded.port}"
    assert b"101" in handshake(guarded, here, f"http://{here}")
    for host in ("evil.example", f"evil.example:{guarded.port}", f"evil{here}"):
        assert b"403" in handshake(guarded, host, f"http://{host}")


def test_a_long_greeting_is_not_even_read(guarded):
    here = f"127.0.0.1:{guarded.port}"
    with connect(f"ws://{here}/stream", origin=f"http://{here}", open_timeout=PATIENCE, proxy=None) as one:
        one.send(json.dumps({"token": "", "padding": "x" * LARGEST_MESSAGE}))
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=PATIENCE)
        assert one.protocol.close_code == 1009


def test_those_who_do_not_greet_are_no_more_than_the_viewers(model):
    with LivePage(model, max_viewers=2) as page:
        here = f"127.0.0.1:{page.port}"

        def stranger():
            return connect(f"ws://{here}/stream", origin=f"http://{here}", open_timeout=PATIENCE, proxy=None)

        with stranger() as first, stranger():
            with pytest.raises(InvalidStatus) as refused, stranger():
                pass
            assert refused.value.response.status_code == 403
            first.close()
            wait_until(lambda: page.viewers == 0)
            with Viewer(page) as viewer:
                assert "names" in viewer.map()


def test_names_of_this_machine_are_accepted(guarded):
    port = guarded.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST"):
        assert get(guarded, host=host)[0] == 200


def test_a_token_is_asked_for_and_compared(model):
    with LivePage(model, token=TOKEN) as page:
        assert page.address.endswith(f"/#token={TOKEN}")
        for wrong in ("", TOKEN[:-1], TOKEN + "x", None, 7, ["x"], "ü" * 20):
            with Viewer(page, token=wrong) as viewer:
                assert viewer.close_code() == 4401
        with Viewer(page, token=TOKEN) as viewer:
            assert "names" in viewer.map()
        # What is served without the token says nothing about the map.
        for path in ("/", "/live.js", "/live.css"):
            status, _, body = get(page, path)
            assert status == 200
            assert b"Diffusion map" not in body
            assert TOKEN.encode() not in body


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_other_machines_are_not_served_without_a_token(model, host):
    with pytest.raises(InvalidInputError, match="without a token"):
        LivePage(model, host=host)


def test_a_token_that_can_be_guessed_is_refused(model):
    with pytest.raises(InvalidInputError, match="at least 16 printable"):
        LivePage(model, token="secret")


def test_with_a_token_any_address_of_the_machine_will_do_but_no_foreign_name():
    access = Access("0.0.0.0", TOKEN, ["maps.example.org"])
    assert access.accepts_host("192.168.1.7:8765")
    assert access.accepts_host("maps.example.org")
    assert not access.accepts_host("evil.example:8765")
    assert access.accepts_origin("https://maps.example.org", "maps.example.org")
    assert not access.accepts_origin("https://evil.example", "maps.example.org")


@pytest.mark.parametrize(
    "message", ["", "{", "[1]", "7", "null", '"x"', "[" * 2000, b"\x00\x01", "x" * 10_000]
)
def test_a_malformed_greeting_closes_that_connection_only(guarded, message):
    here = f"127.0.0.1:{guarded.port}"
    with connect(f"ws://{here}/stream", origin=f"http://{here}", open_timeout=PATIENCE, proxy=None) as one:
        one.send(message)
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=PATIENCE)
        assert one.protocol.close_code in (4400, 1009)
    with Viewer(guarded) as viewer:
        assert "names" in viewer.map()


def test_a_viewer_that_talks_on_is_closed(page):
    with Viewer(page) as viewer:
        viewer.map()
        viewer.socket.send('{"do": "something"}')
        assert viewer.close_code() == 4400
    wait_until(lambda: page.viewers == 0)


def test_every_answer_has_the_security_headers(guarded):
    for path in ("/", "/live.js", "/live.css", "/nothing"):
        status, headers, _ = get(guarded, path)
        assert status == (404 if path == "/nothing" else 200)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
    assert get(guarded, "/", method="POST")[0] == 405


# -- starting and stopping ---------------------------------------------------------------------


def test_stopping_closes_viewers_and_ends_the_thread(model):
    before = set(threading.enumerate())
    page = LivePage(model).start()
    with Viewer(page) as viewer:
        viewer.map()
        page.stop()
        assert viewer.close_code() == 1012
    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE)


def test_a_page_can_be_served_again_on_its_port(model, points):
    page = LivePage(model)
    for _ in range(2):
        with page:
            port = page.port
            page.write(embedded(model, points[:5]))
            with Viewer(page) as viewer:
                viewer.map()
                viewer.frame()
        assert page.port == port


def test_a_port_that_is_taken_is_named(page, model):
    with pytest.raises(InvalidInputError, match=f"port {page.port} of 127.0.0.1 .*in use.*choose another"):
        LivePage(model, port=page.port).start()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"port": 70000}, "port"),
        ({"port": -1}, "port"),
        ({"max_viewers": 0}, "max_viewers"),
        ({"frame_rate": 0}, "frame_rate"),
    ],
)
def test_settings_are_checked(model, settings, words):
    with pytest.raises(InvalidInputError, match=words):
        LivePage(model, **settings)


def test_a_host_that_is_not_here_is_named(model):
    with pytest.raises(InvalidInputError, match="192.0.2.1"):
        LivePage(model, host="192.0.2.1", token=TOKEN).start()


def refused(socket_):
    """Return whether the server drops a connection that says nothing."""
    socket_.settimeout(PATIENCE)
    try:
        return socket_.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_idle_connections_leave_descriptors_for_files(model, monkeypatch):
    """They send nothing, so that nothing of them is read that could be turned away."""
    monkeypatch.setattr(server, "REQUEST", 1e9)  # else they are dropped for asking nothing
    with LivePage(model, max_viewers=1) as page, ExitStack() as stack:
        most = 2 + 100 + DROPPED_BEYOND
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", page.port), PATIENCE))
            for _ in range(most + 60)
        ]
        assert all(refused(one) for one in idle[most + 1 :])
        assert len(page._server._server.server_state.connections) <= most


def test_descriptors_are_kept_in_reserve(monkeypatch):
    resource = pytest.importorskip("resource", reason="limits are those of POSIX")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    assert _connections(200) == 128 - DROPPED_BEYOND
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert _connections(200) == 200


def test_a_flood_of_pings_is_no_greeting(guarded):
    with stalled(guarded, greeting=b"") as opened:
        assert drops(opened, 2000)
        wait_until(lambda: not guarded._server._strangers)


def test_a_viewer_that_only_sends_is_dropped(page, monkeypatch):
    monkeypatch.setattr(server, "UNREAD_BYTES", 1 << 20)
    with stalled(page) as opened:
        assert drops(opened, 400_000)
        wait_until(lambda: page.viewers == 0 and not connections(page))


def test_those_who_ask_for_nothing_do_not_hold_the_page(model, monkeypatch):
    monkeypatch.setattr(server, "REQUEST", 1e9)  # until all are there
    monkeypatch.setattr(server, "VISIT", 1e9)
    with LivePage(model, max_viewers=1) as page, Viewer(page) as viewer, ExitStack() as stack:
        viewer.map()
        for said in [b"", b"GET / HTTP/1.1\r\nHost: "] * 60:
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", page.port), PATIENCE))
            idle.sendall(said)
        wait_until(lambda: get(page)[0] == 503)  # they are more than the page takes
        monkeypatch.setattr(server, "REQUEST", 0.5)
        wait_until(lambda: len(connections(page)) == 1)
        assert get(page)[0] == 200
        monkeypatch.setattr(server, "VISIT", 0.0)
        for _ in range(3):  # who became a viewer stays
            viewer.frame()


def test_a_viewer_that_was_closed_need_not_read_its_farewell(page, monkeypatch):
    """What is left to send is waited for, but not for ever."""
    monkeypatch.setattr(server, "VISIT", 0.5)
    with stalled(page) as opened:
        while not connections(page)[0].transport.get_write_buffer_size():
            opened.sendall(PING * 10)
        opened.sendall(text_frame(b'{"do": "something"}'))
        wait_until(lambda: page.viewers == 0)
        wait_until(lambda: not connections(page))
