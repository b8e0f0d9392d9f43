"""What a dashboard costs the engine that it looks at, at its default refresh, with many locks held.

    python -m benchmarks.looking redis --locks 10000 --seconds 300
    python -m benchmarks.looking file postgresql etcd

Another process holds the locks. First nobody looks, then an observer does, as `locknut dash` has
one. The engine's part is the processor time of its server, with all its processes, without what it
needs while nobody looks. A directory of lock files and a file of SQLite have no server: their part
is what the kernel does for the observer, and ours is the rest. The listings of the first moments,
which teach the observer how often it can afford to look, are part of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import locknut
from benchmarks.scale_places import PLACES, Place
from locknut.observer.place_observer import PlaceObserver

LONG = 7200.0
"""A ttl in which nothing is renewed meanwhile: that would be most of what is measured."""
HOLDER = """
import resource, sys, locknut
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
locks = locknut.connect(sys.argv[1], label="holder")
ttl = {"ttl": float(sys.argv[3])} if float(sys.argv[3]) else {}
leases = [locks.lock(f"job:{number}", **ttl).acquire() for number in range(int(sys.argv[2]))]
if sys.argv[1].startswith("zookeeper"):  # whose holds are renewed with their session
    texts = [lease.detach(7200) for lease in leases]
print("held", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="+", choices=sorted(set(PLACES) - {"memory"}))
    parser.add_argument("--locks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    for engine in options.engines:
        print(json.dumps({"engine": engine, **cost(engine, options.locks, options.seconds)}))


def cost(engine: str, locks: int, seconds: float) -> dict[str, float]:
    """Of looking at so many locks for so many seconds."""
    with PLACES[engine]() as place, _held(place, locks):
        used = place.cpu if place.requests else lambda: _own().ru_stime
        time.sleep(seconds / 10)  # or what is left to do for the locks counts as rest
        quiet = _share(used, seconds / 5)  # for three rounds of renewals, where they are frequent
        with (
            locknut.connect(_url(place)) as watched,
            closing(PlaceObserver(watched)) as observer,
        ):
            listings: list[float] = []
            observer.view(lambda: listings.append(observer.picture.took))
            user = _own().ru_utime
            observer.start()
            looked = _share(used, seconds)
            return {
                "locks": len(observer.picture.locks),
                "seconds": seconds,
                "listings": len(listings),
                "pause at the end": round(observer.picture.pause, 1),
                "a listing takes": round(sorted(listings)[len(listings) // 2], 3),
                "engine while nobody looks, % of a core": round(100 * quiet, 2),
                "engine, % of a core": round(100 * (looked - quiet), 2),
                "engine, s for a listing": round((looked - quiet) * seconds / len(listings), 3),
                "the observer's own, % of a core": round(
                    100 * (_own().ru_utime - user) / seconds, 2
                ),
            }


@contextmanager
def _held(place: Place, locks: int) -> Iterator[None]:
    """By another process."""
    ttl = 0.0 if place.ttl is None else LONG
    command = [sys.executable, "-c", HOLDER, _url(place), str(locks), str(ttl)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield
        finally:
            holder.kill()


def _url(place: Place) -> str:
    """With so long a ttl on Redlock, all its clients have to know that."""
    redlock = place.url.startswith("redlock")
    return f"{place.url}&max_ttl={LONG:g}" if redlock else place.url


def _own() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)


def _share(used: Callable[[], float], seconds: float) -> float:
    """Which part of a core was used in the seconds that follow."""
    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


if __name__ == "__main__":
    main()
