"""A private PgBouncer before a private PostgreSQL: transactions share the sessions of a pool."""

from __future__ import annotations

import signal
from contextlib import closing

from tests.servers.databases import PASSWORD, USER, Database
from tests.servers.ports import HOST
from tests.servers.postgresql import PostgresServer
from tests.servers.processes import Process, program
from tests.servers.rights import hand_over, ordinary_rights
from tests.servers.serving import Server

CONFIGURATION = """\
[databases]
* = host={server} port={server_port} user={user} password={password}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
admin_users = {user}
"""


class PgBouncer(Server):
    """The URL of a database leads through it by `url_of`. `mode` as its manual has it."""

    def __init__(self, server: PostgresServer, *, mode: str = "transaction", size: int = 5):
        super().__init__()
        self._server = server
        self._mode = mode
        self._size = size

    def url_of(self, database: Database) -> str:
        return database.url_through(self.port)

    def shut_down(self) -> None:
        self.process.end(signal.SIGTERM)

    def _command(self) -> list[str]:
        configuration = self.folder / "pgbouncer.ini"
        text = CONFIGURATION.format(
            server=self._server.sockets,
            server_port=self._server.port,
            user=USER,
            password=PASSWORD,
            host=HOST,
            port=self.port,
            mode=self._mode,
            size=self._size,
        )
        configuration.write_text(text)
        hand_over(self.folder)
        return [program("pgbouncer"), str(configuration)]

    def _spawn(self) -> Process:
        return Process(self._command(), self.folder / "log", ordinary_rights())

    def _answers(self) -> bool:
        import psycopg

        try:
            with closing(self._server.connect(host=HOST, port=self.port, user=USER)) as connected:
                return bool(connected.execute("SELECT 1").fetchone())
        except psycopg.OperationalError:
            return False
