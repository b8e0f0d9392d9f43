"""A private Redis (or Valkey): how it is reached, disturbed and ended."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

from tests.servers.processes import PATIENCE
from tests.servers.resp import Answer, Refused, Wire, Word
from tests.servers.serving import Server
from tests.servers.settings import Settings, clock_in, socket_in


class RedisServer(Server):
    """One server, on a port or on a socket; killed, it comes back without its data.

    `RedisServer(durable=True)`, which keeps it: what can be said is in `Settings`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = Settings(**settings)

    @property
    def url(self) -> str:
        """As `locknut.connect` wants it, for the user of the ACL if there is one."""
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

    def scripts_run(self) -> int:
        """How often it was asked to run one, by its name or in full."""
        stats = self.info("commandstats")
        told = [stats.get(f"cmdstat_{verb}", "calls=0,") for verb in ("eval", "evalsha")]
        return sum(int(each.partition("calls=")[2].partition(",")[0]) for each in told)

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

    def set_clock(self, ahead: float) -> None:
        """From now on its clock is so many seconds ahead of the machine's, or behind it."""
        assert self.settings.clock, "this one has the machine's clock"
        clock = clock_in(self.folder)
        new = clock.with_suffix(".new")
        new.write_text(f"{ahead:+}")
        new.replace(clock)  # in one step: the server looks at any moment

    def freeze(self, seconds: float) -> Wire:
        """DEBUG SLEEP: nothing is done meanwhile; read from the wire to wait for its end."""
        wire = self.connect()
        wire.send("DEBUG", "SLEEP", seconds)
        return wire

    # How it is started.

    def _command(self) -> list[str]:
        if self.settings.clock and not clock_in(self.folder).exists():
            self.set_clock(0)
        return self.settings.command(self.folder, self.port)

    def _answers(self) -> bool:
        with self.connect(timeout=1) as wire:
            try:
                return wire.ask("PING") == b"PONG"
            except Refused:  # -LOADING: not yet
                return False
