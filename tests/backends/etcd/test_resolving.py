"""A member whose name nobody knows costs one look-up, and nobody anything after that."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.etcd.conftest import PATIENCE
from tests.servers.etcd import EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.faults]
NAME = "member.example"


class Names:
    """Stands for the resolver, which knows nobody by this name."""

    def __init__(self) -> None:
        self.asked = 0
        self._real = socket.getaddrinfo

    def look_up(self, host: str, *words: Any, **more: Any) -> Any:
        if host != NAME:
            return self._real(host, *words, **more)
        self.asked += 1
        raise socket.gaierror("nobody knows it")


@pytest.mark.parametrize("colour", list(COLOURS))
def test_a_name_that_is_not_found_costs_nothing_after_the_first_time(
    etcd_server: EtcdServer, path: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers, keeper and watches share what is known: none of them tries it again."""
    names, paint = Names(), COLOURS[colour]()
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    url = f"etcd://{NAME}:2379,{etcd_server.address}/{path}?session_ttl=2"

    async def story() -> None:
        locks = paint.locks(open_engine(url)[0], Settings("locknut"))
        async with locks.lock("x", timeout=PATIENCE):
            pass
        assert names.asked == 1
        lease = await locks.lock("x", timeout=PATIENCE).acquire()
        waiting = paint.spawn(lambda: _in_and_out(locks))
        for _ in range(10):
            async with locks.lock("y", timeout=PATIENCE):
                pass
            await lease.renew()
        await paint.pause(1.2)  # the keeper renews, on connections of its own
        assert lease.held
        await lease.release()
        await waiting.result(PATIENCE)
        assert names.asked == 1
        await locks.close()

    paint.run(story())


async def _in_and_out(locks: Any) -> None:
    async with locks.lock("x", timeout=PATIENCE):
        pass
