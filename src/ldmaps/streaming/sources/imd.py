"""Live molecular dynamics over IMD, version 3 (GROMACS, LAMMPS, NAMD), through imdclient.

engine ──socket──► imdclient's buffer, which pauses the engine when full ──► one thread that reads ahead ──► poll
"""

from __future__ import annotations

import atexit
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps import door
from ldmaps._lazy import needed
from ldmaps.errors import InvalidInputError, Named, SourceError, one_line
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.prefetch import NOTHING, Ahead
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms

#: IMD counts in ångström.
_NM_PER_ANGSTROM = np.float32(0.1)
_RETRY_EVERY = 0.2
#: Frames that wait here at most, beside those in imdclient's buffer.
_MOST_WAITING = 256
#: Frames in imdclient's buffer at most. It makes them all between the engine's greeting and its own answer, which
#: LAMMPS awaits for one second: 10 MB of small frames took about as long on a busy machine.
_MOST_BUFFERED = 1024


class _Frame(NamedTuple):
    xyz: NDArray[np.float32]
    box: NDArray[np.float64] | None
    time: float | None
    arrived: float


class IMDSource(Source):
    """Frames of a running simulation.

    Parameters
    ----------
    url : str
        ``imd://host:port``.
    top : path, mdtraj Topology, MDAnalysis Universe or AtomGroup, optional
        Names the atoms that the engine sends. Without it all of them are taken, in
        the engine's order, and there must be as many as the model's.
    select : str, optional
        Atoms to use, in mdtraj's language (MDAnalysis' for its objects); the model's own by default.
    model_facts : mapping, optional
        ``model.source_``: its selection is used, and its atoms are compared.
    periodic : {"whole", "keep"}
        As in :func:`ldmaps.inputs.open_files`.
    n_atoms : int, optional
        Atoms that the engine sends, if neither ``top`` nor the model says.
    connect_timeout : float
        Seconds to try for: the engine may start later than this program.
    silence : float
        Seconds without a frame after which the engine is given up.
    buffer_bytes : int
        Memory for frames that are not embedded yet; of small frames no more than a few thousand. Once it is
        full the engine is paused, so that no frame is lost.

    Notes
    -----
    A live simulation cannot be replayed, and one that is killed looks like one that has ended: the stream ends.
    That not one frame came is an error. Must be opened by the main thread, because imdclient installs
    signal handlers; those that were there before are put back.
    """

    needs_main_thread: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        *,
        top: Any = None,
        select: str | None = None,
        model_facts: Mapping[str, Any] | None = None,
        periodic: str = "whole",
        n_atoms: int | None = None,
        connect_timeout: float = 10.0,
        silence: float = 600.0,
        buffer_bytes: int = 10 << 20,
    ) -> None:
        self.name = url
        self._host, self._port = _parsed(url)
        self._atoms = ChosenAtoms(
            url, top=top, select=select, model_facts=model_facts, periodic=periodic, n_atoms=n_atoms
        )
        self.facts = self._atoms.facts()
        self._connect_timeout = connect_timeout
        self._silence = silence
        # Positions, velocities and forces may come; a buffer of less than a few frames would pause all the time.
        frame_bytes = 36 * self._atoms.n_stream_atoms + 100
        self._buffer_bytes = min(max(buffer_bytes, 4 * frame_bytes), _MOST_BUFFERED * frame_bytes)
        self._room = min(_MOST_WAITING, max(1, buffer_bytes // (12 * self._atoms.n_to_read)))
        self._client: Any = None
        self._socket: socket.socket | None = None
        self._ahead: Ahead[_Frame] | None = None
        self._number = 0

    def open(self, position: Position = None) -> None:
        """Connect, and let the simulation go; there is no going back to a position."""
        if threading.current_thread() is not threading.main_thread():
            raise InvalidInputError("an IMD stream must be opened by the main thread")
        if self._client is not None:
            raise InvalidInputError(f"{self.name} was opened before; make a new source")
        package = "imdclient.IMDClient", "live simulations are read with imdclient"
        client_class = needed(*package, "pip install imdclient MDAnalysis").IMDClient
        deadline = door.monotonic() + self._connect_timeout
        while True:
            try:
                self._client = self._connected(client_class)
                break
            except (OSError, ValueError) as error:
                if door.monotonic() + _RETRY_EVERY > deadline or isinstance(error, ValueError):
                    raise SourceError(
                        f"no IMD server answers at {self.name} ({one_line(error, 160)}); tried for "
                        f"{self._connect_timeout:g} s. Start the simulation with IMD switched on at this port first"
                    ) from error
                door.sleep(_RETRY_EVERY)
        self._check_session(self._client.get_imdsessioninfo())
        self._ahead = Ahead(self._frames(), self._room, name="ldmaps-imd")

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the frames that have come."""
        assert self._ahead is not None
        frames: list[_Frame] = []
        while len(frames) < most and (frame := self._ahead.get(0.0 if frames else wait)) is not NOTHING:
            frames.append(frame)
        if not frames and self._ahead.is_over():
            if self._number == 0:
                raise SourceError(
                    f"{self.name} was closed before its first frame; did the simulation end at once, or stop with an "
                    "error? See its log"
                )
            return None
        return self._records(frames)

    def close(self) -> None:
        """Disconnect; the engine continues or waits, as it is set up."""
        if self._ahead is not None:
            self._ahead.stop(0.0)
        if self._socket is not None:
            # Wakes imdclient's thread, which would otherwise sit in recv until its timeout.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)
        if self._client is not None:
            self._client.stop()  # says goodbye, and closes the socket
            atexit.unregister(self._client.stop)
        if self._ahead is not None:
            self._ahead.stop(5.0)

    def _connected(self, client_class: Any) -> Any:
        source = self

        class Client(client_class):
            def _connect_to_server(self, host: str, port: int, socket_bufsize: int | None) -> socket.socket:
                # imdclient's own waits without limit for a host that does not answer, and leaks the socket.
                source._socket = socket.create_connection((host, port), source._connect_timeout)
                return source._socket

        try:
            with _signal_handlers_kept():
                return Client(
                    self._host,
                    self._port,
                    self._atoms.n_stream_atoms,
                    buffer_size=self._buffer_bytes,
                    timeout=self._silence,
                )
        except BaseException:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            raise

    def _check_session(self, session: Any) -> None:
        if session.version != 3 or not session.positions:
            raise InvalidInputError(
                f"{self.name} speaks IMD version {session.version}"
                f"{'' if session.positions else ' without coordinates'}; version 3 with coordinates is needed "
                "(LAMMPS: fix ... imd PORT version 3)"
            )
        if session.wrapped_coords and self._atoms.periodic == "whole" and not self._atoms.can_repair:
            raise InvalidInputError(
                f"{self.name} sends coordinates wrapped into the periodic box, and without a topology molecules cannot "
                "be joined: give one with ",
                Named("top", "top.pdb"),
                ", let the engine unwrap them (LAMMPS: unwrap on), or take them as they are with ",
                Named("periodic", "keep"),
            )

    def _frames(self) -> Iterator[_Frame]:
        read = self._atoms.to_read
        try:
            while True:
                frame = self._client.get_imdframe()
                # The frame's arrays are used again for a later one, so these must be copies.
                xyz = (frame.positions if read is None else frame.positions[read]) * _NM_PER_ANGSTROM
                box = None if frame.box is None else 0.1 * np.asarray(frame.box, dtype=np.float64)
                when = None if frame.time is None else float(frame.time)
                yield _Frame(xyz, box, when, door.monotonic())
        except EOFError as error:
            if (cause := self._cause(error)) is not None:
                raise cause from error
        except Exception as error:
            raise SourceError(f"{self.name} broke off: {one_line(error, 160)}") from error

    def _cause(self, error: EOFError) -> Exception | None:
        """Tell an end from a failure: imdclient reports both as EOFError."""
        inner = error.__cause__
        if isinstance(inner, EOFError):
            if isinstance(inner.__cause__, (TimeoutError, BlockingIOError)):
                return SourceError(
                    f"{self.name} sent no frame for {self._silence:g} s; is the simulation stuck? Wait longer with "
                    "silence=..."
                )
            return None
        if inner is None:
            return None
        text = one_line(inner, 160)
        if "n_atoms" in text:
            return InvalidInputError(
                f"{self.name} does not send {self._atoms.n_stream_atoms} atoms ({text}); give the topology of what "
                "the engine sends with ",
                Named("top", "top.pdb"),
            )
        return SourceError(f"{self.name} sent what is not IMD: {text}")

    def _records(self, frames: list[_Frame]) -> Records:
        if not frames:
            return Records.none()
        numbers = np.arange(self._number, self._number + len(frames), dtype=np.int64)
        self._number += len(frames)
        block = block_of([frame.xyz for frame in frames], None, [frame.box for frame in frames])
        chunk, kept, rejected = self._atoms.take(block, numbers)
        moments = [frame.time for frame in frames if frame.time is not None]
        times = np.asarray(moments)[kept] if len(moments) == len(frames) else None
        arrived = np.asarray([frame.arrived for frame in frames])[kept]
        return Records(chunk.frames, chunk.numbers, times, arrived, rejected)


def _parsed(url: str) -> tuple[str, int]:
    host, colon, port = url.removeprefix("imd://").rpartition(":")
    if not url.startswith("imd://") or not colon or not host or not port.isdigit():
        raise InvalidInputError(
            f"the address of a live simulation is imd://HOST:PORT, as in imd://localhost:8889; got {url!r}"
        )
    return host, int(port)


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: installed by other than Python, which cannot be put back
                signal.signal(number, handler)
