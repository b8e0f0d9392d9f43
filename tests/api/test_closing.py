"""Closing while somebody else is just being granted a lock: no lease that nobody would renew."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core import pacing


@pytest.mark.parametrize("options", [{}, {"ttl": 30}, {"fair": True}])
def test_a_grant_that_comes_while_closing_is_given_back(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    locks, others = locknut.connect("memory:closing"), locknut.connect("memory:closing")
    backend = locks._client.backend
    real = backend.attempt

    async def attempt(*asked: Any) -> Any:
        answer = await real(*asked)
        locks.close()
        return answer

    monkeypatch.setattr(backend, "attempt", attempt)
    with pytest.raises(locknut.ConfigurationError, match="closed"):
        locks.lock("x", **options).acquire()
    with others.lock("x", timeout=0):
        pass
    others.close()


@pytest.mark.parametrize("command", ["attempt_all", "attach"])
def test_so_are_several_at_once_and_one_that_was_detached(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    locks, others = locknut.connect("memory:closing"), locknut.connect("memory:closing")
    lease = others.lock("z").acquire()
    assert lease is not None
    text = lease.detach(60)
    backend: Any = locks._client.backend
    real = getattr(backend, command)

    async def answer_and_close(*asked: Any) -> Any:
        answer = await real(*asked)
        locks.close()
        return answer

    monkeypatch.setattr(backend, command, answer_and_close)
    with pytest.raises(locknut.ConfigurationError, match="closed"):
        locks.attach(text) if command == "attach" else locks.all("x", "y").acquire()
    if command == "attempt_all":
        others.attach(text).release()
    with others.all("x", "y", "z", timeout=0):
        pass
    others.close()


def test_the_same_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        locks, others = aio.connect("memory:closing-aio"), aio.connect("memory:closing-aio")
        backend = locks._client.backend
        real = backend.attempt

        async def attempt(*asked: Any) -> Any:
            answer = await real(*asked)
            await locks.close()
            return answer

        monkeypatch.setattr(backend, "attempt", attempt)
        with pytest.raises(locknut.ConfigurationError, match="closed"):
            await locks.lock("x").acquire()
        async with others.lock("x", timeout=0):
            pass
        await others.close()

    asyncio.run(main())


def test_an_engine_that_hangs_up_because_it_was_closed_is_no_outage(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = locks._client
    gone = threading.Event()

    async def hang_up(*_: object, **__: object) -> None:
        gone.set()
        raise locknut.BackendUnavailable("it hung up", backend="memory")

    monkeypatch.setattr(client.backend, "attempt", hang_up)
    told: list[type[BaseException]] = []

    def ask() -> None:
        try:
            locks.lock("x").acquire()
        except locknut.LocknutError as error:
            told.append(type(error))

    asker = threading.Thread(target=ask)
    asker.start()
    assert gone.wait(30)
    locks.close()
    asker.join(30)
    assert told == [locknut.ConfigurationError]


def test_what_the_engine_did_not_confirm_is_told_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as released: then the keeper tried once more, and the ttl was to free it."""
    locks = locknut.connect(url)
    backend: Any = locks._client.backend
    real, told = backend.release, {}
    locks.on_event(lambda event: told.update({event.name: event.reason}))
    for name in ("answered", "unanswered"):
        assert locks.lock(name).acquire()

    async def release(claim: Any, **how: Any) -> Any:
        if claim.key.endswith(":unanswered"):
            raise locknut.BackendUnavailable("no answer", backend="memory")
        return await real(claim, **how)

    monkeypatch.setattr(backend, "batches", False)
    monkeypatch.setattr(backend, "release", release)
    monkeypatch.setattr(pacing, "RELEASE_PATIENCE", 0.1)
    locks.close()
    assert told == {"answered": "closed", "unanswered": "closed, not confirmed by the engine yet"}
