"""In front of the live page's server: refuses foreign requests and adds the security headers."""

from __future__ import annotations

from typing import Any

from ldmaps.views.live.access import Access

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """An ASGI application around another one, which sees only requests that ``access`` lets pass."""

    def __init__(self, application: Any, access: Access) -> None:
        self._application = application
        self._access = access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if scope["type"] == "websocket":
            if self._access.accepts_host(host) and self._access.accepts_origin(origin, host):
                await self._application(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        if self._access.accepts_host(host):
            await self._application(scope, receive, send_with_headers)
            return
        plain = [(b"content-type", b"text/plain; charset=utf-8")]
        await send_with_headers({"type": "http.response.start", "status": 403, "headers": plain})
        text = b"This server does not answer to that name; open it by the address it printed.\n"
        await send({"type": "http.response.body", "body": text})


def _header(scope: Any, name: bytes) -> str | None:
    """Return a header, None if it is missing or given twice."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None
