"""What arrives late does no harm: every change names what it replaces."""

from __future__ import annotations

import pytest

from locknut.backends.memcached import recipe
from locknut.backends.memcached.item_keys import key_of
from locknut.core.values import Busy, Granted, Renewal
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.memcached.conftest import claim, port, run
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]


def replacement(server: MemcachedServer, name: str) -> tuple[bytes, int]:
    """The key of a lock, and the CAS id of what stands there now."""
    key = key_of(f"t:{name}")
    told = server.ask(f"mg {key.decode()} c")
    return key, int(told.split()[1][1:])


def send(server: MemcachedServer, packed: bytes) -> str:
    return server.ask(packed.decode().removesuffix("\r\n"))


def test_an_acquire_that_comes_after_its_release_is_refused(
    memcached_server: MemcachedServer,
) -> None:
    """A command was stuck, its sender gave up and released: then it arrives (L3)."""
    locks, mine = port(memcached_server.url), claim("late")
    run(locks.attempt(claim("late"), 0.0))  # the item is there
    run(locks.break_hold("t:late", None))
    key, cas = replacement(memcached_server, "late")
    stuck = recipe.replace(key, cas, recipe.claimed(mine), 31)
    run(locks.release(mine, outcome_unknown=True))
    assert send(memcached_server, stuck).startswith("EX")
    other = claim("late")
    assert isinstance(run(locks.attempt(other, 0.0)), Granted)
    assert run(locks.release(other))
    run(locks.close())


@pytest.mark.parametrize("colour", list(COLOURS))
def test_what_was_free_once_is_not_granted(memcached_server: MemcachedServer, colour: str) -> None:
    """It is known by the CAS id that it had. Another client has taken it since."""
    name, paint, other = f"once-{colour}", COLOURS[colour](), port(memcached_server.url)

    async def story() -> None:
        backend = paint.backend(open_engine(memcached_server.url)[0])
        before, theirs = claim(name), claim(name)
        assert isinstance(await backend.attempt(before, 0.0), Granted)
        assert await backend.release(before)
        assert isinstance(run(other.attempt(theirs, 0.0)), Granted)
        assert isinstance(await backend.attempt(claim(name), 0.0), Busy)
        assert list(run(other.renew([theirs]))) == [Renewal.HELD]
        assert run(other.release(theirs))
        await backend.close()

    paint.run(story())
    run(other.close())


def test_a_release_that_comes_late_frees_nobody_elses_hold(
    memcached_server: MemcachedServer,
) -> None:
    one, two = port(memcached_server.url), port(memcached_server.url)
    mine, theirs = claim("stale"), claim("stale")
    run(one.attempt(mine, 0.0))
    key, cas = replacement(memcached_server, "stale")
    stuck = recipe.replace(key, cas, recipe.FREE, recipe.FREE_FOR)
    assert run(one.release(mine))
    assert isinstance(run(two.attempt(theirs, 0.0)), Granted)
    assert send(memcached_server, stuck).startswith("EX")
    assert list(run(two.renew([theirs]))) == [Renewal.HELD]
    assert run(two.release(theirs))
    run(one.close())
    run(two.close())


def test_a_release_of_what_was_broken_frees_nobody_elses_hold(
    memcached_server: MemcachedServer,
) -> None:
    """It is sent without a look, by the CAS id that the hold had."""
    one, two = port(memcached_server.url), port(memcached_server.url)
    mine, theirs = claim("broken"), claim("broken")
    run(one.attempt(mine, 0.0))
    run(two.break_hold("t:broken", None))
    assert isinstance(run(two.attempt(theirs, 0.0)), Granted)
    assert not run(one.release(mine))
    assert list(run(two.renew([theirs]))) == [Renewal.HELD]
    assert run(two.release(theirs))
    run(one.close())
    run(two.close())


def test_a_renewal_that_comes_late_extends_nobody_elses_hold(
    memcached_server: MemcachedServer,
) -> None:
    one, two = port(memcached_server.url), port(memcached_server.url)
    mine, theirs = claim("old"), claim("old", ttl=5.0)
    run(one.attempt(mine, 0.0))
    run(two.break_hold("t:old", None))
    assert isinstance(run(two.attempt(theirs, 0.0)), Granted)
    assert list(run(one.renew([mine]))) == [Renewal.LOST]
    (info,) = run(two.inspect("t:old"))
    left = info.holders[0].ttl_left
    assert left is not None
    assert left <= 6.0
    assert run(two.release(theirs))
    run(one.close())
    run(two.close())


def test_giving_up_an_attach_keeps_the_end_of_the_detached_hold(
    memcached_server: MemcachedServer,
) -> None:
    """However late that command comes: it names the moment, not what was left when it was made."""
    locks, mine, other = port(memcached_server.url), claim("left"), claim("left")
    run(locks.attempt(mine, 0.0))
    assert run(locks.detach(mine, 20.0))
    key = key_of("t:left")
    detached, _ = run(locks._look(key))
    run(locks.release(other, outcome_unknown=True))
    barred, _ = run(locks._look(key))
    assert detached is not None
    assert barred is not None
    assert barred.barred == (other.id,)
    assert (barred.end, barred.claim_id) == (detached.end, mine.id)
    sent = recipe.replace(key, barred.cas, recipe.kept(barred, claim("left").id), barred.end)
    assert b" T%d " % detached.end in sent
    assert detached.end > 30 * 86400, "more than 30 days is a moment for a memcached"
    run(locks.close())


def test_an_answer_that_was_lost_is_asked_for_again_and_gives_the_same_number(
    memcached_server: MemcachedServer,
) -> None:
    one, two = port(memcached_server.url), port(memcached_server.url)
    mine = claim("again")
    granted = run(one.attempt(mine, 0.0))
    assert run(two.attempt(mine, 0.0)) == granted  # it knows nothing of the first sending
    assert run(one.attempt(mine, 0.0)) == granted
    assert list(run(two.renew([mine]))) == [Renewal.HELD]
    assert run(one.attempt(mine, 0.0)) == granted  # after a renewal the CAS id tells it no more
    assert isinstance(run(two.attempt(claim("again"), 0.0)), Busy)
    assert run(one.release(mine))
    run(one.close())
    run(two.close())
