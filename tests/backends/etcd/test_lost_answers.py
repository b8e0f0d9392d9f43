"""Answers that never come, and a cluster that comes back without its data."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest

from locknut.errors import LeaseLost
from locknut.opening import Settings
from locknut.testing import FaultProxy
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.backends.etcd.conftest import PATIENCE, eventually, line
from tests.servers.etcd import EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.faults]


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


@pytest.mark.parametrize("lost", ["acquire", "release"])
def test_an_answer_that_is_lost_is_asked_for_again(
    etcd_server: EtcdServer, path: str, paint: Colour, lost: str
) -> None:
    """What was done is found again: one key in the line, or none."""

    def standing() -> int:
        return len(line(etcd_server, path, "x"))

    async def story() -> None:
        with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
            url = f"etcd://127.0.0.1:{proxy.port}/{path}?session_ttl=60"
            locks = paint.locks(open_engine(url)[0], Settings("locknut"))
            async with locks.lock("x"):
                pass
            if lost == "acquire":
                proxy.replies.swallow()
                asked = paint.spawn(lambda: locks.lock("x").acquire(timeout=PATIENCE))
                await _until(paint, lambda: standing() == 1)
                proxy.heal()
                proxy.cut()
                lease = await asked.result(PATIENCE)
                assert standing() == 1
                await lease.release()
            else:
                lease = await locks.lock("x").acquire(timeout=PATIENCE)
                proxy.replies.swallow()
                released = paint.spawn(lease.release)
                await _until(paint, lambda: standing() == 0)
                proxy.heal()
                proxy.cut()
                await released.result(PATIENCE)
            assert standing() == 0
            await locks.close()
            eventually(lambda: not proxy.connections, "everybody has hung up")

    paint.run(story())


async def _until(paint: Colour, check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, "it did not arrive"
        await paint.pause(0.01)


@pytest.mark.parametrize("data", ["none", pytest.param("older", marks=pytest.mark.slow)])
def test_a_server_that_comes_back_without_its_data_is_a_loss(
    paint: Colour, path: str, data: str
) -> None:
    """The lease went with the data: its holder is told, and the next one comes in."""

    async def story() -> None:
        with EtcdServer() as server:
            now, backup = server.folder / "data", server.folder / "backup"
            if data == "older":
                server.kill()
                shutil.copytree(now, backup)
                server.start()
            locks = paint.locks(open_engine(f"{server.url}/{path}")[0], Settings("locknut"))
            lease = await locks.lock("x").acquire(timeout=PATIENCE)
            server.kill()
            shutil.rmtree(now)
            if data == "older":
                backup.rename(now)
            server.start()
            assert await lease.lost.wait(PATIENCE)
            with pytest.raises(LeaseLost):
                await lease.release()
            async with locks.lock("x", timeout=PATIENCE):
                pass
            await locks.close()

    paint.run(story())
