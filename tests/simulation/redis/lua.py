"""Runs scripts as a Redis server does: Lua 5.1, `redis.call`, and its rules of conversion."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from lupa import lua51  # type: ignore[import-untyped]  # has no types

from tests.simulation.redis.commands import Status
from tests.simulation.redis.keys import Refused

_WORLD = """
function(ask, sha1hex)
  redis = {
    pcall = ask,
    call = function(...)
      local answer = ask(...)
      if type(answer) == 'table' and answer.err then error(answer, 0) end
      return answer
    end,
    error_reply = function(text) return {err = text} end,
    status_reply = function(text) return {ok = text} end,
    sha1hex = sha1hex,
  }
  os, io, python, require, package, dofile, loadfile, print = nil
  setmetatable(_G, {
    __newindex = function(_, name) error('Script attempted to set global variable ' .. name, 2) end,
    __index = function(_, name) error('Script attempted to access nonexistent global variable '
                                      .. tostring(name), 2) end,
  })
end
"""
_RUN = """
function(script, keys, argv)
  local done, answer = pcall(script, keys, argv)
  if done then return answer end
  if type(answer) == 'table' then return answer end
  return {err = 'ERR ' .. tostring(answer)}
end
"""


class Lua:
    """One interpreter; scripts are compiled once."""

    def __init__(self) -> None:
        self._runtime = lua51.LuaRuntime(encoding=None, register_eval=False)
        self._table = self._runtime.table_from
        self._is_table = lua51.lua_type
        self._run = self._runtime.eval(_RUN.encode())
        self._compiled: dict[bytes, Any] = {}
        self._command: Callable[[list[bytes]], Any] = _nobody
        self._runtime.eval(_WORLD.encode())(self._ask, _sha1hex)

    def run(
        self,
        text: bytes,
        keys: Sequence[bytes],
        argv: Sequence[bytes],
        command: Callable[[list[bytes]], Any],
    ) -> Any:
        """The script's answer; `command` does what `redis.call` asks for, and may refuse."""
        script = self._compiled.get(text)
        if script is None:
            source = b"function(KEYS, ARGV) " + text + b"\nend"
            script = self._compiled[text] = self._runtime.eval(source)
        self._command = command
        try:
            return self._answer(self._run(script, self._table(keys), self._table(argv)), text)
        finally:
            self._command = _nobody

    def _ask(self, *words: Any) -> Any:
        try:
            return self._to_lua(self._command([_word(word) for word in words]))
        except Refused as error:
            return self._table({b"err": str(error).encode()})

    def _to_lua(self, answer: Any) -> Any:
        if answer is None:
            return False
        if type(answer) is list:
            return self._table([self._to_lua(each) for each in answer])
        if type(answer) is Status:
            return self._table({b"ok": answer.text.encode()})
        return answer

    def _answer(self, value: Any, text: bytes) -> Any:
        if value is None or value is False:
            return None
        if value is True:
            return 1
        if isinstance(value, float):
            return int(value)
        if self._is_table(value) != "table":
            return value
        if value[b"err"] is not None:
            sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
            raise Refused(f"{value[b'err'].decode('utf-8', 'replace')} script: {sha}")
        if value[b"ok"] is not None:
            return Status(value[b"ok"].decode())
        found, at = [], 1
        while (each := value[at]) is not None:
            found.append(self._answer(each, text))
            at += 1
        return found


def _word(value: Any) -> bytes:
    """As the server writes what a script gives to a command."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("ERR Lua redis lib command arguments must be strings or integers")
    return b"%d" % value if value == int(value) else b"%.17g" % value


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()


def _nobody(_: list[bytes]) -> Any:
    raise AssertionError("no script is running")
