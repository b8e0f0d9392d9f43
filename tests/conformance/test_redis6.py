"""The oldest Redis that is supported, 6.2: every verb, in both colours, and the scripts' answers.

Not marked as an engine's: where there is no such server this is skipped, also in CI.
"""

from __future__ import annotations

import pytest

from locknut.testing.conformance.excluding import Excluding
from locknut.testing.conformance.looking import Looking
from locknut.testing.conformance.moving import Moving
from locknut.testing.conformance.owning import Owning
from locknut.testing.conformance.permitting import Permitting
from locknut.testing.conformance.porting import Porting
from locknut.testing.conformance.sharing import Sharing
from locknut.testing.conformance.together import Together
from locknut.testing.conformance.waiting import Waiting
from tests.servers.redis import RedisServer


class TestRedis6(
    Excluding, Waiting, Sharing, Permitting, Owning, Looking, Moving, Porting, Together
):
    @pytest.fixture
    def engine_url(self, redis6_server: RedisServer) -> str:
        assert redis6_server.info()["redis_version"].startswith("6.2")
        return redis6_server.url
