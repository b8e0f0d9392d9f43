"""Redis URLs: what they say, what is refused, and what is never shown."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio, backends, drivers
from locknut.drivers.redis import settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.urls import open_engine, parse
from tests.backends.redis.conftest import somebody_waits
from tests.servers.certificates import Certificates
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.mark.parametrize(
    ("url", "place", "db"),
    [
        ("redis://", "localhost:6379", 0),
        ("redis://example.org", "example.org:6379", 0),
        ("redis://example.org:1/3", "example.org:1", 3),
        ("redis://[::1]:7/2", "::1:7", 2),
        ("valkey://example.org?db=4", "example.org:6379", 4),
        ("rediss://example.org/", "example.org:6379", 0),
        ("valkeys://example.org/1", "example.org:6379", 1),
        ("redis+unix:///run/redis.sock?db=2", "/run/redis.sock", 2),
        ("valkey+unix:///run/a%20b.sock", "/run/a b.sock", 0),
    ],
)
def test_where_they_lead(url: str, place: str, db: int) -> None:
    read = settings.read(parse(url))
    assert (read.place, read.db) == (place, db)
    assert (read.tls is not None) is url.startswith(("rediss", "valkeys"))


@pytest.mark.parametrize(
    "kind", ["", "s", "+unix", "+sentinel", "s+sentinel", "+cluster", "s+cluster"]
)
def test_valkey_is_another_word_for_redis(kind: str) -> None:
    redis, valkey = (
        open_engine(f"{name}{kind}://h/{'jobs' if 'sent' in kind else ''}")[0]
        for name in ("redis", "valkey")
    )
    assert (type(redis), redis.id) == (type(valkey), valkey.id)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ("", (2.0, 2.0)),
        ("?socket_timeout=3", (3.0, 3.0)),
        ("?socket_connect_timeout=0.5", (2.0, 0.5)),
    ],
)
def test_time_limits(options: str, limits: tuple[float, float]) -> None:
    read = settings.read(parse(f"redis://h{options}"))
    assert (read.limit, read.connect_limit) == limits


@pytest.mark.parametrize(
    ("options", "verifies", "names"),
    [
        ("", ssl.CERT_REQUIRED, True),
        ("?ssl_check_hostname=false", ssl.CERT_REQUIRED, False),
        ("?ssl_cert_reqs=none", ssl.CERT_NONE, False),
    ],
)
def test_what_is_checked_of_a_certificate(options: str, verifies: object, names: bool) -> None:
    tls = settings.read(parse(f"rediss://h{options}")).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (verifies, names)


def test_user_and_password_are_read_and_not_shown() -> None:
    read = settings.read(parse("redis://ann%40x:s%2F3%3Acret@example.org"))
    assert (read.username, read.password) == ("ann@x", "s/3:cret")
    assert "cret" not in repr(read)
    assert "ann" not in repr(read)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis://h?colour=red", "colour"),
        ("redis://h/three", "database"),
        ("redis://h?socket_timeout=0", "socket_timeout"),
        ("redis://h?socket_timeout=soon", "socket_timeout"),
        ("redis://h?ssl_ca_certs=/x", "rediss"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("rediss://h?ssl_ca_certs=/nowhere", "certificates"),
        ("redis://h:port", "a port that is not a number"),
    ],
)
def test_what_is_refused(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        locknut.connect(url)


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in (backends, drivers):
        monkeypatch.setattr(package, "redis", package.redis)  # comes back as it was
    ours = ("locknut.backends.redis", "locknut.drivers.redis")
    for module in [each for each in sys.modules if each.startswith(ours)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "hiredis", None)
    with pytest.raises(ConfigurationError, match=r'pip install "hiredis>=[^"]*"($| \[)'):
        locknut.connect("valkey://localhost")


def use(url: Any) -> None:
    """Wait and hand over in both colours."""
    with locknut.connect(url) as locks, locks.lock("x"):
        assert locks.info("x").locked

    async def story() -> None:
        async with aio.connect(url) as one, aio.connect(url) as two:
            lease = await one.lock("x").acquire()
            assert lease is not None
            waiter = asyncio.create_task(two.lock("x").acquire())
            await somebody_waits(one)
            await lease.release()
            got = await waiter
            assert got is not None
            await got.release()

    asyncio.run(story())


def test_a_unix_socket(redis_unix_server: RedisServer) -> None:
    use(redis_unix_server.url)


def test_tls_and_a_password(redis_tls_server: RedisServer) -> None:
    use(redis_tls_server.url)


def refusal(colour: str, url: str) -> BackendError:
    """What is said to whoever acquires a lock there."""

    async def story() -> BackendError:
        async with aio.connect(url) as locks:
            with pytest.raises(BackendError) as caught:
                await locks.lock("x").acquire()
            return caught.value

    if colour == "asyncio":
        return asyncio.run(story())
    with locknut.connect(url) as locks, pytest.raises(BackendError) as caught:
        locks.lock("x").acquire()
    return caught.value


def is_final(error: BackendError) -> bool:
    """Whether it was told at once: an outage would have been waited for."""
    return not isinstance(error, BackendUnavailable)


COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@COLOURS
@pytest.mark.parametrize("base", ["rediss", "rediss+cluster", "rediss+sentinel"])
def test_a_certificate_nobody_vouches_for(
    redis_tls_server: RedisServer, colour: str, base: str
) -> None:
    url = f"{base}://:s3cret@127.0.0.1:{redis_tls_server.port}"
    error = refusal(colour, f"{url}/jobs" if "sentinel" in base else url)
    assert f"the certificate of 127.0.0.1:{redis_tls_server.port} was not accepted" in str(error)
    assert is_final(error)


@COLOURS
def test_a_client_certificate_that_is_wanted(certificates: Certificates, colour: str) -> None:
    with RedisServer(certificates=certificates, more={"tls-auth-clients": "yes"}) as strict:
        use(f"{strict.url}&ssl_certfile={certificates.client}&ssl_keyfile={certificates.client}")
        assert "a certificate of ours: ssl_certfile" in str(refusal(colour, strict.url))


def test_a_key_with_a_password_and_a_folder_of_authorities(
    certificates: Certificates, tmp_path: Path
) -> None:
    """As OpenSSL wants them: the key encrypted, the authority under the hash of its name."""
    subject = ["openssl", "x509", "-noout", "-hash", "-in", str(certificates.authority)]
    name = subprocess.run(subject, check=True, capture_output=True, text=True).stdout.strip()
    (tmp_path / f"{name}.0").write_text(certificates.authority.read_text())
    key = ["openssl", "pkey", "-in", str(certificates.client), "-aes256", "-passout", "pass:s3cret"]
    locked = tmp_path / "key.pem"
    subprocess.run([*key, "-out", str(locked)], check=True)
    with RedisServer(certificates=certificates, more={"tls-auth-clients": "yes"}) as strict:
        files = f"ssl_certfile={certificates.client}&ssl_keyfile={locked}&ssl_ca_path={tmp_path}"
        url = f"rediss://127.0.0.1:{strict.port}?{files}"
        use(f"{url}&ssl_password=s3cret")
        with pytest.raises(ConfigurationError, match="could not be read"):
            locknut.connect(f"{url}&ssl_password=not-it")


@COLOURS
@pytest.mark.slow
def test_a_port_that_does_not_speak_tls(redis_server: RedisServer, colour: str) -> None:
    url = f"rediss://127.0.0.1:{redis_server.port}?socket_timeout=0.3"
    assert "does it speak TLS at this port?" in str(refusal(colour, url))


@COLOURS
def test_a_server_that_is_too_old(tmp_path: Path, colour: str) -> None:
    """HELLO came with Redis 6. A server that does not know it repeats its words, with the password
    among them.
    """
    rules = tmp_path / "old.conf"
    rules.write_text('rename-command HELLO ""\n')
    with RedisServer(more={"include": str(rules)}) as old:
        error = refusal(colour, f"redis://:s3cret@127.0.0.1:{old.port}")
    assert "needs to be Redis 6.2 or newer" in str(error)
    assert "s3cret" not in str(error)
    assert is_final(error)


def test_a_password(redis_password_server: RedisServer) -> None:
    use(redis_password_server.url)
    bare = f"redis://127.0.0.1:{redis_password_server.port}"
    wrong = f"redis://:not-it@127.0.0.1:{redis_password_server.port}"
    for url, told in ((bare, "wants a password"), (wrong, "refused this user")):
        with locknut.connect(url) as locks, pytest.raises(BackendError, match=told) as caught:
            locks.info("x")
        assert "not-it" not in str(caught.value)

        async def story(url: str = url, told: str = told) -> None:
            async with aio.connect(url) as locks:
                with pytest.raises(BackendError, match=told):
                    await locks.info("x")

        asyncio.run(story())


def test_another_database_is_another_world(redis_server: RedisServer) -> None:
    url = redis_server.url.removesuffix("/0")
    zero, one = locknut.connect(f"{url}/0"), locknut.connect(f"{url}/1")
    with zero, one, zero.lock("x"), one.lock("x", timeout=0):
        assert zero.info("x").holders != one.info("x").holders
    use(f"{url}/1")
