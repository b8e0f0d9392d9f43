"""Which worker runs which tests: a file at a time, the longest first, the contract by its colour.

Most tests wait for something, so several files run at once. A file stays on one worker, which then
starts each server once. What takes longest has to begin first, or a run ends with one worker at
work and all the others idle. The conformance suite of an engine is two halves that do not need
each other, one for each colour: they may run on two workers.
"""

from __future__ import annotations

from collections import Counter

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SECONDS = {
    "tests/backends/redlock/test_forgetting.py": 80,
    "tests/backends/sql/session/test_lost_sessions.py": 75,
    "tests/backends/sql/session/test_lock_sessions.py": 75,
    "tests/conformance/test_mysql.py": 75,
    "tests/conformance/test_postgresql.py": 75,
    "tests/conformance/test_zookeeper.py": 75,
    "tests/conformance/test_redis_layouts.py": 65,
    "tests/api/test_interrupts.py": 60,
    "tests/servers/test_sql_servers.py": 60,
    "tests/conformance/test_memcached.py": 60,
    "tests/conformance/test_etcd.py": 60,
    "tests/conformance/test_etcd_recipe.py": 25,
    "tests/backends/etcd/test_outages.py": 60,
    "tests/backends/etcd/test_simulated.py": 30,
    "tests/backends/zookeeper/test_session.py": 60,
    "tests/conformance/test_redlock.py": 60,
    "tests/contracts/test_commands.py": 60,
    "tests/conformance/test_file.py": 45,
    "tests/conformance/test_redis_least_privilege.py": 45,
    "tests/backends/redis/test_hanging.py": 40,
    "tests/backends/redis/test_interrupted.py": 40,
    "tests/conformance/test_memory.py": 40,
    "tests/conformance/test_redis.py": 40,
    "tests/conformance/test_redlock_failing.py": 40,
    "tests/conformance/test_sqlite_example.py": 40,
    "tests/core/test_cancelling.py": 40,
    "tests/core/test_simulator.py": 40,
    "tests/greenlets/test_gevent.py": 40,
    "tests/backends/redis/test_imitation.py": 30,
    "tests/backends/redlock/test_interrupted.py": 30,
    "tests/backends/zookeeper/test_without_majority.py": 30,
    "tests/cli/test_losing.py": 30,
    "tests/conformance/test_redis_cluster.py": 30,
    "tests/conformance/test_redis_sentinel.py": 30,
    "tests/plugin/test_real_locks.py": 30,
    "tests/cli/test_conformance.py": 30,
    "tests/backends/file/test_waiting.py": 25,
    "tests/cli/test_contention.py": 25,
    "tests/cli/test_reasons.py": 25,
    "tests/conformance/test_valkey.py": 25,
    "tests/drivers/etcd/test_hanging.py": 25,
    "tests/drivers/etcd/test_watches.py": 25,
    "tests/faults/test_pinging_disturbed.py": 25,
    "tests/backends/redis/test_connections.py": 20,
    "tests/cli/test_run.py": 20,
    "tests/forks/test_children.py": 20,
    "tests/plugin/test_forks.py": 20,
}
"""What each part of these takes by itself, roughly: only the order counts."""
EACH = 0.1
"""What any other test takes, on the average."""


def part(nodeid: str) -> str:
    """What one worker runs in one go: a file, or the half of a conformance suite."""
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/conformance/") and "asyncio" in test.partition("[")[2]:
        return f"{file} on asyncio"
    return file


def longest_first(items: list[pytest.Item]) -> None:
    """Sort them by what their part takes; every worker has to come to the same order."""
    seconds: dict[str, float] = {}
    for name, count in Counter(part(item.nodeid) for item in items).items():
        seconds[name] = SECONDS.get(name.partition(" ")[0], count * EACH)
    items.sort(key=lambda item: (-seconds[part(item.nodeid)], part(item.nodeid)))


class ByPart(LoadFileScheduling):  # type: ignore[misc]  # xdist shows no types
    """pytest-xdist's `loadfile`, with parts in place of files, in the order they are sorted in."""

    def __init__(self, config: pytest.Config, log: Producer | None = None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # xdist's own order goes by the number of tests

    def _split_scope(self, nodeid: str) -> str:
        return part(nodeid)
