"""A private ZooKeeper: one server or an ensemble, how it is reached, disturbed and ended."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers.certificates import Certificates
from tests.servers.ports import HOST
from tests.servers.processes import program, until
from tests.servers.serving import Server, Started

TICK = 200
"""Milliseconds: sessions of a second are possible, and a lost node is noticed soon."""

CONFIGURATION = """\
tickTime={tick}
initLimit=50
syncLimit={sync_limit}
dataDir={folder}/data
admin.enableServer=false
4lw.commands.whitelist=*
maxClientCnxns={connections}
minSessionTimeout=200
maxSessionTimeout={longest}
forceSync={sync}
{listening}
{peers}
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """Where the members of an ensemble meet; the election's port is nobody else's business."""

    quorum: int
    election: int


class ZooKeeperServer(Server):
    """One server; its data stay over restarts. A member of an ensemble serves only when most of
    them run.
    """

    def __init__(
        self,
        *,
        certificates: Certificates | None = None,
        wants_certificates: bool = False,
        sync_limit: int = 10,
        number: int = 0,
        connections: int = 0,
        longest_session: int = 60_000,
        waits_for_disk: bool = False,
    ) -> None:
        """`wants_certificates` of clients; `connections` from one address, 0 for any number;
        `longest_session` in milliseconds. A test ends processes, never the machine, so that what a
        server has written is safe before the disk has it: only a benchmark `waits_for_disk`.
        """
        super().__init__()
        self._connections = connections
        self._longest_session = longest_session
        self._waits_for_disk = waits_for_disk
        self.peers: Sequence[Peer] = ()
        """How this one reaches each of the ensemble: through a proxy, if a test will cut it off."""
        self.number = number
        self._certificates = certificates
        self._wants_certificates = wants_certificates
        self._sync_limit = sync_limit

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As `locknut.connect` wants it."""
        scheme = "zookeeper+tls" if self._certificates else "zookeeper"
        return f"{scheme}://{self.address}"

    def command(self, word: str) -> str:
        """The answer to one of the four-letter words, on a connection of its own."""
        with socket.create_connection((self.host, self.port), 5) as connected:
            connected.sendall(word.encode())
            parts = iter(lambda: connected.recv(65536), b"")
            return b"".join(parts).decode(errors="replace")

    @property
    def mode(self) -> str:
        """standalone, leader or follower; empty while it is none of them."""
        try:
            told = self.command("srvr")
        except OSError:
            return ""
        lines = [line for line in told.splitlines() if line.startswith("Mode: ")]
        return lines[0].removeprefix("Mode: ") if lines else ""

    def watches(self) -> int:
        """How many watches clients have left here."""
        told = self.command("mntr")
        return int(_value(told, "zk_watch_count"))

    def choose_ports(self) -> Peer:
        """Where it will listen; for its fellows too."""
        self.port, quorum, election = self._ports.reserve(3)
        return Peer(quorum, election)

    def restart(self) -> None:
        """Gone and back at the same address, with its sessions and data."""
        self.kill()
        self.start()

    def _answers(self) -> object:
        return self._listens() if self._certificates else self.mode

    def _listens(self) -> bool:
        with socket.create_connection((self.host, self.port), 1):
            return True

    def _command(self) -> list[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        if self.peers:
            (data / "myid").write_text(str(self.number))
        peers = [
            f"server.{number}={HOST}:{peer.quorum}:{peer.election}"
            for number, peer in enumerate(self.peers, 1)
        ]
        text = CONFIGURATION.format(
            tick=TICK,
            sync_limit=self._sync_limit,
            connections=self._connections,
            longest=self._longest_session,
            sync="yes" if self._waits_for_disk else "no",
            folder=self.folder,
            listening="\n".join(self._listening()),
            peers="\n".join(["standaloneEnabled=false", *peers] if peers else []),
        )
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(text)
        return [program("zookeeper-server"), str(configuration)]

    def _listening(self) -> list[str]:
        if self._certificates is None:
            return [f"clientPort={self.port}", f"clientPortAddress={HOST}"]
        return [
            f"secureClientPort={self.port}",
            f"secureClientPortAddress={HOST}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self._for_java(self._certificates.server)}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={self._certificates.authority}",
            "ssl.trustStore.type=PEM",
            f"ssl.clientAuth={'need' if self._wants_certificates else 'none'}",
        ]

    def _for_java(self, certificate: Path) -> Path:
        """The same key and certificate, the key in the one form that Java reads."""
        from cryptography.hazmat.primitives import serialization

        pem = certificate.read_bytes()
        key = serialization.load_pem_private_key(pem, None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        both = self.folder / "server.pem"
        both.write_bytes(key + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
        return both


class ZooKeeperEnsemble(Started):
    """Three servers, of which two are enough."""

    def __init__(self, *, sync_limit: int = 10, waits_for_disk: bool = False) -> None:
        self.servers = [
            ZooKeeperServer(number=number, sync_limit=sync_limit, waits_for_disk=waits_for_disk)
            for number in (1, 2, 3)
        ]

    @property
    def url(self) -> str:
        return f"zookeeper://{','.join(server.address for server in self.servers)}"

    @property
    def leader(self) -> ZooKeeperServer:
        until(lambda: self._with_mode("leader"), "there is a leader")
        return self._with_mode("leader")[0]

    @property
    def followers(self) -> list[ZooKeeperServer]:
        return self._with_mode("follower")

    def start(self) -> Self:
        self.choose_ports()
        self.wait_until_whole()
        return self

    def choose_ports(self) -> None:
        """Who listens where; a test may then give a server another way to its fellows."""
        peers = [server.choose_ports() for server in self.servers]
        for server in self.servers:
            server.peers = peers

    def wait_until_whole(self) -> None:
        """Every server runs and serves."""
        for server in self.servers:
            server.launch()
        with ThreadPoolExecutor(3) as waiting:
            for done in [waiting.submit(server.wait) for server in self.servers]:
                done.result()

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def _with_mode(self, mode: str) -> list[ZooKeeperServer]:
        return [server for server in self.servers if server.running and server.mode == mode]


def _value(told: str, name: str) -> str:
    return next(line.split("\t")[1] for line in told.splitlines() if line.startswith(name + "\t"))
