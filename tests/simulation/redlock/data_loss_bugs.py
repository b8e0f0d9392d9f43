"""Redlocks whose nodes do not know what they lost, what time it is, or whose they are."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.bugs import Bug
from tests.simulation.redis.faults import Edit
from tests.simulation.redlock.bug_kinds import WAIT, naive
from tests.simulation.redlock.faults import RedlockFaults
from tests.simulation.sizes import BOUT

_FORGETS = RedlockFaults(engine_restarts=0.8, data_lost=1.0, emptied=0.5, slow=0.05)
_EAGER = replace(BOUT, rest=0.1, rounds=20)
_BUSY = replace(BOUT, processes=(6,), rest=0.2, rounds=30)
"""Nodes are asked all the time, and of several names each is often free: the short way."""
_SAME = "local same = marker[1] and (marker[1] == run or marker[1] == reported('server', 'run_id'))"
_HISTORY = "or known[3] ~= reported('replication', 'master_replid')"
_BOTH_CLOCKS = "tonumber(began) + wait - now, first + wait - shows"
_OWN_CLOCK = "tonumber(began) + wait - now, 0"
_BEGAN = "'began', text(now)"
_UPTIME = "'began', text(now - reported('server', 'uptime_in_seconds') * 1000)"
_NUMBERS = ("vote", "raise")
_ABSURD = "if number <= math.max(least, steps - LEAD) or number >"
_FLOOR = "tonumber(redis.call('hget', MARKER, 'floor') or 0)"
_TOO_SMALL = "math.max(least, steps - LEAD)\n"

FORGETFUL: dict[str, Bug] = {
    "redlock-no-quarantine": naive(
        Edit("vote", "if hindered < 0 then", "if false then"),
        rules="a",
        faults=_FORGETS,
        only=("grip",),
    ),
    "redlock-quarantine-too-short": naive(
        Edit("watch", "return max_ttl * 1.02", "return 300"),
        rules="a",
        faults=_FORGETS,
        only=("grip",),
    ),
    "redlock-flushed-and-not-noticed": naive(
        Edit("vote", "if trusted and not marker[6] then", "if true then"),
        rules="a",
        faults=RedlockFaults(emptied=2.0),
        only=("grip",),
        size=BOUT,
    ),
    "redlock-marker-of-another-run": naive(
        Edit("vote", _SAME, "local same = marker[1]"),
        Edit("*", _HISTORY, ""),
        rules="a",
        faults=RedlockFaults(engine_restarts=0.6, data_lost=1.0, snapshots=5.0, cut_off=0.3),
        only=("grip",),
        size=_EAGER,
    ),
    "redlock-history-not-looked-at": naive(
        Edit("*", _HISTORY, ""),
        rules="a",
        faults=RedlockFaults(resyncs=1.0, snapshots=3.0, slow=0.05),
        only=("grip",),
    ),
    "redlock-uptime-counts": naive(
        Edit("vote", _BEGAN, _UPTIME),
        Edit("watch", _BOTH_CLOCKS, _OWN_CLOCK),
        rules="a",
        faults=RedlockFaults(swaps=1.0, slow=0.05),
        only=("grip",),
        size=BOUT,
    ),
    "redlock-quarantine-by-its-own-clock": naive(
        Edit("watch", _BOTH_CLOCKS, _OWN_CLOCK),
        rules="a",
        faults=RedlockFaults(boots_behind=0.6, cut_off=0.7, processes_crash=0.6),
        only=("grip",),
        size=BOUT,
    ),
    "redlock-clock-that-came-back": naive(
        Edit("*", "clock > seen + OFTEN or clock < seen - BACK)", "clock > seen + OFTEN)"),
        rules="a",
        faults=RedlockFaults(clock_returns=1.0, cut_off=0.7, processes_crash=0.6),
        only=("grip",),
        size=BOUT,
    ),
    "redlock-any-list-of-nodes": naive(
        Edit("vote", "if marker[2] and marker[2] ~= set then", "if false then"),
        rules="a",
        faults=RedlockFaults(other_lists=0.5, request_lost=0.2),
        only=("grip",),
    ),
    "redlock-no-number-above-the-floor": naive(
        *(Edit(verb, _ABSURD, f"if steps > {_FLOOR} or {_ABSURD[3:]}") for verb in _NUMBERS),
        rules="f",
        faults=RedlockFaults(),
        size=WAIT,
    ),
    "redlock-number-forgotten-on-the-short-way": naive(
        Edit("vote", "number * 32) / 1000 + 86400000)", "number * 32) / 1000)"),
        rules="b",
        faults=RedlockFaults(),
        only=("mutex", "twin", "owned", "shelf"),
        size=_BUSY,
    ),
    "redlock-tells-what-is-too-small": naive(
        *(Edit(verb, "math.max(least, steps)\n", _TOO_SMALL) for verb in _NUMBERS),
        rules="f",
        faults=RedlockFaults(),
        size=WAIT,
    ),
}
