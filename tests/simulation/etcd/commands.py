"""The client's side: commands as messages to one of the members, and watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from locknut.drivers.etcd.requests import Compare, Event, Lease, Operation, Reply, What
from locknut.errors import BackendError, BackendUnavailable
from tests.simulation.coroutines import Died, Future
from tests.simulation.etcd.cluster import MEMBERS
from tests.simulation.etcd.store import within

if TYPE_CHECKING:
    from tests.simulation.etcd.cluster import Cluster
    from tests.simulation.process import Process

REPLY_WITHIN = 0.5
"""How long a command waits for its answer."""
AGAIN = (0.2, 2.0)
"""Seconds after which a watch goes on whose connection was lost."""


class Question:
    """A command that was sent, and waits for its answer."""

    breaks = ""
    """The key that is freed by force, if it is."""

    def __init__(
        self,
        link: SimLink,
        arrive: Callable[[Question], None],
        run: Callable[[Cluster], Any] | None = None,
    ) -> None:
        self.member = link.chosen
        self.actors = link.actors
        self.breaks = link.breaks
        self._run = run
        self._link = link
        self._arrive = arrive
        self._answer: Future[tuple[Any, int]] = Future()

    def run(self, cluster: Cluster) -> Any:
        return self._run(cluster) if self._run else None

    async def ask(self) -> tuple[Any, int]:
        process, cluster = self._link.process, self._link.cluster
        if process.dead:
            raise Died
        late = process.at(process.now() + REPLY_WITHIN, self._unanswered)
        cluster.network.request(lambda: self._arrive(self))
        try:
            return await self._answer
        finally:
            late()

    def answered(self, what: Any, term: int) -> None:
        process, network = self._link.process, self._link.cluster.network
        network.reply(lambda: process.soon(lambda: self._answer.resolve((what, term))))

    def refused(self, error: BackendError) -> None:
        process, network = self._link.process, self._link.cluster.network
        network.reply(lambda: process.soon(lambda: self._answer.fail(error)))

    def _unanswered(self) -> None:
        if not self._answer.done:
            self._link.move_on(self.member)
        self._answer.fail(BackendUnavailable("no answer", backend="etcd"))


class SimWatch:
    """A watch: nothing is missed, but what is told may be late."""

    def __init__(
        self, link: SimLink, key: bytes, revision: int, on_event: Callable[[Event], None]
    ) -> None:
        self._link = link
        self._key = key
        self._on_event = on_event
        self._closed = False
        link.cluster.network.ring(lambda: self._begin(revision))
        self._again_if_lost(revision)

    def _again_if_lost(self, revision: int) -> None:
        """A request that was lost with its connection is sent again."""
        self._begun = False
        world = self._link.cluster.world
        world.after(world.random.uniform(*AGAIN), lambda: self._begin(revision))

    def _begin(self, revision: int) -> None:
        if self._begun or self._closed:
            return
        self._begun = True
        cluster = self._link.cluster
        before = cluster.agreed.since(revision, self._key, b"")
        if before is None:
            self._tell(Event(What.ASK_AGAIN))
            return
        cluster.watches.append(self)
        for event in before:
            self._tell(event)

    def see(self, event: Event) -> None:
        if within(event.key, self._key, b"") and not self._closed:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        cluster, world = self._link.cluster, self._link.cluster.world
        delay = cluster.network.delay()
        if cluster.network.befalls("ring_lost"):
            delay += world.random.uniform(*AGAIN)
            if cluster.network.befalls("compacted"):
                event = Event(What.ASK_AGAIN)
        world.after(delay, lambda: self._link.process.soon(lambda: self._told(event)))

    def _told(self, event: Event) -> None:
        if not self._closed:
            self._on_event(event)

    def close(self) -> None:
        self._closed = True
        if self in self._link.cluster.watches:
            self._link.cluster.watches.remove(self)


class SimLink:
    """`Link` of the port, for one verb: it knows whose it is."""

    inside = staticmethod(bool)

    def __init__(
        self,
        process: Process,
        cluster: Cluster,
        chosen: list[int],
        actors: tuple[str, ...] = (),
        breaks: str = "",
    ) -> None:
        self.process = process
        self.cluster = cluster
        self.actors = actors
        self.breaks = breaks
        self._chosen = chosen

    @property
    def chosen(self) -> int:
        return self._chosen[0]

    def of(self, *actors: str, breaks: str = "") -> SimLink:
        return type(self)(self.process, self.cluster, self._chosen, actors, breaks)

    async def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        question = Question(
            self,
            self.cluster.asked,
            lambda cluster: cluster.agreed.transact(compares, then, otherwise),
        )
        done, term = await question.ask()
        member = question.member
        return Reply(done.succeeded, done.revision, term, member, done.answers, 0.0)

    async def grant(self, ttl: int, lease: int = 0) -> Lease:
        question = Question(self, self.cluster.asked, lambda cluster: cluster.granted(ttl, lease))
        (number, granted), term = await question.ask()
        return Lease(number, granted, term, question.member, 0.0)

    async def keep_alive(self, lease: int) -> Lease:
        question = Question(self, lambda asked: self.cluster.kept_alive(asked, lease))
        ttl, term = await question.ask()
        return Lease(lease, ttl, term, question.member, 0.0)

    async def revoke(self, lease: int) -> bool:
        question = Question(self, self.cluster.asked, lambda cluster: cluster.agreed.revoke(lease))
        revoked, _ = await question.ask()
        return bool(revoked)

    def watch(
        self, key: bytes, from_revision: int, on_event: Callable[[Event], None], *, end: bytes = b""
    ) -> SimWatch:
        assert not end, "nobody watches a range"
        return SimWatch(self, key, from_revision, on_event)

    def move_on(self, member: int) -> None:
        if self.chosen == member:
            self._chosen[0] = (member + 1) % MEMBERS

    async def close(self) -> None:
        """Nothing to close: messages under way stay under way."""

    def forked(self) -> None:
        """Simulated processes do not fork."""

    def dropped(self) -> None:
        """Nothing to drop."""
