"""Names of hosts, looked up by a thread of their own.

The resolver has no time limit, and one that gets no answer takes ten seconds or more to say so.
Whoever asks here waits no longer than it can, and all who ask for the same name meanwhile wait for
one look-up: a name that nobody answers for costs one thread, and a keeper is never late by it. That
nobody knows a name is remembered for a moment, so that who keeps asking does not pay for it each
time. Where a name leads is not: it may move.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from locknut.runtimes import cpython
from locknut.runtimes.clock import now

Found = Sequence[tuple[Any, ...]]
"""As `socket.getaddrinfo` has it."""
SHORTLY: Final = 1.0
"""Seconds for which a name counts as unknown after it was, or as long as it took to say so."""
MOST: Final = 3.0
"""But no longer: then it is known again soon after the resolver knows it."""
REMEMBERED: Final = 100
"""Unknown names."""
_under_way: dict[tuple[str, int], LookUp] = {}
_unknown: dict[str, tuple[float, BaseException]] = {}
"""Until when, and what was said of it."""


def addresses(host: str, port: int, seconds: float) -> Found:
    """Those of a host, in the order to try them. TimeoutError, if they are not known in time."""
    asked = ask(host, port)
    return asked.result(seconds) if isinstance(asked, LookUp) else asked


def ask(host: str, port: int) -> Found | LookUp:
    """The addresses, or the question that will be answered by them."""
    if is_address(host):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # nobody is asked
    until, error = _unknown.get(host, (0.0, None))
    if error is not None and now() < until:
        raise _again(error) from error
    looking = _under_way.get((host, port))
    if looking is None:
        looking = LookUp(host, port)
        looking.start()
    return looking


def is_address(host: str) -> bool:
    """Whether it is one already."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):  # a name; ValueError: with characters that no host has
            continue
        return True
    return False


def _again(error: BaseException) -> BaseException:
    """Each who is told has a traceback of its own."""
    return type(error)(*error.args)


def _remember(host: str, error: BaseException, took: float) -> None:
    if len(_unknown) >= REMEMBERED:
        _unknown.clear()
    _unknown[host] = now() + min(max(took, SHORTLY), MOST), error


class LookUp:
    """One question to the resolver."""

    def __init__(self, host: str, port: int):
        self._host, self._port = host, port
        self._found: Found = ()
        self._error: BaseException | None = None
        self._is_over = False
        self._tell: list[Callable[[], None]] = []
        """To be called when it is over, on any thread."""
        # Not an Event: an interrupt (Ctrl-C) in its wait may come out as another error.
        self._over = threading.Lock()
        self._over.acquire()

    def start(self) -> None:
        thread = cpython.UnawaitedThread(target=self._run, name="locknut-names", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had while the interpreter exits
            self._run()

    def _run(self) -> None:
        # Noted by the thread itself: what an interrupt kept from starting is waited for by nobody.
        place = self._host, self._port
        _under_way[place] = self
        began = now()
        try:
            self._found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
            _unknown.pop(self._host, None)
        except BaseException as error:  # noqa: BLE001 -- it is that of those who wait
            self._error = error
            if isinstance(error, OSError):
                _remember(self._host, error, now() - began)
        finally:
            self._is_over = True
            if _under_way.get(place) is self:
                _under_way.pop(place, None)
            self._over.release()
            for tell in list(self._tell):
                tell()

    def tells(self, call: Callable[[], None]) -> bool:
        """Whether this is called when the question is answered; if not, it is answered already."""
        self._tell.append(call)
        return not self._is_over

    def result(self, seconds: float) -> Found:
        if self._over.acquire(timeout=max(0.0, seconds)):
            self._over.release()
        if not self._is_over:
            raise TimeoutError(f"the name {self._host!r} was not looked up in time")
        return self.outcome()

    def outcome(self) -> Found:
        """What was found, once it is over."""
        error = self._error
        if error is not None:
            raise _again(error) from error
        return self._found


if hasattr(os, "register_at_fork"):
    # In a child nobody looks them up.
    os.register_at_fork(after_in_child=_under_way.clear)
