"""A program with a `ProcessPoolExecutor`: locks as arguments, and decorated functions as tasks."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from concurrent.futures import Future, ProcessPoolExecutor

from locknut import aio
from tests.forks.programs import shop


def on_a_loop(lock: aio.Lock) -> int:
    return asyncio.run(shop.work_on_a_loop(lock))


def main(method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        with shop.LOCK as lease:
            first = [pool.submit(shop.work, shop.LOCKS.lock("till")) for _ in range(3)]
            shop.until_waiting(3)
            assert shop.count() == 0
        done: list[Future[int]] = list(first)
        done += [pool.submit(shop.decorated) for _ in range(3)]
        done += [pool.submit(shop.decorated_before_there_was_a_locks) for _ in range(3)]
        done += [pool.submit(on_a_loop, shop.WAITS_ON_A_LOOP) for _ in range(6)]
        assert len({each.result() for each in first}) == 3
        assert len({each.result() for each in done}) == 3
        refused = pool.submit(print, lease).exception()
        assert isinstance(refused, TypeError)
        assert "detach()" in str(refused)
    assert shop.count() == 3 * shop.STEPS + 6 + 6 * shop.TURNS


if __name__ == "__main__":
    main(sys.argv[1])
