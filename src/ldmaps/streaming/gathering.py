"""What makes a batch, and when: decided here, without reading or waiting for anything.

The caller, a thread or an event loop, does what a step says: poll, deliver, or end. So one rule holds for both:
deliver what was received, then raise the error.
"""

from __future__ import annotations

import logging

from ldmaps import door
from ldmaps.errors import Named, SourceError, StreamStalledError
from ldmaps.streaming.records import Records

_log = logging.getLogger("ldmaps")
#: Seconds after which a wait looks whether it should go on.
LOOK_UP = 0.05


class Batch:
    """Consecutive records on their way to become one; only the first part may have more than ``most``: none is cut."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[Records] = []
        self._shape: tuple[int, ...] | None = None
        self.count = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def room(self) -> int:
        """How many more records may come."""
        return self._most - self.count

    def add(self, records: Records) -> bool:
        """Take records, unless there is no room or their points have another shape; say whether they were taken."""
        count = len(records)
        if count:
            shape = records.points.shape[1:]
            if self.count and (count > self.room or shape != self._shape):
                return False
            self._shape = shape
        self._parts.append(records)
        self.count += count
        return True

    def joined(self) -> Records:
        """Return all records as one."""
        return Records.joined(self._parts)


class Gathering:
    """Gathers records to batches, and notices that none come; settings as of StreamEmbedder."""

    def __init__(
        self,
        name: str,
        most: int,
        *,
        max_delay: float = 0.0,
        stall_after: float | None = None,
        on_stall: str = "warn",
    ) -> None:
        self.most = most
        self.max_delay = max_delay
        self.stall_after = stall_after
        self.stalls = 0
        self._name = name
        self._raises = on_stall == "raise"
        # Often enough to notice a stall in time.
        self._pause = LOOK_UP if stall_after is None else min(LOOK_UP, stall_after / 4)
        self._anything = most, self._pause
        self._ready: Records | None = None  # complete
        self._batch: Batch | None = None  # waiting for others
        self._due = 0.0  # when it has waited long enough
        self._received = 0
        self._ended = False
        self._outcome: BaseException | None = None
        self._heard: float | None = None  # when something came, or when it was first listened for
        self._has_warned = False

    def step(self) -> tuple[int, float] | Records | None:
        """Return a batch to deliver, for how many records at most and seconds to poll, or None at the end."""
        # The source's error is raised once all is delivered.
        if self._ready is not None:
            ready, self._ready = self._ready, None
            return ready
        if self._batch is not None:
            wait = 0.0 if self._ended or self._batch.room <= 0 else self._due - door.monotonic()
            if wait > 0:
                return self._batch.room, min(wait, self._pause)
            batch, self._batch = self._batch, None
            return batch.joined()
        if not self._ended:
            return self._anything
        if self._outcome is not None:
            raise self._outcome
        return None

    def receive(self, records: Records | None) -> bool:
        """Take what a poll gave, None at the end; say whether it was anything."""
        if records is None:
            self._ended = True
            return True
        count = len(records)
        if not count and not records.rejected:
            self._listen()
            return False
        if self.stall_after is not None:
            self._heard, self._has_warned = door.monotonic(), False
        self._received += count
        if not self.max_delay:
            self._ready = records
        elif self._batch is None:
            self._begin(records)
        elif not self._batch.add(records):
            self._ready = self._batch.joined()
            self._begin(records)
        return True

    def fail(self, error: BaseException) -> None:
        """Note that a poll raised; what was received is delivered first."""
        self._ended = True
        self._outcome = error
        if isinstance(error, Exception) and not isinstance(error, SourceError):
            self._outcome = SourceError(
                f"{self._name} failed after {self._received} records ({type(error).__name__}: {error}); "
                "everything before it was delivered"
            )
            self._outcome.__cause__ = error

    def _begin(self, records: Records) -> None:
        self._batch = Batch(self.most)
        self._batch.add(records)
        self._due = self.max_delay + (float(records.arrived[0]) if len(records) else door.monotonic())

    def _listen(self) -> None:
        """Warn or fail when nothing came for too long, once per stall."""
        if self.stall_after is None or self._has_warned:
            return
        now = door.monotonic()
        if self._heard is None:
            self._heard = now
        silence = now - self._heard
        if silence < self.stall_after:
            return
        self._has_warned = True
        self.stalls += 1
        limit = Named("stall_after", float(self.stall_after))
        text = (f"nothing came from {self._name} for {silence:.3g} s (", limit, ")")
        if self._raises:
            self.fail(StreamStalledError(*text, "; everything before it was delivered"))
        else:
            _log.warning("%s; still waiting", "".join(map(str, text)))
