"""The same task is queued four times, and a worker could run four at once: it runs once per feed.

A real Celery worker with four threads and its broker in memory. A task that finds its feed busy is
skipped, and says so in the log. Needs `pip install celery`.
Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import threading

from celery import Celery
from celery.contrib.testing.worker import start_worker

import locknut

app = Celery("feeds", broker="memory://", backend="cache+memory://")
finish = threading.Event()
read: list[str] = []


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        locks = locknut.connect(url, namespace=f"example-{secrets.token_hex(4)}")

        @app.task  # type: ignore[untyped-decorator]  # Celery has no types
        @locks.locked("feed:{feed}", on_busy="skip")
        def read_feed(feed: str) -> str:
            read.append(feed)
            finish.wait(60)
            return f"{feed} has been read"

        with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False), locks:
            first = read_feed.delay("news")
            other = read_feed.delay("weather")
            while len(read) < 2:  # both feeds are being read
                finish.wait(0.01)
            again = [read_feed.delay("news").get(timeout=60) for _ in range(3)]
            finish.set()
            done = [first.get(timeout=60), other.get(timeout=60)]
    print(f"run: {done}; skipped meanwhile: {again}")
    if again != [None] * 3 or sorted(read) != ["news", "weather"]:
        sys.exit(f"NOT proved: {read}")
    print("Proved: five tasks were queued, and no feed was read twice at a time.")


if __name__ == "__main__":
    main()
