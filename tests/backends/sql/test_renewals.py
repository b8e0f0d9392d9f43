"""No renewal makes a hold end sooner: its holder may count on what another one was told."""

from __future__ import annotations

import pytest

from locknut.backends.sql import hold_records
from locknut.backends.sql.table_port import LOCK, US, Extension, Take
from locknut.core.values import Mode, Renewal
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims
from tests.simulation.sql.table_store import TableStore

KEY = LOCK + b"a:x"
NOW = 1_000_000 * US


@pytest.mark.parametrize("by", ["take", "extend"])
def test_one_that_waited_for_the_row_comes_last(by: str) -> None:
    """Two renewals began one after the other, and got the row in the other order."""
    store = TableStore()
    store.take(Take(KEY, "me", 3 * US, "[]", queue=True, stamp=1), NOW)
    assert store.extend([Extension(KEY, "me", 3 * US, 2)], NOW + US) == [True]
    if by == "take":
        store.take(Take(KEY, "me", 3 * US, "[]", queue=True, stamp=3), NOW + US // 2)
    else:
        assert store.extend([Extension(KEY, "me", 3 * US, 3)], NOW + US // 2) == [True]
    (record,) = hold_records.read(store.rows[KEY].holders)
    assert store.rows[KEY].expires == record.expires == NOW + 4 * US


def test_so_does_one_that_was_decided_by_an_earlier_clock() -> None:
    scene = Scene()
    client = scene.client()
    readers = claims(0, 1, mode=Mode.SHARED)
    for reader in readers:
        run(client.attempt(reader, 0.0))
    scene.pass_time(10.0)
    assert run(client.renew(readers)) == [Renewal.HELD, Renewal.HELD]
    scene.pass_time(-5.0)
    assert run(client.renew(readers)) == [Renewal.HELD, Renewal.HELD]
    scene.pass_time(64.0)
    assert run(client.renew(readers)) == [Renewal.HELD, Renewal.HELD]
