"""Which worker runs which tests: a file at a time, the longest first, the contract by its colour.

Most tests wait for something, so several files run at once. A file stays on one worker, which then
starts each server once. What takes longest has to begin first, or a run ends with one worker at
work and all the others idle. The conformance suites of an engine do not need each other, nor do
the two colours of each: all of them may run on different workers. Crowds of processes do, in a way:
they need the whole machine, so one worker has them all.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SECONDS = {
    "tests/faults/test_redlock_soak.py": 160,  # in `make test-all`
    "tests/backends/redis/test_commands_sent.py": 150,
    "tests/faults/test_redis_soak.py": 120,
    "tests/faults/test_soak.py": 100,
    "tests/faults/test_soak_zookeeper.py": 100,
    "tests/faults/test_sick_server.py": 90,
    "tests/contrib/starlette/test_starlette_served.py": 60,
    "tests/backends/sql/session/test_lost_sessions.py": 165,
    "tests/backends/sql/session/test_lock_sessions.py": 140,
    "tests/backends/mysql/test_outages.py": 90,
    "tests/conformance/test_mysql.py": 100,
    "tests/conformance/test_postgresql.py": 115,
    "tests/conformance/test_memcached.py": 115,
    "tests/backends/zookeeper/test_session.py": 100,
    "tests/conformance/test_redlock.py": 90,
    "tests/backends/redlock/test_forgetting.py": 80,
    "tests/backends/sql/sqlite/test_interrupted.py": 70,
    "tests/backends/redis/test_hanging.py": 65,
    "tests/forks/test_children.py": 65,
    "tests/conformance/test_zookeeper.py": 60,
    "tests/backends/sql/session/test_process_ends.py": 60,
    "tests/backends/sql/both_modes/test_sick_servers.py": 55,
    "tests/backends/sql/both_modes/test_resolving.py": 55,
    "tests/backends/zookeeper/test_hanging.py": 55,
    "tests/contrib/django/test_django_replicas.py": 50,
    "tests/contrib/alembic/test_alembic_replicas.py": 50,
    "tests/uses/test_killed_in_the_middle.py": 50,
    "tests/guards/test_sql_guard_isolation.py": 50,
    "tests/conformance/test_redis_layouts.py": 50,
    "tests/conformance/test_sqlite.py": 50,
    "tests/conformance/test_sqlite_example.py": 50,
    "tests/backends/etcd/test_outages.py": 50,
    "tests/api/test_interrupts.py": 50,
    "tests/backends/redis/test_grants.py": 50,
    "tests/backends/memcached/test_restarts.py": 50,
    "tests/conformance/test_redis_least_privilege.py": 45,
    "tests/conformance/test_redis.py": 45,
    "tests/conformance/test_etcd.py": 45,
    "tests/backends/postgresql/test_restarts.py": 40,
    "tests/conformance/test_memory.py": 40,
    "tests/conformance/test_file.py": 35,
    "tests/servers/test_sql_servers.py": 40,
    "tests/backends/redis/test_cluster.py": 35,
    "tests/backends/redis/test_deaths.py": 35,
    "tests/forks/test_real_programs.py": 35,
    "tests/cli/test_losing.py": 35,
    "tests/guards/test_sql_guard.py": 35,
    "tests/backends/zookeeper/test_cut_off_leader.py": 35,
    "tests/backends/postgresql/test_refusals.py": 30,
    "tests/backends/zookeeper/test_without_majority.py": 30,
    "tests/greenlets/test_gevent.py": 30,
    "tests/faults/test_pinging_disturbed.py": 30,
    "tests/conformance/test_redlock_failing.py": 30,
    "tests/backends/redis/test_attending.py": 30,
    "tests/cli/test_reasons.py": 30,
    "tests/contracts/test_examples.py": 30,
    "tests/plugin/test_real_locks.py": 30,
    "tests/backends/zookeeper/test_line.py": 25,
    "tests/backends/redis/test_disturbed.py": 25,
    "tests/backends/redis/test_sentinel.py": 25,
    "tests/backends/redlock/test_majorities.py": 25,
    "tests/backends/redlock/test_set_clocks.py": 25,
    "tests/backends/mysql/test_troubles.py": 25,
    "tests/backends/mysql/test_bells.py": 25,
    "tests/backends/sql/both_modes/test_refusing_servers.py": 25,
    "tests/backends/sql/both_modes/test_owed_after_outages.py": 25,
    "tests/backends/redis/test_replicas.py": 25,
    "tests/servers/test_sentinel.py": 25,
    "tests/guards/test_sql_while_held.py": 20,
    "tests/backends/redlock/test_nodes.py": 20,
    "tests/guards/test_sql_guard_histories.py": 20,
    "tests/backends/zookeeper/test_cut_off_follower.py": 20,
    "tests/backends/redis/test_clock_steps.py": 20,
    "tests/backends/redis/test_connections.py": 20,
    "tests/backends/redis/test_first_silent.py": 20,
    "tests/backends/postgresql/test_waking.py": 20,
    "tests/core/test_cancelling.py": 20,
    "tests/conformance/test_sql_recipe.py": 20,
}
"""What each part of these takes by itself, roughly: only the order counts."""
APART = {
    "tests/cli/test_conformance.py": 130,
    "tests/core/test_unknown_interpreter.py": 110,  # these three are long in `make test-all` only
    "tests/benchmarks/test_workloads_run.py": 35,
    "tests/contracts/test_commands.py": 40,
    "tests/backends/redis/test_simulated.py": 20,
    "tests/backends/sql/test_simulated.py": 12,
    "tests/backends/sql/session/test_simulated.py": 12,
    "tests/backends/memcached/test_simulated.py": 12,
    "tests/backends/etcd/test_simulated.py": 8,
    "tests/backends/redlock/test_simulated.py": 8,
    "tests/core/test_simulator.py": 12,
}
"""Long files whose tests share nothing, and what the longer tests of each take: any worker may run
any of them."""
BY_DATABASE = {
    "tests/backends/sql/session/test_interrupted.py": 360,
    "tests/faults/test_sql_soak.py": 70,
}
"""Long files whose tests have a database as their first parameter, and what each of these takes. A
worker runs what belongs to one of them, so it starts that server once."""
CROWDS = {
    "tests/backends/mysql/test_crowds.py": "test_100_processes_wait",
    "tests/backends/postgresql/test_waking.py": (
        "test_a_hundred_processes_wait_within_the_limit_of_connections"
    ),
    "tests/backends/sql/session/test_crowded_servers.py": (
        "test_two_hundred_clients_wait_and_each_gets_it_once"
    ),
    "tests/backends/sql/sqlite/test_faults.py": (
        "test_two_hundred_processes_wait_and_each_gets_it_once"
    ),
    "tests/backends/sql/test_crowded_lines.py": "test_two_hundred_tasks_wait_and_each_gets_it_once",
}
"""One test of each of these files has a hundred processes or clients. One worker runs them all, one
after the other: two of them at a time are more than a machine has time for."""
CROWDED = 300
"""What they take together."""
EACH = 0.1
"""What any other test takes, on the average."""


def part(nodeid: str) -> str:
    """What one worker runs in one go: a file, one colour of a conformance suite, one test, what is
    about one database, or all the crowds.
    """
    file, _, test = nodeid.partition("::")
    if CROWDS.get(file) == test.partition("[")[0]:
        return "crowds"
    if file in APART:
        return f"{file} {test}"
    if file in BY_DATABASE:
        return f"{file} {re.split('[^a-z]', test.partition('[')[2])[0]}"
    if not file.startswith("tests/conformance/"):
        return file
    suite, in_a_suite, _ = test.partition("::")
    half = " on asyncio" if "asyncio" in test.partition("[")[2] else ""
    return f"{file} {suite}{half}" if in_a_suite else file


def longest_first(items: list[pytest.Item]) -> None:
    """Sort them by what their part takes; every worker has to come to the same order."""
    seconds: dict[str, float] = {}
    known = SECONDS | APART | BY_DATABASE
    for name, count in Counter(part(item.nodeid) for item in items).items():
        seconds[name] = known.get(name.partition(" ")[0], count * EACH)
    seconds["crowds"] = CROWDED
    items.sort(key=lambda item: (-seconds[part(item.nodeid)], part(item.nodeid)))


class ByPart(LoadFileScheduling):  # type: ignore[misc]  # xdist shows no types
    """pytest-xdist's `loadfile`, with parts in place of files, in the order they are sorted in."""

    def __init__(self, config: pytest.Config, log: Producer | None = None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # xdist's own order goes by the number of tests

    def _split_scope(self, nodeid: str) -> str:
        return part(nodeid)

    def schedule(self) -> None:
        """Hand out the first parts, and later on some to a worker that replaces one that died: it
        needs two tests to begin with one, or the word that there is no other.
        """
        replaced = self.collection is not None
        super().schedule()
        for node in self.nodes if replaced else ():
            self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """Return the test that a worker died of; it has failed, and no other worker tries it."""
        left = {
            name: {test: False for test, done in tests.items() if not done}
            for name, tests in self.assigned_work.pop(node).items()
        }
        died_of: str | None = next((test for tests in left.values() for test in tests), None)
        if died_of is None:
            return None
        for name, tests in left.items():
            tests.pop(died_of, None)
            if tests:
                self.workqueue[name] = tests
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of
