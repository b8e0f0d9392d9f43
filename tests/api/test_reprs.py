"""What a debugger or a log shows of an object: what it is, never a secret."""

from __future__ import annotations

import asyncio

import locknut
from locknut import aio
from locknut.core.values import Holder, LockInfo, Mode


def test_a_read_write_lock_and_a_semaphore(locks: locknut.Locks) -> None:
    shelf, one, ten = locks.rwlock("shelf"), locks.semaphore("one", 1), locks.semaphore("ten", 10)
    assert repr(shelf) == "<locknut.RWLock 'shelf' on memory: not held here>"
    with shelf.read():
        assert repr(shelf) == "<locknut.RWLock 'shelf' on memory: held here>"
    assert repr(one) == "<locknut.Semaphore 'one', 1 permit on memory: not held here>"
    with ten:
        assert repr(ten) == "<locknut.Semaphore 'ten', 10 permits on memory: held here>"


def test_the_same_for_asyncio(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            shelf, ten = locks.rwlock("shelf"), locks.semaphore("ten", 10)
            async with shelf.write(), ten:
                assert repr(shelf) == "<locknut.aio.RWLock 'shelf' on memory: held here>"
                assert "10 permits on memory: held here" in repr(ten)

    asyncio.run(main())


def test_a_locks_names_its_place_and_that_it_is_closed(url: str) -> None:
    locks = locknut.connect(url, namespace="shop")
    assert repr(locks) == f"<locknut.Locks at {locks.place}, namespace 'shop'>"
    locks.close()
    assert repr(locks) == f"<locknut.Locks at {locks.place}, namespace 'shop', closed>"


def test_no_password_is_shown() -> None:
    urls = (
        "redis://ann:s3cret@127.0.0.1:1/0",
        "rediss://:s3cret@127.0.0.1:1",
        "redis+sentinel://:s3cret@127.0.0.1:1/main",
        "redis+cluster://:s3cret@127.0.0.1:1",
        "redlock://:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "zookeeper://ann:s3cret@127.0.0.1:1",
    )
    for url in urls:
        with locknut.connect(url) as locks:
            for thing in (locks, locks.lock("x"), locks.all("a", "b"), locks.locked("x")):
                assert "s3cret" not in repr(thing)


def test_holders_show_their_fence() -> None:
    holder = Holder(host="web", pid=7, mode=Mode.SHARED, raw=3, since=1.5)
    shown = (
        "Holder(fence=96, host='web', pid=7, who='', label='', mode=<Mode.SHARED: 'shared'>, "
        "since=1.5, ttl_left=None, owner=None, party='', breaks=False)"
    )
    assert repr(holder) == shown
    assert shown in repr(LockInfo("x", (holder,)))
    assert "fence=None" in repr(Holder())
