"""What is too long for the server is never sent: it would remove what stands under the key.

A memcached refuses such a command to store, and removes the item, whatever CAS id was named: so a
client with a long label could free another one's lock, just by asking for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from locknut.backends.memcached import recipe
from locknut.backends.memcached.item_keys import key_of
from locknut.core.values import Busy, Granted, Renewal
from locknut.drivers.memcached.server_identity import Greeted
from locknut.errors import BackendError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.backends.memcached.conftest import claim, port, run
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
LONG = "x" * (2 << 20)
NARROW = 512 << 10
PATIENCE = 30.0


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


@pytest.fixture(scope="module")
def narrow() -> Iterator[MemcachedServer]:
    """It stores half of what others do."""
    with MemcachedServer("-I", str(NARROW)) as server:
        server.wait_until_old_enough()
        yield server


def test_a_real_server_removes_what_it_was_to_compare(memcached_server: MemcachedServer) -> None:
    """Or else the tests below mean nothing."""
    assert memcached_server.ask("ms t:victim 4 T100\r\nhold") == "HD\r\n"
    packed = recipe.replace(key_of("t:victim"), 1, LONG.encode(), 100)
    told = memcached_server.ask(packed.decode().removesuffix("\r\n"))
    assert "too large" in told
    assert memcached_server.ask("mg t:victim v") == "EN\r\n"


def test_whoever_knows_the_lock_as_free_removes_no_other_hold(
    memcached_server: MemcachedServer, paint: Colour
) -> None:
    name = f"known-{paint.name}"

    async def story() -> None:
        plain = paint.locks(open_engine(memcached_server.url)[0], Settings("long"))
        locks = paint.locks(open_engine(memcached_server.url)[0], Settings("long", label=LONG))
        with pytest.raises(BackendError, match="shorter label"):
            await locks.lock(name).acquire(timeout=PATIENCE)
        async with plain.lock(name, timeout=PATIENCE) as lease:
            assert await locks.lock(name).acquire(blocking=False) is None
            await lease.renew()
        await plain.close()
        await locks.close()

    paint.run(story())


def test_a_stale_cas_id_and_a_long_label(memcached_server: MemcachedServer) -> None:
    """It was free when we saw it last, and is another client's by now."""
    mine, theirs = port(memcached_server.url), port(memcached_server.url)
    before, held = claim("stale-long"), claim("stale-long")
    assert isinstance(run(mine.attempt(before, 0.0)), Granted)
    assert run(mine.release(before))
    assert isinstance(run(theirs.attempt(held, 0.0)), Granted)
    assert isinstance(run(mine.attempt(claim("stale-long")._replace(label=LONG), 0.0)), Busy)
    assert list(run(theirs.renew([held]))) == [Renewal.HELD]
    assert run(theirs.release(held))
    run(mine.close())
    run(theirs.close())


@pytest.mark.slow
def test_the_longest_that_is_granted_can_be_renewed_detached_and_released(
    narrow: MemcachedServer,
) -> None:
    """A renewal is longer than a claim: it has the number of the grant."""
    locks = port(narrow.url)
    _, server = run(locks._look(b"x"))
    assert server.longest == NARROW
    used = len(key_of("t:edge")) + len(recipe.claimed(claim("edge")))
    room = server.longest - recipe.AROUND - used
    fits = claim("edge")._replace(label="x" * (room - 10))
    assert isinstance(run(locks.attempt(fits, 0.0)), Granted)
    assert list(run(locks.renew([fits]))) == [Renewal.HELD]
    locks._handles.doubt(fits.id)  # as after an answer that was lost
    assert list(run(locks.renew([fits]))) == [Renewal.HELD]
    assert run(locks.release(fits))
    for _ in range(2):  # the second time it is known to be free
        with pytest.raises(BackendError, match="shorter label"):
            run(locks.attempt(claim("edge")._replace(label="x" * (room + 10)), 0.0))
    run(locks.close())


@pytest.mark.parametrize("longest", [NARROW, 1 << 20])
def test_what_is_sent_is_stored(
    narrow: MemcachedServer, memcached_server: MemcachedServer, longest: int
) -> None:
    """The longest value that passes the check, and a renewal's number more, under a long key."""
    server = narrow if longest == NARROW else memcached_server
    key = b"k" * 200
    value = b"x" * (longest - recipe.AROUND - len(key))
    recipe.checked(key, value, Greeted(0, 0, 0, 0.0, 0, 0.0, longest))
    with pytest.raises(BackendError):
        recipe.checked(key, value + b"x", Greeted(0, 0, 0, 0.0, 0, 0.0, longest))
    stored = value + b"x" * 20
    assert server.ask(f"ms {key.decode()} {len(stored)} T9\r\n{stored.decode()}") == "HD\r\n"
    small = b"x" * (recipe.SMALL - len(key))  # longer than any that goes by the short way
    assert server.ask(f"ms {key.decode()} {len(small)} T9\r\n{small.decode()}") == "HD\r\n"
