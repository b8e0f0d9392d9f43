"""The way of one colour to the cluster, with our lease: asked for, kept alive and proven here.

Whatever is answered on this way also proves something about the life of the lease (`lease_proof`).
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from locknut.backends.etcd import key_names
from locknut.backends.etcd.shared_lease import NONE, Aside, SharedLease
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Mode
from locknut.drivers.etcd.requests import (
    Compare,
    Event,
    LeaseGone,
    Link,
    Operation,
    Put,
    Range,
    Reply,
    What,
    created,
    modified,
)
from locknut.errors import BackendUnavailable, LocknutError
from locknut.runtimes.deadlines import time_left

TOMBSTONE: Final = 60.0
"""Seconds for which what was put aside stays at the least."""
TRIES: Final = 3
_OPENING: Final = 4.0
"""Seconds that a caller waits for another one to ask for the lease."""


class LeasedLink:
    """What every command of the backend is made of."""

    def __init__(self, link: Link, shared: SharedLease, runtime: Runtime):
        self.link = link
        self.shared = shared
        self.now = runtime.now
        self._runtime = runtime
        self._host = socket.gethostname()

    async def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        """As that of the link. A lease of ours that is gone before anything was put with it counts
        as no answer: the core asks again, with another one.
        """
        sent = self.now()
        try:
            reply = await self.link.transact(compares, then, otherwise)
        except LeaseGone as error:
            if (aside := self.shared.aside) is not None:  # it may be the one that is gone
                self.shared.aside = aside._replace(until=float("-inf"))
            raise self.unavailable() from error
        self.shared.committed(sent, reply.term)
        return reply

    def shown(self, claim: Claim, **more: Any) -> bytes:
        """What a key says of its claim: what it is decided by, and what people want to know."""
        permits = claim.permits if claim.mode is Mode.PERMIT else None
        facts = _facts(claim.mode, self._host, claim.who, claim.label, permits)
        rest = "," + json.dumps(more, separators=(",", ":"))[1:-1] if more else ""
        return f'{facts},"since":{time.time():.3f}{rest}}}'.encode()

    # The lease.

    async def ready(self, claim: Claim) -> bool:
        """See to it that there is a lease, and that it lives on; False if that is in doubt."""
        shared = self.shared
        if not shared.id or shared.run_out(self.now()):
            await self._open(claim)
        elif self.now() >= shared.proof.due():
            return await self.keep_alive()
        return True

    async def keep_alive(self) -> bool:
        """Ask the leader to keep the lease, if that is due; False if it says that there is none.
        It may be a leader of the past, so that alone is no proof either.
        """
        shared, sent = self.shared, self.now()
        ours = shared.id
        if not ours or not shared.asks(sent):
            return True
        try:
            lease = await self.link.keep_alive(ours)
        except BaseException:
            shared.hurry()
            raise
        if lease.ttl > 0:
            shared.kept(lease, sent, self.now())
            await self._retire_aside()
            return True
        shared.hurry()
        self.link.move_on(lease.member)
        return False

    async def prove(self, enough: float) -> bool:
        """Whether the lease is proven to live for so long from now on; ask until it is."""
        shared = self.shared
        for _ in range(TRIES):
            if shared.until() - self.now() >= enough:
                return True
            shared.hurry()
            await self.keep_alive()
            lease, key, _ = shared.session
            if not lease:
                return False
            reply = await self.transact([], [Range(key, keys_only=True)])
            if not reply.answers[0]:
                shared.lost(lease)
                return False
            if shared.until() - self.now() < enough:
                self.link.move_on(reply.member)
        return shared.until() - self.now() >= enough

    async def _open(self, claim: Claim) -> None:
        shared = self.shared
        signal = self._runtime.signal()
        if not shared.begins_to_open(signal.notify):
            try:
                until = self.now() + time_left(_OPENING)
            except TimeoutError as error:
                raise self.unavailable() from error
            if not await signal.wait(until) or not shared.id:
                raise self.unavailable()
            return
        try:
            if not shared.id or shared.run_out(self.now()):
                await self._ask_for_lease(claim)
        finally:
            shared.ends_to_open()

    async def _ask_for_lease(self, claim: Claim) -> None:
        """A new lease, with a key that shows whether it is there."""
        shared, link = self.shared, self.link
        shared.lost(shared.id)
        sent = self.now()
        lease = await link.grant(math.ceil(shared.settings.session_ttl))
        key = key_names.session(shared.settings.root, claim, lease.id)
        try:
            reply = await self.transact([created(key, 0)], [Put(key, b"", lease.id)])
            opened = shared.opened(lease, sent, key, reply.revision)
        except LocknutError:
            with suppress(LocknutError):
                await link.revoke(lease.id)
            raise
        if not opened:
            await link.revoke(lease.id)
            raise self.unavailable()
        self.watch_lease(reply.revision)

    def watch_lease(self, revision: int) -> None:
        """Be told at once when the lease is revoked or runs out."""
        shared = self.shared
        lease, key, _ = shared.session

        def ended(event: Event) -> None:
            if event.what is What.DELETED:
                shared.lost(lease)
            elif event.what is What.ASK_AGAIN:
                shared.unwatched = True

        shared.unwatched = False
        shared.end_watch = self.link.watch(key, revision + 1, ended).close

    async def end(self) -> None:
        """The last backend closes: nothing of ours stays there."""
        shared = self.shared
        lease, aside = shared.id, shared.aside
        shared.session, shared.aside = NONE, None
        if lease:
            with suppress(LocknutError):  # or else it ends by itself
                await self.link.revoke(lease)
                # What was to keep late commands away is not needed: their lease is gone.
                if aside is not None:
                    await self.link.revoke(aside.id)

    async def lease_aside(self) -> int:
        """A lease that nobody keeps alive: what is put with it goes away by itself, later."""
        await self._retire_aside()
        shared = self.shared
        aside = shared.aside
        if aside is None:
            sent, stays = self.now(), max(TOMBSTONE, shared.settings.session_ttl)
            lease = await self.link.grant(math.ceil(2 * stays))
            aside = shared.aside = Aside(lease.id, sent + lease.ttl - stays)
        return aside.id

    async def _retire_aside(self) -> None:
        """Before the tombstones go away that were put with it, make void what they keep away: it
        may be in a member that is stopped for longer. If our lease is not kept alive until then, so
        that nobody comes here, what it was sent with is gone.
        """
        shared = self.shared
        aside = shared.aside
        if aside is None or self.now() < aside.until:
            return
        lease, key, stamp = shared.session
        if lease:
            put, there = Put(key, b"", lease), Range(key, keys_only=True)
            reply = await self.transact([modified(key, stamp)], [put], [there])
            found = [each.mod_revision for each in reply.answers[-1]]
            self.stamped(lease, stamp, reply.revision if reply.succeeded else max(found, default=0))
        if shared.aside is aside:
            shared.aside = None

    def stamped(self, lease: int, asked: int, found: int) -> None:
        """The key of the session has this stamp now, and not the one that was asked with. An older
        one, or none: the cluster came back from a backup. Whatever we know of it may be void, and
        what we gave back may stand there again. So that lease counts as gone: nobody keeps it alive
        any more, and it takes with it what stands there.
        """
        if found < asked:
            self.shared.lost(lease)
        else:
            self.shared.stamped(lease, found)

    def unavailable(self) -> BackendUnavailable:
        message = f"no lease from {self.shared.settings.place}"
        return BackendUnavailable(message, backend="etcd")


@lru_cache(1024)
def _facts(mode: Mode, host: str, who: str, label: str, permits: int | None) -> str:
    """What stays the same from one hold of a lock to the next: the beginning of a JSON object."""
    facts: dict[str, Any] = {"mode": mode.value, "host": host, "pid": os.getpid()}
    facts |= {"who": who, "label": label}
    if permits is not None:
        facts["permits"] = permits
    return json.dumps(facts, separators=(",", ":"))[:-1]


if hasattr(os, "register_at_fork"):  # a child has another number
    os.register_at_fork(after_in_child=_facts.cache_clear)
