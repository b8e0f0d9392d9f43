"""Ten customers, each a process of its own, want the last three tickets: the lock sells three."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import locknut

TICKETS = 3
CUSTOMERS = 10


def buy(folder: str, customer: int) -> None:
    """Look whether there is one left, take the money, write down who has it."""
    ledger = Path(folder, "sold")
    if len(ledger.read_text().splitlines()) < TICKETS:
        time.sleep(0.05)  # the payment
        with ledger.open("a") as sold:
            sold.write(f"customer {customer}\n")


def buy_locked(folder: str, customer: int) -> None:
    """The same, one customer at a time."""
    locks = locknut.connect(f"file://{folder}/locks", label=f"customer {customer}")
    with locks, locks.lock("tickets"):
        buy(folder, customer)


def sell(way: Callable[[str, int], None]) -> int:
    """Let everybody in at once; how many tickets were sold."""
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "sold")
        ledger.touch()
        crowd = [processes.Process(target=way, args=(folder, n)) for n in range(CUSTOMERS)]
        for process in crowd:
            process.start()
        for process in crowd:
            process.join()
        return len(ledger.read_text().splitlines())


def main() -> None:
    print(f"without a lock: {sell(buy)} of {TICKETS} tickets sold")
    sold = sell(buy_locked)
    print(f"with Locknut:  {sold} of {TICKETS} tickets sold")
    if sold != TICKETS:
        sys.exit("NOT proved: the lock did not hold")
    print(f"Proved: {CUSTOMERS} customers, {TICKETS} tickets, {sold} sold.")


if __name__ == "__main__":
    main()
