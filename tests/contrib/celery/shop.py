"""Tasks of a shop, for real workers: what they do is written into a folder, and waits for gates."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from locknut.contrib.celery import current_lease, locked_task

HERE = "tests.contrib.celery.shop"
FOLDER = Path(os.environ["SHOP"])
BROKER = os.environ["BROKER"]

app: Any = Celery("shop", broker=BROKER, backend=BROKER)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "global_keyprefix": os.environ["PREFIX"],
        "visibility_timeout": float(os.environ.get("VISIBILITY", "3600")),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    result_backend_transport_options={"global_keyprefix": os.environ["PREFIX"]},
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
)


def say(*words: object) -> None:
    with (FOLDER / "said").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def pass_gate(name: str) -> None:
    """Begin, wait until the test lets us through, and end."""
    say("begun", name, os.getpid())
    while not (FOLDER / f"open-{name}").exists():
        time.sleep(0.02)
    say("ended", name)


@app.task(name="retrying")  # type: ignore[untyped-decorator]  # Celery has no types
@locked_task("{name}", retry_every=0.1, ttl=1)
def retrying(name: str, number: int = 0) -> int:
    pass_gate(name)
    return number


@app.task(name="skipping", acks_late=True)  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}", on_busy="skip", ttl=6)
def skipping(name: str) -> str:
    pass_gate(name)
    return "done"


@app.task(name="raising")  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}", on_busy="raise")
def raising(name: str) -> str:
    pass_gate(name)
    return "done"


@app.task(name="bounded")  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}", retry_every=0.05, busy_retries=2)
def bounded(name: str) -> str:
    return name


@app.task(name="failing", bind=True, max_retries=1)  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}", retry_every=0.05)
def failing(self: Any, name: str, pause: float = 0.05) -> int:
    """The first try fails."""
    say("tried", name)
    if self.request.retries == 0:
        raise self.retry(countdown=pause, exc=ValueError("the first try"))
    return int(self.request.retries)


@app.task(name="checking")  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}", ttl=1)
def checking(name: str) -> None:
    say("begun", name, os.getpid())
    while True:
        current_lease().check()
        time.sleep(0.02)


@app.task(name="limited", soft_time_limit=1)  # type: ignore[untyped-decorator]  # the same
@locked_task("{name}")
def limited(name: str) -> str:
    try:
        pass_gate(name)
    except SoftTimeLimitExceeded:
        current_lease().check()
        raise
    return "done"


@app.task(name="by_digest", bind=True)  # type: ignore[untyped-decorator]  # the same
@locked_task(on_busy="skip")
def by_digest(self: Any, name: str, options: dict[str, int] | None = None) -> str:
    pass_gate(name)
    return current_lease().name


@app.task(name="tick")  # type: ignore[untyped-decorator]  # the same
def tick(word: str) -> None:
    say("tick", word, time.time())


app.conf.beat_schedule = {"often": {"task": "tick", "schedule": 0.5, "args": ("often",)}}
