"""History in a database: bounded, in a table of its own, and in no lock's way."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.sql import table_options
from locknut.core import pacing, recording
from locknut.core.ports import Backend
from locknut.runtimes import threads
from locknut.runtimes.threads import ThreadRuntime
from locknut.urls import open_engine
from tests.cli.harness import Shell
from tests.history.looking import eventually, kinds
from tests.history.sql_places import DATABASES, SERVERS, TABLE, Place, place, transaction

STREAM = "t:history:routine"
MODES = ["lease", "session"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.05)


@pytest.fixture(params=DATABASES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, request, tmp_path)


@pytest.fixture(params=SERVERS)
def at_server(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, request, tmp_path)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return threads.run(work)


def backend(url: str) -> Backend:
    return open_engine(url)[0].blocking(ThreadRuntime())


def texts(port: Backend, stream: str = STREAM) -> list[str]:
    return [text for _, text in run(port.read_history(stream)).texts]


def warnings(caplog: pytest.LogCaptureFixture, database: str) -> list[str]:
    """Of this test: a writer of the one before may still say what it has to say."""
    said = [each.getMessage() for each in caplog.records]
    return [each for each in said if "history cannot be written" in each and database in each]


def use(locks: locknut.Locks, name: str) -> None:
    with locks.lock(name):
        pass


def test_a_person_can_read_the_table(where: Place) -> None:
    with locknut.connect(where.url, namespace="t", history=20, label="me") as locks:
        use(locks, "invoice:42")
    granted, _ = where.ask(f"SELECT entry FROM {TABLE} WHERE stream = '{STREAM}' ORDER BY number")
    facts = json.loads(str(granted[0]))
    assert (facts["kind"], facts["name"], facts["label"]) == ("granted", "invoice:42", "me")


def test_any_name_comes_back_and_no_encoding_matters(where: Place) -> None:
    name = 'caf\u00e9 "\\u0041" \U0001f512\n'
    with locknut.connect(where.url, namespace="t", history=20) as locks:
        use(locks, name)
    with locknut.connect(where.url, namespace="t") as reader:
        assert kinds(reader.history()) == [("granted", name), ("released", name)]
    assert all(str(entry).isascii() for (entry,) in where.ask(f"SELECT entry FROM {TABLE}"))


def test_the_command_line_shows_it(where: Place) -> None:
    joint = "&" if "?" in where.url else "?"
    shell = Shell(f"{where.url}{joint}history=100")
    assert shell.run("run", "report", "--", "true")[0] == 0
    code, out, err = shell.run("events", "rep*")
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()] == ["granted", "released"]


def test_a_stream_stays_short_though_few_writings_cut_it(where: Place) -> None:
    port = backend(where.url)
    written = [f"entry {number}" for number in range(300)]
    for start in range(0, 300, 2):
        run(port.write_history(STREAM, written[start : start + 2], 100))
        assert where.count() <= 300 or start < 200
    kept = texts(port)
    assert 100 <= len(kept) < 250, "a cut is left out more often than not, but not for ever"
    assert kept == written[-len(kept) :]
    run(port.close())


def test_a_stream_that_nobody_writes_to_goes_away(where: Place) -> None:
    port = backend(where.url)
    for stream in ("a:history:routine", "b:history:routine", "c:history:routine"):
        run(port.write_history(stream, ["x"] * 5, 10))
    where.ask(f"UPDATE {TABLE} SET written = written - 31 * 86400000000 WHERE stream > 'b'")
    where.ask(f"UPDATE {TABLE} SET written = written - 31 * 86400000000 WHERE stream < 'b'")
    where.ask(f"UPDATE {TABLE} SET written = written + 29 * 86400000000 WHERE stream < 'b'")
    run(port.write_history("a:history:routine", ["y"] * 5, 10))
    assert where.count("stream LIKE 'a%'") == 10
    run(port.write_history("a:history:routine", ["y"] * 5, 10))
    assert where.count("stream > 'b'") == 0, "its neighbours' writers have removed it"
    run(port.close())


def test_own_entries_stay_however_old_they_are(where: Place) -> None:
    port = backend(where.url)
    run(port.write_history(STREAM, ["old"], 10))
    where.ask(f"UPDATE {TABLE} SET written = written - 31 * 86400000000")
    run(backend(where.url).write_history(STREAM, ["new"], 10))
    assert texts(port) == ["old", "new"]
    run(port.close())


def test_writers_that_cut_at_the_same_moment_do_not_fail(where: Place) -> None:
    def write(name: str) -> None:
        port = backend(where.url)
        for number in range(60):
            run(port.write_history(f"{name}:history:routine", [f"{name} {number}"] * 3, 5))
        run(port.close())

    run(backend(where.url).write_history(STREAM, ["first"], 5))
    with ThreadPoolExecutor(6) as crowd:
        for done in [crowd.submit(write, name) for name in "aabbtt"]:
            done.result(120)
    assert where.count() <= 3 * (5 + 2 * 3)


def test_what_a_stranger_has_locked_is_passed_over(at_server: Place) -> None:
    """A cut that waited would be undone, and the batch with it (L13)."""
    port = backend(at_server.url)
    run(port.write_history(STREAM, ["old"] * 5, 5))
    database = at_server.database
    assert database is not None
    # In READ COMMITTED it locks rows, and not also the place where new ones go.
    modest = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    if at_server.engine == "postgresql":
        modest = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
    locked = f"SELECT * FROM {TABLE} WHERE stream = '{STREAM}' FOR UPDATE"
    with transaction(database, modest, locked):
        run(port.write_history(STREAM, ["new"] * 5, 5))
        assert texts(port) == ["old"] * 5 + ["new"] * 5
    run(port.write_history(STREAM, ["newest"] * 5, 5))
    assert texts(port) == ["newest"] * 5
    run(port.close())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.slow
def test_a_table_that_cannot_be_written_delays_neither_acquires_nor_renewals(
    at_server: Place, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pacing, "FLUSH", 0.2)
    run(backend(at_server.url).write_history(STREAM, ["first"], 5))
    database = at_server.database
    assert database is not None
    closed = (
        f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE"
        if at_server.engine == "postgresql"
        else f"LOCK TABLES {TABLE} WRITE"
    )
    url = f"{at_server.url}?mode={mode}"
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        transaction(database, closed),
        locknut.connect(url, namespace="t", history=50) as locks,
    ):
        lease = locks.lock("kept", ttl=20.0).acquire()
        assert lease is not None
        for number in range(30):
            use(locks, f"{number}")
        renewed = lease.remaining
        eventually(lambda: lease.remaining > renewed)
        eventually(lambda: warnings(caplog, database.name))
        lease.check()
        lease.release()
    assert len(warnings(caplog, database.name)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_without_rights_there_is_no_history_and_every_lock(
    at_server: Place, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = at_server.database
    assert database is not None
    use(locknut.connect(at_server.url), "x")  # makes the table of locks
    run(backend(at_server.url).write_history(STREAM, [], 5))  # and that of the history
    rights = "SELECT, INSERT, UPDATE, DELETE ON {}"
    qualified = "" if at_server.engine == "postgresql" else f"{database.name}."
    poor = database.login("poor", rights.format(f"{qualified}locknut_locks"))
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        locknut.connect(f"{poor.url}?mode={mode}", namespace="t", history=50) as locks,
    ):
        for number in range(10):
            use(locks, f"{number}")
        eventually(lambda: warnings(caplog, database.name))
        for number in range(10):
            use(locks, f"{number}")
        told = warnings(caplog, database.name)
        assert len(told) == 1
        assert TABLE in told[0]
        assert "SELECT, INSERT, UPDATE" in told[0]
        assert "locknut schema" in told[0]
        user = poor.user if at_server.engine == "postgresql" else f"{poor.user}@'%'"
        database.ask(f"GRANT {rights.format(qualified + TABLE)} TO {user}")
        with locknut.connect(poor.url, namespace="t") as reader:
            eventually(lambda: ("granted", "0") in kinds(reader.history()))


def test_who_may_not_delete_cannot_fill_the_table(at_server: Place) -> None:
    database = at_server.database
    assert database is not None
    owner = backend(at_server.url)
    run(owner.write_history(STREAM, ["x"] * 5, 5))
    qualified = TABLE if at_server.engine == "postgresql" else f"{database.name}.{TABLE}"
    adder = backend(database.login("adder", f"SELECT, INSERT ON {qualified}").url)
    with pytest.raises(locknut.ConfigurationError, match="DELETE"):
        run(adder.write_history(STREAM, ["y"] * 5, 5))
    assert texts(adder) == ["x"] * 5, "who may look can look"
    run(adder.close())
    run(owner.close())


def test_a_loop_reads_what_threads_wrote(where: Place) -> None:
    async def main() -> None:
        async with aio.connect(where.url, namespace="t", history=20) as locks:
            async with locks.lock("x"):
                pass
            await locks.close()
        async with aio.connect(where.url, namespace="t") as locks:
            found = await asyncio.gather(*(locks.history("x") for _ in range(3)))
            assert [kinds(each) for each in found] == [[("granted", "x"), ("released", "x")]] * 3

    asyncio.run(main())


def test_another_table_of_locks_has_another_history(where: Place) -> None:
    names = ["t" + "x" * 61 + each for each in "ab"]
    histories = {table_options.history_table(f'"{each}"') for each in names}
    assert len(histories) == 2
    assert max(map(len, histories)) <= 63 + len('""')
    joint = "&" if "?" in where.url else "?"
    for name in names:
        url = f"{where.url}{joint}table={name}"
        with locknut.connect(url, history=20) as locks:
            use(locks, name)
        with locknut.connect(url) as reader:
            assert {each.name for each in reader.history()} == {name}


def test_a_table_of_somebody_else_harms_nobody(
    where: Place, caplog: pytest.LogCaptureFixture
) -> None:
    where.ask(f"CREATE TABLE {TABLE} (mine int)")
    if where.database is not None and where.engine == "postgresql":
        where.ask(f"GRANT ALL ON {TABLE} TO {where.database.user}")
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        locknut.connect(where.url, history=50) as locks,
    ):
        use(locks, "x")
        eventually(lambda: "history cannot be written" in caplog.text)
        use(locks, "y")
        with pytest.raises(locknut.LocknutError, match=TABLE):
            locks.history()
