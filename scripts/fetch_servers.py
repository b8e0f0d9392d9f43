"""Fetches the servers that the tests start, into `.servers/`: nothing is installed, no root needed.

    python3 scripts/fetch_servers.py              all of them; instant the second time
    python3 scripts/fetch_servers.py redis        one of them

Most are unpacked from the packages of the machine's own release (Debian, Ubuntu), with whatever
signed sources the machine is set up with; where each comes from is told by the module that fetches
it. What cannot be fetched is taken from the PATH. `.servers/bin` then holds one program per server.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import sys
import time
from collections.abc import Callable
from inspect import getfile
from pathlib import Path

import start_programs
import unpacking
from browsers import fetch_browser
from etcd_servers import fetch_etcd, fetch_newer_etcd
from java_programs import fetch_curator, fetch_zookeeper
from redis_servers import fetch_redis, fetch_redis6, fetch_valkey
from small_programs import fetch_faketime, fetch_fish, fetch_groff, fetch_memcached, fetch_zsh
from sql_servers import (
    fetch_firebird,
    fetch_mariadb,
    fetch_mysql,
    fetch_pgbouncer,
    fetch_postgresql,
)
from unpacking import APT, SERVERS, Unobtainable, run

FETCHERS: dict[str, Callable[[Path], None]] = {
    "redis": fetch_redis,
    "redis6": fetch_redis6,
    "valkey": fetch_valkey,
    "zookeeper": fetch_zookeeper,
    "curator": fetch_curator,
    "postgresql": fetch_postgresql,
    "pgbouncer": fetch_pgbouncer,
    "mariadb": fetch_mariadb,
    "mysql": fetch_mysql,
    "firebird": fetch_firebird,
    "memcached": fetch_memcached,
    "etcd": fetch_etcd,
    "etcd35": fetch_newer_etcd,
    "faketime": fetch_faketime,
    "zsh": fetch_zsh,
    "fish": fetch_fish,
    "groff": fetch_groff,
    "browser": fetch_browser,
}
PROGRAMS = {
    "redis": "redis-server",
    "redis6": "redis6-server",
    "valkey": "valkey-server",
    "zookeeper": "zookeeper-server",
    "curator": "curator",
    "postgresql": "postgres",
    "pgbouncer": "pgbouncer",
    "mariadb": "mariadbd",
    "mysql": "mysqld",
    "firebird": "firebird",
    "memcached": "memcached",
    "etcd": "etcd",
    "etcd35": "etcd35",
    "faketime": "with-clock",
    "zsh": "zsh",
    "fish": "fish",
    "groff": "groff",
    "browser": "chromium-headless-shell",
}
OPTIONAL = {
    *("redis6", "curator", "pgbouncer", "mysql", "firebird", "etcd35", "faketime"),
    *("zsh", "fish", "groff", "browser"),
}
"""What only some machines can have: the tests that need it say so."""


def fetch(names: list[str]) -> bool:
    """Whether every one of these servers is there now; says on the screen what it did."""
    if SERVERS.is_symlink():  # somebody shares them between trees: they are theirs to keep
        shared = {name: _is_shared(name) for name in names}  # each that is missing is told
        return all(shared.values())
    SERVERS.mkdir(exist_ok=True)
    with (SERVERS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs in one tree would unpack over each other
        shutil.rmtree(APT, ignore_errors=True)  # of a run that was ended
        had = {name: _have(name) for name in names}  # all of them, also after one that is missing
        shutil.rmtree(APT, ignore_errors=True)  # the lists alone are ten times what was wanted
    return all(had.values())


def _have(name: str) -> bool:
    program = SERVERS / "bin" / PROGRAMS[name]
    stamp = SERVERS / f"{name}.stamp"
    wanted = _fingerprint(name)
    if stamp.exists() and stamp.read_text() == wanted and program.exists():
        return True
    print(f"Fetching {name} into {SERVERS.name}", flush=True)
    began = time.monotonic()
    stamp.unlink(missing_ok=True)
    program.parent.mkdir(exist_ok=True)
    try:
        FETCHERS[name](program)
        version = _version(program)
    except Unobtainable as problem:
        return _found_on_the_path(name, problem)
    stamp.write_text(wanted)
    print(f"  {version} ({time.monotonic() - began:.0f} s)", flush=True)
    return True


def _is_shared(name: str) -> bool:
    there = (SERVERS / "bin" / PROGRAMS[name]).exists() or shutil.which(PROGRAMS[name]) is not None
    if not there:
        print(f"{name} is not among the servers that this tree shares with others", flush=True)
    return there or name in OPTIONAL


def _found_on_the_path(name: str, problem: Unobtainable) -> bool:
    """No stamp: the next call tries again to fetch it."""
    program = SERVERS / "bin" / PROGRAMS[name]
    program.unlink(missing_ok=True)  # the tests look on the PATH themselves
    installed = shutil.which(PROGRAMS[name])
    if installed:
        print(f"  {problem}\n  using {installed} instead", flush=True)
        return True
    if name in OPTIONAL:
        print(f"  {problem}\n  done without: tests that need {name} are skipped", flush=True)
        return True
    print(
        f"  {problem}\n  and there is no {PROGRAMS[name]} on the PATH: install {name}, or run this "
        "where the packages of Debian or Ubuntu can be downloaded",
        flush=True,
    )
    return False


def _version(program: Path) -> str:
    """Also shows that it runs here at all."""
    told = run([str(program), "--version"]).split(" sha=")[0].strip().splitlines()[0]
    return told.replace(f"{SERVERS}/", "")


def _fingerprint(name: str) -> str:
    """Changes when what is there must be fetched anew: another release, machine, or script."""
    release = Path("/etc/os-release")
    scripts = [getfile(FETCHERS[name]), unpacking.__file__, start_programs.__file__]
    parts = [Path(script).read_bytes() for script in scripts]
    parts.append(release.read_bytes() if release.exists() else b"")
    parts.append(platform.machine().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


if __name__ == "__main__":
    asked = sys.argv[1:] or list(PROGRAMS)
    if unknown := set(asked) - PROGRAMS.keys():
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    sys.exit(not fetch(asked))
