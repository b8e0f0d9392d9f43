"""The interpreter exits while threads are still inside their locks, and exit handlers take long."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

import locknut
from tests.api.crowd import PATIENCE
from tests.servers.redis import RedisServer

CHILD = textwrap.dedent("""
    import atexit, sys, threading

    looked = threading.Event()
    said = []

    def older():  # registered before Locknut's own exit handler, so called after it
        for _ in range(2):  # the second look began after Locknut's handler had ended
            looked.clear()
            looked.wait()
        with locknut.connect(sys.argv[1]) as others:
            busy = others.lock("x").acquire(blocking=False) is None
        print(said[0], "busy" if busy else "free", flush=True)
        sys.stdin.readline()

    atexit.register(older)
    import locknut

    locks = locknut.connect(sys.argv[1])
    inside = threading.Event()

    def work():
        with locks.lock("x") as lease, locks.lock("y"):
            inside.set()
            while True:
                try:
                    lease.check()
                    said[:] = ["held"]
                except locknut.LeaseLost:
                    said[:] = [f"{lease.state} {lease.reason}"]
                looked.set()

    threading.Thread(target=work, daemon=True).start()
    inside.wait()
""")


@pytest.fixture
def child() -> Any:
    """Starts one that holds `x` and `y`, and exits; what its thread says of `x` while it does."""
    started: list[subprocess.Popen[str]] = []

    def start(url: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", CHILD, url]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0


def test_where_holds_die_with_the_process_they_last_until_then(child: Any, tmp_path: Any) -> None:
    url = f"file://{tmp_path}"
    process, said = child(url)
    with locknut.connect(url) as locks:
        assert locks.lock("x").acquire(blocking=False) is None
        assert locks.lock("y").acquire(blocking=False) is None
        assert said == "held busy"
        end(process)
        for name in ("x", "y"):
            assert locks.lock(name).acquire(timeout=PATIENCE) is not None


def test_in_memory_they_last_as_well(child: Any) -> None:
    process, said = child("memory:")
    assert said == "held busy"
    end(process)


def test_elsewhere_they_are_lost_before_they_are_given_back(
    child: Any, redis_server: RedisServer
) -> None:
    process, said = child(redis_server.url)
    assert said == "lost exit free"
    with locknut.connect(redis_server.url) as locks:
        for name in ("x", "y"):
            assert locks.lock(name).acquire(blocking=False) is not None
    end(process)


def test_what_fails_keeps_nothing_else_from_being_given_back() -> None:
    program = """
        import atexit, locknut
        from locknut.backends.memory import MemoryEngine
        from locknut.backends.memory.backend import MemoryBackend
        from locknut.runtimes import threads

        class Outlives(MemoryBackend):
            default_ttl = 30.0
            batches = False
            async def release(self, claim, *, outcome_unknown=False):
                if claim.key.endswith("broken"):
                    raise ZeroDivisionError
                return await super().release(claim, outcome_unknown=outcome_unknown)

        class Engine(MemoryEngine):
            def blocking(self, runtime):
                return Outlives(self, runtime)

        engine = Engine("kept")
        def look():
            backend = engine.blocking(threads.ThreadRuntime())
            print([info.name for info in threads.run(backend.inspect(None))])
        import locknut.opening as opening
        atexit.unregister(opening._at_exit)
        atexit.register(look)
        atexit.register(opening._at_exit)
        locks = locknut.Locks(engine)
        leases = [locks.lock(name).acquire() for name in ("broken", "a", "b")]
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (result.stdout, result.stderr) == ("['locknut:broken']\n", "")
