"""What a dashboard costs the engine that it looks at, at its default refresh, with many locks held.

    python -m benchmarks.looking redis --locks 10000 --seconds 300
    python -m benchmarks.looking file

Another process holds the locks. First nobody looks, then an observer does, as `locknut dash` has
one. On Redis the engine's part is the server's own processor time (INFO), without what it needs
while nobody looks. A directory of lock files has no server: its part is what the kernel does for
the observer, and ours is the rest. The listings of the first moments, which teach the observer how
often it can afford to look, are part of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import locknut
from locknut.observer.place_observer import PlaceObserver
from tests.servers.redis import RedisServer

HOLDER = """
import resource, sys, locknut
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
locks = locknut.connect(sys.argv[1], label="holder")
has_ttl = "lease" in {each.value for each in locks.capabilities}
ttl = {"ttl": 7200.0} if has_ttl else {}
leases = [locks.lock(f"job:{number}", **ttl).acquire() for number in range(int(sys.argv[2]))]
print("held", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["redis", "file"])
    parser.add_argument("--locks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        url, engine_time = _engine(options.engine, stack)
        command = [sys.executable, "-c", HOLDER, url, str(options.locks)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(holder.wait)
        stack.callback(holder.kill)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        quiet = _share(engine_time, options.seconds / 10)
        locks = stack.enter_context(locknut.connect(url))
        observer = stack.enter_context(closing(PlaceObserver(locks)))
        listings: list[float] = []
        observer.view(lambda: listings.append(observer.picture.took))
        user = _own().ru_utime
        observer.start()
        looked = _share(engine_time, options.seconds)
        found = {
            "engine": options.engine,
            "locks": len(observer.picture.locks),
            "seconds": options.seconds,
            "listings": len(listings),
            "pause at the end": round(observer.picture.pause, 1),
            "a listing takes": round(sorted(listings)[len(listings) // 2], 3),
            "engine, % of a core": round(100 * (looked - quiet), 2),
            "the observer's own, % of a core": round(
                100 * (_own().ru_utime - user) / options.seconds, 2
            ),
        }
        print(json.dumps(found))


def _engine(name: str, stack: ExitStack) -> tuple[str, Callable[[], float]]:
    """Its URL, and the processor seconds that it has used so far."""
    if name == "file":
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locknut-looking-")))
        return f"file://{folder}/locks", lambda: _own().ru_stime
    server = stack.enter_context(RedisServer())

    def used() -> float:
        told = server.info("cpu")
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    return server.url, used


def _own() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)


def _share(used: Callable[[], float], seconds: float) -> float:
    """Which part of a core was used in the seconds that follow."""
    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


if __name__ == "__main__":
    main()
