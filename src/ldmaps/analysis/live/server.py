"""The live page's server: it runs in its own thread and sends each viewer what is new to it.

A viewer's next frame is made when the last one is on its way: one that reads slowly gets fewer, and no other waits.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ldmaps.analysis.live.access import Access, bind, guarded
from ldmaps.analysis.live.state import Cursor, LiveState
from ldmaps.errors import InvalidInputError

if TYPE_CHECKING:
    import socket

    from starlette.websockets import WebSocket

#: Close codes; the page explains them to its reader.
WRONG_TOKEN, BAD_MESSAGE, TOO_MANY = 4401, 4400, 1013
#: Largest message taken from a viewer, in bytes: its one message is a greeting.
LARGEST_MESSAGE = 4096
#: Seconds that starting, and stopping, may take.
STARTING = 15.0
#: Seconds a new viewer has for its greeting, a frame for leaving, and an idle page hears nothing.
GREETING, STALLED, HEARTBEAT = 10.0, 30.0, 1.0
#: Seconds that a connection has for its first whole request, and after which one that is no viewer's is dropped: half a
#: request holds a place, and so does an answer that nobody reads.
REQUEST, VISIT = 5.0, 20.0
#: Connections beyond those that are answered (with "too busy") before new ones are dropped unread; and how many are
#: accepted at a time.
DROPPED_BEYOND, ACCEPTED = 50, 16
#: Bytes that a connection may send before its greeting, control frames and all, and that a viewer may leave unread
#: while it sends: each ping that is not read is answered into memory.
STRANGE_BYTES, UNREAD_BYTES = 64 << 10, 16 << 20


class LiveServer:
    """Serves files and a WebSocket; the map's "id" says what a page has drawn."""

    def __init__(
        self, state: LiveState, access: Access, *, host: str, port: int, max_viewers: int, frame_rate: float
    ) -> None:
        self._state, self._access = state, access
        self.host, self.port = host, port  # 0 until it is bound
        self._max_viewers, self._period = max_viewers, 1.0 / frame_rate
        self._map_id, self._map = "", ""
        self._files: Mapping[str, tuple[str, bytes]] = {}
        self._strangers = 0  # connected, but not yet greeted
        self._greeted_from: set[tuple[str, int]] = set()  # addresses of viewers
        self._visits: dict[Any, float] = {}  # since when each connection has been no viewer's
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    # -- starting and stopping ----------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the server's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, the_map: dict[str, Any], files: Mapping[str, tuple[str, bytes]]) -> None:
        """Bind and serve files (media type and content by path); returns when connections are accepted."""
        self._map_id, self._files = the_map["id"], files
        self._next_tick = asyncio.Event()
        self._map = json.dumps(the_map, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        application = self._application()
        import uvicorn

        bound = bind(self.host, self.port)
        self.port = bound.getsockname()[1]
        busy = _connections(2 * self._max_viewers + 100)
        config = uvicorn.Config(
            application,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=LARGEST_MESSAGE,
            ws_per_message_deflate=False,
            limit_concurrency=busy,
            backlog=ACCEPTED,
            timeout_graceful_shutdown=1,
            server_header=False,
            proxy_headers=False,
        )
        self._limit(config, busy + DROPPED_BEYOND)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._serve, args=(bound,), name="ldmaps-live-page", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + STARTING
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                bound.close()
                raise InvalidInputError(
                    f"the live page's server did not start ({self._failure or 'no answer'})"
                )
            time.sleep(0.005)
        bound.listen(1024)  # so many may wait; asyncio would accept as many at a time

    def _limit(self, config: Any, most: int) -> None:
        """Let connections be dropped where they are accepted, and those that flood where they are read."""
        config.load()
        greeted_from = self._greeted_from

        class Visits(config.http_protocol_class):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if len(self.connections) > most:
                    transport.abort()

        class Viewers(config.ws_protocol_class):
            received = 0

            def data_received(self, data: bytes) -> None:
                self.received += len(data)
                floods = self.received > STRANGE_BYTES and self.client not in greeted_from
                if floods or self.transport.get_write_buffer_size() > UNREAD_BYTES:
                    self.transport.abort()
                else:
                    super().data_received(data)

        config.http_protocol_class, config.ws_protocol_class = Visits, Viewers

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STARTING)

    def _serve(self, bound: socket.socket) -> None:
        async def serve() -> None:
            ticking = asyncio.create_task(self._tick())
            await self._server.serve(sockets=[bound])
            ticking.cancel()
            self._abort()  # those that were sent a farewell and did not read it
            await asyncio.sleep(0.01)

        try:
            asyncio.run(serve())
        except BaseException as error:
            self._failure = error
        finally:
            bound.close()

    def _abort(self, client: Any = None) -> None:
        """Drop a viewer's connection, or all, without waiting until everything is read."""
        for connection in list(self._server.server_state.connections):
            if client is None or connection.client == tuple(client):
                connection.transport.abort()

    # -- answering ----------------------------------------------------------------

    def _application(self) -> Any:
        try:
            import uvicorn  # noqa: F401
            import websockets  # noqa: F401  (uvicorn needs it, and says so only when somebody connects)
            from starlette.applications import Starlette
            from starlette.requests import Request
            from starlette.responses import Response
            from starlette.routing import Route, WebSocketRoute
        except ImportError as error:
            raise InvalidInputError(
                f"the live page needs other packages ({error}): pip install starlette uvicorn websockets"
            ) from error

        def file(request: Request) -> Response:
            kind, content = self._files[request.url.path]
            return Response(content, media_type=kind)

        routes = [Route(path, file, methods=["GET"]) for path in self._files]
        return guarded(Starlette(routes=[*routes, WebSocketRoute("/stream", self._viewer)]), self._access)

    async def _tick(self) -> None:
        """Wake all viewers' tasks, again and again."""
        while True:
            await asyncio.sleep(self._period)
            self._state.tick()
            self._end_visits(time.monotonic())
            tick, self._next_tick = self._next_tick, asyncio.Event()
            tick.set()

    def _end_visits(self, now: float) -> None:
        """Drop connections that only hold a place; uvicorn waits for half a request, or for a reader, forever."""
        self._visits = {
            connection: self._visits.get(connection, now)
            for connection in self._server.server_state.connections
            if connection.client not in self._greeted_from
        }
        for connection, since in self._visits.items():
            # What answers uvicorn's first HTTP request; a WebSocket has no such thing, and has asked.
            asked = getattr(connection, "cycle", ...) is not None
            if now - since > (VISIT if asked else REQUEST):
                connection.transport.abort()

    async def _viewer(self, viewer: WebSocket) -> None:
        from starlette.websockets import WebSocketDisconnect

        if self._strangers >= self._max_viewers:
            await viewer.close()
            return
        self._strangers += 1
        try:
            await viewer.accept()
            greeting = await self._greeted(viewer)
        except (WebSocketDisconnect, OSError):
            return
        finally:
            self._strangers -= 1
        if greeting is None:
            return
        if self._state.viewers >= self._max_viewers:
            await _close(viewer, TOO_MANY, f"{self._max_viewers} viewers are connected already")
            return
        self._state.viewers += 1
        address = tuple(viewer.scope["client"])
        self._greeted_from.add(address)
        # Each must end when the other does: a viewer that left is not written to, and one that talks on is shut up.
        both = self._feed(viewer, greeting.get("have")), self._listen(viewer)
        tasks = [asyncio.create_task(one) for one in both]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._state.viewers -= 1
            self._greeted_from.discard(address)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _greeted(self, viewer: WebSocket) -> dict[str, Any] | None:
        """Read a viewer's greeting; None if it was turned away."""
        try:
            async with asyncio.timeout(GREETING):
                message = await viewer.receive_text()
            greeting = json.loads(message)
        except (TimeoutError, KeyError, ValueError, RecursionError):
            greeting = None
        if not isinstance(greeting, dict):
            await _close(viewer, BAD_MESSAGE, 'the first message must be {"token": "..."}')
            return None
        if not self._access.accepts_token(greeting.get("token")):
            await _close(viewer, WRONG_TOKEN, "wrong token" if greeting.get("token") else "a token is needed")
            return None
        return greeting

    async def _feed(self, viewer: WebSocket, have: object) -> None:
        """Send frames until the viewer is gone or takes none for too long."""
        await self._send(viewer.send_text, self._map if have != self._map_id else '{"id":"same"}', viewer)
        cursor: Cursor | None = None
        told, told_at = -1, 0.0
        while True:
            frame = self._state.frame(cursor)
            now = time.monotonic()
            if frame.version != told or now - told_at >= HEARTBEAT:
                await self._send(viewer.send_bytes, frame.data, viewer)
                told, told_at, cursor = frame.version, now, frame.cursor
            await self._next_tick.wait()

    async def _send(self, send: Callable[[Any], Awaitable[None]], message: Any, viewer: WebSocket) -> None:
        """Send when there is room for it."""
        try:
            async with asyncio.timeout(STALLED):
                await send(message)
        except TimeoutError:
            self._abort(viewer.scope["client"])
            raise

    async def _listen(self, viewer: WebSocket) -> None:
        """Wait until the viewer leaves; it has nothing more to say."""
        message = await viewer.receive()
        if message["type"] == "websocket.receive":
            await _close(viewer, BAD_MESSAGE, "only the first message is read")


def _connections(wanted: int) -> int:
    """Return how many connections leave at least half of the process's descriptors for files."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if most == resource.RLIM_INFINITY else max(1, min(wanted, most // 2 - DROPPED_BEYOND))


async def _close(viewer: WebSocket, code: int, reason: str) -> None:
    with suppress(Exception):  # it may have gone meanwhile
        await viewer.close(code, reason)
