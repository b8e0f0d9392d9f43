"""What a program sees when its lock is taken away: it is told, it can ask, and `with` says so."""

from __future__ import annotations

import sys
import tempfile
import threading

import locknut


def long_job(locks: locknut.Locks, operator: locknut.Locks) -> list[str]:
    """Work under a lock that an operator breaks in the middle; what the job noticed, in order."""
    noticed: list[str] = []
    called = threading.Event()

    def call(lost: locknut.Lease) -> None:  # on a thread of its own
        print(f"callback:  the lock {lost.name!r} is gone")
        called.set()

    try:
        with locks.lock("import", on_lost=call) as lease:
            lease.check()
            noticed.append(f"state {lease.state}")
            print(f"working with fence {lease.fence}; now an operator breaks the lock")
            assert operator.force_release("import", fence=lease.fence)
            lease.lost.wait(timeout=30)
            noticed.append(f"state {lease.state}")
            try:
                lease.check()
            except locknut.LeaseLost as loss:
                noticed.append("check raised")
                print(f"check():   {loss}")
    except locknut.LeaseLost as loss:
        noticed.append("with raised")
        print(f"with:      {loss}")
    if called.wait(timeout=30):
        noticed.append("callback called")
    return noticed


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"file://{folder}"
        with locknut.connect(url) as locks, locknut.connect(url) as operator:
            noticed = long_job(locks, operator)
    if noticed != ["state held", "state lost", "check raised", "with raised", "callback called"]:
        sys.exit(f"NOT proved: the job noticed {noticed}")
    print("Proved: a lost lock never ends in silence.")


if __name__ == "__main__":
    main()
