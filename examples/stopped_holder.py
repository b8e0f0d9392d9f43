"""A holder is stopped (SIGSTOP) for longer than its lock lasts, and wakes up without knowing it.

Another one has the lock by then, with a larger fence. The first step that the sleeper checks is
refused, and the end of its `with` would have told it too. Runs on a database file of its own, or on
the engine that LOCKNUT_URL names, if its holds have a ttl.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
from multiprocessing.connection import Connection

import locknut

TTL = 3.0


def job(url: str, namespace: str, hear: Connection, tell: Connection) -> None:
    """Hold the lock, be told to write, and look before writing."""
    with locknut.connect(url, namespace=namespace, label="the sleeper") as locks:
        try:
            # Who is stopped cannot renew. Without renewal it is not stopped in the middle of one,
            # either, which would keep the file of the database from everybody.
            with locks.lock("import", ttl=TTL, auto_renew=False) as lease:
                tell.send(f"{lease.fence}")
                hear.recv()
                lease.check()
                tell.send("wrote")
        except locknut.LeaseLost as loss:
            tell.send(f"did not write: {loss}")


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    heard, tell = processes.Pipe(duplex=False)
    hear, say = processes.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"sqlite://{folder}/locks.db"
        namespace = f"example-{secrets.token_hex(4)}"
        sleeper = processes.Process(target=job, args=(url, namespace, hear, tell))
        sleeper.start()
        tell.close()  # so that we hear of it if it dies
        first = int(heard.recv())
        print(f"the sleeper holds the lock with fence {first}, and is stopped now")
        assert sleeper.pid is not None
        os.kill(sleeper.pid, signal.SIGSTOP)
        with (
            locknut.connect(url, namespace=namespace) as locks,
            locks.lock("import", timeout="10m") as lease,
        ):
            print(f"its ttl is over: another one has the lock with fence {lease.fence}")
            second = lease.fence
            say.send("go on")
            os.kill(sleeper.pid, signal.SIGCONT)
            said = heard.recv()
            print(f"the sleeper goes on, and {said}")
            lease.check()  # ours all the time
        sleeper.join()
    if not said.startswith("did not write") or second <= first:
        sys.exit("NOT proved")
    print("Proved: a holder that was stopped for too long did not write, and knows why.")


if __name__ == "__main__":
    main()
