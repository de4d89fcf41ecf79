"""One stream of a Redis server, over a connection that may break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from ldmaps import door
from ldmaps._lazy import needed
from ldmaps.errors import InvalidInputError, LdmapsError, one_line
from ldmaps.settings import check_seconds

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds after which an answer that does not come counts as a broken connection.
_ANSWER = 10.0


class RedisConnection:
    """Runs commands on redis://[user:password@]host[:port][/database]/stream; connects again with growing pauses."""

    def __init__(self, url: str, give_up_after: float, error: type[LdmapsError]) -> None:
        parts = urlsplit(url)
        database, _, stream = parts.path.lstrip("/").partition("/")
        if not database.isdigit():
            database, stream = "0", parts.path.lstrip("/")
        if parts.scheme not in ("redis", "rediss") or not parts.netloc or not stream:
            raise InvalidInputError(
                "a Redis stream is named redis://HOST:PORT/DATABASE/STREAM, as in redis://localhost:6379/0/frames; "
                f"got {url.rpartition('@')[2]!r}"
            )
        check_seconds("give_up_after", give_up_after)
        self.stream = unquote(stream)
        self._server = f"{parts.scheme}://{parts.netloc}/{database}"
        # Without user and password, since it is shown.
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{database}/{stream}"
        self._give_up_after = give_up_after
        self._error = error
        self._client: Any = None
        self._down_since: float | None = None
        self._pause = _FIRST_PAUSE
        self._next_try = 0.0

    def open(self) -> None:
        """Connect; a server that is not there is an error at once."""
        exceptions = _exceptions()
        try:
            self._client = door.connect_redis(self._server, _ANSWER)
            self._client.ping()
        except (exceptions.RedisError, OSError, ValueError) as error:
            raise self._error(
                f"{self.name} cannot be reached ({one_line(error, 160)}); check the address, and that the server runs"
            ) from error

    def attempt(self, work: Callable[[Any], Any]) -> tuple[bool, Any]:
        """Return whether commands were carried out (those without an answer may have been), and their result."""
        exceptions = _exceptions()
        if self._down_since is not None and door.monotonic() < self._next_try:
            return False, None
        try:
            result = work(self._client)
        except exceptions.AuthenticationError as error:
            raise self._error(f"{self.name} refuses this user ({one_line(error, 160)})") from error
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            self._note_failure(error)
            return False, None
        except exceptions.ResponseError as error:
            raise self._error(f"{self.name} refuses the command ({one_line(error, 160)})") from error
        self._down_since = None
        self._pause = _FIRST_PAUSE
        return True, result

    def wait(self, longest: float) -> None:
        """Wait until the next attempt is due, but no longer than this."""
        door.sleep(max(0.0, min(longest, self._next_try - door.monotonic())))

    def close(self) -> None:
        """Release the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _note_failure(self, error: BaseException) -> None:
        now = door.monotonic()
        if self._down_since is None:
            self._down_since = now
        if now - self._down_since >= self._give_up_after:
            raise self._error(
                f"the connection to {self.name} was lost and could not be restored within {self._give_up_after:g} s "
                f"({one_line(error, 160)}); resume from the checkpoint when the server is back"
            ) from error
        self._next_try = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _exceptions() -> Any:
    return needed("redis", "Redis streams need the package redis", "pip install redis").exceptions
