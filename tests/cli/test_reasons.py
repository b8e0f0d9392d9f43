"""`locknut break --reason`: who broke a lock, and why, reaches its holder where the engine can."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import locknut
from locknut import aio
from locknut.backends.file import burial
from tests.cli.harness import Shell, until
from tests.cli.test_contention import HOLD, hold, let_go, waiting

WHY = "stuck since noon"


def broken_by(shell: Shell) -> str:
    return f"{WHY} (by tester@{os.uname().nodename}:"


@pytest.mark.parametrize("kind", [(), ("-s",), ("-j", "2")], ids=["lock", "shared", "slots"])
def test_run_says_by_whom_and_why(shell: Shell, kind: tuple[str, ...]) -> None:
    holder, fence = hold(shell, *kind, "x")
    assert shell.run("break", "x", "--fence", str(fence), "-y", "--reason", WHY)[0] == 0
    assert f"it was broken by force: {broken_by(shell)}" in holder.error_line()
    assert holder.finish()[0] == 79
    again, _ = hold(shell, *kind, "x")
    let_go(again)


def test_a_break_without_a_reason_names_who_did_it(shell: Shell) -> None:
    holder, fence = hold(shell, "x", "--json")
    assert shell.run("break", "x", "--fence", str(fence), "-y")[0] == 0
    told = json.loads(holder.error_line())
    assert told["reason"].startswith(f"broken: by tester@{os.uname().nodename}:")


def test_a_lease_says_it_everywhere(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    with locknut.connect(shell.environment["LOCKNUT_URL"]) as locks, caplog.at_level(logging.ERROR):
        lease = locks.lock("x").acquire()
        assert lease is not None
        heard: list[str] = []
        locks.on_event(lambda event: heard.append(event.reason) if event.kind == "lost" else None)
        words = ("break", "x", "--fence", str(lease.fence), "-y", "--reason", WHY)
        assert shell.run(*words)[0] == 0
        assert lease.lost.wait(60)
        assert lease.reason.startswith(f"broken: {broken_by(shell)}")
        with pytest.raises(locknut.LeaseLost, match=WHY):
            lease.check()
        # Losses are told aside: listeners and the log hear of it after the lease is marked.
        until(lambda: any(WHY in record.getMessage() for record in caplog.records))
    assert heard == [lease.reason]


def test_a_lease_on_a_loop_says_it_too(shell: Shell) -> None:
    async def main() -> str:
        url = shell.environment["LOCKNUT_URL"]
        async with aio.connect(url) as locks, aio.connect(url, label="an admin") as other:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            assert await other.force_release("x", lease.fence, reason=WHY)
            assert await lease.lost.wait(60)
            return lease.reason

    assert asyncio.run(main()) == f"broken: {WHY} (by an admin)"


def test_of_two_permits_only_the_broken_one_gets_the_note(shell: Shell) -> None:
    first, fence = hold(shell, "-j", "2", "x")
    second, _ = hold(shell, "-j", "2", "x")
    assert shell.run("break", "x", "--fence", str(fence), "-y", "--reason", WHY)[0] == 0
    assert WHY in first.error_line()
    let_go(second)


def test_a_note_is_for_its_own_grants_and_never_half_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    fd = os.open(path, os.O_RDWR)
    try:
        assert burial.read_note(fd, 5) == ""
        with burial.note_to_holders(fd, 3, 5, "why\x1b\u00e9" + 300 * "x") as sent:
            sent.stays = True
        assert burial.read_note(fd, 5).startswith("why\x1b\u00e9xxx")
        assert (burial.read_note(fd, 2), burial.read_note(fd, 6)) == ("", "")
        os.pwrite(fd, b"?", 300)  # torn
        assert burial.read_note(fd, 5) == ""
        with pytest.raises(KeyError), burial.note_to_holders(fd, 3, 5, "called off"):
            raise KeyError
        assert burial.read_note(fd, 5) == ""
    finally:
        os.close(fd)


SERVERS = {
    "redis": ("redis_server", pytest.mark.redis),
    "sentinel": ("redis_sentinel", pytest.mark.redis),
    "cluster": ("redis_cluster", pytest.mark.redis),
    "redlock": ("redlock_nodes", pytest.mark.redlock),
    "zookeeper": ("zookeeper_server", pytest.mark.zookeeper),
}


@pytest.fixture(
    params=[pytest.param(name, marks=mark, id=kind) for kind, (name, mark) in SERVERS.items()]
)
def far(request: pytest.FixtureRequest) -> Iterator[Shell]:
    """A shell whose locks live on servers."""
    made = Shell(f"{request.getfixturevalue(request.param).url}")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_run_says_it_on_every_server_too(far: Shell) -> None:
    """Though somebody waits, who has the lock in the moment in which it is broken. Nor may that one
    let go before it was told: the note lies in the lock's node on ZooKeeper, and goes with it.
    """
    holder, fence = hold(far, "why", "--ttl", "6", "--grace", "1")
    waiter = far.start("run", "why", *HOLD)
    until(lambda: waiting(far, "why") == 1)
    assert far.run("break", "why", "--fence", str(fence), "-y", "--reason", WHY)[0] == 0
    assert f"it was broken by force: {broken_by(far)}" in holder.error_line()
    assert holder.finish()[0] == 79
    let_go(waiter)
