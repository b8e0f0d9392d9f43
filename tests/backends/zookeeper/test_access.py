"""Who may: users with a password keep others out of their locks, and TLS keeps them all private."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

import locknut
from locknut import aio
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from tests.backends.zookeeper.conftest import PATIENCE, kazoo_client, root
from tests.servers.certificates import Certificates
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


def login(server: ZooKeeperServer, user: str, path: str, options: str = "") -> str:
    return f"zookeeper://{user}:s3cret%2F%40@{server.address}/{path}{options}"


def test_locks_of_one_user_cannot_be_touched_by_another(
    zookeeper_server: ZooKeeperServer, kazoo: KazooClient
) -> None:
    path = root()
    with (
        locknut.connect(login(zookeeper_server, "alice", path)) as alices,
        locknut.connect(login(zookeeper_server, "bob", path)) as bobs,
        locknut.connect(f"{zookeeper_server.url}/{path}") as anybodys,
    ):
        lease = alices.lock("x").acquire()
        assert lease is not None
        for others in (bobs, anybodys):
            with pytest.raises(BackendError, match="another user"):
                others.lock("x").acquire(timeout=1)
            with pytest.raises(BackendError, match="another user"):
                others.force_release("x")
        with pytest.raises(NoAuthError):
            kazoo.get_children(f"/{path}/locknut/x")
        lease.renew()
        with locknut.connect(login(zookeeper_server, "alice", path)) as again:
            assert again.lock("x").acquire(timeout=0) is None
            assert again.force_release("x", fence=lease.fence)
        assert lease.lost.wait(20)
    assert "s3cret" not in repr(alices)


def test_no_log_tells_the_password_or_how_to_take_the_session_over(
    zookeeper_server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo logs every request that it sends, and a login is one."""
    with caplog.at_level(1), locknut.connect(login(zookeeper_server, "alice", root())) as locks:
        with locks.lock("x"):
            pass
        backend: Any = locks._client.backend
        secret: bytes = bytes(backend.session._client._session_passwd)
    assert "Sending request" in caplog.text
    assert "s3cret" not in caplog.text
    assert repr(secret) not in caplog.text
    assert secret.hex() not in caplog.text


def test_one_in_line_who_may_not_be_looked_at_is_an_error_and_no_riddle(
    url: str, kazoo: KazooClient
) -> None:
    """Another program's node that only its user may read: it cannot be watched, so it is said, at
    once, and the line is left.
    """
    folder = f"/{url.rpartition('/')[2]}/locknut/x"
    kazoo.add_auth("digest", "carol:secret")
    alone = [make_digest_acl("carol", "secret", all=True)]
    kazoo.ensure_path(folder)
    name = f"{folder}/{'0' * 32}__lock__"
    node = kazoo.create(name, acl=alone, ephemeral=True, sequence=True)
    with locknut.connect(url) as locks:
        with pytest.raises(BackendError, match="another user"):
            locks.lock("x").acquire(timeout=PATIENCE)
        assert [f"{folder}/{each}" for each in kazoo.get_children(folder)] == [node]
        kazoo.delete(node)
        with locks.lock("x", timeout=PATIENCE):
            pass


def test_one_who_may_not_be_looked_at_hides_no_other_lock(url: str, kazoo: KazooClient) -> None:
    """All that is said of the unreadable node is what its name tells."""
    space = f"/{url.rpartition('/')[2]}/locknut"
    kazoo.add_auth("digest", "carol:secret")
    alone = [make_digest_acl("carol", "secret", all=True)]
    kazoo.ensure_path(f"{space}/x")
    kazoo.create(f"{space}/x/{'0' * 32}__lock__", acl=alone, ephemeral=True, sequence=True)
    kazoo.ensure_path(f"{space}/p/leases")
    kazoo.create(f"{space}/p/leases/{'0' * 32}-lease-", acl=alone, ephemeral=True, sequence=True)
    kazoo.create(f"{space}/closed", acl=alone)
    with locknut.connect(url) as locks, locks.lock("y"):
        listed = {each.name: each.holders for each in locks.list()}
        assert sorted(listed) == ["p", "x", "y"]
        for name in "px":
            (holder,) = listed[name]
            assert (str(holder), holder.fence) == ("another user's, not readable", None)
            assert locks.info(name).holders == (holder,)
        assert listed["y"][0].fence is not None


def test_a_user_may_leave_its_locks_open(zookeeper_server: ZooKeeperServer) -> None:
    path = root()
    with (
        locknut.connect(login(zookeeper_server, "alice", path, "?acl=open")) as alices,
        locknut.connect(login(zookeeper_server, "bob", path, "?acl=open")) as bobs,
    ):
        with alices.lock("x"):
            assert bobs.lock("x").acquire(timeout=0) is None
        with bobs.lock("x", timeout=0):
            pass


def test_a_root_that_belongs_to_others_is_used_all_the_same(
    zookeeper_server: ZooKeeperServer, kazoo: KazooClient
) -> None:
    """The administrator made it, and gave only what is below."""
    from kazoo.security import make_acl, make_digest_acl

    path = root()
    mine = make_digest_acl("alice", "s3cret/@", all=True)
    kazoo.create(f"/{path}", acl=[make_acl("world", "anyone", read=True)])
    with locknut.connect(login(zookeeper_server, "alice", path)) as alices:
        with pytest.raises(BackendError):
            alices.lock("x").acquire(timeout=1)
        kazoo.create(f"/{path}-2", acl=[make_acl("world", "anyone", read=True, create=True)])
        kazoo.create(f"/{path}-2/below", acl=[mine])
    with (
        locknut.connect(login(zookeeper_server, "alice", f"{path}-2/below")) as alices,
        alices.lock("x", timeout=1),
    ):
        pass


def test_tls_in_both_colours(
    zookeeper_tls_server: ZooKeeperServer, certificates: Certificates
) -> None:
    url = f"{zookeeper_tls_server.url}/{root()}?ssl_ca_certs={certificates.authority}"
    with locknut.connect(url) as locks, locks.lock("x", timeout=10) as lease:
        lease.renew()

        async def story() -> None:
            async with aio.connect(url) as others:
                assert await others.lock("x").acquire(timeout=0) is None

        asyncio.run(story())


def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    zookeeper_tls_server: ZooKeeperServer,
) -> None:
    with (
        locknut.connect(f"{zookeeper_tls_server.url}?session_timeout=1") as locks,
        pytest.raises(BackendUnavailable),
    ):
        locks.lock("x").acquire(timeout=0.5)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("zookeeper://h?sesion_timeout=3", "sesion_timeout"),
        ("zookeeper://h?session_timeout=0.5", "session_timeout"),
        ("zookeeper://h?session_timeout=-1", "session_timeout"),
        ("zookeeper://h?session_timeout=nan", "session_timeout"),
        ("zookeeper://h?session_timeout=3601", "session_timeout"),
        ("zookeeper://h?layout=redisson", "layout"),
        ("zookeeper://h?acl=mine", "acl"),
        ("zookeeper://h?acl=creator", "user and a password"),
        ("zookeeper://alice@h", "user:password"),
        ("zookeeper://h:port", "port"),
        ("zookeeper://h:99999", "port"),
        ("zookeeper://h?ssl_ca_certs=/x", "zookeeper\\+tls"),
        ("zookeeper+tls://h?ssl_ca_certs=/no/such/file", "ssl_ options"),
        ("zookeeper+tls://h?ssl_check_hostname=maybe", "ssl_check_hostname"),
    ],
)
def test_wrong_addresses_are_refused_before_anything_is_sent(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        locknut.connect(url)


def test_addresses_that_are_right() -> None:
    from locknut.backends.zookeeper.settings import from_url
    from locknut.urls import parse

    found = from_url(
        parse("zookeeper://us%3Aer:p%40ss@a,b:2182,[::1]:2183,[::2]/locks/of mine?acl=open")
    )
    assert found.hosts == ("a:2181", "b:2182", "[::1]:2183", "[::2]:2181")
    assert found.root == "/locks/of mine"
    assert found.login == "us:er:p@ss"
    assert "p@ss" not in repr(found)
    plain = from_url(parse("zookeeper://"))
    assert plain.hosts == ("localhost:2181",)
    assert (plain.session_timeout, plain.layout, plain.private) == (10, "curator", False)
    assert from_url(parse("zookeeper://h?session_timeout=1m")).session_timeout == 60


def test_a_ttl_above_the_sessions_is_refused(zookeeper_server: ZooKeeperServer) -> None:
    with locknut.connect(f"{zookeeper_server.url}?session_timeout=4") as locks:
        locks.lock("x", ttl=3)
        with pytest.raises(ConfigurationError, match="ttl"):
            locks.lock("x", ttl=4)


def test_a_root_that_we_may_not_write_to_is_an_error_that_says_so(
    zookeeper_server: ZooKeeperServer, kazoo: KazooClient
) -> None:
    path = root()
    kazoo.add_auth("digest", "carol:secret")
    kazoo.create(f"/{path}", acl=[make_digest_acl("carol", "secret", all=True)])
    url = f"{zookeeper_server.url}/{path}"
    why = f"do not allow a client without a user to make /{path}/locknut/x"
    with locknut.connect(url) as locks:
        for each in (locks.lock("x"), locks.semaphore("x", 2)):
            with pytest.raises(BackendError, match=why):
                each.acquire(timeout=PATIENCE)
    with (
        locknut.connect(login(zookeeper_server, "bob", path)) as bobs,
        pytest.raises(BackendError, match="do not allow the user 'bob' to make"),
    ):
        bobs.lock("x").acquire(timeout=PATIENCE)


@pytest.mark.slow
def test_a_server_with_too_many_connections_of_ours_says_so() -> None:
    with (
        ZooKeeperServer(connections=1) as server,
        locknut.connect(f"{server.url}?session_timeout=20") as first,
        locknut.connect(f"{server.url}?session_timeout=20") as second,
    ):
        with first.lock("x"), pytest.raises(BackendUnavailable, match="maxClientCnxns"):
            second.lock("y").acquire(timeout=3)
        first.close()
        with second.lock("y", timeout=PATIENCE):
            pass


@pytest.mark.slow
def test_a_session_is_proven_where_the_root_is_not_ours_to_read() -> None:
    with ZooKeeperServer() as server:
        with kazoo_client(server.address) as owner:
            owner.create("/app")
            owner.add_auth("digest", "carol:secret")
            owner.set_acls("/", [make_digest_acl("carol", "secret", all=True)])
        url = f"{server.url}/app?session_timeout=2"
        with locknut.connect(url) as locks, locks.lock("x") as lease:
            assert not lease.lost.wait(4)
