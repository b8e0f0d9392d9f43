"""Four hosts have the same crontab: each of its jobs is run once, on one of them.

They do not start at the same moment, and their clocks differ; each says for which time of the
schedule it starts a job. Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection

import locknut

HOSTS = 4
SHOPS = ["berlin", "lisbon", "oslo"]
PERIOD = timedelta(minutes=15)


def last_quarter() -> datetime:
    """The time of the schedule for which the hosts start their jobs now."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    return now - timedelta(minutes=now.minute % 15)


def host(url: str, namespace: str, scheduled: datetime, tell: Connection) -> None:
    """What cron does on one host: start the job of each shop; `once` decides who runs it."""
    locks = locknut.connect(url, namespace=namespace)

    @locks.once("sync:{shop}", per=PERIOD, at="{scheduled}")
    def sync(shop: str, scheduled: datetime) -> str:
        return f"orders of {shop} at {scheduled:%H:%M}"

    tell.send([(shop, sync(shop, scheduled)) for shop in SHOPS])
    locks.close()


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        settings = (url, f"example-{secrets.token_hex(4)}", last_quarter())
        told, tell = processes.Pipe(duplex=False)
        hosts = [processes.Process(target=host, args=(*settings, tell)) for _ in range(HOSTS)]
        for process in hosts:
            process.start()
        tell.close()  # so that we hear of it if one dies
        starts = [start for _ in hosts for start in told.recv()]
        for process in hosts:
            process.join()
    runs = sorted(shop for shop, done in starts if done)
    for shop in SHOPS:
        print(f"{shop}: started on {HOSTS} hosts, run {runs.count(shop)} time(s)")
    if runs != SHOPS:
        sys.exit("NOT proved: a job was run twice, or not at all")
    print(f"Proved: {len(starts)} starts on {HOSTS} hosts, {len(runs)} runs, one for each job.")


if __name__ == "__main__":
    main()
