"""`locknut top`, driven by its keys: what it shows of real locks, and what it does to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

import locknut
from locknut.core.recording import TROUBLES, stream_key
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.terminal.modal_screens import AskBreak, LockScreen
from locknut.terminal.top_app import TopApp
from locknut.urls import open_engine
from tests.cli.harness import Shell
from tests.observer.people import Waiters, held

SIZE = (110, 16)
DEADLINE = 110.0
Drive = Callable[[Pilot[None]], Awaitable[None]]


@pytest.fixture
def locks(request: pytest.FixtureRequest) -> Iterator[locknut.Locks]:
    with locknut.connect(f"memory:{abs(hash(request.node.nodeid))}") as made:
        yield made


@pytest.fixture
def busy(locks: locknut.Locks) -> Iterator[locknut.Lease]:
    """`report` is held, and somebody waits for it; `order:1` is held."""
    with Waiters() as waiters:
        lease = held(locks, "report")
        held(locks, "order:1")
        waiters.queue_up(locks, "report")
        yield lease
        locks.force_release("report")


def drive(locks: locknut.Locks, steps: Drive, pattern: str = "") -> None:
    async def run() -> None:
        app = TopApp(locks, refresh=0.3, pattern=pattern)
        async with app.run_test(size=SIZE) as pilot:
            await steps(pilot)

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def rows(pilot: Pilot[Any]) -> list[str]:
    table = pilot.app.query_one("#table", DataTable)
    return [" ".join(map(str, table.get_row_at(at))) for at in range(table.row_count)]


def picture(pilot: Pilot[Any]) -> str:
    """The screen as it is drawn, which is a little later than what is in its table."""
    return pilot.app.export_screenshot(simplify=True).replace("&#160;", " ")


async def shows(pilot: Pilot[Any], question: Callable[[], object]) -> None:
    """Wait until it is so; what fails is told by the end of the whole drive."""
    while not question():
        await pilot.pause(0.02)


async def asked(pilot: Pilot[Any], *answer: str) -> None:
    """Ask to break what is under the cursor, and answer the question."""
    await pilot.press("b")
    await shows(pilot, lambda: isinstance(pilot.app.screen, AskBreak))
    await pilot.press(*answer)
    await shows(pilot, lambda: not isinstance(pilot.app.screen, AskBreak))


def test_locks_come_with_their_line_as_a_tree(locks: locknut.Locks, busy: locknut.Lease) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 3)
        first, waiter, other = rows(pilot)
        assert first.startswith("report X ")
        assert str(busy.fence) in first
        assert waiter.startswith(" └ waiter@")
        assert other.startswith("order:1 ")
        assert "2 held  1 waiting" in str(pilot.app.query_one("#summary", Static).content)
        words = ("report", "order:1", "└", "waiter@")
        await shows(pilot, lambda: all(word in picture(pilot) for word in words))

    drive(locks, steps)


def test_it_is_live_and_can_be_paused(locks: locknut.Locks) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: not rows(pilot))
        lease = held(locks, "a")
        await shows(pilot, lambda: len(rows(pilot)) == 1)
        await pilot.press("space")
        version = pilot.app.observer.picture.version  # type: ignore[attr-defined]
        lease.release()
        await shows(pilot, lambda: pilot.app.observer.picture.version > version + 2)  # type: ignore[attr-defined]
        assert len(rows(pilot)) == 1
        await pilot.press("space")
        await shows(pilot, lambda: not rows(pilot))

    drive(locks, steps)


@pytest.mark.slow
def test_it_filters_sorts_and_has_five_views(locks: locknut.Locks, busy: locknut.Lease) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("s", "s")
        assert rows(pilot)[0].startswith("order:1")
        await pilot.press("slash", *"ord", "enter")
        await shows(pilot, lambda: len(rows(pilot)) == 1)
        assert pilot.app.query_one("#filter", Input).value == "ord"
        await pilot.press("slash", "backspace", "backspace", "backspace", "enter")
        for key, word in (("2", "waiter@"), ("3", "report"), ("1", "order:1")):
            await pilot.press(key)
            assert any(word in each for each in rows(pilot)), key
        await pilot.press("4")
        assert not rows(pilot)
        await pilot.press("5")
        assert not rows(pilot)

    drive(locks, steps)


@pytest.mark.slow
def test_the_detail_of_one_lock(locks: locknut.Locks, busy: locknut.Lease) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("enter")
        await shows(pilot, lambda: pilot.app.screen.query("#detail"))
        told = str(pilot.app.screen.query_one("#detail", Static).content)
        assert f"fence {busy.fence}" in told
        assert "1. waiter@" in told
        box, screen = pilot.app.screen.query_one(".box").region, pilot.app.screen.region
        assert abs(box.x - (screen.right - box.right)) <= 1  # in the middle, not in a corner
        assert abs(box.y - (screen.bottom - box.bottom)) <= 1
        await pilot.press("escape")
        await shows(pilot, lambda: not pilot.app.screen.query("#detail"))

    drive(locks, steps)


@pytest.mark.slow
def test_breaking_asks_first_and_says_why(locks: locknut.Locks, busy: locknut.Lease) -> None:
    events: list[locknut.Event] = []
    locks.on_event(events.append)

    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 3)
        await asked(pilot, "escape")
        await asked(pilot, "enter")  # without a reason nothing is broken
        assert [each.fence for each in locks.info("report").holders] == [busy.fence]
        await asked(pilot, *"hangs", "enter")
        await shows(pilot, lambda: "broken" in [each.kind for each in events])
        await pilot.press("5")
        await shows(pilot, lambda: any("broken" in each for each in rows(pilot)))

    drive(locks, steps)
    (broken,) = [each for each in events if each.kind == "broken"]
    assert (broken.fence, broken.reason) == (busy.fence, "hangs (in locknut top)")


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
def test_a_long_line_hides_neither_the_question_nor_the_answer(
    locks: locknut.Locks, size: tuple[int, int]
) -> None:
    waiters = tuple(locknut.Holder("web-1", pid, "MainThread") for pid in range(60))
    info = locknut.LockInfo("report", (locknut.Holder("web-2", 7, raw=3),), waiters)

    async def run() -> None:
        app = TopApp(locks, refresh=0.3)
        async with app.run_test(size=size) as pilot:
            for screen in (AskBreak(info, 3, "there"), LockScreen(info, "there", "  events")):
                await app.push_screen(screen)
                await pilot.pause()
                box = app.screen.query_one(".box").content_region
                shown = app.screen.query("#question, #reason, .hint")
                assert all(
                    each.region.height and box.contains_region(each.region) for each in shown
                )
                assert "held by" in picture(pilot)
                await app.pop_screen()

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_a_lock_that_changed_hands_is_not_broken(locks: locknut.Locks) -> None:
    first = held(locks, "a")

    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 1)
        await pilot.press("b")
        await shows(pilot, lambda: isinstance(pilot.app.screen, AskBreak))
        first.release()
        held(locks, "a")
        await pilot.press(*"hangs", "enter")
        await shows(pilot, lambda: pilot.app._notifications)
        (said,) = pilot.app._notifications
        assert said.title == "Not broken"

    drive(locks, steps)
    assert locks.info("a").holders


def test_names_are_shown_and_never_obeyed(locks: locknut.Locks) -> None:
    name = "[red]x[/red]\x1b[31m"
    locks.lock(name).acquire()

    async def steps(pilot: Pilot[None]) -> None:
        await shows(pilot, lambda: len(rows(pilot)) == 1)
        assert rows(pilot)[0].startswith("[red]x[/red]\\x1b[31m")
        await pilot.press("enter")
        await shows(pilot, lambda: pilot.app.screen.query("#detail"))

    drive(locks, steps)


def test_what_others_wrote_into_the_history_neither(locks: locknut.Locks) -> None:
    nasty = "x\x1b]0;title\x07"
    facts = {"id": "abc-1", "age": 0, "kind": "lost", "name": nasty, "fence": 32, "who": nasty}
    odd = {"id": "abc-2", "age": 0, "kind": nasty, "name": nasty, "reason": nasty, "host": nasty}
    port = open_engine(locks.place)[0].blocking(ThreadRuntime())
    key = stream_key("locknut:", TROUBLES)
    run(port.write_history(key, [json.dumps(facts), json.dumps(odd)], 100))

    async def steps(pilot: Pilot[None]) -> None:
        for view, number in (("4", 2), ("5", 1)):
            await pilot.press(view)
            await shows(pilot, lambda number=number: len(rows(pilot)) == number)  # type: ignore[misc]
            assert all(each.isprintable() and "x\\x1b" in each for each in rows(pilot))
        worst = str(pilot.app.query_one("#attention", Static).content)
        assert worst.isprintable()
        assert "lost" in worst

    drive(locks, steps)
    run(port.close())


def test_it_needs_a_terminal(shell: Shell) -> None:
    code, _, said = shell.start("top").finish()
    assert code == 78
    assert "locknut ls --watch" in said
