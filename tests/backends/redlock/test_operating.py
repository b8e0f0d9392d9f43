"""What an operator sees of the nodes, and how a new set begins."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import locknut
from locknut import redlock
from locknut.errors import BackendUnavailable, ConfigurationError
from tests.servers.processes import until
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
        redlock.begin(url)
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
    redlock.begin(url)
    three.nodes[0].restart(keep_data=True)
    three.nodes[1].flushall()
    restarted, flushed, fine = redlock.nodes(url)
    assert "restarted" in restarted.problem
    assert "lost its data" in flushed.problem
    assert not fine.problem
    assert fine.max_ttl == 60
    assert abs(fine.clock_ahead or 9) < 1


def test_another_longest_ttl_is_changed_only_by_force(three: RedlockNodes) -> None:
    """Clients that use it would be refused, and one in quarantine would vote too early."""
    long, short = f"redlock://{three.hosts}?max_ttl=120", f"redlock://{three.hosts}"
    redlock.begin(long)
    with pytest.raises(BackendUnavailable, match="max_ttl=120"):
        redlock.begin(short)
    assert {node.max_ttl for node in redlock.nodes(long)} == {120}
    refused = command("init", "--yes", "-u", short)
    assert refused.returncode == 69
    assert refused.stderr.count("max_ttl=120") == 3
    assert command("init", "--yes", "--force", "-u", short).returncode == 0
    assert not any(node.problem for node in redlock.nodes(short))


def test_a_node_that_is_down_keeps_no_other_from_beginning(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    three.nodes[1].kill()
    told = command("init", "--yes", "-u", url)
    assert told.returncode == 69
    assert "internal" not in told.stderr
    assert f"127.0.0.1:{three.nodes[1].port}" in told.stderr
    assert told.stdout.count("yes") == 2, "the others vote"
    assert [node.votes_in for node in redlock.nodes(url)] == [0, None, 0]


def test_a_node_in_quarantine_is_begun_only_by_its_name(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    redlock.begin(url)
    redlock.begin(url)  # all of them vote: there is nothing to do
    three.nodes[2].flushall()
    name = f"127.0.0.1:{three.nodes[2].port}"
    with pytest.raises(ConfigurationError, match="not a new set"):
        redlock.begin(url)
    with pytest.raises(ConfigurationError, match="not among"):
        redlock.begin(url, node="elsewhere:1")
    assert redlock.nodes(url)[2].votes_in is None
    assert command("init", "--yes", "--node", name, "-u", url).returncode == 0
    assert [node.votes_in for node in redlock.nodes(url)] == [0, 0, 0]


def test_how_long_a_node_keeps_still_is_told(three: RedlockNodes) -> None:
    url = f"redlock://{three.hosts}"
    redlock.begin(url)
    three.nodes[2].flushall()
    with locknut.connect(url) as locks:

        def asked() -> bool:
            with locks.lock("x", timeout=10):
                return redlock.nodes(url)[2].votes_in is not None

        until(asked, "it was asked")
    left = redlock.nodes(url)[2].votes_in
    assert left is not None
    assert 30 < left < 62


def test_the_wrong_longest_ttl_is_told(three: RedlockNodes) -> None:
    redlock.begin(f"redlock://{three.hosts}?max_ttl=30")
    (node, *_) = redlock.nodes(f"redlock://{three.hosts}")
    assert "max_ttl=30" in node.problem


def test_it_is_about_redlock_only() -> None:
    with pytest.raises(ConfigurationError, match="redlock:"):
        redlock.nodes("memory:")
    assert command("status", "-u", "memory:").returncode == 78


def test_every_node_may_have_a_url_of_its_own(redlock_nodes: RedlockNodes) -> None:
    urls = [f"redis://{node.host}:{node.port}/0" for node in redlock_nodes.nodes]
    several = redlock.Redlock(urls, durable=True)
    with locknut.connect(several) as locks, locks.lock("own urls") as lease:
        assert lease.backend == "redlock"
    assert [node.reached for node in redlock.nodes(several)] == [True] * len(urls)
    for wrong in ("redis+cluster://a", "redis+sentinel://a/b", "memory:"):
        with pytest.raises(ConfigurationError, match="single master"):
            locknut.connect(redlock.Redlock([wrong, *urls]))
