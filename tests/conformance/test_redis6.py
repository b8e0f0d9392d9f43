"""The oldest Redis that is supported, 6.2: every verb, in both colours, and the scripts' answers.

Not marked as an engine's: where there is no such server this is skipped, also in CI.
"""

from __future__ import annotations

import pytest

from locknut.testing.conformance.detach_and_attach import DetachAndAttach
from locknut.testing.conformance.group_commands import GroupCommands
from locknut.testing.conformance.inspection import Inspection
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.port_rules import PortRules
from locknut.testing.conformance.queues_and_timeouts import QueuesAndTimeouts
from locknut.testing.conformance.readers_and_writers import ReadersAndWriters
from locknut.testing.conformance.semaphores import Semaphores
from locknut.testing.conformance.shared_owners import SharedOwners
from tests.servers.redis import RedisServer


class TestRedis6(
    MutualExclusion,
    QueuesAndTimeouts,
    ReadersAndWriters,
    Semaphores,
    SharedOwners,
    Inspection,
    DetachAndAttach,
    PortRules,
    GroupCommands,
):
    @pytest.fixture
    def engine_url(self, redis6_server: RedisServer) -> str:
        assert redis6_server.info()["redis_version"].startswith("6.2")
        return redis6_server.url
