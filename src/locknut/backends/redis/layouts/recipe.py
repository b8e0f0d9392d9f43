"""What is sent for each verb in a foreign layout, and what the answers mean."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from locknut.backends.redis import recipe
from locknut.backends.redis.layouts.foreign_layout import CLAIMS, Layout, beside
from locknut.core.values import Claim, Holder, LockInfo
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.wire import pack


class ForeignRecipe:
    """Makes commands. The key of a claim is the name of its lock in the database, as it is."""

    def __init__(self, layout: Layout, ours: recipe.Recipe):
        self._layout = layout
        self._ours = ours

    def acquire(self, claim: Claim) -> bytes:
        ttl = recipe._milliseconds(claim.ttl or recipe.DEFAULT_TTL)
        fair = b"" if not claim.fair else b"wait" if claim.waits else b"try"
        terms = ttl, _mode(claim), self.mark(claim), self._shown(claim), fair
        return self._verb(self._layout.scripts.acquire, claim, *terms)

    def release(self, claim: Claim, *, outcome_unknown: bool) -> bytes:
        stone = recipe._milliseconds(recipe.TOMBSTONE) if outcome_unknown else b"0"
        return self._verb(self._layout.scripts.release, claim, stone, self.mark(claim))

    def renew(self, claim: Claim) -> bytes:
        left = recipe._milliseconds(claim.ttl or recipe.DEFAULT_TTL)
        return self._set_time(claim, left, b"")

    def detach(self, claim: Claim, ttl: float) -> bytes:
        return self._set_time(claim, recipe._milliseconds(ttl), b"detach")

    def _set_time(self, claim: Claim, left: bytes, how: bytes) -> bytes:
        note = _notes(claim.key.encode()) + claim.id.encode()
        return self._verb(self._layout.scripts.renew, claim, left, how, note)

    def attach(self, detached: Claim, claim: Claim) -> bytes:
        return self._swap(detached, claim, b"")

    def undo_attach(self, claim: Claim, detached: Claim) -> bytes:
        return self._swap(claim, detached, b"back")

    def _swap(self, old: Claim, new: Claim, how: bytes) -> bytes:
        ttl = recipe._milliseconds(new.ttl or recipe.DEFAULT_TTL)
        stone = recipe._milliseconds(recipe.TOMBSTONE)
        terms = ttl, old.id.encode(), self._shown(new), stone, how
        return self._verb(self._layout.scripts.attach, new, *terms, also=_stone(old))

    def inspect(self, name: str) -> bytes:
        return self._look(name.encode(), b"", b"", b"")

    def break_hold(self, name: str, raw: int | None, note: str) -> bytes:
        only = b"" if raw is None else b"%d" % raw
        return self._look(name.encode(), only, b"break", note.encode())

    def mark(self, claim: Claim) -> bytes:
        return self._layout.mark(claim.id)

    def ear(self, claim: Claim) -> bytes:
        return self._layout.ear(claim.key.encode(), self.mark(claim), fair=claim.fair)

    def seen(self, name: str, reply: Any) -> LockInfo | None:
        """The answer of `inspect`; None if nobody holds the lock."""
        holders = tuple(self._holder(*each) for each in reply)
        return LockInfo(name, holders) if holders else None

    def _holder(self, mode: bytes, raw: int, left: int, shown: bytes) -> Holder:
        ttl_left = left / 1000 if left >= 0 else None
        if mode == b"?":
            return self._layout.stranger(shown)._replace(ttl_left=ttl_left)
        step = self._layout.key_policy.fence_step
        person = recipe.person(mode, shown)
        return person._replace(raw=raw, ttl_left=ttl_left, fence_step=step)

    def _shown(self, claim: Claim) -> bytes:
        return self._ours.value(claim)[len(claim.id) :]

    def _look(self, name: bytes, *terms: bytes) -> bytes:
        claims = beside(CLAIMS, name)  # nobody's tombstone is looked at
        return self._call(self._layout.scripts.inspect, name, (claims,), (*terms, _notes(name)))

    def _verb(self, script: Script, claim: Claim, *terms: bytes, also: bytes = b"") -> bytes:
        stones = (_stone(claim), also) if also else (_stone(claim),)
        return self._call(script, claim.key.encode(), stones, (claim.id.encode(), *terms))

    def _call(
        self, script: Script, name: bytes, stones: tuple[bytes, ...], terms: tuple[bytes, ...]
    ) -> bytes:
        hold, fence, claims, *rest = self._layout.keys(name)
        keys = (hold, fence, claims, stones[0], *rest, *stones[1:])
        channel = self._layout.channel(name)
        return pack(b"EVALSHA", script.sha, b"%d" % len(keys), *keys, *terms, channel)


def _mode(claim: Claim) -> bytes:
    return b"x" if claim.owner is None else b"o" + quote(claim.owner, safe="").encode()


def _stone(claim: Claim) -> bytes:
    """Where a claim is buried: a key of its own, that runs out by itself."""
    return beside(b"locknut_tombstone", claim.key.encode()) + b":" + claim.id.encode()


def _notes(name: bytes) -> bytes:
    """What the key of a note to a holder begins with; the claim's id follows."""
    return beside(b"locknut_broken", name) + b":"
