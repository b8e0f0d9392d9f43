"""Locks on a user's own client: with its settings, beside its connections."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

import locknut
from locknut import aio
from locknut.drivers.redis.client_settings import endpoint_of
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from tests.backends.redis.conftest import PATIENCE
from tests.backends.redis.test_addresses import use
from tests.servers.certificates import Certificates
from tests.servers.cluster import RedisCluster
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SERVICE, SentinelService

pytestmark = pytest.mark.redis
FLAG = ssl.VerifyFlags.VERIFY_X509_STRICT
KINDS = pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])


@KINDS
def test_its_settings_are_used_and_its_connections_are_not(
    redis_server: RedisServer, kind: Any
) -> None:
    client = kind(host="127.0.0.1", port=redis_server.port, db=3, decode_responses=True)
    use(client)
    with locknut.connect(client) as locks, locks.lock("only in 3"):
        with locknut.connect(redis_server.url) as others:
            assert not others.info("only in 3").locked
        assert locks._client.id == f"redis:127.0.0.1:{redis_server.port}/3"
    assert not client.connection_pool._available_connections


@KINDS
def test_a_unix_socket(redis_unix_server: RedisServer, kind: Any) -> None:
    use(kind(unix_socket_path=str(redis_unix_server.socket)))


@KINDS
def test_tls_and_a_password(
    redis_tls_server: RedisServer, certificates: Certificates, kind: Any
) -> None:
    where = {"host": "127.0.0.1", "port": redis_tls_server.port, "ssl": True, "password": "s3cret"}
    use(kind(**where, ssl_ca_certs=str(certificates.authority)))
    use(kind(**where, ssl_ca_data=certificates.authority.read_text()))
    use(kind(**where, ssl_cert_reqs="none", ssl_check_hostname=False))
    with (
        locknut.connect(kind(**where)) as locks,
        pytest.raises(BackendError, match="certificate"),
    ):
        locks.info("x")
    assert "s3cret" not in repr(endpoint_of(kind(**where)).settings)


@pytest.mark.parametrize(
    ("chosen", "verifies"),
    [
        ("required", True),
        ("optional", True),
        (ssl.CERT_OPTIONAL, True),
        ("none", False),
        (None, False),
        (ssl.CERT_NONE, False),
    ],
)
def test_a_certificate_is_verified_as_the_client_does(chosen: Any, verifies: bool) -> None:
    tls = endpoint_of(redis.Redis(ssl=True, ssl_cert_reqs=chosen)).settings.tls
    assert tls is not None
    assert (tls.verify_mode is ssl.CERT_REQUIRED) is verifies
    assert tls.check_hostname is verifies


@KINDS
def test_a_user_without_a_password_is_that_user(server: RedisServer, kind: Any) -> None:
    """Not `default`, who may do everything."""
    server.ask("ACL", "SETUSER", "few", "on", "nopass", "~*", "&*", "+@all")
    url = server.url.replace("redis://", "redis://few@")
    for target in (kind(host="127.0.0.1", port=server.port, username="few"), url):
        with locknut.connect(target) as locks, locks.lock("x"):
            assert users(server) == {"few"}

        async def story(target: Any = target) -> None:
            async with aio.connect(target) as locks, locks.lock("x"):
                assert users(server) == {"few"}

        asyncio.run(story())
    server.ask("ACL", "DELUSER", "few")


def users(server: RedisServer) -> set[str]:
    """Who is connected, besides the one who asks."""
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    lines = [line for line in told.decode().splitlines() if "cmd=client|list" not in line]
    return {word[5:] for line in lines for word in line.split() if word.startswith("user=")}


@pytest.mark.parametrize("sentinel", [redis.sentinel.Sentinel, redis.asyncio.sentinel.Sentinel])
def test_behind_sentinels(redis_sentinel: SentinelService, sentinel: Any) -> None:
    made = sentinel([(one.host, one.port) for one in redis_sentinel.sentinels])
    client = made.master_for(SERVICE)
    use(client)
    with locknut.connect(client) as locks:
        assert locks._client.id == f"redis+sentinel:{SERVICE}/0"
    with pytest.raises(ConfigurationError, match="master_for"):
        locknut.connect(made.slave_for(SERVICE))


def test_a_cluster(redis_cluster: RedisCluster) -> None:
    first = redis_cluster.nodes[0]
    with redis.RedisCluster(host=first.host, port=first.port) as client:
        use(client)
    use(redis.asyncio.RedisCluster(host=first.host, port=first.port))


class Rotating(redis.CredentialProvider):
    """Another password every time, only the last of which is right."""

    def __init__(self, *passwords: str):
        self.passwords = list(passwords)
        self.threads: list[int] = []

    def get_credentials(self) -> tuple[str, str]:
        self.threads.append(threading.get_ident())
        password = self.passwords[0]
        if len(self.passwords) > 1:
            self.passwords.pop(0)
        return "ann", password


class RotatingOnLoop(Rotating):
    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()


@pytest.mark.parametrize("provider", [Rotating, RotatingOnLoop])
@KINDS
def test_a_provider_is_asked_for_every_connection(kind: Any, provider: Any) -> None:
    with RedisServer(user="ann", password="new") as server:
        known = provider("old", "new")
        client = kind(host="127.0.0.1", port=server.port, credential_provider=known)
        with locknut.connect(client) as locks, pytest.raises(BackendError, match="refused"):
            locks.info("x")
        use(client)


def test_a_provider_does_not_hold_up_the_loop(redis_server: RedisServer) -> None:
    known = Rotating("")
    client = redis.asyncio.Redis(port=redis_server.port, credential_provider=known)
    redis_server.ask("ACL", "SETUSER", "ann", "on", "nopass", "~*", "&*", "+@all")

    async def story() -> None:
        async with aio.connect(client) as locks:
            await locks.info("x")
        assert threading.get_ident() not in known.threads

    asyncio.run(story())
    redis_server.ask("ACL", "DELUSER", "ann")
    assert known.threads


class Hanging(redis.CredentialProvider):
    def get_credentials(self) -> tuple[str, str]:
        raise AssertionError("the loop has a method of its own")

    async def get_credentials_async(self) -> tuple[str, str]:
        await asyncio.Event().wait()
        raise AssertionError("never")


def test_a_provider_that_hangs_on_a_loop(redis_server: RedisServer) -> None:
    client = redis.asyncio.Redis(
        port=redis_server.port, credential_provider=Hanging(), socket_connect_timeout=0.2
    )

    async def story() -> None:
        async with aio.connect(client) as locks:
            with pytest.raises(BackendUnavailable):
                await asyncio.wait_for(locks.info("x"), PATIENCE)

    asyncio.run(story())


class Failing(redis.CredentialProvider):
    def get_credentials(self) -> tuple[str, str]:
        raise RuntimeError("s3cret is not valid")


def test_a_provider_that_fails(redis_server: RedisServer) -> None:
    client = redis.Redis(port=redis_server.port, credential_provider=Failing())
    with locknut.connect(client) as locks:
        with pytest.raises(BackendUnavailable, match="provider failed: RuntimeError") as caught:
            locks.info("x")
        assert "s3cret" not in str(caught.value)


def behind_a_sentinel(**options: Any) -> Any:
    return redis.Sentinel([("h", 1)], **options).master_for("m")  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("client", "named"),
    [
        (redis.Redis(ssl=True, ssl_validate_ocsp=True), "ssl_validate_ocsp"),
        (redis.Redis(ssl=True, ssl_include_verify_flags=[FLAG]), "ssl_include_verify_flags"),
        (redis.Redis(ssl=True, ssl_exclude_verify_flags=[FLAG]), "ssl_exclude_verify_flags"),
        (redis.asyncio.RedisCluster(host="h", address_remap=lambda at: at), "address_remap"),
        (redis.Redis(ssl=True, ssl_ca_certs="/nowhere"), "certificates"),
        (redis.Redis(socket_timeout=0.001), "socket_timeout"),
        (redis.Redis(socket_connect_timeout=0.001), "socket_connect_timeout"),
        (behind_a_sentinel(min_other_sentinels=1), "min_other_sentinels"),
        (behind_a_sentinel(force_master_ip="::1"), "force_master_ip"),
        (redis.Redis(ssl=True, ssl_cert_reqs=7), "ssl_cert_reqs"),  # type: ignore[arg-type]
        (redis.Redis().connection_pool, "a client with a connection pool"),
        (object(), "got a object"),
        (b"redis://h", "got a bytes"),
    ],
)
def test_what_is_refused(client: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        locknut.connect(client)
