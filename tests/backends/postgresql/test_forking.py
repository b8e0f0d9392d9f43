"""A forked child lets its parent's sessions alone, in both colours."""

from __future__ import annotations

import pytest

import locknut
from locknut.errors import NotHeld
from tests.backends.postgresql.conftest import listens
from tests.forks.child import in_child
from tests.forks.engine_children import a_loop_survives_the_child
from tests.servers.databases import Database

pytestmark = [pytest.mark.postgresql, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(database: Database) -> None:
    with locknut.connect(database.url, namespace="t") as locks, locks.lock("x", ttl=20) as lease:
        before = database.server.sessions()

        def child() -> None:
            with pytest.raises(NotHeld):
                lease.release()
            for own in (locks, locknut.connect(database.url, namespace="t")):
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=0):
                    pass

        in_child(child)
        assert set(before) <= set(database.server.sessions()), "the child ended the parent's"
        lease.renew()
        assert locks.info("x").locked


def test_a_loops_sessions_survive_the_child(database: Database) -> None:
    a_loop_survives_the_child(database.url, namespace="t")


@pytest.mark.slow
def test_a_childs_waiter_is_woken_by_its_own_listener(database: Database) -> None:
    with locknut.connect(database.url, namespace="t") as locks:
        others = locknut.connect(database.url, namespace="t")
        with others.lock("x"):
            assert locks.lock("x").acquire(timeout=1.5) is None
            (parents,) = listens(database)

        def child() -> None:
            with locknut.connect(database.url, namespace="t") as own, own.lock("x"):
                assert locks.lock("x").acquire(timeout=1.5) is None
                assert len(listens(database)) == 2

        in_child(child)
        assert parents in listens(database)
        others.close()
