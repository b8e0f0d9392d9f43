"""What is wrong with a server, a URL or a login is said so that one knows what to do."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from locknut.drivers.etcd.requests import Link, Put, Range, Watch, What
from locknut.drivers.etcd.settings import read
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.runtimes.threads import run
from locknut.testing.proxy import FaultProxy
from locknut.urls import parse
from tests.drivers.etcd.conftest import Colour, Heard
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.etcd import EtcdServer
from tests.servers.ports import HOST
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.etcd


def ask(colour: Colour, url: str) -> object:
    link = colour.open(url)
    return colour.run(link.transact([], [Range(b"x")]))


def test_a_server_that_is_not_there(colour: Colour) -> None:
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        port = bound.getsockname()[1]
        with pytest.raises(BackendUnavailable, match=f"no answer from the etcd at {HOST}:{port}"):
            ask(colour, f"etcd://{HOST}:{port}")


def test_a_server_that_is_no_etcd(colour: Colour, redis_server: RedisServer) -> None:
    with pytest.raises(BackendUnavailable):
        ask(colour, f"etcd://{redis_server.host}:{redis_server.port}")


def test_tls_serves(colour: Colour, etcd_tls_server: EtcdServer) -> None:
    link = colour.open(etcd_tls_server.url)
    heard = Heard()

    async def story() -> Watch:
        put = await link.transact([], [Put(b"x", b"v" * 100_000)])
        watch = link.watch(b"x", put.revision, heard)
        for _ in range(3):
            assert (await link.transact([], [Range(b"x")])).answers[0][0].value == b"v" * 100_000
        return watch

    watch = colour.run(story())
    assert heard.next().what is What.CHANGED
    watch.close()


def test_a_certificate_that_is_not_trusted(
    colour: Colour, etcd_tls_server: EtcdServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = make_certificates(tmp_path_factory.mktemp("others"))
    bare = etcd_tls_server.url.partition("?")[0]
    with pytest.raises(BackendError, match="ssl_ca_certs names the authorities"):
        ask(colour, f"{bare}?ssl_ca_certs={others.authority}")


def test_one_side_speaks_tls_and_the_other_does_not(
    colour: Colour,
    etcd_server: EtcdServer,
    etcd_tls_server: EtcdServer,
    certificates: Certificates,
) -> None:
    with pytest.raises(BackendUnavailable, match=r"etcd\+tls://"):
        ask(colour, f"etcd://{etcd_tls_server.address}")
    with pytest.raises(BackendUnavailable, match="does it speak TLS"):
        ask(colour, f"etcd+tls://{etcd_server.address}?ssl_ca_certs={certificates.authority}")


def test_a_certificate_of_ours_is_wanted(colour: Colour, certificates: Certificates) -> None:
    with EtcdServer(certificates=certificates, wants_certificates=True) as server:
        ask(colour, server.url)
        without = re.sub("&ssl_certfile=.*", "", server.url)
        with pytest.raises(BackendError, match="ssl_certfile"):
            ask(colour, without)


def test_who_may_log_in(colour: Colour, etcd_login_server: EtcdServer) -> None:
    server = etcd_login_server
    ask(colour, server.url)
    with pytest.raises(ConfigurationError, match="does not accept this user and password") as wrong:
        ask(colour, f"etcd://root:nonsense@{server.address}")
    assert "nonsense" not in str(wrong.value)
    with pytest.raises(ConfigurationError, match="wants a user and a password"):
        ask(colour, f"etcd://{server.address}")


def test_who_may_do_what(colour: Colour, etcd_login_server: EtcdServer) -> None:
    server, name = etcd_login_server, f"limited-{colour.name}"
    server.etcdctl("user", "add", f"{name}:p@ss")
    server.etcdctl("role", "add", name)
    server.etcdctl("role", "grant-permission", name, "readwrite", "--prefix=true", "mine/")
    server.etcdctl("user", "grant-role", name, name)
    link = colour.open(f"etcd://{name}:p%40ss@{server.address}")
    colour.run(link.transact([], [Put(b"mine/x")]))
    with pytest.raises(ConfigurationError, match="etcdctl role grant-permission") as refused:
        colour.run(link.transact([], [Put(b"yours/x")]))
    assert name in str(refused.value)
    heard = Heard()
    link.watch(b"yours/x", 1, heard)
    assert heard.next().what is What.ASK_AGAIN, "who asks then learns of it"


def test_many_log_in_once(colour: Colour, etcd_login_server: EtcdServer) -> None:
    """Checking a password is hard work for a server: it is meant to be."""
    with FaultProxy((etcd_login_server.host, etcd_login_server.port)) as proxy:
        link = colour.open(etcd_login_server.url_through(proxy.port), limit=30.0)
        if colour.blocking:
            with ThreadPoolExecutor(8) as threads:
                asked = [threads.submit(run, _ask(link)) for _ in range(8)]
                assert all(each.result() for each in asked)
        else:
            assert all(colour.run(_ask_together(link)))
        assert proxy.requests.seen(b"/etcdserverpb.KV/Txn") == 8
        assert proxy.requests.seen(b"/etcdserverpb.Auth/Authenticate") == 1


async def _ask(link: Link) -> bool:
    return (await link.transact([], [Range(b"x")])).succeeded


async def _ask_together(link: Link) -> list[bool]:
    return await asyncio.gather(*(_ask(link) for _ in range(8)))


def test_a_login_where_none_is_needed(colour: Colour, etcd_server: EtcdServer) -> None:
    ask(colour, f"etcd://somebody:secret@{etcd_server.address}")


OUTDATED = {
    "the password was set again": "user passwd root --interactive=false",
    "rights have changed": "role add other",
}


@pytest.mark.parametrize("how", OUTDATED)
def test_a_login_that_is_over_is_made_again(how: str, colour: Colour) -> None:
    """As after some minutes without a request."""
    with EtcdServer() as server:
        server.require_login("root:s3cret")
        link, heard = colour.open(server.url), Heard()
        revision = colour.run(link.transact([], [Put(b"x")])).revision
        link.watch(b"x", revision, heard)
        assert heard.next().what is What.CHANGED
        server.etcdctl(*OUTDATED[how].split(), typed="s3cret")
        again = colour.run(link.transact([], [Put(b"x")])).revision
        assert heard.next().revision == again
        late, asked = Heard(), again
        link.watch(b"x", again, late)  # on a stream whose login is over as well
        while late.next().what is What.ASK_AGAIN:
            asked = colour.run(link.transact([], [Put(b"x")])).revision
            link.watch(b"x", asked, late)
        assert asked - again <= 2, "who asks again has a new login, and so have the watches then"


def test_a_login_that_becomes_necessary_is_made(colour: Colour) -> None:
    with EtcdServer() as server:
        link = colour.open(f"etcd://root:s3cret@{server.address}")
        colour.run(link.transact([], [Put(b"x")]))
        server.require_login("root:s3cret")
        colour.run(link.transact([], [Put(b"x")]))


def test_a_full_one_says_so(colour: Colour) -> None:
    with EtcdServer("--quota-backend-bytes=1") as server:
        link = colour.open(server.url)
        with pytest.raises(BackendError, match="etcdctl alarm disarm") as full:
            colour.run(link.transact([], [Put(b"x", b"v")]))
        assert not isinstance(full.value, BackendUnavailable)


WRONG: dict[str, Callable[[], str]] = {
    "both: etcd://user:password@host": lambda: "etcd://user@host",
    "a number below 65536": lambda: "etcd://host:70000",
    r"need an etcd\+tls:// URL": lambda: "etcd://host?ssl_ca_certs=x",
    "could not be read": lambda: "etcd+tls://host?ssl_ca_certs=/nowhere",
    "true or false": lambda: "etcd+tls://host?ssl_check_hostname=yes",
    "socket_timeout": lambda: "etcd://host?socket_timeout=0",
    "does not know the option": lambda: "etcd://host?nonsense=1",
}


@pytest.mark.parametrize("message", WRONG)
def test_a_url_that_is_wrong(message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"(?i){message}"):
        read(parse(WRONG[message]()))


def test_a_url_that_is_right() -> None:
    found = read(parse("etcd://me:s%3Acret@h1,h2:1234,[::1]:99?socket_timeout=1500ms"))
    assert found.hosts == (("h1", 2379), ("h2", 1234), ("::1", 99))
    assert (found.username, found.password, found.tls) == ("me", "s:cret", None)
    assert found.limit == found.connect_limit == 1.5
    assert found.place == "h1:2379,h2:1234,[::1]:99"
    assert "cret" not in repr(found)
