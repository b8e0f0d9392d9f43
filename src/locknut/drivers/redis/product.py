"""Which product answers, and which version of it, as far as it says so: for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.drivers.redis import wire

QUESTIONS: Final = (wire.pack(b"HELLO"), wire.pack(b"INFO", b"server"))
_VERSION: Final = re.compile(r"^(?!gcc_|redis_)(\w+)_version:(\S+)", re.MULTILINE)
"""Products that descend from Redis call theirs after themselves, and keep `redis_version`, because
clients ask for that."""
_PROGRAM: Final = re.compile(r"^executable:\S*/(\S+)", re.MULTILINE)


def named(replies: Sequence[Any]) -> str:
    """What the answers come to: `redis 7.4.1`, `valkey 8.1.0 (as redis 7.2.4)`."""
    hello, info = replies
    if isinstance(hello, ReplyError) or not hello:
        return ""
    facts = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2], strict=True))
    server, version = (_text(facts.get(word)) for word in (b"server", b"version"))
    said = f"{server} {version}".strip()
    told = _text(info).replace("\r", "")  # an ACL may forbid it
    own = _VERSION.search(told)
    if own is not None:
        was = re.search(r"^redis_version:(\S+)", told, re.MULTILINE)
        return f"{own[1]} {own[2]}" + (f" (as redis {was[1]})" if was else "")
    program = _PROGRAM.search(told)
    if program is not None and server not in program[1]:
        return f"{said} ({program[1]})"
    return said


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
