"""Who may look at the live page: where it binds, which names it answers to, and the token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from ldmaps.errors import InvalidInputError, Named

#: A shorter token could be guessed.
SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    """The rules a request is held to: a token wherever other machines can connect, and names the page answers to."""

    def __init__(self, host: str, token: str | None = None, allowed_hosts: Sequence[str] = ()) -> None:
        self.is_loopback = _is_loopback(host)
        if token is None and not self.is_loopback:
            raise InvalidInputError(
                f"the live page will not be served to other machines (host {host}) without a token; give one "
                "with ",
                Named("token", ...),
                ", or bind to 127.0.0.1",
            )
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
        if self._token is None:
            return True
        text = given if isinstance(given, str) else ""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._token)

    def accepts_host(self, header: str | None) -> bool:
        """Whether a Host header names this server.

        A page of another site can point its own name at 127.0.0.1 (DNS rebinding) and
        would then share our origin; but it cannot help sending that name as Host.
        """
        name = _host_name(header or "")
        if not name:
            return False
        if name in self._names:
            return True
        # Served to other machines, it is opened by any of this machine's addresses: no name, no rebinding.
        return not self.is_loopback and _is_address(name)

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
        raise InvalidInputError(
            f"the live page cannot use port {port} of {host} ({(error.strerror or str(error)).lower()}); "
            "choose another one with ",
            Named("port", ...),
            ", 0 for any that is free",
        ) from error
    return bound


def _is_loopback(host: str) -> bool:
    """Whether every address of a host is this machine's own loopback."""
    if not host:
        return False
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in addresses)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(header: str) -> str:
    """Return the host of ``host:port`` or ``[v6]:port``, "" if it is neither."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        return ""
    return parts.hostname or ""
