"""A process that takes one name, removes unused files all the time, and checks that it is alone."""

from __future__ import annotations

import os
import sys
import time

from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import acquire, claim, engine_in, release, run

SECONDS = 1.5


def used(seen: int, raw: int) -> None:
    """Leave a trace of being inside; whoever finds another's trace was let in beside him."""
    assert os.pread(seen, 8, 0) in (b"", bytes(8)), "two are in"
    os.pwrite(seen, os.getpid().to_bytes(8, "big"), 0)
    assert raw > int.from_bytes(os.pread(seen, 8, 8), "big"), "the number went back"
    os.pwrite(seen, raw.to_bytes(8, "big"), 8)
    assert int.from_bytes(os.pread(seen, 8, 0), "big") == os.getpid(), "two are in"
    os.pwrite(seen, bytes(8), 0)


def main() -> None:
    engine = engine_in(sys.argv[1])
    backend, seen = engine.blocking(ThreadRuntime()), os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
    until, grants, removed = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < until:
        held = claim()
        raw = run(acquire(backend, held))
        assert raw is not None
        used(seen, raw)
        release(backend, held)
        grants += 1
        removed += engine.clean(unused_for=0.0)
    print(grants, removed)


if __name__ == "__main__":
    main()
