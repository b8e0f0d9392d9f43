"""An observer of every engine: who holds, who waits where that is told, and a break."""

from __future__ import annotations

import secrets
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import Capability
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.sightings import Weight
from tests.servers.processes import until

SERVERS = {
    "redis": "redis_server",
    "redlock": "redlock_nodes",
    "zookeeper": "zookeeper_server",
    "etcd": "etcd_server",
    "memcached": "memcached_server",
    "postgresql": "postgresql_database",
    "mariadb": "mariadb_database",
}
"""Which fixture has the server of an engine."""
AT_ONCE = ("memory", "file", "sqlite", "redis")
EVERY = [
    pytest.param(
        name,
        marks=[getattr(pytest.mark, name), *([] if name in AT_ONCE else [pytest.mark.slow])],
    )
    for name in dict.fromkeys((*AT_ONCE, *SERVERS))
]


@pytest.fixture(params=EVERY)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    engine = request.param
    if engine in SERVERS:
        server: Any = request.getfixturevalue(SERVERS[engine])
        joint = "&" if "?" in server.url else "?"
        return f"{server.url}{joint}namespace=n{secrets.token_hex(8)}"
    places = {"memory": f"memory:{tmp_path.name}", "file": f"file://{tmp_path}/locks"}
    return places.get(engine, f"sqlite://{tmp_path}/locks.db")


@pytest.mark.usefixtures("patient_callers")
def test_who_holds_who_waits_and_a_break(url: str) -> None:
    with ExitStack() as stack:
        locks, others, third = (
            stack.enter_context(locknut.connect(url, label=label))
            for label in ("operator", "report-1", "report-2")
        )
        observer = stack.enter_context(closing(PlaceObserver(locks)))
        lease = others.lock("report").acquire()
        assert lease is not None
        granted, done = threading.Event(), threading.Event()

        def wait() -> None:
            with suppress(locknut.LeaseLost), third.lock("report"):  # it is broken in the end
                granted.set()
                done.wait(60)

        thread = threading.Thread(target=wait)
        thread.start()
        stack.callback(thread.join)
        stack.callback(done.set)
        stack.callback(locks.force_release, "report")
        tells = Capability.WAITERS in locks.capabilities
        until(lambda: not tells or locks.info("report").waiters, "somebody waits")
        observer.look()
        (info,) = observer.picture.locks
        assert (info.name, [each.fence for each in info.holders]) == ("report", [lease.fence])
        assert (observer.tells_waiters, observer.picture.waiting) == (tells, int(tells))
        assert observer.break_hold("report", lease.fence, "hangs")
        assert granted.wait(60), "the next one has it"
        observer.look()
        (concern,) = [each for each in observer.concerns() if each.kind == "broken"]
        assert (concern.name, concern.weight) == ("report", Weight.WARNING)
        assert "hangs" in concern.detail
        (after,) = observer.picture.locks
        assert after.holders[0].fence != lease.fence
        checkup = [each.kind for each in observer._checkup()]
        assert "doctor" not in checkup, "it could be asked"
