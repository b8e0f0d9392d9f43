"""Metrics of several processes: the multiprocess mode of prometheus_client, with forked workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.metrics.scrape import samples

WORKERS = 3
PROGRAM = """
import os, sys, threading
import locknut
from locknut import metrics
from prometheus_client import CollectorRegistry, generate_latest, multiprocess

folder, workers = sys.argv[1], int(sys.argv[2])
metrics.prometheus()                         # before the fork, as a preloaded application does
locks = locknut.connect(f"file://{folder}")
held = locks.lock("parent:1").acquire()      # the parent's, and not counted in a child
busy = threading.Event()

def churn():                                 # a fork must not copy a mutex that is held
    while not busy.is_set():
        with locks.lock("churn:1"):
            pass

threads = [threading.Thread(target=churn, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for number in range(workers):
    to_parent, from_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for _ in range(5):
                with locks.lock(f"job:{number}"):
                    pass
            with locks.lock(f"kept:{number}"):
                os.write(to_parent[1], b"!")
                os.read(from_parent[0], 1)
        finally:
            os._exit(0)
    children.append((child, to_parent, from_parent))
for _, to_parent, _ in children:
    os.read(to_parent[0], 1)
busy.set()
for thread in threads:
    thread.join()

def page():
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return generate_latest(registry).decode()

print(page())
print("#### then")
for child, _, from_parent in children:
    os.write(from_parent[1], b"!")
    os.waitpid(child, 0)
    multiprocess.mark_process_dead(child)
held.release()
print(page())
"""


@pytest.mark.faults
def test_forked_workers_add_up(tmp_path: Path) -> None:
    values, locks = tmp_path / "values", tmp_path / "locks"
    values.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(locks), str(WORKERS)],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(values)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    during, after = map(samples, done.stdout.split("#### then"))

    def label(lock: str, **more: str) -> frozenset[tuple[str, str]]:
        return frozenset({"backend": "file", "lock": lock, "mode": "exclusive", **more}.items())

    acquired = "locknut_acquire_total", label("job:*", outcome="acquired")
    assert during[acquired] == after[acquired] == 5 * WORKERS
    assert during["locknut_held", label("kept:*")] == WORKERS
    assert during["locknut_held", label("parent:*")] == 1, "once, whatever was forked"
    assert after.get(("locknut_held", label("kept:*")), 0) == 0
    assert after["locknut_held", label("parent:*")] == 0
    assert len([path for path in values.iterdir() if path.name.startswith("counter")]) > WORKERS


CHILD = """
import os
import locknut
from locknut import metrics
from prometheus_client import REGISTRY

metrics.prometheus()
locks = locknut.connect("memory:")
lease = locks.lock("x:1").acquire()
value = lambda: REGISTRY.get_sample_value(
    "locknut_held", {"backend": "memory", "lock": "x:*", "mode": "exclusive"})
assert value() == 1
child = os.fork()
if child == 0:
    try:
        assert value() == 0, value()
        with locks.lock("x:1"):
            assert value() == 1, value()
        assert value() == 0, value()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert value() == 1
"""


@pytest.mark.faults
def test_a_forked_child_holds_nothing_of_its_parents() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
