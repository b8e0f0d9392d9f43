"""Stories of greenlets around a lock; what a story promises it asserts.

Run as `python -m gevent.monkey --module tests.greenlets.program URL STORY ...`: gevent patches the
whole process, before anything of ours is imported. The story `late` is told without that. Each
story is said when it begins, for those who look for the one that failed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import gevent
from gevent import event, monkey

import locknut

PATIENCE = 60.0
CROWD = 12
TTL = 6.0
STRIKES = 3


def excludes(url: str) -> None:
    """Greenlets of one Locks, and of another one, are never inside at once."""
    inside: list[int] = []
    ours, others = locknut.connect(url), locknut.connect(url)

    def work(number: int) -> None:
        for _ in range(3):
            with (ours, others)[number % 2].lock("x", timeout=PATIENCE):
                inside.append(number)
                gevent.sleep(0.002)
                assert inside == [number]
                inside.clear()

    join([gevent.spawn(work, number) for number in range(CROWD)])


def leaves_the_hub_free(url: str) -> None:
    """Who holds the lock is a greenlet of the same hub: it would never release it otherwise."""
    ours, others = locknut.connect(url), locknut.connect(url)
    held = others.lock("x").acquire(timeout=PATIENCE)
    waiter = gevent.spawn(ours.lock("x").acquire, timeout=PATIENCE)
    until(lambda: others.info("x").waiters)
    assert held is not None
    held.release()
    join([waiter])
    assert waiter.value.held


def enters_again(url: str) -> None:
    """By greenlet, as a thread would: nobody else does."""
    lock = locknut.connect(url).lock("x")

    def other() -> tuple[bool, object]:
        return lock.held, lock.acquire(blocking=False)

    with lock, lock:
        beside = gevent.spawn(other)
        join([beside])
        assert beside.value == (False, None)
        assert lock.held
    assert not lock.locked()


def is_renewed(url: str) -> None:
    """While its greenlet waits for something else."""
    locks = locknut.connect(url)
    lease = locks.lock("x", ttl=3).acquire(timeout=PATIENCE)
    assert lease is not None
    end = time.monotonic() + 5
    while time.monotonic() < end:
        gevent.sleep(0.05)
        lease.check()
    lease.release()


def gives_up_in_time(url: str) -> None:
    """By `timeout=`, by gevent's own Timeout, and when it is killed; nobody is left in the line."""
    ours, others = locknut.connect(url), locknut.connect(url)
    with others.lock("x", timeout=PATIENCE):
        assert ours.lock("x").acquire(timeout=0.1) is None
        with gevent.Timeout(0.1, False):  # as gevent's users write it
            ours.lock("x").acquire()
            raise AssertionError
        waiter = gevent.spawn(ours.lock("x").acquire)
        until(lambda: others.info("x").waiters)
        waiter.kill()
        until(lambda: not others.info("x").waiters)
    with ours.lock("x", timeout=PATIENCE):
        pass


def is_interrupted(url: str) -> None:
    """Ctrl-C ends the wait of the main greenlet, and leaves nobody in the line."""
    ours, others = locknut.connect(url), locknut.connect(url)
    heard = event.Event()

    def interrupt() -> None:
        """Python raises it in the greenlet that runs just then. If that is a thread's, gevent lets
        the thread end with it, and whoever pressed Ctrl-C has to press it again.
        """
        until(lambda: others.info("x").waiters)
        while not heard.is_set():
            subprocess.run(["kill", "-INT", str(os.getpid())], check=True)
            heard.wait(10)

    with others.lock("x", timeout=PATIENCE):
        gevent.spawn(interrupt)
        try:
            ours.lock("x").acquire()
        except KeyboardInterrupt:
            heard.set()
            until(lambda: not others.info("x").waiters)
        else:
            raise AssertionError
    with ours.lock("x", timeout=PATIENCE):
        pass


def keeps_on(url: str) -> None:
    """Ctrl-C between a renewal and its answer, in the greenlet of the keeper: the main greenlet
    gets it, the keeper that follows asks elsewhere, renews in time, and tells of a loss.
    """
    locks, others = locknut.connect(url), locknut.connect(url)
    lost = event.Event()
    struck: list[socket.socket] = []
    sendall = socket.socket.sendall

    def sendall_and_strike(self: socket.socket, data: bytes) -> None:
        sendall(self, data)
        renews = threading.current_thread().name == "locknut-keeper" and b"kept here" in data
        if renews and len(struck) < STRIKES:
            struck.append(self)
            os.kill(os.getpid(), signal.SIGINT)  # Python raises it here and now

    socket.socket.sendall = sendall_and_strike  # type: ignore[assignment,method-assign]
    lease = locks.lock("kept here", ttl=TTL, on_lost=lambda _: lost.set()).acquire(timeout=PATIENCE)
    assert lease is not None
    for _ in range(STRIKES):
        try:
            gevent.sleep(TTL)
        except KeyboardInterrupt:
            lease.check()
        else:
            raise AssertionError
    assert len({id(each) for each in struck}) == STRIKES
    for _ in range(2):  # from the last of them on, and once more
        least = left = ttl_left(others, "kept here")
        while left <= least:
            least = left
            gevent.sleep(0.02)
            left = ttl_left(others, "kept here")
            lease.check()
    assert others.force_release("kept here")
    assert lost.wait(PATIENCE)


def ttl_left(locks: locknut.Locks, name: str) -> float:
    """As the server has it."""
    (holder,) = locks.info(name).holders
    assert holder.ttl_left is not None
    return holder.ttl_left


def computes(url: str) -> None:
    """Nobody renews while a greenlet does not let the others run: the lease says so afterwards."""
    stand_still = monkey.get_original("time", "sleep")
    locks = locknut.connect(url)
    lease = locks.lock("x", ttl=1).acquire(timeout=PATIENCE)
    assert lease is not None
    stand_still(1.2)
    assert not lease.held


def asks_the_silent(url: str) -> None:
    """A server that takes connections and says nothing keeps nobody for longer than it may."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for scheme in ("redis", "memcached", "etcd"):
            silent_one = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}?socket_timeout=0.5s"
            with gevent.Timeout(PATIENCE), locknut.connect(silent_one) as locks:
                began = time.monotonic()
                try:
                    locks.lock(url).acquire(timeout=0.2)
                except locknut.BackendUnavailable:
                    assert time.monotonic() - began < PATIENCE / 10
                else:
                    raise AssertionError


def late(url: str) -> None:
    """Patched after the import, or never: a second greenlet is refused, not let in."""
    for patch in (lambda: None, monkey.patch_all):
        patch()
        lock = locknut.connect(url).lock("x")
        with lock, lock:
            beside = gevent.spawn(refused, lock)
            join([beside])
            assert "before locknut is imported" in beside.value
        gevent.spawn(lock.acquire).join(PATIENCE)
        with lock:  # the one before has ended, and its hold is this thread's
            assert lock.held
        lock.release()
        assert not lock.locked()


def refused(lock: locknut.Lock) -> str:
    try:
        lock.acquire()
    except locknut.DeadlockDetected as error:
        return str(error)
    raise AssertionError


def join(greenlets: list[gevent.Greenlet]) -> None:
    gevent.joinall(greenlets, timeout=PATIENCE, raise_error=True)
    assert all(each.ready() for each in greenlets)


def until(question: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not question():
        assert time.monotonic() < give_up
        gevent.sleep(0.01)


STORIES: dict[str, Callable[[str], None]] = {
    told.__name__: told
    for told in (
        excludes,
        leaves_the_hub_free,
        enters_again,
        is_renewed,
        gives_up_in_time,
        is_interrupted,
        keeps_on,
        computes,
        asks_the_silent,
        late,
    )
}

if __name__ == "__main__":
    for story in sys.argv[2:]:
        print(story, flush=True)
        STORIES[story](sys.argv[1])
