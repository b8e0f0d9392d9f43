"""docs/redis-compatible.md names every command that reaches a server, and no other."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import locknut
from tests.backends.redis.test_permissions import exercise
from tests.cli.harness import Shell
from tests.contracts.sources import ROOT
from tests.servers.redis import RedisServer
from tests.servers.resp import Wire

pytestmark = pytest.mark.redis
PAGE = ROOT / "docs" / "redis-compatible.md"
SCRIPTS = ROOT / "src" / "locknut" / "backends" / "redis" / "scripts"
HIDDEN = {"hello"}
"""What MONITOR does not show, because it may hold a password; the server counts it all the same."""
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_KEYLESS = {"time", "publish"}
_CONTAINERS = {"script", "cluster"}


class Seen:
    """The commands that a server was given, by clients and by scripts."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.called: set[str] = set()
        self.undeclared: set[str] = set()
        """Keys that scripts touched and were not given: what they end in."""
        self._given: list[str] = []

    def note(self, line: bytes) -> None:
        who = line.partition(b"]")[0].split()[-1]
        words = [each.decode(errors="replace") for each in _WORD.findall(line)]
        name = words[0].lower()
        whole = f"{name}|{words[1].lower()}" if name in _CONTAINERS else name
        (self.called if who == b"lua" else self.sent).add(whole)
        if name == "evalsha":
            self._given = words[3 : 3 + int(words[2])]
        elif who == b"lua" and name not in _KEYLESS and words[1] not in self._given:
            self.undeclared.add(re.sub(r"^.*\}(?::permits)?(:[a-z]+)(?::\w+)?$", r"\1", words[1]))


@contextmanager
def watched(server: RedisServer) -> Iterator[Seen]:
    """What reaches it meanwhile."""
    seen = Seen()
    with server.connect() as wire:
        assert wire.ask("MONITOR") == b"OK"
        thread = threading.Thread(target=_read, args=(wire, seen))
        thread.start()
        yield seen
        server.ask("ECHO", "the end")
        thread.join()
    counted = {name.removeprefix("cmdstat_") for name in server.info("commandstats")}
    seen.sent |= HIDDEN & counted


def _read(wire: Wire, seen: Seen) -> None:
    while b'"the end"' not in (line := wire.read()):  # type: ignore[operator]
        assert isinstance(line, bytes)
        seen.note(line)


def named(row: str) -> set[str]:
    """What the page's table says about commands of this kind."""
    (cells,) = re.findall(rf"^\| {row} \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    return {each.lower().replace(" ", "|") for each in re.findall(r"`([A-Z][A-Z ]+)`", cells)}


def judge(seen: Seen) -> None:
    assert seen.sent == named("sent by every client") | named("sent by some")
    assert seen.called == named("called by the scripts") | named("called by the scripts of history")
    told = PAGE.read_text().partition("**Keys that are not declared.**")[2].partition("\n")[0]
    assert seen.undeclared == set(re.findall(r"`\.\.\.(:[a-z]+)(?::\.\.\.)?`", told))


@pytest.mark.parametrize("flavour", ["redis", "valkey"])
def test_the_page_names_what_is_sent(flavour: str) -> None:
    with RedisServer(flavour=flavour) as server:
        with watched(server) as seen:
            exercise(server.url.replace("/0", "/1"))
            _break_for_a_reason(server.url.replace("/0", "/1"))
        judge(seen)
        assert server.ask("CONFIG", "GET", "notify-keyspace-events") == [
            b"notify-keyspace-events",
            b"",
        ]


def _break_for_a_reason(url: str) -> None:
    with locknut.connect(url, namespace="t") as locks:
        lease = locks.lock("broken", ttl=30).acquire()
        assert lease is not None
        assert locks.force_release("broken", reason="to see what that sends")
        with suppress(locknut.LocknutError):
            lease.renew()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_names_what_the_whole_suite_sends() -> None:
    with RedisServer() as server:
        with watched(server) as seen:
            process = Shell(server.url.replace("/0", "/1")).start(
                "conformance", "-q", stdin=subprocess.DEVNULL
            )
            out, _ = process.process.communicate(timeout=850)
            assert process.process.returncode == 0, out
        judge(seen)


def test_the_page_names_what_lua_has_to_have() -> None:
    """Nothing but these of Redis' own functions, and none of its libraries."""
    texts = [path.read_text() for path in SCRIPTS.glob("*.lua")]
    used = {each for text in texts for each in re.findall(r"\bredis\.\w+", text)}
    assert used == set(re.findall(r"`(redis\.\w+)`", PAGE.read_text()))
    libraries = r"\b(cjson|cmsgpack|struct|bit|os)\.\w+"
    assert not [text for text in texts if re.search(libraries, text)]
