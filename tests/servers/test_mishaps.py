"""One node at a time fails, and never one whose vote a hold cannot do without."""

from __future__ import annotations

import threading
import time

import pytest

from tests.servers.mishaps import Mishaps, votes
from tests.servers.redlock import RedlockNodes

pytestmark = [pytest.mark.redis, pytest.mark.faults]
MINUTE = 60.0


def test_a_bare_majority_is_spared_until_it_is_mended() -> None:
    with RedlockNodes() as five:
        until = int((time.time() + MINUTE) * 1000)
        victim, *others = five.nodes
        for node in (victim, *others[:2]):
            node.ask("ZADD", "test:{x}:redlock", until, "bare majority")
        for node in others[:3]:
            node.ask("ZADD", "test:{y}:redlock", until, "without the victim")
            node.ask("ZADD", "test:{z}:redlock", 1, "over")
        assert votes(five.nodes) == {b"bare majority": 3, b"without the victim": 3}
        mishaps = Mishaps(five, five.url, max_ttl=5.0)
        waiting = threading.Thread(target=mishaps._still_until_dispensable, args=[victim])
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        others[3].ask("ZADD", "test:{x}:redlock", until, "bare majority")
        waiting.join(MINUTE)
        assert not waiting.is_alive()
        victim.cont()
