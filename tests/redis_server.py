"""A Redis server of one's own: loopback, a free port, a temporary folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0


class RedisServer:
    """Started by hand, so that tests can kill it and start it again on the same port.

    Parameters
    ----------
    keeps : bool
        Whether it writes every command to disk and has it again after a restart.
    """

    def __init__(self, folder: Path, keeps: bool = False) -> None:
        pytest.importorskip("redis", reason="the package redis is not installed (the extra redis)")
        self._program = shutil.which("redis-server")
        if self._program is None:
            pytest.skip("there is no program redis-server (apt install redis-server)")
        self._folder, self._keeps = folder, keeps
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port: int = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = None

    def url(self, stream: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0/{stream}"

    def start(self) -> None:
        import redis

        keep = ["--appendonly", "yes", "--appendfsync", "always"] if self._keeps else ["--appendonly", "no"]
        self._process = subprocess.Popen(
            [str(self._program), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *keep],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.ping()
                return
            except redis.exceptions.ConnectionError:
                assert self._process.poll() is None, "redis-server did not start"
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.02)

    def kill(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None
