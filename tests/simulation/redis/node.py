"""The server's side: scripts and commands on connections, on a machine that stops and restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from locknut.backends.redis import scripts
from locknut.core.values import LockInfo
from locknut.drivers.redis.endpoints import Latest
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import EPOCH, NOBODY, Node, Order, SimStore, bare
from tests.simulation.network import Faults, Network
from tests.simulation.redis import commands
from tests.simulation.redis.faults import Edit, RedisFaults
from tests.simulation.redis.holds import silent, surplus
from tests.simulation.redis.keys import Keys, List, Refused
from tests.simulation.redis.lua import Lua
from tests.simulation.redis.resp_encoding import encoded, pushed
from tests.simulation.redis.server_end import Port
from tests.simulation.redis.store_view import LookIn
from tests.simulation.world import World

VERBS = {
    getattr(scripts, verb).sha: verb.lower()
    for verb in "ACQUIRE ATTEND GATHER RELEASE RENEW DOWNGRADE ATTACH INSPECT".split()  # noqa: SIM905
}
GREETINGS = {
    b"HELLO": [b"server", b"redis", b"role", b"master"],
    b"INFO": b"maxmemory_policy:noeviction\r\n",
}
SNAPSHOTS = (0.02, 0.2, 1.0)
"""Seconds between two states that may come back."""
_LUA = Lua()


class RedisNode(Node):
    """One Redis server: its keys, its scripts, its connections."""

    verbs = VERBS

    def __init__(self, world: World, network: Network, edits: tuple[Edit, ...] = ()) -> None:
        self.keys = Keys(self._microseconds)
        self.ports: dict[Port, None] = {}
        self.stopped = False
        self.generation = 0
        """Which server it is by now, where one succeeds another."""
        self.latest: dict[str, Latest] = {}
        """What each process knows of that."""
        self._edits = edits
        self._scripts: dict[bytes, bytes] = {}
        self._later: list[Callable[[], None]] = []
        self._older: list[Callable[[], None]] = []
        """How to bring back the states of the last seconds."""
        self._forgot: set[str] = set()
        """Names of which some key was deleted: the book of who waits is in disorder for a while,
        and somebody who is no longer there may get one of the short grants."""
        super().__init__(world, network)

    def wall(self) -> float:
        """One clock for everything, as on a real server: it drifts, and may be set back."""
        return EPOCH + self.now() + self.wall_ahead

    def _microseconds(self) -> int:
        return int(self.wall() * 1_000_000)

    # Connections.

    def connect(self) -> Port | None:
        """A new connection's end; None: nobody is there."""
        if not self.up:
            return None
        port = Port(self)
        self.ports[port] = None
        return port

    def when_awake(self, call: Callable[[], None]) -> None:
        if self.stopped:
            self._later.append(call)
        else:
            call()

    def do(self, port: Port, words: list[bytes]) -> None:
        """One command of a client, and whoever it wakes."""
        name = words[0].upper()
        if name == b"BLPOP":
            self._pop(port, words[1], float(words[2]))
            return
        try:
            answer = encoded(self._answer(port, name, words))
        except Refused as error:
            answer = encoded(error)
        port.tell(answer)
        self._serve_sleepers()

    def _answer(self, port: Port, name: bytes, words: list[bytes]) -> Any:  # noqa: PLR0911  # a table
        match name, *words[1:]:
            case b"EVALSHA", sha, count, *rest:
                return self._evaluate(sha, rest[: int(count)], rest[int(count) :])
            case b"EVAL", text, count, *rest:
                return self._evaluate(self._load(text), rest[: int(count)], rest[int(count) :])
            case b"SCRIPT", _, text:
                return self._load(text)
            case b"SUBSCRIBE", channel:
                port.channels.add(channel)
                return [b"subscribe", channel, len(port.channels)]
            case b"WAIT", wanted, _:
                return 0 if self.network.befalls("replicas_behind") else int(wanted)
            case b"SCAN", *_:
                return [b"0", self.keys.names()]
        return GREETINGS.get(name) or commands.run(self.keys, words)

    def _load(self, text: bytes) -> bytes:
        sha = _sha(text)
        self._scripts[sha] = text
        return sha

    def _pop(self, port: Port, name: bytes, seconds: float) -> None:
        try:
            value = commands.lpop(self.keys, name)
        except Refused as error:
            port.tell(encoded(error))
            return
        if value is None:
            port.sleep(name, seconds)
        else:
            port.tell(encoded([name, value]))

    def _serve_sleepers(self) -> None:
        for port in list(self.ports):
            name = port.sleeps_on
            if name is not None and self.keys.kind(name) == "list":
                port.woken([name, self.keys.make(name, List)[0]])
                commands.lpop(self.keys, name)

    # Scripts.

    def _evaluate(self, sha: bytes, names: list[bytes], argv: list[bytes]) -> Any:
        if sha not in self._scripts:
            raise Refused("NOSCRIPT No matching script. Please use EVAL.")
        verb, text = self.verbs[sha], self._scripts[sha]
        for edit in self._edits:
            text = edit.of(verb, text)
        try:
            answer = _LUA.run(text, names, argv, self._command)
        except Refused as error:
            self.world.seen[f"refused: {str(error).split(' script: ')[0]}"] += 1
            raise
        self._told(verb, names[0], argv, answer)
        return answer

    def _command(self, words: list[bytes]) -> Any:
        if words[0].lower() == b"publish":
            listening = [port for port in self.ports if words[1] in port.channels]
            for port in listening:
                port.tell(pushed(b"message", words[1], words[2]))
            return len(listening)
        return commands.run(self.keys, words)

    def _told(self, verb: str, name: bytes, argv: list[bytes], answer: Any) -> None:
        """What the history has to know of this script."""
        found = scripts_key(name)
        if verb == "inspect":
            if argv[1] == b"break" and answer[0]:
                self.broken(found, LockInfo(found))
            self.tell(NOBODY)
            return
        named = {"attach": argv[:2], "gather": argv[::4], "attend": []}.get(verb, argv[:1])
        actors = tuple(word[:32].decode() for word in named)
        self.tell(Order(actors, no_command, renews=verb == "renew"))
        if verb == "release":
            self.withdrawn(bare(found), actors[0])

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        if isinstance(faults, RedisFaults):
            yield faults.connections_cut, self._cut_some
            yield faults.server_stops, self._stop
            yield faults.scripts_flushed, self._flush_scripts
            yield faults.keys_deleted, self._delete_one
            yield faults.emptied, self._empty
            yield faults.clock_set_forward, self._set_forward
            yield faults.older_state, self._restart_from_snapshot
            yield faults.lagging_replica, self._fail_over
            if faults.older_state or faults.lagging_replica:
                self._remember()

    def restart(self, *, keep_data: bool, away: float) -> None:
        self._hang_up()
        super().restart(keep_data=keep_data, away=away)

    def _hang_up(self) -> None:
        self._scripts.clear()
        self._later.clear()
        for port in list(self.ports):
            if port.wire is not None:
                port.wire.server_left()
            port.close()

    def _remember(self) -> None:
        """What a snapshot has, and what a replica has when it stops to follow."""
        self._older = [*self._older[-2:], self.keys.copied()]
        self.world.after(self.world.random.choice(SNAPSHOTS), self._remember)

    def _restart_from_snapshot(self) -> None:
        if self.up:
            self.world.faults["older_state"] += 1
            self.restart(keep_data=True, away=self.world.random.choice((0.01, 0.3, 2.0)))
            self._forget("", self.world.random.choice(self._older))

    def _fail_over(self) -> None:
        """The promoted one has other connections and knows no script."""
        if self.up:
            self.world.faults["lagging_replica"] += 1
            self._hang_up()
            self._forget("", self._older[-1])

    def set_back(self, seconds: float) -> None:
        """A little: a hold is cut down to its ttl, from then on. What had run out is gone."""
        self.step_back(min(seconds, 2.0))

    def step_back(self, seconds: float) -> None:
        self.keys.names()
        super().set_back(seconds)
        self.tell(NOBODY)

    def _set_forward(self) -> None:
        """What runs out by that is gone too early: nobody is excluded by it any more."""
        self.world.faults["clock_set_forward"] += 1
        self._record(Kind.STEPPED, "", "")
        self.wall_ahead += self.world.random.uniform(0, 20)
        self.tell(NOBODY, note="stepped")

    def _cut_some(self) -> None:
        self.world.faults["connections_cut"] += 1
        for port in list(self.ports):
            if port.wire is not None and self.world.chance(0.5):
                port.wire.cut()

    def _stop(self) -> None:
        if self.stopped or not self.up:
            return
        self.world.faults["server_stops"] += 1
        self.stopped = True
        self.world.after(self.world.random.choice((0.05, 0.4, 1.5)), self._go_on)

    def _go_on(self) -> None:
        self.stopped = False
        later, self._later = self._later, []
        for call in later:
            call()

    def _flush_scripts(self) -> None:
        self.world.faults["scripts_flushed"] += 1
        self._scripts.clear()

    def _delete_one(self) -> None:
        names = self.keys.names()
        if names:
            self.world.faults["keys_deleted"] += 1
            name = self.world.random.choice(names)
            lock = bare(scripts_key(name))
            self._forgot.add(lock)
            self._forget(lock, lambda: self.keys.drop(name))

    def _empty(self) -> None:
        self.world.faults["emptied"] += 1
        self._forget("", self.keys.clear)

    def _forget(self, name: str, what: Callable[[], None]) -> None:
        self._record(Kind.FORGOT, name, "")
        what()
        self.tell(NOBODY, note="forgotten")

    # What the history sees.

    def withdrawn(self, name: str, claim_id: str) -> None:
        if name not in self._forgot:
            super().withdrawn(name, claim_id)

    def _new_store(self) -> SimStore:
        self.keys.clear()
        return LookIn(self)

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        dead = silent(self.keys)
        for name, claim_id, what in super().leftovers():
            if not (what == "a place in line" and claim_id in dead):
                yield name, claim_id, what
        for what in surplus(self.keys):
            if not self._has_its_end(what):
                yield "", "", what

    def _has_its_end(self, what: str) -> bool:
        """What nobody needs runs out in time, only later than the run: an inbox that nobody reads,
        where a clock was set back; and what a tombstone would keep that was itself deleted.
        """
        if ":inbox:" in what:
            return self.world.faults["clock_set_back"] > 0
        return "no tombstone" in what and bare(scripts_key(what.encode())) in self._forgot


@cache
def _sha(text: bytes) -> bytes:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()


def scripts_key(name: bytes) -> str:
    """`sim:mutex` of any of the keys of that lock."""
    text = name.decode()
    return text[: text.index("}")].replace("{", "", 1)


def no_command(*_: object) -> None:
    """What a script did is done already."""
