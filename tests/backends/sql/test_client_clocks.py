"""A client whose time of day is set, by any amount, keeps its lock and lets nobody in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import locknut

ENGINES = ["mariadb", "mysql", "postgresql", "sqlite"]
MODES = ["lease", "session"]
DAY = 86400.0
PATIENCE = 60.0


@pytest.fixture(
    params=[
        pytest.param((each, mode), marks=getattr(pytest.mark, each), id=f"{each}-{mode}")
        for each in ENGINES
        for mode in MODES
        if (each, mode) != ("sqlite", "session")
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    engine, mode = request.param
    if engine == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    return f"{request.getfixturevalue(f'{engine}_database').url}?mode={mode}"


@pytest.mark.parametrize("step", [-DAY, DAY])
def test_its_hold_goes_on_and_the_next_fence_is_greater(
    url: str, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows, counts = time.time, time.time_ns
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.lock("x", ttl=600, timeout=PATIENCE).acquire()
        assert lease is not None
        monkeypatch.setattr(time, "time", lambda: shows() + step)
        monkeypatch.setattr(time, "time_ns", lambda: counts() + int(step * 1e9))
        assert others.lock("x").acquire(timeout=0) is None
        assert lease.remaining > 500
        lease.renew()
        assert lease.held
        lease.release()
        following = others.lock("x", timeout=PATIENCE).acquire()
        assert following is not None
        assert following.fence > lease.fence
        following.release()
