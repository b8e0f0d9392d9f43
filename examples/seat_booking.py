"""A seat is held while its customer pays, across requests and servers, and free again if he leaves.

The hold belongs to no process: the text that `detach` gives is kept in the customer's session, and
whichever server gets the payment takes it up by that text.
Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile

import locknut

TO_PAY = 600
IN_A_MOMENT = 1.0
"""Seconds that a customer has to pay; the second one is for this example, where one goes away."""


def choose(server: locknut.Locks, seat: str, time_to_pay: float = TO_PAY) -> str | None:
    """A request: hold the seat; what to keep in the session, or None if somebody else has it."""
    lease = server.lock(f"seat:{seat}").acquire(timeout=0)
    return lease.detach(ttl=time_to_pay) if lease else None


def pay(server: locknut.Locks, session: str, customer: str, sold: dict[str, str]) -> bool:
    """A later request, on any server: take up the hold, sell the seat, let go."""
    try:
        with server.attach(session) as lease:
            sold.setdefault(lease.name, customer)
            return True
    except (locknut.LeaseLost, locknut.NotHeld) as gone:
        print(f"{customer} pays too late: {gone}")
        return False


def main() -> None:
    sold: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        namespace = f"example-{secrets.token_hex(4)}"
        with (
            locknut.connect(url, namespace=namespace) as first,
            locknut.connect(url, namespace=namespace) as second,
        ):
            alice = choose(first, "12A")
            bob = choose(second, "12A")
            print(f"alice has chosen 12A: {alice is not None}; bob gets it too: {bob is not None}")
            assert alice is not None
            paid = pay(second, alice, "alice", sold)
            print(f"alice pays on the other server: {paid}")

            carol = choose(first, "12B", IN_A_MOMENT)
            assert carol is not None
            print("carol chooses 12B and closes her laptop; dave waits for it")
            with second.lock("seat:12B", timeout=60):
                sold["seat:12B"] = "dave"
            late = pay(first, carol, "carol", sold)
    print(f"sold: {sold}")
    wanted = {"seat:12A": "alice", "seat:12B": "dave"}
    if bob is not None or not paid or late or sold != wanted:
        sys.exit("NOT proved")
    print("Proved: no seat was sold twice, and the one that nobody paid for became free.")


if __name__ == "__main__":
    main()
