"""Stands for the resolver of the machine: it knows one name, and answers when it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from locknut.runtimes import host_names

PATIENCE = 60.0


class Resolver:
    """All other names, and addresses, are looked up as ever."""

    def __init__(self, name: str) -> None:
        self.asked = 0
        self.found: str | None = "127.0.0.1"
        """Where the name leads; None: `error`."""
        self.before: list[Any] = []
        """Addresses that are told first."""
        self.error: Exception = socket.gaierror(-2, "nobody knows it")
        self.answers = threading.Event()
        """Until it is set, whoever asks for the name waits."""
        self._name = name
        self._real = socket.getaddrinfo

    def look_up(self, host: str, *words: Any, **more: Any) -> Any:
        if host != self._name:
            return self._real(host, *words, **more)
        self.asked += 1
        assert self.answers.wait(PATIENCE), "nobody lets it answer"
        if self.found is None:
            raise self.error
        return [*self.before, *self._real(self.found, *words, **more)]


@contextmanager
def in_its_place(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Resolver]:
    """In the end nobody waits for it any more: or the next test would, for the same name."""
    resolver = Resolver(name)
    monkeypatch.setattr(socket, "getaddrinfo", resolver.look_up)
    monkeypatch.setattr(host_names, "_unknown", {})
    try:
        yield resolver
    finally:
        resolver.answers.set()
        for looking in list(host_names._under_way.values()):
            with suppress(OSError, UnicodeError):
                looking.result(PATIENCE)
