"""A paused bank clerk wakes up and writes an old balance: the guard refuses it.

The clerk's lock ran out while it was paused (a garbage collection, a stopped container, a suspended
laptop). No lock can stop what it does next; the file can, because it remembers the newest fence.
"""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path

import locknut
from locknut.guards import FileGuard


def deposit(accounts: FileGuard, amount: int) -> None:
    """Read, change, write back: what gets lost when two do it at once."""
    balances = json.loads(accounts.read_text())
    balances["alice"] += amount
    accounts.write_text(json.dumps(balances))


def paused_clerk(
    locks: locknut.Locks, path: Path, paused: threading.Event, wake: threading.Event
) -> str:
    """Take the lock, look at the balance, and fall asleep for longer than the lock lasts."""
    lease = locks.lock("accounts", ttl=0.3, auto_renew=False).acquire()
    assert lease is not None
    accounts = FileGuard(path).enter(lease)
    balances = json.loads(accounts.read_text())
    print(f"slow clerk:  fence {lease.fence}, reads {balances}, and falls asleep")
    paused.set()
    wake.wait()
    balances["alice"] += 5
    try:
        accounts.write_text(json.dumps(balances))
    except locknut.StaleFence as refusal:
        print(f"slow clerk:  wakes up, wants to write {balances}, and is refused:\n  {refusal}")
        return "refused"
    return "accepted"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "accounts.json")
        path.write_text(json.dumps({"alice": 100}))
        locks = locknut.connect(f"file://{folder}/locks")
        paused, wake = threading.Event(), threading.Event()
        outcome: list[str] = []
        slow = threading.Thread(
            target=lambda: outcome.append(paused_clerk(locks, path, paused, wake))
        )
        slow.start()
        paused.wait()
        with locks.lock("accounts", timeout=10) as lease:  # granted when the slow one's ttl is over
            print(f"quick clerk: fence {lease.fence}, deposits 50")
            deposit(FileGuard(path).enter(lease), 50)
        wake.set()
        slow.join()
        balance = json.loads(path.read_text())["alice"]
        print(f"balance: {balance}")
        assert outcome == ["refused"]
        assert balance == 150
    print("Proved: the deposit of 50 survived a writer whose lock had ended.")


if __name__ == "__main__":
    main()
