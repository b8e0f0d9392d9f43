"""How the command line speaks: one line per message, on stderr, never on the child's stdout.

Texts that others chose (names, labels) are shown with their control characters escaped, so that a
lock cannot write to somebody's terminal.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.cli import titles
from locknut.core import plain_text

if TYPE_CHECKING:
    from locknut import Holder

plain = plain_text.plain
"""The text, without anything that a terminal would obey."""


class Messenger:
    """Says what happened, as text or as one JSON object per line."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, as_json: bool = False):
        self.quiet = quiet
        self.verbose = verbose
        self.as_json = as_json
        self.hurried = False
        """While a command has to be watched, a reader that stops reading must not hold us up."""

    @property
    def chatty(self) -> bool:
        """Whether somebody is likely to watch: then waiting is worth a line."""
        return not self.quiet and (self.verbose or sys.stderr.isatty())

    def error(self, event: str, message: str, **facts: object) -> None:
        """What went wrong: shown always."""
        self._write(event, message, facts)

    def say(self, event: str, message: str, **facts: object) -> None:
        """What most people want to know: shown unless -q."""
        if not self.quiet:
            self._write(event, message, facts)

    def detail(self, event: str, message: str, **facts: object) -> None:
        """What happened on the way: shown with -v."""
        if self.verbose:
            self._write(event, message, facts)

    def _write(self, event: str, message: str, facts: dict[str, object]) -> None:
        if self.as_json:
            line = as_json({"event": event, "message": message, **facts})
        else:
            line = f"locknut: {plain(message)}"
        data = line.encode(errors="backslashreplace")
        if self.hurried:
            data = data[: select.PIPE_BUF - 1]
            if not _takes_a_line():
                return
        # One write, so that lines of several processes on one terminal do not mix; and a closed
        # stderr is no reason to fail.
        with suppress(OSError):
            os.write(2, data + b"\n")


def _takes_a_line() -> bool:
    """Whether stderr takes a line now: not a full pipe, nor a terminal that is stopped (Ctrl-S)."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(0))


def as_json(facts: object) -> str:
    """One line of JSON."""
    import json  # 3 ms that only --json pays

    return json.dumps(facts)


def quoted(name: str) -> str:
    """A lock's name inside a sentence."""
    return f'"{plain(name)}"'


def who(holder: Holder) -> str:
    """deploy@web-3:4121, as far as the engine knows."""
    name = titles.split(holder.label)[0] or holder.owner or holder.who
    place = holder.host if holder.pid is None else f"{holder.host}:{holder.pid}"
    return plain("@".join(part for part in (name, place) if part)) or "somebody"


def command(holder: Holder) -> str:
    """pg_dump orders: what a `locknut run` runs under the lock; empty for other holders."""
    return plain(titles.split(holder.label)[1])


def span(seconds: float) -> str:
    """1d2h, 6m12s, 1.5s, 80ms: the two largest units, for people."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = int(seconds)
    units = (("d", whole // 86400), ("h", whole // 3600 % 24), ("m", whole // 60 % 60))
    parts = [(unit, count) for unit, count in (*units, ("s", whole % 60)) if count]
    return "".join(f"{count}{unit}" for unit, count in parts[:2])


def age(since: float | None) -> str:
    """How long ago, by this machine's clock (the engine's may differ a little)."""
    return "-" if since is None else span(max(0.0, time.time() - since))


def moment(since: float) -> str:
    """02:14:07, with the date when that was not today."""
    then, today = time.localtime(since), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)


def complain(words: Sequence[str], event: str, message: str) -> None:
    """An error that ends the command, in the form that its words ask for."""
    ours = words[: words.index("--")] if "--" in words else words
    wanted = "--json" in ours or bool(os.environ.get("LOCKNUT_JSON"))
    Messenger(as_json=wanted).error(event, message)
