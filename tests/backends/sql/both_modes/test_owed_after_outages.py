"""What was given back while nobody could reach the server is given back there, once somebody can.

The hold lasts for an hour by its row, so that nothing else removes it within the test.
"""

from __future__ import annotations

import socket

import pytest

from locknut.core import pacing
from locknut.errors import BackendUnavailable, LeaseLost
from locknut.testing import FaultProxy
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.both_modes.conftest import HELD, PATIENCE, connect, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults
TRIES = 5
"""So many are in vain, after the caller was told that its release is not confirmed."""


@pytest.fixture
def nobody() -> tuple[str, int]:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as briefly:
        host, port = briefly.getsockname()
    return host, port


def test_a_release_is_owed_until_the_server_is_back(
    database: Database,
    paint: Colour,
    mode: str,
    nobody: tuple[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A keeper that tried it once, or only while its caller waited, would leave the row."""
    monkeypatch.setattr(pacing, "RELEASE_PATIENCE", 0.1)
    monkeypatch.setattr(pacing, "RETRY_MOST", 0.05)
    there = database.server.host, database.server.port

    async def story() -> None:
        with FaultProxy(there) as proxy:
            locks = connect(paint, database.url_through(proxy.port), mode=mode)
            lease = await locks.lock("x", ttl=3600).acquire(timeout=PATIENCE)
            proxy.target = nobody
            proxy.cut()
            with pytest.raises((BackendUnavailable, LeaseLost)):  # if the keeper was faster
                await lease.release()
            proxy.wait_for_connections(proxy.accepted + TRIES, PATIENCE)
            assert database.ask(HELD) == [(1,)]
            proxy.target = there
            await until(paint, lambda: database.ask(HELD) == [(0,)], "the row was left behind")
            await locks.close()

    paint.run(story())
