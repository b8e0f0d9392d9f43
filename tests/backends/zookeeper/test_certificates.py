"""TLS: a certificate of ours that the server wants, and its own, made out to another name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import locknut
from locknut import aio
from locknut.errors import BackendUnavailable
from tests.backends.zookeeper.conftest import PATIENCE
from tests.servers.certificates import Certificates
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The client's key has a password, and a file of its own beside `client`: key.pem."""
    folder = tmp_path_factory.mktemp("certificates")
    found = Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(found.authority)
    server = authority.issue_cert("elsewhere.test")
    server.private_key_and_cert_chain_pem.write_to_path(found.server)
    client = authority.issue_cert("client@locknut.test")
    client.cert_chain_pems[0].write_to_path(found.client)
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"s3cret"),
    )
    _key(found).write_bytes(locked)
    return found


def _key(certificates: Certificates) -> Path:
    return certificates.client.with_name("key.pem")


@pytest.fixture(scope="module")
def strict(made: Certificates) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(certificates=made, wants_certificates=True) as server:
        yield server


def options(made: Certificates) -> dict[str, str]:
    return {
        "ssl_ca_certs": str(made.authority),
        "ssl_certfile": str(made.client),
        "ssl_keyfile": str(_key(made)),
        "ssl_password": "s3cret",
        "ssl_check_hostname": "false",
        "session_timeout": "4",
    }


def test_with_all_that_is_wanted(strict: ZooKeeperServer, made: Certificates) -> None:
    url = f"{strict.url}?{urlencode(options(made))}"
    with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE):

        async def story() -> None:
            async with aio.connect(url) as others, others.lock("y", timeout=PATIENCE):
                assert await others.lock("x").acquire(blocking=False) is None

        asyncio.run(story())


@pytest.mark.parametrize(
    "missing",
    [("ssl_ca_certs",), ("ssl_certfile", "ssl_keyfile", "ssl_password"), ("ssl_check_hostname",)],
    ids=lambda missing: missing[0],
)
def test_without_one_of_it(
    strict: ZooKeeperServer, made: Certificates, missing: tuple[str, ...]
) -> None:
    """A certificate that nobody vouches for is not believed, whatever its name."""
    given = {name: value for name, value in options(made).items() if name not in missing}
    with (
        locknut.connect(f"{strict.url}?{urlencode(given)}") as locks,
        pytest.raises(BackendUnavailable),
    ):
        locks.lock("x").acquire(timeout=1)
