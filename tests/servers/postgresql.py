"""A private PostgreSQL: how it is reached, disturbed and ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.servers.databases import PASSWORD, USER, Database
from tests.servers.families import Family
from tests.servers.ports import HOST
from tests.servers.processes import Process, program
from tests.servers.rights import hand_over, ordinary_rights
from tests.servers.sql import SqlServer
from tests.servers.templates import copy_template, run, version

ADMIN = "postgres"
RESERVED = 3
"""Connections that only the administrator gets: the server's own setting."""
MAKING = ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1"]
FIRST_WORDS = (
    f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}';\n"
    f"ALTER ROLE {ADMIN} SET default_transaction_read_only = off;\n"
)


class PostgresServer(SqlServer):
    """The administrator comes by the socket without a password; everybody else needs one."""

    scheme = "postgresql"
    ending = signal.SIGINT

    def connect(self, database: str = "", **settings: Any) -> Any:
        """A connection of psycopg, in autocommit, with every right unless another user is told."""
        import psycopg

        wanted = {"host": str(self.sockets), "port": self.port, "user": ADMIN, **settings}
        return psycopg.connect(dbname=database or ADMIN, autocommit=True, **wanted)

    def ask(self, sql: str, database: str = "") -> list[tuple[object, ...]]:
        with closing(self.connect(database)) as connected:
            asked = connected.execute(sql.encode())
            return list(asked.fetchall()) if asked.description else []

    def create(self, database: Database) -> None:
        self.ask(f"CREATE DATABASE {database.name} OWNER {database.user}")

    def drop(self, database: Database) -> None:
        self.ask(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def add_user(self, database: Database, grants: Sequence[str]) -> None:
        user = database.user
        self.ask(f"CREATE ROLE {user} LOGIN PASSWORD '{database.password}'")
        for grant in grants:
            database.ask(f"GRANT {grant} TO {user}")

    def url_options(self) -> str:
        if self.certificates is None:
            return ""
        return f"?sslmode=verify-full&sslrootcert={self.certificates.authority}"

    def unix_url(self, login: str, database: str) -> str:
        return f"{self.scheme}://{login}@/{database}?host={self.sockets}&port={self.port}"

    # Disturbances.

    def sessions(self) -> list[int]:
        told = self.ask(
            "SELECT pid FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return [int(str(pid)) for (pid,) in told]

    def end_session(self, number: int) -> None:
        self.ask(f"SELECT pg_terminate_backend({number}, 60000)")

    def read_only(self, on: bool) -> None:
        self.ask(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        self.ask("SELECT pg_reload_conf()")
        # A session looks at the settings before its next command, once it has got the signal.
        self.process.wait_until(lambda: self._writes_are_refused() == on)

    def _writes_are_refused(self) -> bool:
        with closing(self.connect(user=USER, password=PASSWORD)) as connected:
            return bool(connected.execute("SHOW transaction_read_only").fetchone() == ("on",))

    # How it is started.

    def _make_data(self) -> None:
        made_with = f"{version(program('postgres'))} {MAKING} {FIRST_WORDS}"
        copy_template(self.scheme, made_with, _make, self.data)
        self.data.chmod(0o700)
        self._write_who_may_connect()
        if self.certificates:
            key = self.folder / "server.pem"
            key.write_bytes(self.certificates.server.read_bytes())
            key.chmod(0o600)
        hand_over(self.folder)
        hand_over(self.sockets)

    def _write_who_may_connect(self) -> None:
        kind, more = "host", ""
        if self.certificates:
            kind, more = "hostssl", "clientcert=verify-ca" if self.wants_certificates else ""
        lines = [
            f"local all {ADMIN} trust",
            "local all all scram-sha-256",
            f"{kind} all all {HOST}/32 scram-sha-256 {more}",
        ]
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")

    def _spawn(self) -> Process:
        return Family(self._command(), self.folder / "log", ordinary_rights())

    def _command(self) -> list[str]:
        durable = "on" if self.waits_for_disk else "off"
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": str(self.sockets),
            "max_connections": str(self.connections + RESERVED),
            "superuser_reserved_connections": str(RESERVED),
            "fsync": durable,  # to the kernel at every commit, that far a killed server's data are
            "full_page_writes": durable,
            "shared_buffers": "16MB",
            "max_wal_size": "64MB",
            "autovacuum": "off",
            "jit": "off",
            "log_timezone": "GMT",
            "timezone": "GMT",
        }
        if self.certificates:
            key = str(self.folder / "server.pem")
            settings |= {"ssl": "on", "ssl_cert_file": key, "ssl_key_file": key}
            settings["ssl_ca_file"] = str(self.certificates.authority)
        words = [f"--{name}={value}" for name, value in {**settings, **self.more}.items()]
        return [program("postgres"), "-D", str(self.data), *words]

    def _answers(self) -> bool:
        import psycopg

        try:
            return self.ask("SELECT 1") == [(1,)]
        except psycopg.OperationalError:  # not there, or still starting
            return False


def _make(data: Path) -> None:
    data.mkdir()
    hand_over(data)
    rights = ["setpriv", *ordinary_rights()] if ordinary_rights() else []
    run([*rights, program("initdb"), f"--pgdata={data}", f"--username={ADMIN}", *MAKING])
    run([*rights, program("postgres"), "--single", "-D", str(data), ADMIN], FIRST_WORDS)
