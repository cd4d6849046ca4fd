"""One Redis server on loopback, Debian's: what the look-up tests run on, and `python scripts/redis_server.py`.

It keeps everything in memory, listens on a free port of loopback and is ended by its process id. Must never listen
beyond loopback, nor touch a server that is not its own.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
UP_WITHIN_S = 60.0
POLL_S = 0.05
MISSING = "redis-server is not installed: do `sudo apt-get install redis-server`, then run this again"


@dataclass(slots=True)
class Server:
    """A Redis on a port of loopback that stays the same when it is started again."""

    port: int
    folder: Path
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        """Start it, empty; raises RuntimeError where it is not installed or does not come up."""
        program = shutil.which("redis-server")
        if program is None:
            raise RuntimeError(MISSING)
        address = ["--bind", HOST, "--port", str(self.port), "--dir", str(self.folder)]
        memory = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        log = self.folder / "redis.log"
        with log.open("ab") as out:
            command = [program, *address, *memory, *self.options]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        until = time.monotonic() + UP_WITHIN_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"redis-server did not come up:\n{log.read_text()}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End it at once, as a crash would: all that it held is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                return line.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


@contextmanager
def server(*options: str) -> Iterator[Server]:
    """A running server; ended, and its folder removed, at the end."""
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="headrace-redis-") as folder:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
        free.close()
        started = Server(port, Path(folder), options)
        try:
            started.start()
            yield started
        finally:
            started.stop()


def main() -> None:
    """Run one until Ctrl-C."""
    with server() as started:
        print(f"SET 'lookup.redis' = '{started.url}';", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
