"""One stream of a Redis server, over a connection that may break."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from ldmaps.errors import InvalidInputError, LdmapsError, one_line

__all__ = ["RedisConnection"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds after which an answer that does not come counts as a broken connection.
_ANSWER = 10.0


class RedisConnection:
    """Runs commands; notices broken connections and makes new ones, with growing pauses.

    Parameters
    ----------
    url : str
        ``redis://[user:password@]host[:port][/database]/stream`` (rediss:// for TLS);
        the database is 0 by default.
    give_up_after : float
        Seconds without a connection after which it is an error.
    error : type
        Which one: SourceError or SinkError.
    """

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
        if not give_up_after >= 0:
            raise InvalidInputError(f"give_up_after must be at least 0 seconds, got {give_up_after!r}")
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
        redis = _redis()
        try:
            self._client = redis.Redis.from_url(
                self._server,
                protocol=2,
                socket_timeout=_ANSWER,
                socket_connect_timeout=_ANSWER,
                retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            )
            self._client.ping()
        except (redis.exceptions.RedisError, OSError, ValueError) as error:
            raise self._error(
                f"{self.name} cannot be reached ({one_line(error, 160)}); check the address, and that the server runs"
            ) from error

    def attempt(self, work: Callable[[Any], Any]) -> tuple[bool, Any]:
        """Run commands with the client; return whether they were carried out, and their result.

        While there is no connection it returns (False, None) at once; see
        :meth:`wait`. Commands whose answer was lost may have been carried out.
        """
        exceptions = _redis().exceptions
        if self._down_since is not None and time.monotonic() < self._next_try:
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
        time.sleep(max(0.0, min(longest, self._next_try - time.monotonic())))

    def close(self) -> None:
        """Release the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _note_failure(self, error: BaseException) -> None:
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
        if now - self._down_since >= self._give_up_after:
            raise self._error(
                f"the connection to {self.name} is lost and could not be made again for "
                f"{self._give_up_after:g} s ({one_line(error, 160)}); go on from the checkpoint when the server is back"
            ) from error
        self._next_try = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _redis() -> Any:
    try:
        import redis
        import redis.backoff
        import redis.retry
    except ImportError as error:
        raise InvalidInputError(
            f"Redis streams need the package redis, which cannot be imported ({error}); pip install redis"
        ) from error
    return redis
