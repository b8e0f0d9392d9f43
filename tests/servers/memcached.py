"""A private memcached: how it is reached, disturbed and ended."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

from tests.servers.ports import HOST
from tests.servers.processes import program, until
from tests.servers.serving import Server

OLD_ENOUGH = 5
"""What a server says its age is when every client grants: in truth it is two seconds younger."""


class MemcachedServer(Server):
    """One server, on a port or on a socket; killed, it comes back empty."""

    def __init__(self, *options: str, unix: bool = False, login: str = "") -> None:
        super().__init__()
        self._options = options
        self._unix = unix
        self._login = login

    @property
    def url(self) -> str:
        if self._unix:
            return f"memcached+unix://{self.socket_path}"
        return self.url_through(self.port)

    def url_through(self, port: int) -> str:
        """The same, through a proxy that listens there."""
        at = f"{self._login}@" if self._login else ""
        return f"memcached://{at}{HOST}:{port}"

    @property
    def socket_path(self) -> Path:
        return self.folder / "s"

    def ask(self, command: str, end: bytes = b"\r\n") -> str:
        """One command on a connection of its own, and its answer up to this end."""
        with closing(self._connect()) as wire:
            if self._login:
                secret = self._login.replace(":", " ")
                wire.sendall(f"set x 0 0 {len(secret)}\r\n{secret}\r\n".encode())
                assert wire.recv(100) == b"STORED\r\n"
            wire.sendall(command.encode() + b"\r\n")
            told = b""
            while not told.endswith(end):
                got = wire.recv(65536)
                if not got:
                    break
                told += got
        return told.decode(errors="replace")

    def stats(self) -> dict[str, str]:
        lines = [line.split(" ") for line in self.ask("stats", b"END\r\n").splitlines()]
        return {line[1]: line[2] for line in lines if line[0] == "STAT"}

    def flush(self) -> None:
        assert self.ask("flush_all") == "OK\r\n"

    def wait_until_old_enough(self) -> None:
        """A server that was just started gives no lock out."""
        until(lambda: int(self.stats()["uptime"]) >= OLD_ENOUGH, "it grows older")

    def restart(self) -> None:
        """Gone and back at the same address, without its data, and as old as it must be."""
        self.kill()
        self.start()
        self.wait_until_old_enough()

    def _connect(self) -> socket.socket:
        if self._unix:
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(str(self.socket_path))
            except OSError:
                made.close()
                raise
        else:
            made = socket.create_connection((self.host, self.port), 5)
        made.settimeout(5)
        return made

    def _command(self) -> list[str]:
        where = ["-s", str(self.socket_path)] if self._unix else ["-l", HOST, "-p", str(self.port)]
        user = ["-u", "root"] if os.geteuid() == 0 else []
        if self._login:
            (self.folder / "users").write_text(f"{self._login}\n")
            user += ["-Y", str(self.folder / "users")]
        settings = ["-U", "0", "-m", "16", "-t", "1", "-c", "512"]
        return [program("memcached"), *where, *settings, *user, *self._options]

    def _answers(self) -> bool:
        with closing(self._connect()) as wire:
            wire.settimeout(1)
            wire.sendall(b"version\r\n")
            return bool(wire.recv(100))
