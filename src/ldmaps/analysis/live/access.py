"""Who may look at the live page: where it binds, which names it answers to, the token, and what is sent to others."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from ldmaps.errors import InvalidInputError, Named

#: A shorter token could be guessed.
SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
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


class Access:
    """The rules a request is held to: a token wherever other machines can connect, and names the page answers to."""

    def __init__(self, host: str, token: str | None = None, allowed_hosts: Sequence[str] = ()) -> None:
        self.is_loopback = _is_loopback(host)
        if token is None and not self.is_loopback:
            text = f"the live page will not be served to other machines (host {host}) without a token; give one with "
            raise InvalidInputError(text, Named("token", ...), ", or bind to 127.0.0.1")
        if token is not None and (
            len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()
        ):
            raise InvalidInputError(
                f"a token needs at least {SHORTEST_TOKEN} printable ASCII characters, got {len(token)}; "
                "python -c 'import secrets; print(secrets.token_urlsafe())' makes a good one"
            )
        self._token = None if token is None else token.encode()
        self._names = _LOOPBACK_NAMES | {name.lower() for name in (host, *allowed_hosts)}

    def accepts_token(self, given: object) -> bool:
        """Compare in a time that reveals nothing about the token."""
        text = given if isinstance(given, str) else ""
        return self._token is None or hmac.compare_digest(text.encode("utf-8", "replace"), self._token)

    def accepts_host(self, header: str | None) -> bool:
        """Whether a Host header names this server."""
        # A page of another site can point its own name at 127.0.0.1 (DNS rebinding) and would then share our origin;
        # but it cannot help sending that name as Host.
        name = _host_name(header or "")
        # Served to other machines, it is opened by any of this machine's addresses: no name, no rebinding.
        return name in self._names or (not self.is_loopback and _is_address(name))

    def accepts_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether a WebSocket is opened by our own page: browsers say so in Origin, and scripts cannot change it."""
        if not origin or not host:
            return False
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, or say why there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, OverflowError, UnicodeError) as error:
        raise InvalidInputError(
            f"the live page cannot bind to host {host!r}, port {port} ({error}); name an address of this machine"
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        # So that a restarted server gets its port back while old connections fade away. Elsewhere than on POSIX the
        # option would let two servers share a port.
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Now and not later: two servers that reuse an address collide only once one of them listens.
        bound.listen(128)
    except OSError as error:
        bound.close()
        why = (error.strerror or str(error)).lower()
        text = f"the live page cannot use port {port} of {host} ({why}); choose another one with "
        raise InvalidInputError(text, Named("port", ...), ", 0 for any that is free") from error
    return bound


def _is_loopback(host: str) -> bool:
    """Whether every address of a host is this machine's own loopback."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return False
    return bool(host) and all(
        ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found
    )


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _host_name(header: str) -> str:
    """Return the host of ``host:port`` or ``[v6]:port``, "" if it is neither."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return ""
    is_more = parts.path or parts.query or parts.fragment or parts.username is not None
    return "" if is_more else parts.hostname or ""


def guarded(application: Any, access: Access) -> Callable[..., Awaitable[None]]:
    """Return an ASGI application around another one, which sees only requests that ``access`` lets pass."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if scope["type"] == "websocket":
            if access.accepts_host(host) and access.accepts_origin(origin, host):
                await application(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        if access.accepts_host(host):
            await application(scope, receive, send_with_headers)
            return
        plain = [(b"content-type", b"text/plain; charset=utf-8")]
        await send_with_headers({"type": "http.response.start", "status": 403, "headers": plain})
        text = b"This server does not answer to that name; open it by the address it printed.\n"
        await send({"type": "http.response.body", "body": text})

    return answer


def _header(scope: Any, name: bytes) -> str | None:
    """Return a header, None if it is missing or given twice."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None
