"""A trigger on the table of locks that writes to another table is refused.

With one, neither server sends the number that a statement has given to LAST_INSERT_ID(). A grant
was found by reading the row then; but each release counted as a loss, and session mode got no
answer.
"""

from __future__ import annotations

import pytest

import locknut
from locknut.errors import ConfigurationError
from tests.servers.databases import Database

AUDIT = "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, what TEXT)"
TRIGGER = (
    "CREATE TRIGGER audits_{event} AFTER {event} ON locknut_locks FOR EACH ROW "
    "INSERT INTO audit (what) VALUES (NEW.name)"
)


@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
@pytest.mark.parametrize("mode", ["lease", "session"])
def test_it_is_refused(database: Database, mode: str, event: str) -> None:
    with locknut.connect(f"{database.url}?mode={mode}") as locks:
        with locks.lock("known", timeout=60):
            pass
        database.ask(AUDIT)
        database.ask(TRIGGER.format(event=event))
        name = "known" if event == "UPDATE" else "new"
        with pytest.raises(ConfigurationError, match="a trigger on it writes to another table"):
            locks.lock(name).acquire(timeout=60)
