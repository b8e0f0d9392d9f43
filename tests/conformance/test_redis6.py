"""The oldest Redis that is supported, 6.2: every verb, in both colours, and the scripts' answers.

Not marked as an engine's: where there is no such server this is skipped, also in CI.
"""

from __future__ import annotations

import pytest

from holdfast.testing.conformance.excluding import Excluding
from holdfast.testing.conformance.looking import Looking
from holdfast.testing.conformance.moving import Moving
from holdfast.testing.conformance.owning import Owning
from holdfast.testing.conformance.permitting import Permitting
from holdfast.testing.conformance.porting import Porting
from holdfast.testing.conformance.sharing import Sharing
from holdfast.testing.conformance.together import Together
from holdfast.testing.conformance.waiting import Waiting
from tests.servers.redis import RedisServer


class TestRedis6(
    Excluding, Waiting, Sharing, Permitting, Owning, Looking, Moving, Porting, Together
):
    @pytest.fixture
    def engine_url(self, redis6_server: RedisServer) -> str:
        assert redis6_server.info()["redis_version"].startswith("6.2")
        return redis6_server.url
