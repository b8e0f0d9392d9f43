"""What session mode sends to a MySQL or MariaDB: one packet to acquire, and one to release, and
soon the server need not read the statements in them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from locknut.core.values import Busy, Claim, Granted
from locknut.drivers.mysql.sessions import REPEATABLE_READ
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.servers.databases import Database


@pytest.fixture
def client(database: Database) -> Iterator[Any]:
    made = open_engine(f"{database.url}?mode=session")[0].blocking(ThreadRuntime())
    yield made
    run(made.close())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kind of each packet."""
    kinds: list[int] = []
    send = Connection._execute_command

    def noting(connection: Connection, command: int, sql: str | bytes) -> None:
        kinds.append(command)
        send(connection, command, sql)

    monkeypatch.setattr(Connection, "_execute_command", noting)
    return kinds


def claim(**facts: Any) -> Claim:
    return Claim("t:x", secrets.token_hex(16), **{"ttl": 30.0, **facts})


def pair(client: Any) -> Granted:
    mine = claim()
    answer = run(client.attempt(mine, 0.0))
    assert isinstance(answer, Granted)
    assert run(client.release(mine))
    return answer


def test_a_pair_is_two_packets_that_the_server_need_not_read(client: Any, sent: list[int]) -> None:
    """Of a name that it has taken before. One that is taken once is two packets of text, and costs
    nothing more.
    """
    pair(client)
    sent.clear()
    pair(client)
    prepared = COMMAND.COM_STMT_PREPARE, COMMAND.COM_STMT_EXECUTE
    assert sent == [*prepared, *prepared]
    for _ in range(3):
        sent.clear()
        pair(client)
        assert sent == [COMMAND.COM_STMT_EXECUTE] * 2


def test_numbers_grow_whichever_way_they_are_asked_for(client: Any) -> None:
    numbers = [pair(client).raw for _ in range(5)]
    assert numbers == sorted(set(numbers))


def test_a_server_that_keeps_no_more_statements_is_told_by_words(
    client: Any, database: Database, sent: list[int]
) -> None:
    """1461: other programs have used up what it keeps."""
    server = database.server
    ((many,),) = server.ask("SELECT @@GLOBAL.max_prepared_stmt_count")
    server.ask("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        for _ in range(3):
            pair(client)
        sent.clear()
        pair(client)
        assert sent == [COMMAND.COM_QUERY] * 2
    finally:
        server.ask(f"SET GLOBAL max_prepared_stmt_count = {many}")


def test_a_statement_that_the_server_has_forgotten_is_said_by_words(
    client: Any, sent: list[int]
) -> None:
    """1243: something in between has begun the session anew."""
    for _ in range(3):
        pair(client)
    (session,) = client._sessions.kept._idle
    session.kept = dict.fromkeys(session.kept, 4242)
    pair(client)
    sent.clear()
    pair(client)
    assert sent == [COMMAND.COM_QUERY] * 2


def test_a_binary_log_of_statements_has_no_locks_in_it(client: Any, sent: list[int]) -> None:
    """A replica would try to take them, and pass over the row if it could not. Where rows cannot be
    logged (1665), a claim takes the gate by a statement that writes nothing.
    """
    pair(client)
    client._sessions.kept.isolation = REPEATABLE_READ
    for _ in range(2):
        sent.clear()
        pair(client)
        assert sent == [COMMAND.COM_QUERY] * 2


def test_who_comes_again_waits_at_the_gate(client: Any, database: Database) -> None:
    """One statement takes gate and row, or nothing: the holder has both."""
    others: Any = open_engine(f"{database.url}?mode=session")[0].blocking(ThreadRuntime())
    for each in (client, others):
        pair(each)
    holder, waiter = claim(), claim()
    assert isinstance(run(client.attempt(holder, 0.0)), Granted)
    assert isinstance(run(others.attempt(waiter, 0.0)), Busy)
    assert others._claims.get(waiter.id).wait is not None
    assert run(client.release(holder))
    assert not run(others.release(waiter))
    run(others.close())
