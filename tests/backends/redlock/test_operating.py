"""What an operator sees of the nodes, and how a new set begins."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import locknut
from locknut import redlocks
from locknut.errors import BackendUnavailable, ConfigurationError
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis


def command(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "locknut", "redlock", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)


def test_a_new_set_votes_at_once_when_an_operator_says_so(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    with locknut.connect(url) as locks:
        with pytest.raises(BackendUnavailable):
            locks.lock("x").acquire(timeout=0)
        redlocks.begin(url)
        with locks.lock("x", timeout=10):
            pass


def test_the_command_tells_and_begins(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    before = command("status", "-u", url)
    assert before.returncode == 69, "no majority votes"
    assert before.stdout.count("it has not been asked yet") == 3
    refused = command("init", "-u", url)
    assert refused.returncode == 64, "nobody can be asked"
    begun = command("init", "--yes", "--json", "-u", url)
    assert begun.returncode == 0
    assert [node["votes_in"] for node in json.loads(begun.stdout)] == [0, 0, 0]
    three.nodes[0].kill()
    after = command("status", "-u", url)
    assert after.returncode == 0, "two of three are enough"
    assert "refused" in after.stdout


def test_a_node_that_restarted_is_told(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    redlocks.begin(url)
    three.nodes[0].restart(keep_data=True)
    three.nodes[1].flushall()
    restarted, flushed, fine = redlocks.nodes(url)
    assert "restarted" in restarted.problem
    assert "lost its data" in flushed.problem
    assert not fine.problem
    assert fine.max_ttl == 60
    assert abs(fine.clock_ahead or 9) < 1


def test_the_wrong_longest_ttl_is_told(three: RedlockNodes) -> None:
    redlocks.begin(f"redlock://{three.hosts}?max_ttl=30")
    (node, *_) = redlocks.nodes(f"redlock://{three.hosts}")
    assert "max_ttl=30" in node.problem


def test_it_is_about_redlock_only() -> None:
    with pytest.raises(ConfigurationError, match="redlock:"):
        redlocks.nodes("memory:")
    assert command("status", "-u", "memory:").returncode == 78


def test_every_node_may_have_a_url_of_its_own(redlock_nodes: RedlockNodes) -> None:
    urls = [f"redis://{node.host}:{node.port}/0" for node in redlock_nodes.nodes]
    with locknut.redlock(urls, durable=True) as locks, locks.lock("own urls") as lease:
        assert lease.backend == "redlock"
    for wrong in ("redis+cluster://a", "redis+sentinel://a/b", "memory:"):
        with pytest.raises(ConfigurationError, match="single master"):
            locknut.redlock([wrong, *urls])
