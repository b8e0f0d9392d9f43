"""A name that a client has taken before is taken by a short statement; two may say it at once."""

from __future__ import annotations

import secrets
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from locknut.core.values import Claim, Granted
from locknut.testing.conformance.colours import Colour
from locknut.urls import open_engine
from tests.backends.sql.both_modes.conftest import PATIENCE, TABLE, is_mysql, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults


def claim() -> Claim:
    return Claim("t:x", secrets.token_hex(16), ttl=30.0, waits=False)


def waiting(database: Database) -> int:
    """How many statements wait for a row."""
    asked = (
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        if is_mysql(database)
        else "SELECT count(*) FROM pg_stat_activity "
        f"WHERE wait_event_type = 'Lock' AND datname = '{database.name}'"
    )
    return int(str(database.ask(asked)[0][0]))


def test_of_two_that_wait_for_the_row_one_gets_it(
    database: Database, paint: Colour, mode: str
) -> None:
    """Both saw it free, and each judges it once more when it has the row."""

    async def story() -> None:
        clients: list[Any] = []
        for _ in range(2):
            clients.append(paint.backend(open_engine(f"{database.url}?mode={mode}&timeout=20")[0]))
            for _ in range(2):
                mine = claim()
                assert isinstance(await clients[-1].attempt(mine, 0.0), Granted)
                assert await clients[-1].release(mine)
        claims = [claim() for _ in clients]
        many = 2 if mode == "lease" else 1  # the gate may be tried before the row is waited for
        with closing(database.server.connect(database.name)) as stranger:  # type: ignore[attr-defined]
            cursor = stranger.cursor()
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {TABLE} FOR UPDATE")
            asked = [
                paint.spawn(partial(client.attempt, mine, 0.0))
                for client, mine in zip(clients, claims, strict=True)
            ]
            await until(paint, lambda: waiting(database) >= many, "they do not wait")
            cursor.execute("ROLLBACK")
        answers = [await each.result(PATIENCE) for each in asked]
        assert sum(isinstance(each, Granted) for each in answers) == 1
        assert len(database.ask(f"SELECT 1 FROM {TABLE} WHERE holders <> ''")) == 1
        for client, mine, answer in zip(clients, claims, answers, strict=True):
            assert await client.release(mine) == isinstance(answer, Granted)
            await client.close()

    paint.run(story())
