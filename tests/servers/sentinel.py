"""A master with replicas, watched by Sentinels: who is master now, and how it becomes another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.resp import Answer, Refused
from tests.servers.serving import Started

SERVICE = "mymaster"
QUORUM = 2
TIMERS = {
    "info-period": 200,
    "publish-period": 200,
    "ask-period": 100,
    "ping-period": 400,  # five of these without INFO, which comes every second, rule a replica out
    "election-timeout": 500,
    "min-link-reconnect-period": 200,
}
"""Milliseconds of what takes ten seconds otherwise; a killed master is replaced in about 1.5 s."""

AT_EASE = {"sentinel", "sentinel,master_down"}
"""The second is what another said when a master was last down; it fades late."""


class Sentinel(RedisServer):
    """One that watches; it keeps what it learns in its own file."""

    def __init__(self, master: RedisServer) -> None:
        super().__init__(flavour=master.settings.flavour)
        self._watched = master

    def start(self) -> Self:
        super().start()
        for name, milliseconds in TIMERS.items():
            self.ask("SENTINEL", "DEBUG", name, milliseconds)
        return self

    def master_port(self) -> int:
        told = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        assert isinstance(told, list)
        assert isinstance(told[1], bytes)
        return int(told[1])

    def content(self, port: int, replicas: int, sentinels: int) -> bool:
        """Whether it has found everybody, thinks well of all, and has no failover under way.

        One that has not ended its failover when the next begins would stay with the old master,
        and one that has not yet heard from a replica would not choose it.
        """
        with self.connect() as wire:
            master = _fields(wire.ask("SENTINEL", "MASTER", SERVICE))
            followers = _list(wire.ask("SENTINEL", "REPLICAS", SERVICE))
            others = _list(wire.ask("SENTINEL", "SENTINELS", SERVICE))
        good = {"flags": "slave", "master-link-status": "ok", "master-port": str(port)}
        return (
            master["flags"] == "master"
            and [_fields(one).items() >= good.items() for one in followers] == [True] * replicas
            and [_fields(one)["flags"] in AT_EASE for one in others] == [True] * (sentinels - 1)
        )

    def _command(self) -> list[str]:
        file = self.folder / "sentinel.conf"
        if not file.exists():
            master = f"{self._watched.host} {self._watched.port}"
            file.write_text(
                f"port {self.port}\nbind {self.host}\ndir {self.folder}\n"
                f"sentinel monitor {SERVICE} {master} {QUORUM}\n"
                f"sentinel down-after-milliseconds {SERVICE} 500\n"
                f"sentinel failover-timeout {SERVICE} 2000\n"
            )
        return [self.settings.program, str(file), "--sentinel"]


class SentinelService(Started):
    """One master, two replicas, three Sentinels."""

    def __init__(self, *, replicas: int = 2, sentinels: int = 3, **settings: Any) -> None:
        self.servers = [RedisServer(**settings) for _ in range(1 + replicas)]
        self.sentinels = [Sentinel(self.servers[0]) for _ in range(sentinels)]
        self._open = ExitStack()

    @property
    def url(self) -> str:
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def master(self) -> RedisServer:
        """Who is master in the eyes of the first Sentinel that runs."""
        return self._at(next(one for one in self.sentinels if one.running).master_port())

    @property
    def replicas(self) -> list[RedisServer]:
        master = self.master
        return [server for server in self.servers if server is not master]

    def start(self) -> Self:
        for one in (*self.servers, *self.sentinels):
            self._open.callback(one.close)
        first, *others = self.servers
        first.start()
        for replica in others:
            replica.start()
            replica.ask("REPLICAOF", first.host, first.port)
        for sentinel in self.sentinels:
            sentinel.start()
        self.wait_until_whole()
        return self

    def failover(self) -> RedisServer:
        """Force one while everybody is well; the new master, once all follow it."""
        old = self.master
        self._until(self._accepts_failover, "a Sentinel starts the failover")
        self._until(lambda: self._whole() and self.master is not old, "all follow another master")
        return self.master

    def wait_for_another(self, old: RedisServer) -> RedisServer:
        """After the master was killed or stopped: the new one, once every Sentinel names it."""

        def another() -> bool:
            port = self._agreed_port()  # asked anew each time: they may change their minds
            return port not in {None, old.port} and _follows(self._at(port), port)

        self._until(another, "another master")
        return self.master

    def wait_until_whole(self) -> None:
        """Everybody runs, everybody knows everybody, and all replicas follow the one master."""
        for server in self.servers:
            server.start()
        self._until(self._whole, "replicas and Sentinels are in step")

    def close(self) -> None:
        self._open.close()

    def _until(self, question: Callable[[], bool], what: str) -> None:
        try:
            until(question, what)
        except TimeoutError as problem:
            for one in (*self.servers, *self.sentinels):
                problem.add_note(f"{one.port}:\n{one.process.log.read_text()[-2000:]}")
            raise

    def _at(self, port: int | None) -> RedisServer:
        return next(server for server in self.servers if server.port == port)

    def _accepts_failover(self) -> bool:
        try:
            return self.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE) == b"OK"
        except Refused as no:  # one is under way, or no replica was heard of lately
            if str(no).startswith(("INPROG", "NOGOODSLAVE")):
                return False
            raise

    def _agreed_port(self) -> int | None:
        ports = {one.master_port() for one in self.sentinels if one.running}
        return ports.pop() if len(ports) == 1 else None

    def _whole(self) -> bool:
        port = self._agreed_port()
        if port is None or not all(_follows(server, port) for server in self.servers):
            return False
        counts = len(self.servers) - 1, len(self.sentinels)
        return all(one.content(port, *counts) for one in self.sentinels)


def _follows(server: RedisServer, port: int | None) -> bool:
    told = server.info("replication")
    if server.port == port:
        return told["role"] == "master"
    return (told.get("master_port"), told.get("master_link_status")) == (str(port), "up")


def _fields(described: Answer) -> dict[str, str]:
    """From names and values in turn."""
    words = [word.decode() for word in _list(described) if isinstance(word, bytes)]
    return dict(zip(words[::2], words[1::2], strict=True))


def _list(answer: Answer) -> list[Answer]:
    assert isinstance(answer, list)
    return answer
