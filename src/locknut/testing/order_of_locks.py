"""Finds locks that a program takes in two orders, before two threads ever meet in a deadlock.

While the check runs, every lock that somebody waits for while holding another one is noted, by
families of names (`core/families.py`): first `order:*`, then `stock:*`. If the notes lead in a
circle, two threads that come at the same time can deadlock, even if they never did. It works as
the Linux kernel's lockdep does.

* Non-blocking attempts count for nothing: they never wait. Neither does entering a lock again.
* Two names of one family have an order too: it must always be the smaller name first, or always the
  larger one (`item:9` is smaller than `item:10`). `locks.all(...)` takes them so by itself.
* Readers do not keep each other out, so a circle in which everybody only reads is none.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from locknut.core import acquiring
from locknut.core.client import Client
from locknut.core.families import family
from locknut.core.values import Mode
from locknut.runtimes import cpython

_PACKAGE = __name__.partition(".")[0]
_NUMBERS = re.compile(r"(\d+)")


class Step(NamedTuple):
    """One lock was taken while another one was held."""

    held: str
    """The name of the lock that was held."""
    taken: str
    where: str
    """The line of the program that asked for it, and the thread or task."""
    reads: bool
    """Whether both were only read."""

    def __str__(self) -> str:
        return f"{self.held!r}, then {self.taken!r} ({self.where})"


class LockOrderError(AssertionError):
    """Locks were taken in orders that can deadlock; `circles` has the steps of each circle."""

    def __init__(self, circles: list[list[Step]]):
        self.circles = circles
        told = "\n".join(
            "these orders can deadlock:\n" + "\n".join(f"  {step}" for step in circle)
            for circle in circles
        )
        super().__init__(f"{told}\ntake these locks in one order everywhere, or with locks.all()")


class LockOrder:
    """What was noted, and what it leads to."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._steps: dict[tuple[str, str], Step] = {}
        """By the families before and after; within a family, by whether the name was larger."""
        self.circles: list[list[Step]] = []

    def note(self, held: tuple[str, str, Mode], taken: tuple[str, str, Mode], who: str) -> None:
        """This was taken by a caller that held that: place, name and mode of each."""
        if held[:2] == taken[:2] and Mode.PERMIT in {held[2], taken[2]}:
            return  # permits of one semaphore add up
        before, after = _node(*held), _node(*taken)
        if before == after:
            up = _natural(held[1]) < _natural(taken[1])
            before, after = (f"{before} <", f"{before} >") if up else (f"{before} >", f"{before} <")
        reads = held[2] is taken[2] is Mode.SHARED
        step = Step(held[1], taken[1], f"{_line_of_program()}, {who}", reads)
        with self._mutex:
            known = self._steps.get((before, after))
            if known is not None and (reads or not known.reads):
                return
            self._steps[before, after] = step
            way = self._way(after, before)
            if way and not all(each.reads for each in (step, *way)):
                self.circles.append([step, *way])

    def check(self) -> None:
        """Raise LockOrderError if locks were taken in orders that can deadlock."""
        if self.circles:
            raise LockOrderError(self.circles)

    def _way(self, start: str, end: str) -> list[Step]:
        """The steps of a shortest way from one family to another; empty if there is none."""
        ways: list[tuple[str, list[Step]]] = [(start, [])]
        seen = {start}
        while ways:
            at, steps = ways.pop(0)
            for (before, after), step in self._steps.items():
                if before == at and after == end:
                    return [*steps, step]
                if before == at and after not in seen:
                    seen.add(after)
                    ways.append((after, [*steps, step]))
        return []


@contextmanager
def lock_order() -> Iterator[LockOrder]:
    """Note the order of all locks of this process; at the end raise LockOrderError if it matters.

    An exception of the body is not replaced.
    """
    order = LockOrder()
    lend, claim, wait_in_line = Client.lend, Client.claim, acquiring._wait_in_line

    def noting_lend(self: Client, hold: Any, caller: Any, *rest: Any) -> Any:
        if hold.claim.waits:
            _note(order, self, hold.claim.key, hold.claim.mode, caller)
        return lend(self, hold, caller, *rest)

    def noting_claim(self: Client, request: Any, caller: Any, *, waits: bool = True) -> Any:
        if waits:
            _note(order, self, request.key, request.options.mode, caller)
        return claim(self, request, caller, waits=waits)

    def noting_wait(client: Client, request: Any, state: Any) -> Any:
        if state.until > client.runtime.now():
            _note(order, client, request.key, request.options.mode, state.caller)
        return wait_in_line(client, request, state)

    Client.lend, Client.claim = noting_lend, noting_claim  # type: ignore[method-assign,assignment]
    acquiring._wait_in_line = noting_wait
    try:
        yield order
    finally:
        Client.lend, Client.claim = lend, claim  # type: ignore[method-assign]
        acquiring._wait_in_line = wait_in_line
    order.check()


def _note(order: LockOrder, client: Client, key: str, mode: Mode, caller: Any) -> None:
    taken = f"{client.id} {client.prefix}", client.bare(key), mode
    for lease in caller.leases():
        other = lease._client
        order.note((f"{other.id} {other.prefix}", lease.name, lease.mode), taken, caller.who)


def _node(place: str, name: str, mode: Mode) -> str:
    """What is compared: a family of one namespace; its semaphores are other things than locks."""
    return f"{place}{'permits ' if mode is Mode.PERMIT else ''}{family(name)}"


def _natural(name: str) -> list[tuple[int, str]]:
    """So that names are compared as people count: item:9 before item:10."""
    parts = _NUMBERS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _line_of_program() -> str:
    """The innermost line outside of this package that led here."""
    frame = cpython.caller_frame()
    while frame is not None and frame.f_globals["__name__"].partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    if frame is None:
        return "somewhere"
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
