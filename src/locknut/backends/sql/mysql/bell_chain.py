"""A waiter is woken by the one before it: its bell is a named lock, which is free when it goes.

A claim's bell hangs from the time that it waits, or holds for more than a moment, until it does
neither. Each waiter waits at the server for the bell of the one before it, a waiter or the holder.
A bell is named after its claim and never used again. So it is no matter whether it was freed before
or after somebody began to wait for it: no ring is lost. If it was not hung up yet, or its client is
gone, the waiter looks for nothing, and then less and less often.

One thread of the process does it for all its claims. Where the one before is in this process, no
connection is needed. Claims beyond the number of connections look now and then.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import pymysql

from locknut.backends.sql.mysql.bell_ringer import IDLE, BellRinger
from locknut.backends.sql.mysql.bell_sessions import shown
from locknut.core.ports import Runtime
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.sessions import Rows
from locknut.drivers.mysql.settings import Settings
from locknut.errors import BackendUnavailable
from locknut.runtimes import cpython
from locknut.runtimes.deadlines import time_left

Ring = Callable[[], None]
_NOBODY: Final[dict[str, Ring]] = {}


class BellChain:
    """The bells of all claims of one engine in this process. Its methods never wait."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._users = 0
        self._begin()

    def _begin(self) -> None:
        self._ringer = BellRinger(self._settings)
        self._mutex = threading.RLock()
        self._running = False
        self._sleeps = False
        """Whether the thread sleeps for long: then somebody has to wake it."""
        self._alarm: tuple[socket.socket, socket.socket] | None = None
        self._calls: deque[Callable[[], None]] = deque()
        self._behind: dict[str, str] = {}
        self._followers: dict[str, dict[str, Ring]] = {}
        """By claim id: who waits behind it."""
        self._given_back: set[str] = set()
        """Whose bells were freed by their releases, which are about to tell that they have left."""

    @property
    def wakes(self) -> bool:
        return self._ringer.wakes

    def forked(self) -> None:
        """Begin anew, without a word to the server."""
        self._ringer.abandon()
        for end in self._alarm or ():
            end.close()
        self._begin()

    def join(self) -> None:
        self._users += 1

    def part(self) -> None:
        """The last one ends it."""
        self._users -= 1
        if self._users <= 0 and self._running:
            self._post(_nothing)

    def entered(self, claim_id: str, *, alone: bool) -> None:
        """It holds. One that shares the lock lets those behind it look whether they can come in."""
        ringer, claim_id = self._ringer, shown(claim_id)
        if not alone:
            self.left(claim_id)
        elif ringer.wakes and claim_id not in ringer.where:
            ringer.fresh[claim_id] = monotonic()
            if self._sleeps or not self._running:
                self._post(_nothing)

    def left(self, claim_id: str) -> None:
        """It neither holds nor waits any more. The one behind it in this process looks at once."""
        claim_id = shown(claim_id)
        if claim_id in self._given_back:
            self._given_back.discard(claim_id)
            return
        fresh = self._ringer.fresh.pop(claim_id, None)
        for ring in self._followers.pop(claim_id, _NOBODY).values():
            ring()
        if self._running and (fresh is None or claim_id in self._ringer.where):
            self._post(lambda: self._ringer.free(claim_id))

    def hangs(self, claim_id: str) -> bool:
        return shown(claim_id) in self._ringer.where

    def lends(self, claim_id: str) -> bool:
        return self._ringer.lendable(shown(claim_id)) is not None

    def give_back(self, claim_id: str, statement: str) -> Rows | None:
        """Say the release on the connection of the claim's bell; see `mysql_table`. Whatever is in
        doubt afterwards is hung up, which frees the bell.
        """
        ringer, claim_id = self._ringer, shown(claim_id)
        session = ringer.lend(claim_id)
        if session is None:
            return None
        try:
            rows = session.give_back(claim_id, statement, time_left(self._settings.limit))
        except BaseException as error:
            session.hang_up()
            code = mysql_errors.code_of(error)
            if mysql_errors.is_answer(error) or code == mysql_errors.INTERRUPTED:
                ringer.lends = ringer.lends and code != mysql_errors.ROW_FORMAT_ONLY
                return None  # it was undone
            if isinstance(error, pymysql.MySQLError | OSError):
                raise self._translated(error) from error
            raise
        finally:
            ringer.lent.discard(session)
        if ringer is self._ringer and self._running:
            if rows:
                self._given_back.add(claim_id)
            else:  # it had run out, and its bell still hangs
                ringer.where[claim_id] = session
            ringer.sessions.append(session)
        else:
            session.close()
        for ring in self._followers.pop(claim_id, _NOBODY).values():
            ring()
        return rows

    def _translated(self, error: Exception) -> BackendUnavailable:
        address, scheme = self._settings.address, self._settings.scheme
        return BackendUnavailable(f"no answer from {address}: {error}", backend=scheme)

    def ring(self, claim_id: str) -> None:
        """It waits, and its turn may have come."""
        claim_id = shown(claim_id)
        ring = self._followers.get(self._behind.get(claim_id, ""), _NOBODY).get(claim_id)
        if ring is not None:
            ring()
        elif self._ringer.wakes:
            self._post(lambda: self._ringer.ring(claim_id))

    def expect(self, claim_id: str, behind: str, ring: Ring) -> None:
        claim_id, behind = shown(claim_id), shown(behind)
        self._unfollow(claim_id)
        self._behind[claim_id] = behind
        self._followers.setdefault(behind, {})[claim_id] = ring
        self._post(lambda: self._ringer.wait(claim_id, behind, ring))

    def forget(self, claim_id: str) -> None:
        claim_id = shown(claim_id)
        self._unfollow(claim_id)
        self._post(lambda: self._ringer.stop_waiting(claim_id))

    def _unfollow(self, claim_id: str) -> None:
        behind = self._behind.pop(claim_id, "")
        followers = self._followers.get(behind)
        if followers is not None:
            followers.pop(claim_id, None)
            if not followers:
                self._followers.pop(behind, None)

    def _post(self, call: Callable[[], None]) -> None:
        """Have the thread do it; it is started if there is none."""
        if self._users <= 0 and not self._running:
            return
        self._calls.append(call)
        with self._mutex:
            if not self._running:
                self._start()
            alarm = self._alarm
        if alarm is not None:
            with suppress(OSError):  # it is full, or the thread has just ended
                alarm[0].send(b"!")

    def _start(self) -> None:
        self._running = True
        self._alarm = alarm = socket.socketpair()
        for end in alarm:
            end.setblocking(False)
        # Not waited for: an interrupt (Ctrl-C) in that wait would leave it broken.
        thread = cpython.UnawaitedThread(target=self._work, name="locknut-bells", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had: whoever waits looks by itself
            self._running, self._alarm = False, None
            self._calls.clear()
            for end in alarm:
                end.close()

    def _work(self) -> None:
        try:
            while self._step():
                pass
        finally:
            self._end()

    def _step(self) -> bool:
        """False: there is nothing more to do."""
        while self._calls:
            self._calls.popleft()()
        if self._users <= 0:
            return False
        self._ringer.work()
        return self._sleep()

    def _sleep(self) -> bool:
        """Until something happens, or is due; False: nothing has happened for long."""
        ringer, alarm = self._ringer, self._alarm
        if alarm is None:
            return False
        self._sleeps = True  # before the look: the one after it sounds the alarm
        if ringer.fresh:
            self._sleeps = False
        if self._calls:
            return True
        useless = ringer.useless()
        by_number = {session.fileno(): session for session in ringer.sessions}
        poll = select.poll()
        for number in (alarm[1].fileno(), *by_number):
            poll.register(number, select.POLLIN)
        pause = max(0.0, min(IDLE, ringer.due() - monotonic()))
        ready = [number for number, _ in poll.poll(pause * 1000)]
        self._sleeps = False
        with suppress(BlockingIOError):
            alarm[1].recv(4096)
        for number in ready:
            if number in by_number and by_number[number] in ringer.sessions:
                ringer.ready(by_number[number])
        return bool(ready or self._calls) or not useless

    def _end(self) -> None:
        with self._mutex:
            ended, self._ringer = self._ringer, BellRinger(self._settings)
            self._ringer.wakes = ended.wakes
            self._ringer.fresh.update(ended.fresh)  # of one that has just come
            alarm, self._alarm, self._running = self._alarm, None, False
            again = self._users > 0 and bool(self._calls or ended.fresh)
        ended.close()
        for end in alarm or ():
            end.close()
        if again:
            self._post(_nothing)


class ChainBells:
    """The `Bells` of one backend: its place in the chain."""

    def __init__(self, chain: BellChain, runtime: Runtime):
        self._chain = chain
        self._runtime = runtime
        self._joined = True
        self.client = runtime.new_id()
        self.wakes = chain.wakes
        chain.join()

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Ring) -> None:  # noqa: ARG002 -- the claim before it is enough
        self._chain.expect(claim_id, behind, ring)

    def forget(self, claim_id: str) -> None:
        self._chain.forget(claim_id)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        """Those that do not wait for a bell that is being freed."""
        for _, claim_id in waiting:
            self._chain.ring(claim_id)

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        if self._joined:
            self._joined = False
            self._chain.part()

    def forked(self) -> None:
        self._chain.forked()
        self.client = self._runtime.new_id()


def _nothing() -> None:
    """Only wakes the thread."""
