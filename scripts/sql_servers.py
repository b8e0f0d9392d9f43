"""Fetches PostgreSQL with PgBouncer, which pools connections to it, MariaDB, MySQL and Firebird.

All come from packages. There is a wheel with PostgreSQL as well, but it was built without TLS.
Debian has MySQL in its unstable release alone, and Ubuntu in every one.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from start_programs import searched, write_program, write_start, write_start_by_own_loader
from unpacking import SERVERS, Packages, Unobtainable

COMPILER = ("libllvm", "libz3")
"""Makes machine code of queries: 29 MB, and tests switch it off."""
SCRIPTS = ("perl", "libperl", "libgdbm", "libdb5", "postgresql-c", "mariadb-common", "mysql-common")
"""For a service that is installed, and for its administrator."""
SURROUNDINGS = ("ssl-cert", "locales", "libc-gconv", "debconf", "ucf")
WITHOUT = (*COMPILER, *SCRIPTS, *SURROUNDINGS)
UNSTABLE = "sid"
_FIREBIRD = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: Firebird looks for its files where FIREBIRD says, and not where
# they would be installed.
here=$(cd "$(dirname "$0")/.." && pwd)
[ "$1" = --version ] && set -- -z
export FIREBIRD_BOOT_BUILD=1
LD_LIBRARY_PATH="{libraries}$LD_LIBRARY_PATH" exec "$here/{program}" "$@"
"""


def fetch_postgresql(program: Path) -> None:
    packages = Packages()
    servers = [each for each in packages.needed_by("postgresql") if each.startswith("postgresql-")]
    if not servers:
        raise Unobtainable("this release has no postgresql")
    tree = SERVERS / "postgresql"
    packages.unpack(tree, servers, without=WITHOUT)
    real = _only(tree, "usr/lib/postgresql/*/bin/postgres")
    write_start(program, real)
    write_start(program.with_name("initdb"), real.with_name("initdb"))


def fetch_pgbouncer(program: Path) -> None:
    tree = SERVERS / "pgbouncer"
    Packages().unpack(tree, ["pgbouncer"], without=(*WITHOUT, "postgresql"))
    write_start(program, _only(tree, "usr/sbin/pgbouncer"))


def fetch_mariadb(program: Path) -> None:
    packages = Packages()
    tree = SERVERS / "mariadb"
    server = _newest(packages.named("mariadb-server-core"))
    packages.unpack(tree, [server], without=WITHOUT)
    options = _own_files(tree)
    write_start(program, _only(tree, "usr/sbin/mariadbd"), options)
    # Tells the settings in /etc to the script below, for which there are none; in another package.
    write_program(tree / "usr/bin/my_print_defaults", "#!/bin/sh\n")
    making = program.with_name("mariadb-install-db")
    write_start(making, _only(tree, "usr/bin/mariadb-install-db"), options.split()[0])


def fetch_mysql(program: Path) -> None:
    tree = SERVERS / "mysql"
    own = Packages()
    if names := own.named("mysql-server-core"):
        own.unpack(tree, [_newest(names)], without=WITHOUT)
        write_start(program, _only(tree, "usr/sbin/mysqld"), _own_files(tree))
        return
    Packages(UNSTABLE).unpack(tree, ["mysql-server-core"], without=WITHOUT)
    shutil.rmtree(tree / "usr/bin")  # 90 MB of other programs
    write_start_by_own_loader(program, _only(tree, "usr/sbin/mysqld"), _own_files(tree))


def fetch_firebird(program: Path) -> None:
    """The server, and the program by which its first user is made."""
    packages = Packages()
    servers = [
        each for each in packages.named("firebird") if re.fullmatch(r"\D+[\d.]+-server", each)
    ]
    tree = SERVERS / "firebird"
    packages.unpack(tree, [_newest(servers)], without=(*WITHOUT, "adduser"))
    libraries = searched({found.parent for found in tree.glob("usr/lib/*/*.so*")})
    for made, real in (
        (program, "usr/sbin/firebird"),
        (program.with_name("isql-fb"), "usr/bin/isql-fb"),
    ):
        where = _only(tree, real).relative_to(SERVERS)
        write_program(made, _FIREBIRD.format(libraries=libraries, program=where))


def _own_files(tree: Path) -> str:
    """Where the server finds what is not installed."""
    usr = f"$here/{tree.name}/usr"
    options = {"basedir": usr, "plugin-dir": f"{usr}/lib/mysql/plugin"}
    if (tree / "usr/share/mysql/charsets").exists():
        options["lc-messages-dir"] = f"{usr}/share/mysql"
        options["character-sets-dir"] = f"{usr}/share/mysql/charsets"
    return " ".join(f'--{name}="{value}"' for name, value in options.items())


def _newest(names: list[str]) -> str:
    """The one without a version in its name, if there is one, else the highest."""
    if not names:
        raise Unobtainable("this release has no such server")
    return min(names, key=lambda name: [-int(part) for part in re.findall(r"\d+", name)] or [-999])


def _only(tree: Path, pattern: str) -> Path:
    found = sorted(tree.glob(pattern))
    if not found:
        raise Unobtainable(f"the packages have no {Path(pattern).name}")
    return found[-1]
