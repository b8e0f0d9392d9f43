"""What need not stand in a claim's way is taken out: holds that ran out, and waiters that died."""

from __future__ import annotations

from locknut.backends.sql import hold_records
from locknut.backends.sql.table_port import LOCK, PERMITS
from locknut.backends.sql.waiting_claims import SILENCE
from locknut.core.values import Busy, Claim, Granted, Mode
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims

KEY, POOL = LOCK + b"a:x", PERMITS + b"a:x"


def _heads(scene: Scene, key: bytes) -> list[str]:
    return [each.head for each in hold_records.read(scene.place.store.rows[key].holders)]


def _two_permits(scene: Scene) -> tuple[Claim, Claim, Claim]:
    """All that there are: one ends after 10 seconds, one after 60; and who wants one, too."""
    short, long, third = claims(0, 1, 2, mode=Mode.PERMIT, permits=2)
    client = scene.client()
    assert isinstance(run(client.attempt(short._replace(ttl=10.0), 0.0)), Granted)
    assert isinstance(run(client.attempt(long, 0.0)), Granted)
    return short, long, third


def test_a_permit_that_ran_out_is_swept() -> None:
    scene = Scene()
    _, long, third = _two_permits(scene)
    scene.pass_time(11.0)
    scene.sent.clear()
    assert isinstance(run(scene.client().attempt(third._replace(waits=False), 0.0)), Granted)
    assert scene.sent == ["take", "sweep", "take"]
    assert _heads(scene, POOL) == [long.id, third.id]


def test_so_is_one_that_was_detached() -> None:
    scene = Scene()
    short, long, third = _two_permits(scene)
    assert run(scene.client().detach(short, 10.0))
    scene.pass_time(11.0)
    assert isinstance(run(scene.client().attempt_all([third])), list)
    assert _heads(scene, POOL) == [long.id, third.id]


def test_nothing_is_swept_where_there_is_no_room_all_the_same() -> None:
    scene = Scene()
    _, _, third = _two_permits(scene)
    scene.sent.clear()
    assert isinstance(run(scene.client().attempt(third._replace(waits=False), 0.0)), Busy)
    assert isinstance(run(scene.client().attempt_all([third])), Busy)
    assert scene.sent == ["take", "take_all", "read"]


def test_a_writer_does_not_wait_for_the_end_of_a_reader_that_left() -> None:
    """The row knows when the last hold would have ended, and not that it was given back."""
    scene = Scene()
    client = scene.client()
    long, short = claims(0, 1, mode=Mode.SHARED)
    run(client.attempt(long, 0.0))
    run(client.attempt(short._replace(ttl=10.0), 0.0))
    assert run(client.release(long))
    scene.pass_time(11.0)
    scene.sent.clear()
    (writer,) = claims(2)
    assert isinstance(run(client.attempt(writer, 0.0)), Granted)
    assert scene.sent == ["take", "sweep", "take"]
    assert _heads(scene, KEY) == [writer.id]


def test_who_asks_again_after_its_hold_ran_out_has_one_hold() -> None:
    scene = Scene()
    client = scene.client()
    short, long = claims(0, 1, mode=Mode.SHARED)
    before = run(client.attempt(short._replace(ttl=10.0), 0.0))
    run(client.attempt(long, 0.0))
    scene.pass_time(11.0)
    again = run(client.attempt(short, 0.0))
    assert isinstance(before, Granted)
    assert isinstance(again, Granted)
    assert again.raw > before.raw
    assert _heads(scene, KEY) == [long.id, short.id]


def test_one_that_drops_the_dead_calls_the_living() -> None:
    scene = Scene()
    holder, dead, client = scene.client(), scene.client(), scene.client()
    held, gone, waits, tries = claims(0, 1, 2, 3)
    run(holder.attempt(held, 0.0))
    run(dead.attempt(gone, 0.0))
    for _ in range(int(SILENCE) + 2):
        run(client.attempt(waits, 0.0))
        scene.pass_time(1.0)
    scene.place.store.rows[KEY] = scene.place.store.rows[KEY]._replace(holders="")  # nobody rings
    client._waiting.by_id[waits.id].rung = False
    assert isinstance(run(holder.attempt(tries._replace(waits=False), 0.0)), Busy)
    assert gone.id not in scene.place.store.rows[KEY].line
    assert client._waiting.by_id[waits.id].rung


def test_who_looks_by_itself_calls_those_who_may_enter_too() -> None:
    """A writer died, so nobody rang. The first reader finds it out, and far back they sleep."""
    scene = Scene()
    (writer,) = claims(0)
    readers = claims(1, 2, 3, 4, mode=Mode.SHARED)
    clients = [scene.client() for _ in readers]
    run(scene.client().attempt(writer._replace(ttl=10.0), 0.0))
    for client, reader in zip(clients, readers, strict=True):
        run(client.attempt(reader, 0.0))
        run(client.attempt(reader, 0.0))
    scene.pass_time(11.0)
    assert isinstance(run(clients[0].attempt(readers[0], 0.0)), Granted)
    rung = [
        client._waiting.by_id[reader.id].rung
        for client, reader in zip(clients[1:], readers[1:], strict=True)
    ]
    assert rung == [True, True, True]
