"""A private MariaDB or MySQL: how it is reached, disturbed and ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from tests.servers.databases import PASSWORD, USER, Database
from tests.servers.ports import HOST
from tests.servers.processes import program
from tests.servers.sql import SqlServer
from tests.servers.templates import copy_template, run, version

ADMIN = "root"
FIRST_WORDS = f"CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}';\n"
"""At every start."""
SMALL = {
    "innodb-buffer-pool-size": "16M",
    "innodb-use-native-aio": "0",
    "innodb-doublewrite": "0",
    "performance-schema": "0",
    "skip-log-bin": "",
}


class _Server(SqlServer):
    """The administrator comes by the socket without a password; everybody else needs one."""

    program: ClassVar[str]
    ending = signal.SIGTERM

    @property
    def socket(self) -> Path:
        return self.sockets / "mysql.sock"

    def connect(self, database: str = "", **settings: Any) -> Any:
        """A connection of PyMySQL, in autocommit, with every right unless another user is told."""
        import pymysql

        # Or else PyMySQL reads all certificates of the machine, for every connection.
        plain = {"ssl_disabled": True} if not settings.keys() & {"ssl", "host"} else {}
        wanted = {"unix_socket": str(self.socket), "user": ADMIN, **plain, **settings}
        return pymysql.connect(database=database or None, autocommit=True, **wanted)

    def ask(self, sql: str, database: str = "") -> list[tuple[object, ...]]:
        if "innodb_trx" in sql:
            time.sleep(0.11)  # a list that was read within 0.1 s is not made anew
        with closing(self.connect(database)) as connected, connected.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def create(self, database: Database) -> None:
        self.ask(f"CREATE DATABASE {database.name}")
        self.ask(f"GRANT ALL ON {database.name}.* TO {database.user}@'%'")

    def drop(self, database: Database) -> None:
        told = self.ask(
            f"SELECT id FROM information_schema.processlist WHERE db = '{database.name}'"
        )
        for (number,) in told:
            self.end_session(int(str(number)))
        self.ask(f"DROP DATABASE IF EXISTS {database.name}")

    def add_user(self, database: Database, grants: Sequence[str]) -> None:
        user = f"{database.user}@'%'"
        self.ask(f"CREATE USER {user} IDENTIFIED BY '{database.password}'")
        for grant in grants:
            database.ask(f"GRANT {grant} TO {user}")

    def url_options(self) -> str:
        return f"?ssl_ca={self.certificates.authority}" if self.certificates else ""

    def unix_url(self, login: str, database: str) -> str:
        return f"{self.scheme}://{login}@localhost/{database}?unix_socket={self.socket}"

    # Disturbances.

    def sessions(self) -> list[int]:
        told = self.ask(
            "SELECT id FROM information_schema.processlist "
            "WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
        )
        return [int(str(number)) for (number,) in told]

    def end_session(self, number: int) -> None:
        import pymysql

        with suppress(pymysql.err.OperationalError):  # it has gone by itself
            self.ask(f"KILL {number}")

    def read_only(self, on: bool) -> None:
        self.ask(f"SET GLOBAL read_only = {int(on)}")

    # How it is started.

    def _make_data(self) -> None:
        copy_template(self.scheme, self._made_with(), self._make, self.data)

    def _made_with(self) -> str:
        return f"{version(program(self.program))} {self._sizes()}"

    @abstractmethod
    def _make(self, data: Path) -> None: ...

    @abstractmethod
    def _sizes(self) -> dict[str, str]:
        """Settings that the data folder is made with too."""

    def _command(self) -> list[str]:
        first_words = self.folder / "first.sql"
        first_words.write_text(FIRST_WORDS)
        settings = {
            "datadir": str(self.data),
            "socket": str(self.socket),
            "port": str(self.port),
            "bind-address": HOST,
            "pid-file": str(self.folder / "pid"),
            "tmpdir": str(self.folder),
            "init-file": str(first_words),
            "skip-name-resolve": "",
            "max-connections": str(self.connections),
            # 2: to the kernel at every commit, and that far a killed server's data are
            "innodb-flush-log-at-trx-commit": "1" if self.waits_for_disk else "2",
            **self._sizes(),
        }
        if self.certificates:
            key = str(self.certificates.server)
            settings |= {"ssl-cert": key, "ssl-key": key, "require-secure-transport": "1"}
            settings["ssl-ca"] = str(self.certificates.authority)
        return [program(self.program), *words({**settings, **self.more})]

    def _answers(self) -> bool:
        import pymysql

        with socket.socket(socket.AF_UNIX) as listens:  # PyMySQL leaves its own open if not
            listens.connect(str(self.socket))
        try:
            told = self.ask(f"SELECT COUNT(*) FROM mysql.user WHERE user = '{USER}'")
        except pymysql.err.OperationalError:  # not there, or still starting
            return False
        return told == [(1,)]


class MariaServer(_Server):
    scheme = "mariadb"
    program = "mariadbd"

    def _sizes(self) -> dict[str, str]:
        return {**SMALL, "innodb-log-file-size": "4M", "key-buffer-size": "1M"}

    def _make(self, data: Path) -> None:
        making = {"datadir": str(data), "auth-root-authentication-method": "normal"}
        making |= {"skip-test-db": "", "force": "", **self._sizes()}
        run([program("mariadb-install-db"), *words(making)])


class MySqlServer(_Server):
    scheme = "mysql"
    program = "mysqld"

    def _sizes(self) -> dict[str, str]:
        more = {"innodb-redo-log-capacity": "16M", "mysqlx": "0", "secure-file-priv": "NULL"}
        return SMALL | more

    def _made_with(self) -> str:
        if "MariaDB" in version(program(self.program)):
            raise SkipTest("the mysqld of this machine is MariaDB's: run `make servers`")
        return super()._made_with()

    def _make(self, data: Path) -> None:
        making = {"initialize-insecure": "", "datadir": str(data), **self._sizes()}
        run([program(self.program), *words(making)])


def words(options: dict[str, str]) -> list[str]:
    """As all programs of the two take them; root must say that it means to be root."""
    user = {"user": ADMIN} if os.geteuid() == 0 else {}
    told = [
        f"--{name}={value}" if value else f"--{name}" for name, value in {**options, **user}.items()
    ]
    return ["--no-defaults", *told]
