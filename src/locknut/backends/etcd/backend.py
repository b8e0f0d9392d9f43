"""The etcd engine behind the core's port: the verbs, the same in both colours."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from locknut.backends.etcd import all_or_none, key_names, key_swaps, line_view, places, recipe
from locknut.backends.etcd.claim_key import ClaimState, Look
from locknut.backends.etcd.lease_proof import PART
from locknut.backends.etcd.leased_link import TRIES, LeasedLink
from locknut.backends.etcd.line_view import CHUNK
from locknut.backends.etcd.places import Refused
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core import pacing
from locknut.core.base import BaseBackend, Watch
from locknut.core.findings import Check
from locknut.core.ports import Runtime, Signal
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    HeldUntil,
    LockInfo,
    Notice,
    Renewal,
    Renewed,
)
from locknut.drivers.etcd.requests import Delete, Link, Operation, Put, Range, after, modified
from locknut.errors import BackendUnavailable

ONE_MEMBER: Final = frozenset(Capability) - {
    Capability.LEASE,
    Capability.OWNERS,
    Capability.REPLICATED,
    Capability.HISTORY,
}
CLUSTER: Final = ONE_MEMBER | {Capability.REPLICATED}
MAX_DETACHED_TTL: Final = 30 * 86400.0
NET: Final = 30.0
"""Seconds without a ring after which a claim looks again by itself."""
SOON: Final = 0.05


class EtcdBackend(LeasedLink, BaseBackend):
    """An uncontended acquire is one transaction, and so is a release."""

    name = "etcd"
    min_ttl = 0.1
    batches = True
    passes_notes = True

    def __init__(self, link: Link, shared: SharedLease, runtime: Runtime):
        super().__init__(link, shared, runtime)
        settings = shared.settings
        self.capabilities = CLUSTER if len(settings.driver.hosts) > 1 else ONE_MEMBER
        # Kept alive every quarter: what the last keep-alive proves then has three quarters left.
        self.max_ttl = settings.session_ttl * (PART - 1) / PART
        self.default_ttl: float | None = self.max_ttl
        self.max_detached_ttl = MAX_DETACHED_TTL  # it has a lease of its own
        self.inside = link.inside
        self._is_the_callers = False
        """Or else the keeper's, which closes by itself, and later than a Locks."""
        shared.join()
        self._leaving = weakref.finalize(self, shared.leave)
        self._leaving.atexit = False

    # Acquire.

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        for _ in range(TRIES):
            alive = await self.ready(claim)
            state = self.shared.state_of(claim)
            if not self.shared.lives(state):
                continue
            look = state.look if alive else None
            if look is not None and state.signal is not None and self.now() < look.net:
                state.watch(self.link, look)
                if state.look is look:  # nothing has happened since
                    return self._busy(look)
            found = await places.find(self, state)
            if found is Refused.LEASE_GONE:
                self.shared.lost(state.lease)
                continue
            if isinstance(found, Refused):
                self.shared.over(state, key_gone=found is Refused.TAKEN)
                return Busy(pacing.RETRY_MOST, queued=False)
            state.stand(state.key, found.created)
            if self.shared.unwatched:
                self.watch_lease(found.revision)
            verdict = recipe.verdict(found.ahead, claim.mode, claim.permits)
            if verdict.mine:
                return await self.granted(state)
            look = state.look = Look(verdict.behind, found.revision, self.now() + NET)
            if state.signal is not None:
                state.watch(self.link, look)
            return self._busy(look)
        raise self.unavailable()

    def _busy(self, look: Look) -> Busy:
        """Until somebody rings, or the lease has to be kept alive."""
        again = min(look.net, self.shared.proof.due())
        return Busy(max(SOON, again - self.now()))

    async def granted(self, state: ClaimState) -> Answer:
        """Grant for as long as the lease is proven to live; Busy if that is not long enough."""
        claim = state.claim
        until = self.shared.vouches(state) if await self.prove(self.enough(claim)) else 0.0
        if until <= self.now():
            return Busy(SOON)
        state.granted = True
        state.forget_watches()
        return Granted(state.created, claim.ttl or self.max_ttl, None, until)

    def enough(self, claim: Claim) -> float:
        """For how long the lease must be proven to live for a grant to be worth something."""
        return min(claim.ttl or self.max_ttl, self.shared.proof.ttl) / PART

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        return await all_or_none.attempt_all(self, claims)

    # Renew.

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        shared, sent = self.shared, self.now()
        known = {claim.id: shared.states.get(claim.id) for claim in claims}
        held = {each: state for each, state in known.items() if state is not None and state.granted}
        living = [state for state in held.values() if shared.lives(state)]
        there: set[str] = set()
        for _ in range(TRIES if living else 0):
            await self.keep_alive()
            found = await self._read(living)
            if found is None:
                return [Renewal.UNKNOWN if each.id in held else Renewal.LOST for each in claims]
            there = found
            if self.now() < shared.proof.due():
                break
        answers = [self._renewal(claim, held, there, sent) for claim in claims]
        await line_view.add_notes(self, claims, answers)
        return answers

    async def _read(self, held: list[ClaimState]) -> set[str] | None:
        """Which of these have their keys still; None if the lease is gone, which is told to all."""
        there: set[str] = set()
        lease, key, _ = self.shared.session
        if not lease:  # it ended while it was kept alive: etcd refuses a question without a key
            return None
        for start in range(0, len(held), CHUNK):
            chunk = held[start : start + CHUNK]
            keys = [Range(each.key, keys_only=True) for each in chunk]
            reply = await self.transact([], [Range(key, keys_only=True), *keys])
            lives, *found = reply.answers
            if not lives:
                self.shared.lost(lease)
                return None
            for state, answer in zip(chunk, found, strict=True):
                if answer and (answer[0].create_revision, answer[0].lease) == (
                    state.created,
                    state.lease,
                ):
                    there.add(state.claim.id)
            if self.now() >= self.shared.proof.due():  # what it says proves nothing
                self.link.move_on(reply.member)
        return there

    def _renewal(
        self, claim: Claim, held: dict[str, ClaimState], there: set[str], sent: float
    ) -> Renewed:
        state = held.get(claim.id)
        if state is None:
            return Renewal.LOST
        until = self.shared.vouches(state)
        if until == 0:
            return Renewal.UNKNOWN  # the end of a lease is told to all, and not as a break
        if claim.id not in there:
            return Renewal.LOST
        if until <= self.now():
            return Renewal.UNKNOWN
        full = pacing.validity(sent, claim.ttl or self.max_ttl)
        return Renewal.HELD if until >= full else HeldUntil(until)

    # Release.

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        shared = self.shared
        state = shared.states.get(claim.id)
        if state is not None and (shared.closed or not shared.lives(state)):
            state.forget_watches()
            shared.states.pop(claim.id, None)
            return False  # its lease is gone, and all that was or will be put with it
        if shared.closed:
            return False
        bar: list[Operation] = []
        if outcome_unknown:
            tombstone = key_names.gone(shared.settings.root, claim)
            bar = [Put(tombstone, b"", await self.lease_aside())]
        if state is None:
            return await self._release_unknown(claim, bar)
        state.forget_watches()
        compares = key_swaps.still_ours(state)
        reply = await self.transact(compares, [*bar, Delete(state.key)], bar)
        shared.over(state, key_gone=reply.succeeded and not outcome_unknown)
        return state.granted and reply.succeeded

    async def _release_unknown(self, claim: Claim, bar: Sequence[Operation]) -> bool:
        """Release a claim of another client, or one that we have forgotten."""
        prefix = key_names.line(self.shared.settings.root, claim.key, claim.mode)
        everybody = Range(prefix, after(prefix))
        reply = await self.transact([], [*bar, everybody])
        for _ in range(TRIES):
            line = recipe.read(reply.answers[-1])
            own = recipe.find(line, claim.id)
            if own is None:
                return False
            held = zip(line, recipe.holding(line), strict=True)
            holds = next(holds for each, holds in held if each is own)
            unchanged = [modified(own.key, own.modified)]
            reply = await self.transact(unchanged, [Delete(own.key)], [everybody])
            if reply.succeeded:
                return holds
        message = "the key of a claim changed again and again while it was to be deleted"
        raise BackendUnavailable(message, key=claim.key, backend=self.name)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        return await all_or_none.release_all(self, claims, outcome_unknown=outcome_unknown)

    # Holds that change hands, and what people see.

    async def downgrade(self, claim: Claim) -> bool:
        return await key_swaps.downgrade(self, claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await key_swaps.detach(self, claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        state = await key_swaps.attach(self, detached, claim)
        if state is None:
            return None
        answer = await self.granted(state)
        if not isinstance(answer, Granted):
            raise self.unavailable()
        return answer

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        if not self.shared.closed:  # or else its key went with the lease
            await key_swaps.undo_attach(self, claim, detached)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await line_view.break_hold(self, key, raw, note)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await line_view.inspect_all(self, None)
        return await line_view.inspect(self, key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await line_view.inspect_all(self, prefix.removesuffix(":"))

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return Watch(self.shared.state_of(claim), signal())

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._is_the_callers = True
        self.shared.listen(on_notice)

    def held_key(self, claim: Claim) -> tuple[bytes, int] | None:
        """The key of a hold and its create revision, for the guard; None if it is over."""
        state = self.shared.holds(claim)
        return None if state is None else (state.key, state.created)

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- the whole cluster
        from locknut.backends.etcd import checkup  # few programs need it

        return checkup.checks(self.shared.settings.driver)

    # Its life.

    async def close(self) -> None:
        if self._leaving.detach() is not None and self.shared.leave(for_all=self._is_the_callers):
            await self.end()
        await self.link.close()

    def forked(self) -> None:
        self._leaving.detach()
        self.shared.forked()
        self.link.forked()

    def dropped(self) -> None:
        self.link.dropped()
