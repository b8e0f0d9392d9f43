"""A text that many processes change one after the other: what a barrier or a latch stands on.

Every engine keeps a text with each hold, which says who holds it. The register is such a hold, that
nobody has and nobody waits for. To change it is `attach`, a compare-and-swap of the claim's id and
of the text with it: whoever read an older text changes nothing. A command whose answer was lost is
asked again with the same ids, and one that arrives late finds its old id gone.
docs/decisions/0029-barriers.md says why no engine needed a new command for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from locknut.core import pacing, validation
from locknut.core.runtime_port import NEVER
from locknut.core.values import Capability, Claim, Granted, Mode
from locknut.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from locknut.core.client import Client

T = TypeVar("T")
NEEDS: Final = (Capability.LEASE, Capability.DETACHING, Capability.PERMITS)
ADVICE: Final = "; barriers and latches work on memory:, redis:, postgresql:, mysql: and sqlite:"


class Seen(NamedTuple):
    """What the register said when it was read."""

    id: str
    """Of the claim that it stands under; who changes it names this one."""
    facts: Sequence[Any]


def check_engine(client: Client) -> None:
    """Refuse an engine whose holds go with their process, or whose texts are cut short."""
    for each in NEEDS:
        validation.has(client.backend, each, ADVICE)


class Register:
    """One register, by its key; `kind` is the word that people see before its text."""

    def __init__(self, client: Client, name: str, kind: str, ttl: float):
        self._client = client
        self._key = f"{client.prefix}{name}@{kind}"
        self._kind = kind
        self.ttl = min(ttl, client.backend.max_ttl)
        self.in_doubt = False
        """Whether the last change, which seems to have failed, may have been made: an answer was
        lost, and others went on from there. What is read next has to show it."""
        self._lost = 0

    async def read(self) -> Seen | None:
        """Return what it says; None if there is none."""
        backend = self._client.backend
        found = await self._insist(lambda: backend.inspect_holders(self._key))
        if not found or not found[0].holders:
            return None
        kind, _, text = found[0].holders[0].who.partition(" ")
        try:
            claim_id, *facts = json.loads(text if kind == self._kind else "[]")
        except ValueError:
            message = f"somebody holds a lock of the name that this {self._kind} is kept under"
            raise BackendError(message, key=self._key, backend=backend.name) from None
        return Seen(claim_id, facts)

    async def create(self, facts: Sequence[object]) -> bool:
        """Begin it; False if somebody else was first, but see `in_doubt`."""
        claim = self._claim(facts)
        lost = self._lost
        answer = await self._insist(lambda: self._client.backend.attempt(claim, 0.0))
        granted = isinstance(answer, Granted)
        self.in_doubt = not granted and self._lost > lost
        return granted

    async def swap(self, seen: Seen, facts: Sequence[object]) -> bool:
        """Change it, if it is still what was seen; but see `in_doubt`."""
        before, after = self._claim((), seen.id), self._claim(facts)
        lost = self._lost
        attached = await self._insist(lambda: self._client.backend.attach(before, after))
        self.in_doubt = attached is None and self._lost > lost
        return attached is not None

    async def keep(self, seen: Seen) -> None:
        """Let it live for its whole ttl from now on."""
        claim = self._claim((), seen.id)
        await self._insist(lambda: self._client.backend.renew([claim]))

    def _claim(self, facts: Sequence[object], claim_id: str = "") -> Claim:
        claim_id = claim_id or self._client.runtime.new_id()
        who = f"{self._kind} {json.dumps([claim_id, *facts], separators=(',', ':'))}"
        return Claim(self._key, claim_id, self.ttl, Mode.EXCLUSIVE, who=who, waits=False)

    async def _insist(self, command: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask, and ask again for as long as an engine that is out of reach is asked for a lock."""
        runtime = self._client.runtime
        give_up, tries = NEVER, 0
        while True:
            self._client.ensure_open()
            try:
                return await runtime.finish(command())
            except BackendUnavailable as error:
                now = runtime.now()
                if tries == 0:  # not before: one command alone may take as long as that
                    give_up = now + pacing.OUTAGE_PATIENCE
                self._lost += 1
                tries += 1
                again = now + pacing.backoff(tries, runtime.random())
                if again >= give_up:
                    error.placed(self._client.bare(self._key), self._client.backend.name)
                    raise
            await runtime.signal().wait(again)


class Pauses:
    """How long to sleep between two looks: the longer it takes, the longer; and never in step."""

    FIRST = 0.01
    MOST = 0.25

    def __init__(self, client: Client, until: float):
        self._client = client
        self._until = until
        self._pause = self.FIRST

    async def sleep(self) -> None:
        runtime, signal = self._client.runtime, self._client.runtime.signal()
        again = runtime.now() + self._pause * (0.5 + runtime.random() / 2)
        self._pause = min(self.MOST, self._pause * 1.5)
        with self._client.awake(signal):
            await signal.wait(min(again, self._until))
