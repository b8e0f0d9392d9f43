"""A user's own KazooClient in place of a URL: where it leads, and what stays his."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

import locknut
from locknut import ConfigurationError, aio
from locknut.backends.zookeeper.settings import from_client
from tests.backends.zookeeper.conftest import PATIENCE, kazoo_client, root
from tests.servers.certificates import Certificates
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


def test_it_leads_where_the_client_does_and_leaves_it_alone(
    zookeeper_server: ZooKeeperServer,
) -> None:
    path = root()
    his = KazooClient(f"{zookeeper_server.address}/{path}", timeout=4.0)
    with (
        locknut.connect(his) as locks,
        locknut.connect(f"{zookeeper_server.url}/{path}") as others,
    ):
        with locks.lock("x") as lease:
            assert lease.remaining <= 4.0
            assert others.lock("x").acquire(blocking=False) is None

            async def story() -> None:
                async with aio.connect(his) as more:
                    assert await more.lock("x").acquire(blocking=False) is None

            asyncio.run(story())
        with others.lock("x"):
            assert locks.lock("x").acquire(blocking=False) is None
    assert not his.connected, "his session is his to start"


def test_his_own_locks_know_ours(kazoo: KazooClient) -> None:
    """Without being told of any names; and closing ours does not end his session."""
    path = f"{root()}"
    with locknut.connect(kazoo, namespace=path) as locks:
        theirs = kazoo.Lock(f"/{path}/x")
        with locks.lock("x"):
            assert not theirs.acquire(blocking=False)
        assert theirs.acquire(timeout=PATIENCE)
        assert locks.lock("x").acquire(timeout=0.05) is None
        theirs.release()
        with locks.lock("x", timeout=PATIENCE):
            pass
    assert kazoo.connected
    assert kazoo.exists("/")


def test_it_logs_in_as_the_client_does(
    zookeeper_server: ZooKeeperServer, kazoo: KazooClient
) -> None:
    path = root()
    his = KazooClient(
        f"{zookeeper_server.address}/{path}",
        auth_data=[("digest", "alice:secret")],
        default_acl=CREATOR_ALL_ACL,
    )
    with locknut.connect(his) as locks, locks.lock("x", timeout=PATIENCE):
        with pytest.raises(NoAuthError):
            kazoo.get_children(f"/{path}/locknut/x")
        with kazoo_client(f"{zookeeper_server.address}/{path}") as alice:
            alice.add_auth("digest", "alice:secret")
            assert len(alice.get_children("/locknut/x")) == 1


def test_servers_are_checked_as_the_client_does(
    zookeeper_tls_server: ZooKeeperServer, certificates: Certificates
) -> None:
    address = f"{zookeeper_tls_server.address}/{root()}"
    his = KazooClient(address, use_ssl=True, ca=str(certificates.authority))
    with locknut.connect(his) as locks, locks.lock("x", timeout=PATIENCE):
        pass
    strict = KazooClient(address, use_ssl=True, timeout=1)
    with (
        locknut.connect(strict) as locks,
        pytest.raises(locknut.BackendUnavailable),
    ):
        locks.lock("x").acquire(timeout=0.5)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"auth_data": [("ip", "127.0.0.1")]}, "a login by ip"),
        ({"auth_data": [("digest", "a:b"), ("digest", "c:d")]}, "more than one login"),
        ({"sasl_options": {"mechanism": "GSSAPI"}}, "SASL"),
        ({"default_acl": READ_ACL_UNSAFE}, "default_acl"),
        ({"default_acl": CREATOR_ALL_ACL}, "default_acl"),
        ({"timeout": 0.5}, "session_timeout"),
        ({"use_ssl": True, "ca": "/no/such/file"}, "certificates"),
    ],
)
def test_what_it_cannot_do_is_refused(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        locknut.connect(KazooClient("h:1", **facts))
    assert "a:b" not in str(refused.value)


def test_how_it_retries_and_which_server_it_takes_first_is_not_asked() -> None:
    plain, tuned = (
        KazooClient("a:1,b:2", **facts)
        for facts in (
            {},
            {"randomize_hosts": False, "command_retry": {"max_tries": 9}, "handler": _handler()},
        )
    )
    assert from_client(tuned) == from_client(plain)


def _handler() -> SequentialThreadingHandler:
    return SequentialThreadingHandler()


@pytest.mark.parametrize("read", [repr, lambda locks: str(locks.lock("x"))])
def test_its_password_is_not_shown(read: Callable[[Any], str]) -> None:
    his = KazooClient("h:1", auth_data=[("digest", "alice:secret")])
    with locknut.connect(his) as locks:
        assert "secret" not in read(locks)
