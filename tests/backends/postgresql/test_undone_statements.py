"""A statement that the server undid is sent again, and nobody notices: neither who asks for a lock
nor who renews it or gives it back.

A trigger on the table of locks makes the server undo them, so that each code comes where it is
wanted. A sequence counts: what was undone does not take its numbers back.
"""

from __future__ import annotations

import pytest

from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import PATIENCE, TABLE, connect
from tests.servers.databases import Database

pytestmark = pytest.mark.postgresql
CODES = {"40001": "serialization failure", "40P01": "deadlock", "55P03": "lock not available"}
TIMES = 2
"""In a row: fewer than a statement is tried."""
TRIGGER = f"""
CREATE SEQUENCE writes MINVALUE -{TIMES};
GRANT ALL ON SEQUENCE writes TO {{user}};
CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('writes') <= 0 THEN RAISE EXCEPTION 'undone' USING ERRCODE = '{{code}}'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER undoes BEFORE INSERT OR UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION undo()
"""


class Undoing:
    """The next writes of a row of locks are undone."""

    def __init__(self, database: Database, code: str):
        self._ask = database.ask
        database.ask(TRIGGER.format(user=database.user, code=code))

    def begin(self) -> None:
        self._ask(f"SELECT setval('writes', -{TIMES})")

    def is_over(self) -> bool:
        """Whether it happened so often, and what came after it was done."""
        return self._ask("SELECT last_value > 0 FROM writes") == [(True,)]


@pytest.mark.parametrize("mode", ["lease", "session"])
@pytest.mark.parametrize("code", list(CODES))
def test_it_is_sent_again(database: Database, paint: Colour, code: str, mode: str) -> None:
    """Were one of them missing among those that are tried again, it would be the caller's error."""

    async def story() -> None:
        locks = connect(paint, f"{database.url}?mode={mode}&timeout=30")
        async with locks.lock("x"):
            pass
        undoing = Undoing(database, code)
        undoing.begin()
        lease = await locks.lock("x").acquire(timeout=PATIENCE)
        assert undoing.is_over()
        undoing.begin()
        await lease.renew()
        assert undoing.is_over()
        undoing.begin()
        await lease.release()
        assert undoing.is_over()
        assert not (await locks.info("x")).locked
        await locks.close()

    paint.run(story())
