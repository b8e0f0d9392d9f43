"""What a private Redis (or Valkey) is started with, and how its address then reads."""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.servers.certificates import Certificates
from tests.servers.ports import HOST
from tests.servers.processes import program

ADMIN = ("admin", "admin-password")
"""With a user of its own: who may do everything, so that a test can always look and disturb."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which variant of the server; nothing given is the plain one.

    `user` with `rules` makes an ACL: that user, an administrator, and no default user.
    """

    flavour: str = "redis"
    unix: bool = False
    """Reached by a socket in its folder alone."""
    password: str | None = None
    user: str | None = None
    rules: str = "~* &* +@all"
    certificates: Certificates | None = None
    """Speaks TLS alone; a client may show a certificate, and need not."""
    durable: bool = False
    """Keeps its data also over SIGKILL."""
    clock: bool = False
    """Has a clock of its own, that can be set (`RedisServer.set_clock`)."""
    more: dict[str, str] = field(default_factory=dict)
    """Goes to the server as it is: `{"maxmemory-policy": "allkeys-lru"}`."""

    def __post_init__(self) -> None:
        assert self.password or not self.user, "a user needs a password"
        # The allocator of Debian's Redis asks for the time before the clock is there.
        assert not self.clock or self.flavour == "valkey", "this one cannot have its own clock"

    @property
    def program(self) -> str:
        return program(f"{self.flavour}-server")

    @property
    def admin(self) -> tuple[str, ...]:
        """What AUTH wants to hear for every right; nothing on an open server."""
        if self.user:
            return ADMIN
        return (self.password,) if self.password else ()

    def url(self, folder: Path, port: int) -> str:
        """As `locknut.connect` wants it."""
        login = ""
        if self.password:
            login = f"{quote(self.user or '', safe='')}:{quote(self.password, safe='')}@"
        if self.unix:
            return f"redis+unix://{login}{socket_in(folder)}"
        if self.certificates:
            return f"rediss://{login}{HOST}:{port}/0?ssl_ca_certs={self.certificates.authority}"
        return f"redis://{login}{HOST}:{port}/0"

    def command(self, folder: Path, port: int) -> list[str]:
        words = [program("with-clock"), str(clock_in(folder))] if self.clock else []
        words.append(self.program)
        for name, value in self._own(folder, port).items():
            words += [f"--{name}", value]
        for name, value in self.more.items():
            words += [f"--{name}", *value.split(" ")]
        return words

    def _own(self, folder: Path, port: int) -> dict[str, str]:
        own = {
            "bind": HOST,
            "port": "0" if self.unix or self.certificates else str(port),
            "dir": str(folder),
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "always",
            "repl-diskless-sync-delay": "0",  # a replica is not kept waiting for others to come
        }
        if version(self.program) >= (7, 0):
            own["enable-debug-command"] = "local"  # before that it needed no permission
        if self.unix:
            own |= {"unixsocket": str(socket_in(folder)), "unixsocketperm": "700"}
        if self.user:
            own["aclfile"] = str(self._write_acl(folder))
        elif self.password:
            own["requirepass"] = self.password
        if self.certificates:
            own |= {
                "tls-port": str(port),
                "tls-cert-file": str(self.certificates.server),
                "tls-key-file": str(self.certificates.server),
                "tls-ca-cert-file": str(self.certificates.authority),
                "tls-auth-clients": "optional",
                "tls-replication": "yes",
            }
        return own

    def _write_acl(self, folder: Path) -> Path:
        acl = folder / "users.acl"
        name, password = ADMIN
        lines = [
            "user default off",
            f"user {name} on >{password} ~* &* +@all",
            f"user {self.user} on >{self.password} {self.rules}",
        ]
        acl.write_text("\n".join(lines) + "\n")
        return acl


def clock_in(folder: Path) -> Path:
    """Says by how many seconds the server's clock is ahead."""
    return folder / "clock"


def socket_in(folder: Path) -> Path:
    return folder / "redis.sock"


@functools.cache
def version(path: str) -> tuple[int, ...]:
    """Of this program, as it says itself."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", told)
    assert found, told
    return tuple(map(int, found.groups()))
