"""Celery: tasks of a prefork worker, and a program that starts it and sends them.

The worker imports this module, and takes a lock, before it forks those who run the tasks.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

from celery import Celery, signals

from tests.forks.programs import shop

HERE = "tests.forks.programs.sends_tasks"
for name in ("outbox", "queue", "control"):
    (shop.FOLDER / name).mkdir(exist_ok=True)
app: Any = Celery(HERE, broker="filesystem://", backend=f"file://{shop.FOLDER}")
app.conf.update(
    broker_transport_options={
        "data_folder_in": f"{shop.FOLDER}/queue",
        "data_folder_out": f"{shop.FOLDER}/outbox",
        "control_folder": f"{shop.FOLDER}/control",
        "polling_interval": 0.05,
    },
    worker_prefetch_multiplier=1,
)


@signals.worker_init.connect  # type: ignore[untyped-decorator]  # Celery has no types
def before_the_fork(**_: object) -> None:
    with shop.LOCK:
        shop.step()


@app.task  # type: ignore[untyped-decorator]  # the same
def work() -> int:
    return shop.work()


@app.task  # type: ignore[untyped-decorator]  # the same
def work_on_a_loop() -> int:
    return asyncio.run(shop.work_on_a_loop())


def send(task: str) -> Any:
    """A worker also takes a message that is not written to its end, so this one comes whole."""
    sent = app.send_task(f"{HERE}.{task}")
    for message in (shop.FOLDER / "outbox").iterdir():
        message.rename(shop.FOLDER / "queue" / message.name)
    return sent


def main() -> None:
    options = ["--pool=prefork", "--concurrency=3", "--without-gossip", "--without-mingle"]
    worker = subprocess.Popen([
        sys.executable, "-m", "celery", "-A", HERE, "worker", *options, "-l", "warning",
        "--without-heartbeat",
    ])  # fmt: skip
    try:
        send("work_on_a_loop").get(timeout=shop.HANGS, interval=0.02)
        assert shop.count() == 1 + shop.TURNS
        with shop.LOCK:
            sent = [send("work") for _ in range(3)]
            shop.until_waiting(3)
            assert shop.count() == 1 + shop.TURNS
        found = {each.get(timeout=shop.HANGS, interval=0.02) for each in sent}
        assert len(found - {worker.pid}) == 3
    finally:
        worker.terminate()
        assert worker.wait(shop.HANGS) == 0
    assert shop.count() == 1 + shop.TURNS + 3 * shop.STEPS


if __name__ == "__main__":
    main()
