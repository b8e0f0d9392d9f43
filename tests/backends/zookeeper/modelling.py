"""A small model of three ZooKeeper servers and one session, stepped in virtual time by a seed.

What is modelled is what decides a session's life: who leads, what a leader knows of the session,
what needs a majority, and messages that keep their order but may be late, held up, or lost with
their connection. The client is our own: `Batch` and `Proof` as they are. Left out are data, disks,
clocks that run at different speeds, and servers that stop and go on; a leader's pings are on time.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import combinations, count
from typing import Any

from kazoo.protocol.serialization import GetData, Sync

from locknut.backends.zookeeper import requests
from locknut.backends.zookeeper.session_proof import Proof

TICK = 1.0
TIMEOUT = 2.2
"""Of the session; just above the shortest that the servers grant."""
END = 30.0
_CLIENT = -1


class Server:
    """One of three: it leads, follows, or looks for a leader."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leader: Server | None = None
        self.sync_limit = 0.0
        self.epoch = 0
        """Counts the leaders that it has had."""
        self.term = 0
        """How new its log is: the number of the last leader that it followed."""
        self.heard: dict[int, float] = {}
        """When it last heard of the others."""
        self.touched = False
        """A follower's: whether it heard of the session since its last report."""
        self.touch = 0.0
        """A leader's: when it last heard of the session."""
        self.closed = False
        """Whether the end of the session is in its log."""


class World:
    """Everything, and the queue of what happens next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.expired = 0.0
        """When a majority had let the session expire."""
        self.promised = 0.0
        """Until when the client believed it then to live."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._under_way: dict[tuple[int, int], deque[tuple[float, Callable[[], None]]]] = {}
        self._terms = count(1)
        self._held: dict[tuple[int, int], float] = {}
        self.servers = [Server(number) for number in range(3)]
        self.client = Client(self)
        for server in self.servers:
            server.sync_limit = self.random.uniform(2, 15) * TICK
        self._lead(self.servers[2], self.servers)

    def run(self) -> None:
        self.client.connect(new=True)
        for _ in range(self.random.randint(1, 8)):
            self.after(self.random.uniform(1, 15), self._fault)
        while self._queue and self.now < END and not self.expired:
            self.now, _, step = heapq.heappop(self._queue)
            step()

    def after(self, delay: float, step: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), step))

    def send(self, one: int, other: int, arrive: Callable[[], None]) -> None:
        """In order, sooner or later, or never."""
        link = (one, other)
        waiting = self._under_way.setdefault(link, deque())
        late = self.random.choice((0.001, 0.001, 0.01, 0.05))
        ready = max(self.now + late, waiting[-1][0] if waiting else 0.0)
        waiting.append((ready, arrive))
        self.after(ready - self.now, lambda: self._deliver(link))

    def _deliver(self, link: tuple[int, int]) -> None:
        held, waiting = self._held.get(link, 0.0), self._under_way[link]
        if held > self.now:
            self.after(held - self.now, lambda: self._deliver(link))
            return
        while waiting and waiting[0][0] <= self.now:
            waiting.popleft()[1]()

    def _hold(self, one: int, other: int, until: float) -> None:
        self._held[one, other] = max(until, self._held.get((one, other), 0.0))

    def _fault(self) -> None:
        until = self.now + self.random.choice((0.3, 1.0, 3.0, END))
        kind = self.random.choice(("server", "server", "link", "burst", "client", "reconnect"))
        if kind == "server":
            self._cut_off(self.random.choice(self.servers), until)
        elif kind == "link":
            one, other = self.random.sample(self.servers, 2)
            self._hold(one.number, other.number, until)
        elif kind in {"burst", "client"}:
            self._burst(self.client.at, kind == "client")
        else:
            self.client.disconnect()

    def _burst(self, server: Server, clients: bool) -> None:
        """What was held up for a while arrives at once, and then the server may be cut off."""
        end = self.random.uniform(0.2, TIMEOUT / 2)
        sender = _CLIENT if clients else (server.leader or server).number
        self._hold(sender, server.number, self.now + end)
        if self.random.random() < 0.7:
            soon = end + self.random.uniform(0, 0.1)
            self.after(soon, lambda: self._cut_off(server, END))

    def _cut_off(self, server: Server, until: float) -> None:
        """From the others, without a word; which may see the end of their connections."""
        others = [each for each in self.servers if each is not server]
        seen = self.random.random() < 0.5
        for other in others:
            self._hold(server.number, other.number, until)
            self._hold(other.number, server.number, until)
            if seen and other.leader is server:
                self.after(self.random.uniform(0, 0.3), lambda other=other: self.look(other))  # type: ignore[misc]

    # Who leads.

    def look(self, server: Server) -> None:
        """It has no leader any more: its clients are sent away, and two of them elect one."""
        if server.leader is None:
            return
        server.leader, server.epoch = None, server.epoch + 1
        if self.client.at is server:
            self.client.disconnect()
        self.after(self.random.uniform(0.05, 0.5), self._elect)

    def _elect(self) -> None:
        """Those who look and reach each other; a lone one tries again."""
        looking = [each for each in self.servers if each.leader is None]
        if len(looking) > 2:
            pairs = [list(pair) for pair in combinations(looking, 2)]
            looking = next((pair for pair in pairs if self._reach(*pair)), [])
        if len(looking) < 2 or not self._reach(*looking):
            if looking:
                self.after(TICK / 2, self._elect)
        else:
            newest = max(looking, key=lambda each: (each.term, each.closed, each.number))
            self._lead(newest, looking)

    def _reach(self, one: Server, other: Server) -> bool:
        links = (one.number, other.number), (other.number, one.number)
        return all(self._held.get(each, 0.0) <= self.now for each in links)

    def _lead(self, leader: Server, members: Sequence[Server]) -> None:
        """It begins to count for every session anew; its log is that of all."""
        term = next(self._terms)
        for each in members:
            each.leader, each.epoch, each.touched = leader, each.epoch + 1, False
            each.term = term
            each.heard = {other.number: self.now for other in members if other is not each}
            each.closed = leader.closed
            if each is not leader:
                self._follow(each, each.epoch)
        leader.touch = self.now
        if leader.closed:
            self._close_session()
        self._reign(leader, leader.epoch)
        self._count(leader, leader.epoch)

    def _reign(self, leader: Server, epoch: int) -> None:
        """Twice a tick: ping, or give up without a majority."""
        if leader.epoch != epoch:
            return
        if not any(self.now - at <= leader.sync_limit for at in leader.heard.values()):
            self.look(leader)
            return
        for each in self._followers(leader):
            self.to(leader, each, lambda each=each: self._pinged(each, leader))  # type: ignore[misc]
        self.after(TICK / 2, lambda: self._reign(leader, epoch))

    def _count(self, leader: Server, epoch: int) -> None:
        if leader.epoch != epoch or leader.closed:
            return
        left = leader.touch + TIMEOUT - self.now
        if left > 0:
            self.after(left, lambda: self._count(leader, epoch))
        else:
            leader.closed = True
            self.propose(leader, self._close_session, closing=True)

    def _followers(self, leader: Server) -> list[Server]:
        others = [each for each in self.servers if each is not leader]
        return [each for each in others if each.leader is leader and each.term == leader.term]

    def _follow(self, follower: Server, epoch: int) -> None:
        if follower.epoch == epoch and follower.leader is not None:
            if self.now - follower.heard[follower.leader.number] > follower.sync_limit:
                self.look(follower)
            else:
                self.after(TICK / 2, lambda: self._follow(follower, epoch))

    def _pinged(self, follower: Server, leader: Server) -> None:
        touched, follower.touched = follower.touched, False
        self.to(follower, leader, lambda: self._reported(leader, touched))

    def _reported(self, leader: Server, touched: bool) -> None:
        if touched:
            leader.touch = self.now

    def to(self, one: Server, other: Server, arrive: Callable[[], None]) -> None:
        """From server to server, for as long as both are what they are."""
        epochs = one.epoch, other.epoch

        def deliver() -> None:
            if (one.epoch, other.epoch) == epochs:
                other.heard[one.number] = self.now
                arrive()

        self.send(one.number, other.number, deliver)

    def propose(
        self, leader: Server, committed: Callable[[], None], *, closing: bool = False
    ) -> None:
        """Two of three are enough, and the leader is one."""
        done: list[None] = []

        def accepted() -> None:
            if not done:
                done.append(None)
                committed()

        def log(follower: Server) -> None:
            follower.closed = follower.closed or closing
            self.to(follower, leader, accepted)

        for each in self._followers(leader):
            self.to(leader, each, lambda each=each: log(each))  # type: ignore[misc]

    def _close_session(self) -> None:
        if not self.expired:
            self.expired, self.promised = self.now, self.client.proof.until()


class Client:
    """Ours, with one session."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.at = world.servers[0]
        self.proof = Proof(lambda: self.ask(Sync("/")))
        self.proven = 0
        self._connection = 0

    def connect(self, *, new: bool = False) -> None:
        """To any server that has a leader, or thinks so."""
        world, number, sent = self.world, self._connection, self.world.now
        self.at = server = world.random.choice(world.servers)

        def answered() -> None:
            if number == self._connection:
                self.proof.connected(sent, world.now, TIMEOUT, new)
                self._beat(number)

        def reply() -> None:
            world.send(server.number, _CLIENT, answered)

        def taken_back(leader: Server) -> None:
            if not leader.closed:
                leader.touch = world.now
                if leader is server:
                    reply()
                elif new:
                    world.propose(leader, lambda: world.to(leader, server, reply))
                else:
                    world.to(leader, server, reply)

        if server.leader is None or (new and server.leader is server):
            world.after(0.1, lambda: self.connect(new=new))
            return
        world.send(_CLIENT, server.number, lambda: self._to_leader(server, taken_back))
        world.after(1.0, lambda: self._give_up(number, sent))

    def _give_up(self, number: int, sent: float) -> None:
        if number == self._connection and self.proof._joined < sent:
            self.disconnect()

    def disconnect(self) -> None:
        self._connection += 1
        self.world.after(self.world.random.uniform(0, 0.3), self.connect)

    def _beat(self, number: int) -> None:
        if number != self._connection:
            return
        now = self.world.now
        if now >= self.proof.due():
            self.proof.beats(now)
            self.ask(requests.PROVING)
        if self.world.random.random() < 0.1:
            self.ask(GetData("/", None))
        self.world.after(0.05, lambda: self._beat(number))

    def ask(self, request: Any) -> None:
        """What a server does with it: reads by itself, a sync by its leader, a write by most."""
        world, server, number = self.world, self.at, self._connection
        batch = requests.Batch([request], self.proof, lambda _: None, lambda: self.world.now)

        def heard() -> None:
            if number == self._connection:
                before = self.proof.until()
                batch.set(None)
                self.proven += self.proof.until() > before

        def reply() -> None:
            world.send(server.number, _CLIENT, heard)

        def arrived() -> None:
            if number != self._connection:
                return
            self._touch(server)
            if isinstance(request, GetData):
                reply()
            else:
                self._to_leader(server, lambda leader: self._lead(leader, server, request, reply))

        world.send(_CLIENT, server.number, arrived)

    def _touch(self, server: Server) -> None:
        server.touched = True
        if server.leader is server:
            server.touch = self.world.now

    def _to_leader(self, server: Server, arrive: Callable[[Server], None]) -> None:
        leader = server.leader
        if leader is server:
            arrive(leader)
        elif leader is not None and leader.term == server.term:
            self.world.to(server, leader, lambda: arrive(leader))

    def _lead(
        self, leader: Server, server: Server, request: Any, reply: Callable[[], None]
    ) -> None:
        if leader.closed:
            return

        def answer() -> None:
            if leader is server:
                reply()
            else:
                self.world.to(leader, server, reply)

        if isinstance(request, Sync):
            answer()
        else:
            self.world.propose(leader, answer)
