"""Deadlocks (1213) cost no caller anything: neither beside pruning (L13) nor in session mode."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing

import pytest

from locknut.backends.sql.mysql.literals import DAY
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.backends.sql.mysql.named_lock_session import name_of
from locknut.backends.sql.session.session_port import gate_of
from locknut.backends.sql.table_port import GiveBack, Take
from locknut.core.values import Claim
from locknut.opening import Settings
from locknut.runtimes.threads import run
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.mysql.conftest import PATIENCE, stranger_of, table
from tests.servers.databases import Database

THREADS = 4
PAIRS = int(os.environ.get("LOCKNUT_PAIRS", "60"))
"""Of each thread; a run with thousands is made by hand."""


def deadlocks(database: Database) -> int:
    """What the server has counted since it was started."""
    wanted = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
    ((count,),) = database.ask(wanted)
    return int(str(count))


def impatient(database: Database) -> MySqlTable:
    """Prunes what nobody holds any more, without waiting for a day."""
    made = table(database, "?timeout=30s")
    prune = tuple(each.replace(str(DAY), "0") for each in made._say.prune)
    made._say = made._say._replace(prune=prune)
    return made


@pytest.mark.faults
def test_nobody_sees_one_and_they_are_rare(database: Database) -> None:
    """Two that claim a name whose row was deleted this moment can still be in each other's way
    (MySQL: some ten of ten thousand pairs with pruners that never rest). One of them is undone, and
    sent again at once. A prune along an index on the expiry gave nine of a hundred.
    """
    ours = impatient(database)
    run(ours.take(Take(b"l0", "0" * 32, 1, "[]", queue=False, stamp=1)))
    before, pruned, failures = deadlocks(database), [0], []
    done = threading.Event()

    def pairs(number: int) -> None:
        try:
            for turn in range(PAIRS):
                key, claim_id = b"l%d" % (turn % 5), f"{number:016x}{turn:016x}"
                run(ours.take(Take(key, claim_id, 1, "[]", queue=False, stamp=turn)))
                run(ours.give_back([GiveBack(key, claim_id, turn)]))
        except Exception as error:  # noqa: BLE001 -- shown by the test
            failures.append(error)

    def prune() -> None:
        while not done.is_set():
            pruned[0] += run(ours.prune(100))

    threads = [threading.Thread(target=pairs, args=(number,)) for number in range(THREADS)]
    sweeping = [threading.Thread(target=prune) for _ in range(2)]
    for thread in (*threads, *sweeping):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in sweeping:
        thread.join()
    assert not failures
    assert pruned[0] > 0, "nothing was pruned, so nothing was shown"
    assert deadlocks(database) - before <= max(5, THREADS * PAIRS // 100)
    run(ours.close())


@pytest.mark.faults
@pytest.mark.parametrize("colour", list(COLOURS))
def test_one_in_session_mode_is_tried_again(database: Database, colour: str) -> None:
    """A stranger has locked the table and wants the named lock, while we have that and want the
    table. The server undoes our statement. Without another try that would be the caller's error.
    """
    paint = COLOURS[colour]()
    locked = (
        "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%metadata lock%'"
    )

    async def story() -> None:
        engine = open_engine(f"{database.url}?mode=session&timeout=30")[0]
        locks = paint.locks(engine, Settings("t"))
        async with locks.lock("x", timeout=PATIENCE):
            pass
        gate = gate_of(f"{database.name}.locknut_locks", Claim("t:x", ""))
        with closing(stranger_of(database)) as stranger, stranger.cursor() as cursor:
            cursor.execute("LOCK TABLES locknut_locks WRITE")
            asked = paint.spawn(lambda: locks.lock("x").acquire(timeout=PATIENCE))
            give_up = time.monotonic() + PATIENCE
            while database.ask(locked) == [(0,)]:
                assert time.monotonic() < give_up, "it does not wait for the table"
                await paint.pause(0.02)
            cursor.execute(f"SELECT GET_LOCK({name_of(gate)}, {int(PATIENCE)})")
            assert cursor.fetchall() == ((1,),), "our statement was undone, and let go of it"
            cursor.execute("UNLOCK TABLES")
        lease = await asked.result(PATIENCE)
        assert lease is not None
        await lease.release()
        await locks.close()

    paint.run(story())
