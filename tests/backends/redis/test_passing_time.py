"""Time goes on while a script runs, as in Redis before 7.2: what runs out right then is no error.

There a script finds every key that was alive when it began, but `PEXPIREAT` judges by the clock as
it is: a hold of readers may be gone in the middle of the very step that prolongs it.
"""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from locknut.backends.redis import scripts
from tests.simulation.redis import commands
from tests.simulation.redis.keys import Keys
from tests.simulation.redis.lua import Lua

pytestmark = pytest.mark.redis
NAMES = [f"t:{{x}}{part}".encode() for part in ("", ":fence", ":alive", ":line", ":info")]
LUA = Lua()
SHOWN = "17000000000000030000[]"
HELD = 100
"""Milliseconds that the readers have; each command takes one."""


class Passing(Keys):
    """Every command takes a millisecond; a script finds what was there when it began."""

    def __init__(self) -> None:
        self.micros = 1_700_000_000_000_000
        self.began = 0
        super().__init__(lambda: self.micros)

    def has(self, name: bytes) -> bool:
        end = self.end(name)
        if end is not None and self.began > end:
            self.drop(name)
        return name in self._values

    def run(self, verb: str, *argv: str) -> Any:
        self.began = self.now
        text = getattr(scripts, verb.upper()).text
        return LUA.run(text, NAMES, [word.encode() for word in argv], self._command)

    def _command(self, words: list[bytes]) -> Any:
        self.micros += 1000
        return 0 if words[0] == b"publish" else commands.run(self, words)

    def acquire(self, who: str, mode: str, ttl: int) -> Any:
        return self.run("acquire", who + SHOWN, str(ttl), mode, "9", "l0", "client")


VERBS = {
    "another reader": lambda keys, _: keys.acquire(secrets.token_hex(16), "s", 1000),
    "a writer": lambda keys, _: keys.acquire(secrets.token_hex(16), "x", 1000),
    "the same again": lambda keys, reader: keys.acquire(reader, "s", 1),
    "renewed": lambda keys, reader: keys.run("renew", reader, "1", ""),
    "released": lambda keys, reader: keys.run("release", reader, "0"),
    "released, in doubt": lambda keys, reader: keys.run("release", reader, "60000"),
    "attended": lambda keys, reader: keys.run("attend", "client", reader),
    "looked at": lambda keys, _: keys.run("inspect", "", ""),
    "broken": lambda keys, _: keys.run("inspect", "", "break"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("waits", ["", "s", "x"])
def test_readers_may_run_out_in_any_step_of_a_script(verb: Any, waits: str) -> None:
    for before in range(HELD - 60, HELD + 5):
        keys, first, second = Passing(), secrets.token_hex(16), secrets.token_hex(16)
        assert keys.acquire(first, "s", HELD) > 0
        assert keys.acquire(second, "s", HELD + 3) > 0
        if waits:
            keys.acquire(secrets.token_hex(16), waits, 5)
        keys.micros += before * 1000
        verb(keys, first)
        assert keys.acquire(secrets.token_hex(16), "x", 30_000)  # granted, or in line
