"""Ten customers in four processes want the last three tickets: the lock sells exactly three."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import holdfast

TICKETS = 3
CUSTOMERS = 10


def buy(stock: Path) -> bool:
    """Look whether there is one left, take the money, write down that it is gone."""
    left = int(stock.read_text())
    if left == 0:
        return False
    time.sleep(0.05)  # the payment
    stock.write_text(f"{left - 1}")
    return True


def buy_unlocked(folder: str, _customer: int) -> bool:
    return buy(Path(folder, "stock"))


def buy_locked(folder: str, customer: int) -> bool:
    locks = holdfast.connect(f"file://{folder}/locks", label=f"customer {customer}")
    with locks, locks.lock("tickets", timeout=30):
        return buy(Path(folder, "stock"))


def main() -> None:
    sold: dict[str, int] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("spawn").Pool(4) as pool,
    ):
        for name, way in {"without a lock": buy_unlocked, "with Holdfast": buy_locked}.items():
            Path(folder, "stock").write_text(f"{TICKETS}")
            sold[name] = sum(pool.starmap(way, [(folder, n) for n in range(CUSTOMERS)], 1))
            print(f"{name}: {sold[name]} of {TICKETS} tickets sold")
    if sold["with Holdfast"] != TICKETS:
        sys.exit("NOT proved: the lock did not hold")
    print(f"Proved: {CUSTOMERS} customers, {TICKETS} tickets, {TICKETS} sold.")


if __name__ == "__main__":
    main()
