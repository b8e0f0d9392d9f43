"""History in a database when the answer to a batch is lost: it is written again, and shown once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut.backends.sql import history_table
from locknut.core import recording
from locknut.drivers.mysql.sessions import Session
from locknut.testing.proxy import Connection, FaultProxy
from tests.history.looking import eventually, kinds
from tests.history.sql_places import SERVERS, Place, place

EACH_ONCE = [(kind, name) for name in ("first", "second") for kind in ("granted", "released")]
ROUTINE = "stream = 't:history:routine'"


@pytest.fixture(params=SERVERS)
def at_server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.05)
    monkeypatch.setattr(history_table, "CUTS", 0)  # after the first one: the batch is all there is
    return place(request.param, request, tmp_path)


def lose(writer: Connection, engine: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Let the next batch arrive and be committed, and cut the connection before anybody hears of
    it. Returns whether that was done.
    """
    if engine == "postgresql":  # it sends a batch and its end in one piece
        writer.replies.cut_after(0)
        return lambda: not writer.open
    run = Session.run

    def spoken(session: Session, packet: str, *rest: Any) -> Any:
        if packet == "COMMIT":
            monkeypatch.setattr(Session, "run", run)
            writer.replies.cut_after(0)
        return run(session, packet, *rest)

    monkeypatch.setattr(Session, "run", spoken)
    return lambda: Session.run is run and not writer.open


def test_a_batch_whose_answer_is_lost_is_shown_once(
    at_server: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = at_server.database
    assert database is not None
    text = b"granted" if at_server.engine == "postgresql" else b"granted".hex().encode()
    with (
        FaultProxy((database.server.host, database.server.port)) as proxy,
        locknut.connect(database.url_through(proxy.port), namespace="t", history=50) as locks,
    ):
        with locks.lock("first"):
            pass
        eventually(lambda: kinds(locks.history()) == EACH_ONCE[:2])
        (writer,) = [each for each in proxy.connections if each.requests.seen(text)]
        lost = lose(writer, at_server.engine, monkeypatch)
        with locks.lock("second"):
            pass
        eventually(lost)
        eventually(lambda: at_server.count(ROUTINE) > len(EACH_ONCE), "it is not written again")
        assert kinds(locks.history()) == EACH_ONCE
        ids = [each.id for each in locks.history()]
        assert len(set(ids)) == len(ids)
