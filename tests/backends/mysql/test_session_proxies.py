"""Session mode needs connections of its own, and sends as little as it can over them."""

from __future__ import annotations

import secrets

import pytest

import locknut
from locknut.core.values import Claim, Granted
from locknut.drivers.mysql.sessions import Session
from locknut.errors import ConfigurationError
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.mysql.sharing_proxy import shared
from tests.servers.databases import Database

pytestmark = pytest.mark.mariadb


def test_a_proxy_that_shares_connections_is_refused(mariadb_database: Database) -> None:
    with shared(mariadb_database) as port:
        url = f"{mariadb_database.url_through(port)}?mode=session"
        with (
            locknut.connect(url) as locks,
            pytest.raises(ConfigurationError, match="a proxy that shares them"),
        ):
            locks.lock("x").acquire(timeout=5)


def test_one_packet_to_acquire_and_one_to_release(
    mariadb_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_engine(f"{mariadb_database.url}?mode=session")[0].blocking(ThreadRuntime())
    first, second = (Claim("t:x", secrets.token_hex(16), ttl=30.0) for _ in range(2))
    run(client.attempt(first, 0.0))
    run(client.release(first))
    sent: list[str] = []
    send = Session.send

    def count(session: Session, packet: str, limit: float) -> None:
        sent.append(packet)
        send(session, packet, limit)

    monkeypatch.setattr(Session, "send", count)
    assert isinstance(run(client.attempt(second, 0.0)), Granted)
    assert len(sent) == 1
    assert run(client.release(second))
    assert len(sent) == 2
    run(client.close())
