"""The simulator's server answers as real ones do: random commands and scripts, played to both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from locknut.backends.redis import scripts
from tests.servers.redis import RedisServer
from tests.servers.resp import Refused, Wire
from tests.simulation.redis import commands
from tests.simulation.redis.commands import COMMANDS, Status
from tests.simulation.redis.keys import Keys
from tests.simulation.redis.keys import Refused as MiniRefused
from tests.simulation.redis.lua import Lua

pytestmark = pytest.mark.redis

NEAR = 2500
"""Milliseconds by which the two clocks may differ, on a busy machine."""
EXAMPLES = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LUA = Lua()


class Mini:
    """The imitation, alone."""

    def __init__(self) -> None:
        self.micros = 0
        self.keys = Keys(lambda: self.micros)

    def do(self, *words: bytes) -> Any:
        try:
            return _plain(self._command(list(words)))
        except MiniRefused as error:
            return _refusal(str(error))

    def run(self, text: bytes, names: list[bytes], argv: list[bytes]) -> Any:
        try:
            return _plain(LUA.run(text, names, argv, self._command))
        except MiniRefused as error:
            return _refusal(str(error))

    def _command(self, words: list[bytes]) -> Any:
        return 0 if words[0] == b"publish" else commands.run(self.keys, words)

    def follow(self, other: Real) -> None:
        """Its clock shows what the other's does: for both a later millisecond than any before."""
        before = other.micros()
        while (now := other.micros()) // 1000 <= before // 1000:
            pass
        self.micros = now

    def wait_for_the_end_of(self, _: bytes) -> None:
        self.micros += 2_000


class Real:
    """A server."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def do(self, *words: bytes) -> Any:
        try:
            return self._wire.ask(*words)
        except Refused as error:
            return _refusal(str(error))

    def micros(self) -> int:
        seconds, micros = self.do(b"TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def run(self, text: bytes, names: list[bytes], argv: list[bytes]) -> Any:
        return self.do(b"EVAL", text, b"%d" % len(names), *names, *argv)

    def wait_for_the_end_of(self, name: bytes) -> None:
        while self.do(b"EXISTS", name):
            pass


def _plain(answer: Any) -> Any:
    if isinstance(answer, Status):
        return answer.text.encode()
    return [_plain(each) for each in answer] if isinstance(answer, list) else answer


def _refusal(text: str) -> str:
    """The part that both say; where in the script it was is each one's own affair."""
    return "refused: " + re.split(r" script: |, on @user_script", text)[0].removeprefix("ERR ")


@pytest.fixture(params=["redis_server", "valkey_server"])
def real(request: pytest.FixtureRequest) -> Iterator[Real]:
    server: RedisServer = request.getfixturevalue(request.param)
    with server.connect() as wire:
        yield Real(wire)
        server.flushall()


EACH = [b"{k}1", b"{k}2"]
NAMES = st.sampled_from(EACH)
WORDS = st.sampled_from([b"", b"a", b"b", b"abc", b"7", b"-12", b"a\r\n\0\xff"])
NUMBERS = st.sampled_from([b"0", b"1", b"-1", b"3", b"1794777600000", b"1794777600000123"])
PLACES = st.sampled_from([b"0", b"1", b"-1", b"-2", b"5", b"-9"])
LONG = st.sampled_from([b"100000", b"0", b"-5", b"x"])

PLAYED: dict[str, list[st.SearchStrategy[bytes]]] = {
    "exists": [NAMES], "del": [NAMES], "type": [NAMES], "pttl": [NAMES],
    "pexpire": [NAMES, LONG],
    "pexpireat": [NAMES, st.sampled_from([b"1", b"99999999999999", b"1.5"])],
    "time": [], "flushall": [],
    "get": [NAMES], "set": [NAMES, WORDS], "getrange": [NAMES, PLACES, PLACES], "incr": [NAMES],
    "hset": [NAMES, WORDS, WORDS], "hget": [NAMES, WORDS], "hdel": [NAMES, WORDS],
    "hgetall": [NAMES], "hmget": [NAMES, WORDS, WORDS],
    "zadd": [NAMES, NUMBERS, WORDS], "zrem": [NAMES, WORDS], "zcard": [NAMES],
    "zscore": [NAMES, WORDS], "zrank": [NAMES, WORDS], "zrange": [NAMES, PLACES, PLACES],
    "zrangebyscore": [NAMES, st.sampled_from([b"-inf", b"0"]), NUMBERS],
    "rpush": [NAMES, WORDS], "lpop": [NAMES], "lrange": [NAMES, PLACES, PLACES],
}  # fmt: skip
OTHERWISE = [
    st.tuples(st.just(b"set"), NAMES, WORDS, st.sampled_from([b"NX", b"XX", b"nx", b"?"])),
    st.tuples(st.just(b"set"), NAMES, WORDS, st.just(b"PX"), LONG),
    st.tuples(st.just(b"set"), NAMES, WORDS, st.just(b"NX"), st.just(b"PX"), LONG),
    st.tuples(st.just(b"zadd"), NAMES, st.sampled_from([b"NX", b"XX"]), NUMBERS, WORDS),
    st.tuples(st.just(b"zadd"), NAMES, st.sampled_from([b"x", b"nan"]), WORDS),
    st.tuples(st.just(b"zrange"), NAMES, PLACES, PLACES, st.just(b"WITHSCORES")),
    st.tuples(st.just(b"run out"), NAMES),
]
SEQUENCES = st.lists(
    st.one_of(
        *(st.tuples(st.just(name.encode()), *words) for name, words in PLAYED.items()),
        *OTHERWISE,
    ),
    min_size=10,
    max_size=60,
)
CALLED = b"""
local answer = redis.pcall(unpack(ARGV))
if type(answer) ~= 'table' then return {type(answer), answer} end
if answer.err or answer.ok then return {'table', answer.err or answer.ok} end
return {'list', answer}
"""


def test_every_command_is_played() -> None:
    assert set(PLAYED) == set(COMMANDS)


@EXAMPLES
@given(sequence=SEQUENCES)
@pytest.mark.slow
def test_random_commands(real: Real, sequence: list[tuple[bytes, ...]]) -> None:
    mini = Mini()
    real.do(b"FLUSHALL")
    for words in sequence:
        mini.follow(real)
        if words[0] == b"run out":
            assert mini.do(b"pexpire", words[1], b"1") == real.do(b"pexpire", words[1], b"1")
            for server in (mini, real):
                server.wait_for_the_end_of(words[1])
            continue
        if words[0] in {b"pttl", b"time"}:
            assert _near(mini.do(*words), real.do(*words)), words
        elif words[0] == b"hgetall":
            assert _pairs(mini.do(*words)) == _pairs(real.do(*words))
        else:
            assert mini.do(*words) == real.do(*words), words
            called = list(words)
            assert mini.run(CALLED, [words[-1]], called) == real.run(CALLED, [words[-1]], called)
        for name in EACH:
            assert mini.do(b"type", name) == real.do(b"type", name), words
            assert _near(mini.do(b"pttl", name), real.do(b"pttl", name)), words


def _pairs(answer: Any) -> Any:
    """A hash has no order."""
    if isinstance(answer, str):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))


def _near(one: Any, other: Any, within: float = NEAR) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and _near(int(one[0]), int(other[0]))
    if isinstance(one, int) and isinstance(other, int):
        return one == other if min(one, other) < 0 else abs(one - other) <= within
    return bool(one == other)


@pytest.mark.parametrize(
    "script",
    [
        "return {1, 2.9, -2.9, 'three', {4, {5}}, true, nil, 6}",
        "return {1, false, 3}",
        "return false", "return nil", "return true", "return 3.99", "return ''",
        "return redis.error_reply('MY mistake')", "return redis.status_reply('FINE')",
        "return {redis.call('get', KEYS[1])}",
        "return redis.call('zadd', KEYS[1], 1794777600000123, 'x')",
        "redis.call('zadd', KEYS[1], 1794777600000123, 0) return redis.call('zscore', KEYS[1], 0)",
        "redis.call('set', KEYS[1], 12345678901234567) return redis.call('get', KEYS[1])",
        "redis.call('set', KEYS[1], 'x') return redis.call('incr', KEYS[1])",
        "redis.call('set', KEYS[1], 'x') return redis.pcall('incr', KEYS[1])",
        "redis.call('set', KEYS[1], 'x') return redis.call('zadd', KEYS[1], 1, 'x')",
        "return {ARGV[1], #ARGV, #KEYS}",
        "return string.format('%.0f', 1794777600000123)",
        "return tostring(1794777600000123)",
        "return redis.call('type', KEYS[1])['ok']",
    ],
)  # fmt: skip
def test_what_a_script_answers(real: Real, script: str) -> None:
    mini = Mini()
    mini.follow(real)
    real.do(b"FLUSHALL")
    told = [server.run(script.encode(), [b"{k}"], [b"\xff\0"]) for server in (mini, real)]
    assert told[0] == told[1]
    assert mini.do(b"get", b"{k}") == real.do(b"get", b"{k}")


@pytest.mark.parametrize("script", ["x = 1", "return y", "return os.time()", "return nil .. 'x'"])
def test_what_a_script_may_not(real: Real, script: str) -> None:
    for server in (Mini(), real):
        assert str(server.run(script.encode(), [], [])).startswith("refused: ")


# The scripts themselves.

IDS = [letter * 32 for letter in "abcd"]
SHOWN = '17947776000000100000["host",1,"who","",null]'
LOCK = "t:{x}"
KEYS = [f"{LOCK}{part}".encode() for part in ("", ":fence", ":alive", ":line", ":info")]
OTHER = [key.replace(b"}", b"}y") for key in KEYS]
AHEAD = 90_000_000_000_000
"""A number that both clocks are behind, so that the next one is the same for both."""
Step = tuple[str, tuple[str, ...]]
ids = st.sampled_from(IDS)
ttls = st.sampled_from(["100000", "200000"])
modes = st.sampled_from(["x", "x", "s", "p", "oann", "obob"])
clients = st.sampled_from(["one", "other"])
inboxes = st.sampled_from(["l0", "l1", "cchannel"])


def _verb(name: str, *arguments: st.SearchStrategy[str]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.tuples(*arguments))


STEPS = st.one_of(
    *[_verb("acquire", ids, ttls, modes, st.sampled_from(["1", "2"]), inboxes, clients)] * 3,
    _verb("attend", clients, ids, ids),
    *[_verb("release", ids, st.sampled_from(["0", "0", "60000"]))] * 2,
    _verb("gather", ids, ids, ttls, modes),
    _verb("renew", ids, ttls, st.sampled_from(["", "detach"])),
    _verb(
        "attach",
        ids,
        ids,
        ttls,
        modes,
        st.sampled_from(["1", "2"]),
        st.just("60000"),
        st.sampled_from(["", "back"]),
    ),
    _verb("downgrade", ids),
    _verb(
        "inspect",
        st.sampled_from(["", f"{AHEAD + 1}", f"{AHEAD + 2}"]),
        st.sampled_from(["", "break"]),
    ),
    _verb("hold runs out"),
    _verb("holder runs out", ids),
    _verb("falls silent", clients),
    _verb("is deleted", st.sampled_from(["", ":alive", ":line", ":info"])),
)


@settings(EXAMPLES, max_examples=120)
@given(steps=st.lists(STEPS, min_size=6, max_size=30))
@pytest.mark.slow
def test_random_scripts(real: Real, steps: list[Step]) -> None:
    mini = Mini()
    mini.follow(real)
    for server in (mini, real):
        server.do(b"flushall")
        for name in (KEYS[1], OTHER[1]):
            server.do(b"set", name, b"%d" % AHEAD, b"PX", b"86400000")
    for step in steps:
        mini.follow(real)
        told = [_play(server, step) for server in (mini, real)]
        assert _same(*told), (step, told)
        seen = [_dump(server) for server in (mini, real)]
        assert seen[0].keys() == seen[1].keys(), step
        for name, mine in seen[0].items():
            assert _same(mine, seen[1][name]), (step, name, mine, seen[1][name])


def _play(server: Mini | Real, step: Step) -> Any:
    what, arguments = step
    words = [word.encode() for word in arguments]
    match what:
        case "hold runs out":
            gone = server.do(b"type", KEYS[0]) == b"string" and server.do(b"pexpire", KEYS[0], b"1")
            if gone:
                server.wait_for_the_end_of(KEYS[0])
            return gone
        case "holder runs out":
            return server.do(b"type", KEYS[0]) == b"zset" and server.do(
                b"zadd", KEYS[0], b"XX", b"1", words[0]
            )
        case "falls silent":
            return server.do(b"zadd", KEYS[2], b"XX", b"1", words[0])
        case "is deleted":
            return server.do(b"del", KEYS[0] + words[0])
        case "gather":
            one, other, *rest = (word.encode() for word in arguments)
            shown = SHOWN.encode()
            words = [one + shown, *rest, b"2", other + shown, rest[0], b"x", b"1"]
            return server.run(scripts.GATHER.text, [*KEYS, *OTHER], words)
        case "acquire":
            words[0] += SHOWN.encode()
        case "attach":
            words[1] += SHOWN.encode()
    return server.run(getattr(scripts, what.upper()).text, KEYS, words)


def _dump(server: Mini | Real) -> dict[bytes, Any]:
    """Everything there is under the names that the lock may use."""
    inboxes = [f"{LOCK}:inbox:{each[:16]}{n}".encode() for each in IDS for n in (0, 1)]
    found: dict[bytes, Any] = {}
    for name in [*KEYS, *OTHER, *inboxes]:
        kind = server.do(b"type", name)
        if kind != b"none":
            found[name] = [kind, LOOKS[kind](server, name), server.do(b"pttl", name)]
    return found


def _sorted_set(server: Mini | Real, name: bytes) -> Any:
    words = server.do(b"zrange", name, b"0", b"-1", b"WITHSCORES")
    return [[member, int(score)] for member, score in zip(words[::2], words[1::2], strict=True)]


LOOKS: dict[bytes, Callable[[Mini | Real, bytes], Any]] = {
    b"string": lambda server, name: server.do(b"get", name),
    b"zset": _sorted_set,
    b"hash": lambda server, name: sorted(_pairs(server.do(b"hgetall", name)).items()),
    b"list": lambda server, name: server.do(b"lrange", name, b"0", b"-1"),
}


def _same(one: Any, other: Any) -> bool:
    """Equal, but for what the clocks say: numbers near each other, and "since when" in a text."""
    match one, other:
        case (list() | tuple(), list() | tuple()):
            return len(one) == len(other) and all(map(_same, one, other))
        case int(), int():
            return _near(one, other, NEAR if max(one, other) < 1e14 else 1000 * NEAR)
        case bytes(), bytes():
            return _timeless(one) == _timeless(other)
    return bool(one == other)


def _timeless(text: bytes) -> bytes:
    return re.sub(rb"1[78]\d{8}(\d{10}\[)", rb"\1", text)


def test_a_fence_begins_at_the_clock(real: Real) -> None:
    mini = Mini()
    real.do(b"FLUSHALL")
    mini.follow(real)
    words = [IDS[0].encode() + SHOWN.encode(), b"100000", b"x", b"1", b"l0", b"client"]
    told = [server.run(scripts.ACQUIRE.text, KEYS, words) for server in (mini, real)]
    assert abs(told[0] - told[1]) <= NEAR * 1000 / 32
    assert [server.do(b"get", KEYS[1]) for server in (mini, real)] == [b"%d" % raw for raw in told]
