"""What the logger `locknut` says: one line per event, that a person can act on."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import locknut
from locknut import aio
from locknut.core.values import Event
from locknut.faces import events
from locknut.faces.events import EventHub
from locknut.faces.hints import Way
from tests.contracts.documentation import blocks_of
from tests.contracts.sources import ROOT

PATIENCE = 20
STOP = "somebody else may have the lock now: stop, and let the resource check the fence"


class Lines(logging.Handler):
    """The records of the logger, as they come."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []
        self.changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.changed:
            self.records.append(record)
            self.changed.notify_all()

    def line(self, begins: str) -> str:
        """The first that begins so; waits for it."""

        def find() -> list[str]:
            return [each for each in self.texts if each.startswith(begins)]

        with self.changed:
            assert self.changed.wait_for(find, PATIENCE), self.texts
        return find()[0]

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with heard() as found:
        yield found


@contextmanager
def heard(wanted: int = logging.DEBUG) -> Iterator[Lines]:
    log, handler = logging.getLogger("locknut"), Lines()
    log.addHandler(handler)
    level = log.level
    log.setLevel(wanted)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def test_a_hold_from_its_grant_to_its_release(locks: locknut.Locks, lines: Lines) -> None:
    with locks.lock("obs") as lease:
        pass
    granted, released = [each for each in lines.texts if "'obs'" in each]
    who = f"thread {threading.current_thread().name}"
    assert re.fullmatch(
        rf"granted 'obs' on memory to {who} after [\d.]+ m?s, fence {lease.fence}", granted
    )
    assert re.fullmatch(
        rf"released 'obs' on memory, held by {who} for [\d.]+ m?s, fence {lease.fence}", released
    )


def test_a_task_is_named(url: str, lines: Lines) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks, locks.lock("obs"):
            pass

    async def main() -> None:
        await asyncio.create_task(story(), name="reader-3")

    asyncio.run(main())
    assert lines.line("granted").startswith("granted 'obs' on memory to task reader-3 after ")


def test_a_loss_says_why_and_what_to_do(locks: locknut.Locks, lines: Lines) -> None:
    lease = locks.lock("job", ttl=0.3, auto_renew=False).acquire()
    assert lease is not None
    text = lines.line("lost")
    assert re.fullmatch(
        rf"lost 'job' on memory, held by thread \w+ for [\d.]+ m?s, fence {lease.fence}: "
        rf"expired \(no renewal was confirmed before its ttl ran out\); {STOP}",
        text,
    )


@pytest.mark.parametrize("reason", ["max_hold", "broken"])
def test_other_reasons(locks: locknut.Locks, lines: Lines, reason: str) -> None:
    lease = locks.lock("job", max_hold=0.2 if reason == "max_hold" else None).acquire()
    assert lease is not None
    if reason == "broken":
        locks.force_release("job", reason="stuck\nsince noon")
        assert lines.line("broke") == (
            r"broke 'job' on memory: stuck\nsince noon; its holder is notified, and may still be "
            "running"
        )
        assert ": somebody broke it by force: stuck since noon; " in lines.line("lost")
    else:
        assert ": max_hold (" in lines.line("lost")


def test_giving_up_names_the_thread_that_has_it(locks: locknut.Locks, lines: Lines) -> None:
    with locks.lock("x"):
        thread = threading.Thread(target=lambda: locks.lock("x").acquire(timeout=0))
        thread.start()
        thread.join(PATIENCE)
    name = threading.current_thread().name
    assert lines.line("gave up").endswith(f": thread {name} of this process has it")


def test_giving_up_names_the_command_that_tells_who_has_it(lines: Lines) -> None:
    hub = EventHub(Way("redis:h:6379/0", "redis://h:6379/0", "shop"))
    hub.emit(Event("timed_out", "it's", "redis", waited=5.0))
    assert lines.texts == [
        (
            """gave up "it's" on redis after 5 s: see who has it: locknut show 'it'"'"'s' """
            "-u redis://h:6379/0 --namespace shop"
        )
    ]


def test_what_others_chose_stays_on_one_line(lines: Lines) -> None:
    nasty = "a\nERROR b\x1b[2J"
    for kind in ("waiting", "granted", "handed_over", "released", "timed_out", "at_risk"):
        EventHub().emit(Event(kind, nasty, "memory", reason=nasty, holder=nasty))
    for kind in ("skipped", "broken", "abandoned", "lost"):
        EventHub().emit(Event(kind, nasty, "memory", reason=nasty, holder=nasty))
    assert len(lines.texts) == 10
    assert all(text.isprintable() for text in lines.texts)


def test_a_wait_of_two_seconds_is_worth_a_line(lines: Lines) -> None:
    for waited, level in ((1.9, logging.DEBUG), (2.2, logging.INFO)):
        EventHub().emit(Event("granted", "obs", "redis", fence=7, waited=waited, holder="thread T"))
        assert lines.records[-1].levelno == level
    assert lines.texts[-1] == "granted 'obs' on redis to thread T after 2.2 s, fence 7"


SLOW = 0.1
"""What counts as a long wait here."""


def test_a_long_wait_is_logged_where_only_information_is_asked_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SLOW_WAIT", SLOW)
    with (
        heard(logging.INFO) as lines,
        locknut.connect(url) as holder,
        locknut.connect(url) as locks,
    ):
        lease = holder.lock("slow").acquire()
        assert lease is not None
        threading.Timer(2 * SLOW, lease.release).start()
        with locks.lock("slow"):
            assert " after " in lines.line("granted 'slow' on memory to thread MainThread")


def test_a_long_wait_of_a_task_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SLOW_WAIT", SLOW)

    async def story() -> None:
        async with aio.connect(url) as holder, aio.connect(url) as locks:
            lease = await holder.lock("slow").acquire()
            assert lease is not None
            waiter = asyncio.create_task(locks.lock("slow").acquire())
            await asyncio.sleep(2 * SLOW)
            await lease.release()
            got = await waiter
            assert got is not None
            await got.release()

    with heard(logging.INFO) as lines:
        asyncio.run(story())
        assert " after " in lines.line("granted 'slow' on memory to task ")


def test_records_of_one_kind_have_one_template_and_their_fields(
    locks: locknut.Locks, lines: Lines
) -> None:
    for name in ("a", "b"):
        with locks.lock(name):
            pass
    assert len({record.msg for record in lines.records}) == 2
    facts = lines.records[0].locknut  # type: ignore[attr-defined]  # put there by `extra`
    assert facts["name"] == "a"
    assert facts["holder"] == f"thread {threading.current_thread().name}"
    assert {"kind", "backend", "mode", "fence", "waited"} <= facts.keys()


def test_the_configuration_for_json_logs() -> None:
    (block,) = [
        each for each in blocks_of(ROOT / "docs" / "reference.md") if "JsonLines" in each.code
    ]
    told = subprocess.run(
        [sys.executable, "-c", block.code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [json.loads(line) for line in told.stderr.splitlines()]
    assert (line["level"], line["kind"], line["name"]) == ("INFO", "timed_out", "job")
    assert (line["logger"], line["backend"], line["mode"]) == ("locknut", "memory", "exclusive")
    assert line["waited"] >= 0.1
    assert line["message"].startswith("gave up 'job' on memory after ")


@pytest.mark.redis
@pytest.mark.faults
def test_risk_says_how_much_time_is_left(lines: Lines) -> None:
    from tests.servers.redis import RedisServer

    with RedisServer() as server, locknut.connect(server.url) as locks:
        lease = locks.lock("x", ttl=6).acquire()
        assert lease is not None
        server.stop()
        try:
            text = lines.line("at risk")
        finally:
            server.cont()
        assert re.fullmatch(
            rf"at risk: 'x' on redis, held by thread \w+, fence {lease.fence}: not renewed, "
            r"[\d.]+ m?s left; look at the engine, and check\(\) before each step that cannot be "
            r"undone",
            text,
        )
