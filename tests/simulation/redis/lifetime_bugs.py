"""Holds and places that last too short or too long: detached ones, and where a clock was set
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from locknut.backends.redis.backend import RedisBackend
from locknut.core.values import Claim
from tests.simulation.bugs import Bug
from tests.simulation.network import Faults
from tests.simulation.redis.bug_kinds import believed, scripted
from tests.simulation.redis.engine import REDIS
from tests.simulation.redis.faults import Edit, RedisFaults
from tests.simulation.redis.node import RedisNode
from tests.simulation.redis.sync import SimConfirmed
from tests.simulation.sizes import FULL
from tests.simulation.variant import Patch


@dataclass(frozen=True, slots=True)
class ClockFaults(RedisFaults):
    """What is not in a swarm: a step that lasts for longer than a run."""

    clock_set_far_back: float = 0.0
    """By half a minute or more: what nobody cuts down outlives everybody."""


class Stepping(RedisNode):
    """A server whose clock is set back by more than a little."""

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        yield from super().strikes(faults)
        if isinstance(faults, ClockFaults):
            yield faults.clock_set_far_back, self._set_far_back

    def _set_far_back(self) -> None:
        self.step_back(self.world.random.uniform(30.0, 60.0))


CONFIRMED = replace(REDIS, backend=SimConfirmed)


def released_instead(_: object) -> Callable[..., Any]:
    """Who gives an attach up releases what it may have taken over."""

    async def undo_attach(backend: RedisBackend, claim: Claim, _: Claim) -> None:
        await backend.release(claim, outcome_unknown=True)

    return undo_attach


_STEPS = ClockFaults(clock_set_far_back=0.5)
_DEAD = ClockFaults(clock_set_far_back=0.5, processes_crash=0.7)
_SLOW = RedisFaults(slow=0.9)
_SET_BACK = replace(REDIS, node=Stepping)
_IN_TURN = replace(_SET_BACK, assumptions=replace(REDIS.assumptions, fifo_amid_faults=True))
_PATIENT = replace(
    CONFIRMED,
    ttls=(1.5,),
    assumptions=replace(REDIS.assumptions, detached_again_within=1.5),
)
"""The ttl outlasts the way back, though messages are slow."""
_ALL_ALONG = replace(FULL, disturbed=40.0, calm=0.0, busy=44.0)
"""Long enough for parcels to be detached, given up and attached while somebody is cancelled."""

LASTING: dict[str, Bug] = {
    "redis-renewal-shortens-what-is-detached": scripted(
        Edit(
            "renew",
            "if detaches or redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then",
            "if true then",
        ),
        rules="d",
        faults=_SLOW,
        only=("parcel",),
    ),
    "redis-attach-given-up-releases": believed(
        Patch(RedisBackend, "undo_attach", released_instead),
        rules="d",
        faults=RedisFaults(tasks_cancelled=2.5, replicas_behind=0.3, slow=0.5),
        only=("parcel",),
        sound=_PATIENT,
    )._replace(size=_ALL_ALONG),
    "redis-dead-holder-outlives-a-step": scripted(
        Edit("acquire", "if most and left > most then", "if false then"),
        Edit("attend", "if most and redis.call('pttl', HOLD) > most then", "if false then"),
        rules="fg",
        faults=_DEAD,
        sound=_SET_BACK,
    ),
    "redis-dead-owner-outlives-a-step": scripted(
        Edit("attend", "if not most or tonumber(last[2]) <= now + most then", "if true then"),
        rules="fg",
        faults=_DEAD,
        only=("owned",),
        sound=_SET_BACK,
    ),
    "redis-dead-waiters-have-a-turn-after-a-step": scripted(
        Edit(
            "*",
            "ipairs(redis.call('zrangebyscore', ALIVE, now + SILENCE, '+inf'))",
            "ipairs({client})",
        ),
        rules="f",
        faults=_DEAD,
        sound=_SET_BACK,
    ),
    "redis-place-is-the-clock": scripted(
        Edit(
            "acquire",
            "math.max(time[1] * 1000000 + time[2], last + 1)",
            "time[1] * 1000000 + time[2]",
        ),
        rules="f",
        faults=_STEPS,
        only=("fair",),
        sound=_IN_TURN,
    ),
}
