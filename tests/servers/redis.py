"""A private Redis (or Valkey): how it is reached, disturbed and ended."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.servers.processes import PATIENCE, Ended, Process, free_ports
from tests.servers.resp import Answer, Refused, Wire, Word
from tests.servers.settings import HOST, Settings, socket_in

ATTEMPTS = 3
"""A port can be taken by another between finding it and using it: then with a new one."""


class RedisServer:
    """One server in a folder of its own, on a free port of the loopback or on a socket.

    `RedisServer(durable=True)`: what can be said is in `Settings`. Use it in a `with`, or call
    `start` and `close`. The address stays the same over restarts.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self.host = HOST
        self.port = 0
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """As `holdfast.connect` wants it, for the user of the ACL if there is one."""
        return self.settings.url(self.folder, self.port)

    def url_through(self, port: int) -> str:
        """The same, through a proxy that listens there."""
        return self.settings.url(self.folder, port)

    @property
    def socket(self) -> Path:
        assert self.settings.unix, "this one has a port"
        return socket_in(self.folder)

    def connect(self, timeout: float = PATIENCE) -> Wire:
        """A bare connection, with every right."""
        wire = self.connect_bare(timeout)
        if self.settings.admin:
            wire.ask("AUTH", *self.settings.admin)
        return wire

    def connect_bare(self, timeout: float = PATIENCE) -> Wire:
        """A bare connection that has not said who it is."""
        if self.settings.unix:
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(timeout)
            try:
                connected.connect(str(self.socket))
            except OSError:
                connected.close()
                raise
            return Wire(connected)
        connected = socket.create_connection((self.host, self.port), timeout)
        if self.settings.certificates:
            context = self.settings.certificates.context()
            connected = context.wrap_socket(connected, server_hostname=self.host)
        return Wire(connected)

    def ask(self, *words: Word) -> Answer:
        """One command on a connection of its own, with every right."""
        with self.connect() as wire:
            return wire.ask(*words)

    def info(self, section: str = "server") -> dict[str, str]:
        told = self.ask("INFO", section)
        assert isinstance(told, bytes)
        lines = [line.partition(":") for line in told.decode().splitlines()]
        return {name: value for name, colon, value in lines if colon}

    # Its life.

    @property
    def process(self) -> Process:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> Self:
        """Start and wait until it answers; one that stands still goes on."""
        if self.running:
            self.cont()
            return self
        fresh = not self.port
        for attempt in range(1, ATTEMPTS + 1):
            if fresh:
                self._choose_ports()
            self._process = Process(self._command(), self.folder / "log")
            try:
                self._process.wait_until(self._answers)
            except Ended:
                if not fresh or attempt == ATTEMPTS:
                    raise
            else:
                break
        return self

    def kill(self) -> None:
        """SIGKILL; `start` brings it back, without its data unless it is durable."""
        if self._process:
            self._process.kill()

    def stop(self) -> None:
        """SIGSTOP: connections stay open, new ones are even accepted, and nobody answers."""
        self.process.stop()

    def cont(self) -> None:
        """SIGCONT: what was sent in the meantime is done now."""
        self.process.cont()

    def restart(self, *, keep_data: bool) -> None:
        """Gone and back at the same address, with all its data or none."""
        if keep_data and self.running and not self.settings.durable:
            self.cont()
            self.ask("SAVE")
        self.kill()
        if not keep_data:
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
            (self.folder / "appendonly.aof").unlink(missing_ok=True)  # before Redis 7
        self.start()
        (self.folder / "dump.rdb").unlink(missing_ok=True)  # a plain start knows nothing again

    def close(self) -> None:
        """Ended, and its folder removed."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_for_replicas(self, count: int, key: str = "mark") -> None:
        """Until so many have all that was written up to now: WAIT speaks of its own connection."""
        with self.connect() as wire:
            wire.ask("SET", key, "", "PX", 1)
            assert wire.ask("WAIT", count, int(PATIENCE * 1000)) >= count, "replicas are behind"  # type: ignore[operator]

    # Disturbances.

    def flushall(self) -> None:
        self.ask("FLUSHALL")

    def script_flush(self) -> None:
        self.ask("SCRIPT", "FLUSH")

    def client_kill(self) -> int:
        """How many connections were cut: everybody's, subscribers included."""
        with self.connect() as wire:
            cut = [wire.ask("CLIENT", "KILL", "TYPE", kind) for kind in ("normal", "pubsub")]
        return sum(count for count in cut if isinstance(count, int))

    def freeze(self, seconds: float) -> Wire:
        """DEBUG SLEEP: nothing is done meanwhile; read from the wire to wait for its end."""
        wire = self.connect()
        wire.send("DEBUG", "SLEEP", seconds)
        return wire

    # How it is started.

    def _choose_ports(self) -> None:
        (self.port,) = free_ports(1)

    def _command(self) -> list[str]:
        return self.settings.command(self.folder, self.port)

    def _answers(self) -> bool:
        with self.connect(timeout=1) as wire:
            try:
                return wire.ask("PING") == b"PONG"
            except Refused:  # -LOADING: not yet
                return False
