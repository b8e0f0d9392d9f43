"""A project as `alembic init` writes it, with the lock in its env.py and two revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, inspect, text

IMPORT = "from locknut.contrib.alembic import migration_lock\n"
LOGGING = "fileConfig(config.config_file_name)"
BEFORE = "with context.begin_transaction():"
AFTER = "with migration_lock(), context.begin_transaction():"
"""What the page tells to change; here the lock can be told what a test needs:"""
OPEN = """with migration_lock(**config.attributes.get("lock", {})) as config.attributes["lease"], \\
            context.begin_transaction():"""
REVISION = '''
"""Told in the folder: who began it, and that it is done. It stops where the test wants it to."""
import os, time
from pathlib import Path
from alembic import context, op

revision, down_revision, branch_labels, depends_on = {name!r}, {down!r}, None, None
FOLDER = Path({folder!r})

def tell(what):
    with open(FOLDER / "told", "a") as file:
        file.write(f"{{what}} {name}\\n")

def upgrade():
    tell("began")
    op.execute("CREATE TABLE {again}{name} (id INTEGER PRIMARY KEY)")
    {body}
    tell("ended")

def downgrade():
    op.execute("DROP TABLE {name}")
'''
STOPS = """(FOLDER / f"inside-{os.getpid()}").touch()
    while (FOLDER / "stop").exists():
        time.sleep(0.01)"""


class Project:
    """One folder; `first` and `second` are its revisions, and the tables that they make."""

    def __init__(
        self, folder: Path, database: str, *, body: str = STOPS, template: str = "generic"
    ) -> None:
        self.folder, self.database = folder, database
        self._plain = database.replace("+aiosqlite", "")
        command.init(Config(str(folder / "alembic.ini")), str(folder / "scripts"), template)
        ini = folder / "alembic.ini"
        url = f"sqlalchemy.url = {database.replace('%', '%%')}"
        default = "sqlalchemy.url = driver://user:pass@localhost/dbname"
        ini.write_text(ini.read_text().replace(default, url))
        env = folder / "scripts" / "env.py"
        written = env.read_text()
        assert BEFORE in written
        # It would change the logging of the tests that come after, in the same process.
        assert LOGGING in written
        written = written.replace(LOGGING, "pass")
        env.write_text(IMPORT + written.replace(BEFORE, OPEN))
        self.revision("first", None, body)
        self.revision("second", "first", "pass")

    def revision(self, name: str, down: str | None, body: str) -> None:
        # What a killed one has made stays elsewhere, so that a revision has to bear it.
        again = "" if "postgresql" in self.database else "IF NOT EXISTS "
        code = REVISION.format(
            name=name, down=down, folder=str(self.folder), body=body, again=again
        )
        (self.folder / "scripts" / "versions" / f"{name}.py").write_text(code)

    def config(self, **lock: Any) -> Config:
        made = Config(str(self.folder / "alembic.ini"))
        made.attributes["lock"] = lock
        return made

    def upgrade(self, revision: str = "head", **lock: Any) -> None:
        command.upgrade(self.config(**lock), revision)

    @property
    def told(self) -> list[str]:
        file = self.folder / "told"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def tables(self) -> set[str]:
        engine = create_engine(self._plain)
        try:
            return set(inspect(engine).get_table_names()) & {"first", "second"}
        finally:
            engine.dispose()

    @property
    def version(self) -> list[str]:
        engine = create_engine(self._plain)
        try:
            with engine.connect() as connection:
                return [row[0] for row in connection.execute(text("SELECT * FROM alembic_version"))]
        finally:
            engine.dispose()
