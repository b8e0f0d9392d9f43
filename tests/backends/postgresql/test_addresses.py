"""How a server is reached: port, socket, TLS, and what libpq takes from its environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import locknut
from locknut.backends.sql.statements import load
from locknut.errors import BackendError
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import connect
from tests.contracts.sources import ROOT
from tests.servers.databases import Database
from tests.servers.postgresql import PostgresServer

pytestmark = pytest.mark.postgresql


def takes_a_lock(paint: Colour, url: str) -> None:
    async def story() -> None:
        locks = connect(paint, url)
        async with locks.lock("x"):
            pass
        await locks.close()

    paint.run(story())


def test_by_a_socket(database: Database, paint: Colour) -> None:
    takes_a_lock(paint, database.unix_url)


def test_by_the_other_scheme(database: Database, paint: Colour) -> None:
    takes_a_lock(paint, database.url.replace("postgresql://", "postgres://"))


def test_by_tls(postgresql_tls_server: PostgresServer, paint: Colour) -> None:
    with postgresql_tls_server.database() as database:
        takes_a_lock(paint, database.url)


def test_a_certificate_that_is_not_trusted(
    postgresql_tls_server: PostgresServer, tmp_path: Path
) -> None:
    with postgresql_tls_server.database() as database:
        url = re.sub(r"sslrootcert=.*", "sslrootcert=system", database.url)
        with (
            locknut.connect(url) as locks,
            pytest.raises(BackendError, match="cannot be reached"),
        ):
            locks.lock("x").acquire(timeout=0)


def test_by_the_environment(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:*:{database.password}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGHOST", database.server.host)
    monkeypatch.setenv("PGPORT", str(database.server.port))
    monkeypatch.setenv("PGUSER", database.user)
    takes_a_lock(paint, f"postgresql:///{database.name}")


def test_by_a_service(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = tmp_path / "services"
    server = database.server
    services.write_text(
        f"[locks]\nhost={server.host}\nport={server.port}\nuser={database.user}\n"
        f"password={database.password}\ndbname={database.name}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    takes_a_lock(paint, "postgresql://?service=locks")


def test_another_table_has_other_locks(database: Database) -> None:
    with (
        locknut.connect(database.url) as locks,
        locknut.connect(f"{database.url}?table=Other") as others,
        locks.lock("x"),
        others.lock("x", timeout=0),
    ):
        assert {name for (name,) in database.ask("SELECT relname FROM pg_class")} >= {
            "locknut_locks",
            "Other",
        }


def test_the_page_shows_the_table_as_it_is_made() -> None:
    page = (ROOT / "docs" / "engines" / "postgresql.md").read_text()
    (made,) = load("postgresql", "locknut_locks").create
    assert made in page
