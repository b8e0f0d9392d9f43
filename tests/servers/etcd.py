"""A private etcd: one member or three, how they are reached, disturbed, cut off and ended."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from tests.servers.certificates import Certificates
from tests.servers.peer_proxy import PeerProxy
from tests.servers.ports import HOST
from tests.servers.processes import PATIENCE, program, until
from tests.servers.serving import Server, Started

HEARTBEAT = 50
ELECTION = 500
"""Milliseconds: a dead leader is succeeded within a second or so."""


class EtcdServer(Server):
    """One member; its data stay over restarts. `flavour` is the program: etcd, or etcd35."""

    def __init__(
        self,
        *options: str,
        flavour: str = "etcd",
        certificates: Certificates | None = None,
        wants_certificates: bool = False,
        login: str = "",
        number: int = 0,
        waits_for_disk: bool = False,
    ) -> None:
        """`wants_certificates` of clients; `login` is user:password of somebody who may do all,
        set by `require_login`. Only a benchmark `waits_for_disk`.
        """
        super().__init__()
        self._options = options
        self._flavour = flavour
        self._certificates = certificates
        self._wants_certificates = wants_certificates
        self.login = login
        self.number = number
        self._waits_for_disk = waits_for_disk
        self.election = ELECTION
        """Milliseconds. One that has more believes for longer that it leads, when it is cut off."""
        self.peer_port = 0
        self.peers: Sequence[int] = ()
        """Where each member of the cluster is reached by its fellows: at its proxy."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As `locknut.connect` wants it."""
        return self.url_through(self.port)

    def url_through(self, port: int) -> str:
        """The same, through a proxy that listens there."""
        scheme = "etcd+tls" if self._certificates else "etcd"
        at = f"{self.login}@" if self.login else ""
        return f"{scheme}://{at}{self.host}:{port}{self._url_options()}"

    def _url_options(self) -> str:
        if self._certificates is None:
            return ""
        options = f"?ssl_ca_certs={self._certificates.authority}"
        if self._wants_certificates:
            options += f"&ssl_certfile={self._certificates.client}"
        return options

    def etcdctl(self, *words: str, check: bool = True, typed: str = "") -> str:
        """What the command line of etcd says, in JSON if it is asked for by `-w json`."""
        done = subprocess.run(
            self.etcdctl_command(*words),
            env={**os.environ, "ETCDCTL_API": "3"},
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def etcdctl_command(self, *words: str) -> list[str]:
        """To be started by a test, with ETCDCTL_API=3 in its environment."""
        scheme = "https" if self._certificates else "http"
        command = [program("etcdctl"), f"--endpoints={scheme}://{self.address}"]
        if self._certificates:
            command.append(f"--cacert={self._certificates.authority}")
        if self._wants_certificates and self._certificates:
            command += [f"--cert={self._certificates.client}", f"--key={self._certificates.client}"]
        if self.login:
            command.append(f"--user={self.login}")
        return [*command, *words]

    def require_login(self, login: str) -> None:
        """From now on a user and a password are needed; this one may do everything."""
        user = login.partition(":")[0]
        self.etcdctl("user", "add", login)
        self.etcdctl("user", "grant-role", user, "root")
        self.etcdctl("auth", "enable")
        self.login = login

    def ask(self, path: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        """One answer of the gateway: `ask("/v3/maintenance/status", {})`."""
        connected = http.client.HTTPConnection(self.host, self.port, timeout=5)
        if self._certificates is not None:
            context = ssl.create_default_context(cafile=self._certificates.authority)
            context.load_cert_chain(self._certificates.client)
            connected = http.client.HTTPSConnection(
                self.host, self.port, timeout=5, context=context
            )
        try:
            verb, body = ("GET", None) if question is None else ("POST", json.dumps(question))
            connected.request(verb, path, body)
            return json.loads(connected.getresponse().read())  # type: ignore[no-any-return]
        except (http.client.HTTPException, ValueError) as problem:
            raise OSError(str(problem)) from problem
        finally:
            connected.close()

    @property
    def id(self) -> int:
        """The number of this member."""
        return int(self.ask("/v3/maintenance/status", {})["header"]["member_id"])

    @property
    def leads(self) -> bool:
        """Whether it believes so."""
        status = self.ask("/v3/maintenance/status", {})
        return bool(status.get("leader", "0") == status["header"]["member_id"])

    @property
    def leases(self) -> int:
        """How many there are in the cluster."""
        return len(self.ask("/v3/lease/leases", {}).get("leases", ()))

    def choose_ports(self) -> None:
        self._choose_ports()

    def restart(self) -> None:
        """Gone and back at the same address, with its data."""
        self.kill()
        self.start()

    def _choose_ports(self) -> None:
        self.port, self.peer_port = self._ports.reserve(2)

    def _answers(self) -> bool:
        return self.ask("/health").get("health") in {"true", True}

    def _command(self) -> list[str]:
        client = f"{'https' if self._certificates else 'http'}://{self.address}"
        peers = self.peers or [self.peer_port]
        cluster = [f"n{number}=http://{HOST}:{port}" for number, port in enumerate(peers)]
        command = [program(self._flavour), f"--name=n{self.number}"]
        command += [
            f"--data-dir={self.folder}/data",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls=http://{HOST}:{self.peer_port}",
            f"--initial-advertise-peer-urls=http://{HOST}:{peers[self.number]}",
            f"--initial-cluster={','.join(cluster)}",
            f"--initial-cluster-token={'-'.join(map(str, peers))}",
            f"--heartbeat-interval={HEARTBEAT}",
            f"--election-timeout={self.election}",
            "--log-level=warn",
            "--logger=zap",
        ]
        if not self._waits_for_disk:
            command.append("--unsafe-no-fsync")
        if self._certificates:
            command += [
                f"--cert-file={self._certificates.server}",
                f"--key-file={self._certificates.server}",
            ]
        if self._certificates and self._wants_certificates:
            command += ["--client-cert-auth", f"--trusted-ca-file={self._certificates.authority}"]
        return [*command, *self._options]


class EtcdCluster(Started):
    """Three members, of which two are enough. They reach each other through proxies of ours, unless
    nobody is to be cut off: whoever measures them does not want to measure those.
    """

    def __init__(
        self,
        *options: str,
        flavour: str = "etcd",
        waits_for_disk: bool = False,
        proxied: bool = True,
    ) -> None:
        self.servers = [
            EtcdServer(*options, flavour=flavour, number=number, waits_for_disk=waits_for_disk)
            for number in range(3)
        ]
        self._proxied = proxied
        self._proxies: list[PeerProxy] = []

    @property
    def url(self) -> str:
        return f"etcd://{','.join(server.address for server in self.servers)}"

    @property
    def leader(self) -> EtcdServer:
        """The one that believes so, when only one does and all others agree."""
        until(lambda: len(self._leaders()) == 1, "there is a leader")
        return self._leaders()[0]

    @property
    def followers(self) -> list[EtcdServer]:
        leader = self.leader
        return [server for server in self.servers if server is not leader]

    def start(self) -> Self:
        for server in self.servers:
            server.choose_ports()
            if self._proxied:
                self._proxies.append(PeerProxy(server.peer_port))
        ports = [proxy.port for proxy in self._proxies] or [each.peer_port for each in self.servers]
        for server in self.servers:
            server.peers = ports
        self.wait_until_whole()
        return self

    def wait_until_whole(self) -> None:
        """Every member runs and serves."""
        for server in self.servers:
            server.launch()
        with ThreadPoolExecutor(3) as waiting:
            for done in [waiting.submit(server.wait) for server in self.servers]:
                done.result()

    def make_leader(self, wanted: EtcdServer) -> None:
        leader = self.leader
        if leader is not wanted:
            leader.etcdctl("move-leader", f"{wanted.id:x}")
            until(lambda: self.leader is wanted, "it leads")

    def cut_off(self, server: EtcdServer) -> None:
        """From its fellows, silently and both ways; clients still reach it."""
        for other, proxy in zip(self.servers, self._proxies, strict=True):
            if other is server:
                proxy.block_all()
            else:
                proxy.block(server.id)

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.heal()

    def close(self) -> None:
        for server in self.servers:
            server.close()
        for proxy in self._proxies:
            proxy.close()

    def _leaders(self) -> list[EtcdServer]:
        return [server for server in self.servers if server.running and _leads(server)]


def _leads(server: EtcdServer) -> bool:
    try:
        return server.leads
    except OSError:
        return False
