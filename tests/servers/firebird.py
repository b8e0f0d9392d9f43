"""A private Firebird: its settings, its one user, and fresh databases in it."""

from __future__ import annotations

import itertools
import re
import socket
from pathlib import Path
from typing import Any

from tests.servers.processes import ROOT, program
from tests.servers.serving import Server
from tests.servers.templates import run

USER = "SYSDBA"
PASSWORD = "s3cret"
SETTINGS = """
AuthServer = Srp256, Srp
RemoteBindAddress = {host}
RemoteServicePort = {port}
ServerMode = Super
SecurityDatabase = {folder}/security.fdb
TracePlugin =
WireCrypt = Disabled
"""
USERS = """
security.db = {folder}/security.fdb
{{
    RemoteAccess = false
}}
"""
FIRST_WORDS = """
CREATE DATABASE '{folder}/security.fdb' USER {user};
CREATE USER {user} PASSWORD '{password}' USING PLUGIN Srp;
COMMIT;
"""


class FirebirdServer(Server):
    """One server. It tells local time, so it is in UTC, unless a test says otherwise."""

    def __init__(self, zone: str = "UTC") -> None:
        super().__init__()
        self._zone = zone
        self._databases = itertools.count(1)

    def launch(self) -> None:
        if not (self.folder / "security.fdb").exists():
            self._write_settings()
            words = FIRST_WORDS.format(folder=self.folder, user=USER, password=PASSWORD)
            run([*self._surroundings(), program("isql-fb"), "-q"], words)
        super().launch()

    def restart(self) -> None:
        """Killed and back at the same address, with all that was committed."""
        self.kill()
        self.start()

    def new_url(self) -> str:
        """Of a database that nobody uses yet."""
        path = str(self.folder / f"test{next(self._databases)}.fdb")
        self.connect(path, create_new=True, page_size=8192).close()
        return f"firebird://{USER}:{PASSWORD}@{self.host}:{self.port}{path}"

    def connect(self, path: str, **settings: Any) -> Any:
        """A connection of firebirdsql, with every right."""
        import firebirdsql

        login = {"user": USER, "password": PASSWORD, "host": self.host, "port": self.port}
        return firebirdsql.connect(database=path, timeout=60, **login, **settings)

    def _write_settings(self) -> None:
        own = _own_files()
        libraries = (own / "plugins").glob("lib*.so")
        modules = {path.stem.removeprefix("lib"): path for path in libraries}
        modules |= dict.fromkeys(("Srp224", "Srp256", "Srp384", "Srp512"), modules["Srp"])
        plugins = [f"Plugin = {name} {{\nModule = {path}\n}}\n" for name, path in modules.items()]
        (charsets,) = own.parents[4].glob(f"etc/firebird/{own.name}/fbintl.conf")
        module = f"{own}/intl/libfbintl"
        texts = {
            "firebird.conf": SETTINGS.format(host=self.host, port=self.port, folder=self.folder),
            "databases.conf": USERS.format(folder=self.folder),
            "plugins.conf": "".join(plugins),
            "intl/fbintl.conf": re.sub(r"\S+/fbintl\b", module, charsets.read_text()),
        }
        (self.folder / "intl").mkdir()
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        (self.folder / "firebird.msg").symlink_to(own / "firebird.msg")

    def _surroundings(self) -> list[str]:
        places = ("FIREBIRD", "FIREBIRD_LOCK", "FIREBIRD_TMP", "FIREBIRD_MSG")
        return ["env", *(f"{name}={self.folder}" for name in places), f"TZ={self._zone}"]

    def _command(self) -> list[str]:
        return [*self._surroundings(), program("firebird")]

    def _answers(self) -> bool:
        with socket.create_connection((self.host, self.port), timeout=1):
            return True


def _own_files() -> Path:
    """Of the server, as fetched or as installed; it takes no plugin that a link leads to."""
    program("firebird")
    places = ((ROOT / ".servers" / "firebird").resolve(), Path("/"))
    found = [
        each for place in places for each in sorted(place.glob("usr/lib/*/firebird/*/plugins"))
    ]
    return found[0].parent
