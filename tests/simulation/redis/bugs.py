"""Bugs put into the production scripts, and into what clients believe: each must be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hiredis import Reader

from locknut.backends.redis import server_port
from locknut.backends.redis.scripts import RELEASE
from locknut.backends.redis.server_port import Server, ask_many, checked
from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.drivers.redis.confirmations import Unconfirmed
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.wire import pack
from tests.simulation.bugs import Bug
from tests.simulation.redis.bug_kinds import believed, scripted
from tests.simulation.redis.client_end import now
from tests.simulation.redis.failover_bugs import SUCCESSION
from tests.simulation.redis.faults import Edit, RedisFaults
from tests.simulation.redis.lifetime_bugs import CONFIRMED, LASTING
from tests.simulation.variant import Patch


def counted_from_delivery(take_message: Callable[..., bool]) -> Callable[..., bool]:
    """A pushed grant counts from when it is read (S1)."""

    def counted(waiting: WaitingClaim, message: bytes, _: float) -> bool:
        return take_message(waiting, message, now())

    return counted


def given_back_and_asked_for_again(_: object) -> Callable[..., Any]:
    """What too few replicas have got is released, and its claim asked for once more (S7)."""

    async def ask(server: Server, script: Script, packed: bytes, granted: type) -> Any:
        (reply,) = await ask_many(server, script, [packed], server.send_confirmed)
        if not isinstance(reply, Unconfirmed):
            return checked(server, reply)
        if not isinstance(reply.reply, granted) or not reply.reply:
            return reply.reply
        reader = Reader()
        reader.feed(packed)
        words = reader.gets()
        keys, claim = words[3:8], words[8]
        await server.ask(RELEASE, pack(b"EVALSHA", RELEASE.sha, b"5", *keys, claim[:32], b"0"))
        raise reply

    return ask


_LATE = RedisFaults(late=0.1)
_LOSSY = RedisFaults(request_lost=0.05, reply_lost=0.08, late=0.02, slow=0.1)
_STOPS = RedisFaults(processes_stop=0.8, slow=0.2)
_CRASHES = RedisFaults(processes_crash=1.5)
_OLDER = RedisFaults(older_state=0.5)
_CLOCK_AT_FIRST = Edit(
    "*",
    "local raw = math.max(tonumber(redis.call('get', key) or 0) + 1, clock)",
    "local raw = tonumber(redis.call('get', key) or clock - 1) + 1",
)

BUGS: dict[str, Bug] = {
    **LASTING,
    **SUCCESSION,
    "redis-grant-without-looking": scripted(
        Edit("acquire", "'NX', 'PX', ARGV[2]", "'PX', ARGV[2]"),
        rules="a",
    ),
    "redis-release-anybody": scripted(
        Edit("release", "redis.pcall('getrange', KEYS[1], 0, 31) == ARGV[1]", "true"),
        rules="ae",
        faults=_STOPS,
    ),
    "redis-renew-anybody": scripted(
        Edit("renew", "if redis.pcall('getrange', KEYS[1], 0, 31) == ARGV[1] then", "if true then"),
        rules="ae",
        faults=_STOPS,
    ),
    "redis-renewal-revives": scripted(
        Edit(
            "renew",
            "if redis.pcall(",
            "redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])\nif redis.pcall(",
        ),
        rules="ae",
        faults=RedisFaults(late=0.1, slow=0.4),
    ),
    "redis-retry-keeps-expiry": scripted(
        Edit("acquire", "    redis.call('pexpire', HOLD, ttl)\n", ""),
        rules="ad",
        faults=RedisFaults(reply_lost=0.1),
    ),
    "redis-no-tombstone": scripted(
        Edit("release", "  bury(id, tonumber(ARGV[2]))\n", ""), rules="g", faults=_LATE
    ),
    "redis-tombstone-ignored": scripted(
        Edit("acquire", "if tombstone and tonumber(tombstone) > now then", "if false then"),
        rules="g",
        faults=_LATE,
    ),
    "redis-stays-in-line": scripted(Edit("release", "  else\n    leave(id)\n", ""), rules="g"),
    "redis-count-of-entries": scripted(
        Edit(
            "acquire",
            "tonumber(redis.call('zscore', HOLD, id))), id)\n",
            "tonumber(redis.call('zscore', HOLD, id))), id)\n"
            "    redis.call('rpush', HOLD .. ':count', id)\n"
            "    redis.call('pexpire', HOLD .. ':count', '5000')\n",
        ),
        Edit(
            "release",
            "  if held then\n    redis.call('zrem', HOLD, id)\n",
            "  if held then\n"
            "    if redis.call('lpop', HOLD .. ':count') then return 1 end\n"
            "    redis.call('zrem', HOLD, id)\n",
        ),
        rules="fg",
        faults=_LOSSY,
        only=("owned",),
    ),
    "redis-attach-twice": scripted(
        Edit("attach", "redis.call('set', HOLD, ARGV[2], 'PX', ARGV[3])", "kind = kind"),
        rules="abd",
    ),
    "redis-fence-without-clock": scripted(
        Edit(
            "*", "local clock = math.floor((time[1] * 1000000 + time[2]) / 32)", "local clock = 0"
        ),
        rules="b",
        faults=RedisFaults(emptied=0.5),
    ),
    "redis-fence-is-the-clock": scripted(
        Edit("*", "tonumber(redis.call('get', key) or 0) + 1, clock)", "clock)"),
        rules="b",
        faults=RedisFaults(clock_set_back=0.5),
    ),
    "redis-clock-only-for-a-missing-fence": scripted(_CLOCK_AT_FIRST, rules="b", faults=_OLDER),
    "redis-clock-only-for-a-missing-fence-of-a-replica": scripted(
        _CLOCK_AT_FIRST, rules="b", faults=RedisFaults(lagging_replica=0.5)
    ),
    "redis-fence-kept-for-waiters": scripted(
        Edit(
            "*",
            "  kind, holder = 'string', id\n  return next_fence(FENCE, time, ttl)",
            "  kind, holder = 'string', id\n  return tonumber(redis.call('get', FENCE) or 1)",
        ),
        rules="b",
    ),
    "redis-expiry-by-clients-clock": scripted(
        Edit(
            "acquire",
            "local id, shown =",
            "now = string.sub(ARGV[1], 33, 42) * 1000\nlocal id, shown =",
        ),
        rules="abdefg",
        only=("shelf",),
    ),
    "redis-dead-heads-stay": scripted(
        Edit(
            "*",
            "if id == me or mode and alive(client) then",
            "if id == me or mode then",
        ),
        rules="fg",
        faults=_CRASHES,
        only=("fair",),
    ),
    "redis-nobody-settles": scripted(
        Edit("acquire", "  settle(id)\n", ""),
        Edit("acquire", "(rejoins or not first or first == id)", "(rejoins or not first)"),
        Edit("attend", "settle()\nfor", "for"),
        Edit("renew", "settle()\n", ""),
        rules="f",
        faults=RedisFaults(processes_crash=3.0, connections_cut=3.0, slow=0.1),
        only=("fair",),
    ),
    "redis-client-dead-too-soon": scripted(
        Edit("*", "local SILENCE = 3000", "local SILENCE = 300"),
        rules="f",
        only=("fair",),
    ),
    "redis-last-come-first-served": scripted(
        Edit(
            "*",
            "local id = redis.call('zrange', LINE, 0, 0)[1]",
            "local id = redis.call('zrange', LINE, -1, -1)[1]",
        ),
        rules="f",
        only=("fair",),
    ),
    "redis-one-permit-too-many": scripted(
        Edit("*", "redis.call('zcard', HOLD) < limit", "redis.call('zcard', HOLD) <= limit"),
        rules="a",
        only=("permits",),
    ),
    "redis-reader-beside-writer": scripted(
        Edit("acquire", "and holder ~= id then", "and holder ~= id and ARGV[3] ~= 's' then"),
        Edit("acquire", "settle(id)\n  if kind ~= 'string' then", "settle(id)\n  if true then"),
        Edit("*", "  if kind == 'none' then\n", "  if kind == 'none' or mode == 's' then\n"),
        Edit(
            "*",
            "local function put(id, mode, ttl, raw, limit, shown)\n",
            "local function put(id, mode, ttl, raw, limit, shown)\n"
            "  if kind == 'string' then redis.call('del', HOLD) end\n",
        ),
        rules="ae",
        only=("shelf",),
    ),
    "redis-all-without-looking": scripted(
        Edit("gather", "local free, refused = all(false)", "local free, refused = true, nil"),
        rules="a",
        only=("pair",),
    ),
    "redis-all-forgets-the-line": scripted(
        Edit(
            "gather", "(rejoins or redis.call('exists', LINE) == 0) and fits(mode, limit)", "true"
        ),
        rules="abdef",
        only=("pair", "twin"),
    ),
    "redis-all-tombstone-ignored": scripted(
        Edit("gather", "    if buried(id) then\n      return false\n    end\n", ""),
        rules="g",
        faults=_LATE,
        only=("pair",),
    ),
    "redis-let-in-not-kept": scripted(
        Edit(
            "acquire",
            "  if let_in(me) and kind == 'zset' then\n",
            "  if let_in(me) and false then\n",
        ),
        rules="ae",
        faults=_CRASHES,
        only=("permits",),
    ),
    "redis-grant-shorter-than-believed": scripted(
        Edit("*", "local GRANT = 3000", "local GRANT = 300"),
        rules="a",
        faults=_STOPS,
    ),
    "redis-asked-for-after-its-release": believed(
        Patch(server_port, "ask_confirmed", given_back_and_asked_for_again),
        rules="ag",
        faults=RedisFaults(replicas_behind=0.3, late=0.03),
        only=("mutex",),
        sound=CONFIRMED,
    ),
    "redis-lost-place-not-noticed": scripted(
        Edit("attend", "    lost = 1\n", "    lost = 0\n"),
        rules="fg",
        faults=RedisFaults(emptied=0.5, keys_deleted=1.0),
        only=("fair",),
    ),
    "redis-push-from-delivery": believed(
        Patch(WaitingClaim, "take_message", counted_from_delivery),
        rules="ad",
        faults=_STOPS,
        only=("fair", "mutex"),
    ),
}
