"""Fetches small programs for the tests: a cache, a clock that can be set, shells, what `man` uses.

libfaketime gives a server of the tests a clock that can be set. zsh and fish complete our command
line there, and groff reads its page.
"""

from __future__ import annotations

import platform
from pathlib import Path

from start_programs import searched, write_program, write_start
from unpacking import SERVERS, Unobtainable, unpack_packages

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


def fetch_memcached(program: Path) -> None:
    tree = SERVERS / "memcached"
    unpack_packages(tree, ["memcached"])
    write_start(program, tree / "usr/bin/memcached")


def fetch_faketime(program: Path) -> None:
    tree = SERVERS / "faketime"
    unpack_packages(tree, [], alone=["libfaketime"])
    found = sorted(tree.glob("usr/lib/*/faketime/libfaketime.so.1"))
    if not found:
        raise Unobtainable("the package has no libfaketime.so.1")
    library = found[0].relative_to(SERVERS)
    text = _START_WITH_CLOCK.format(library=library, machine=platform.machine())
    write_program(program, text)


def fetch_zsh(program: Path) -> None:
    """The static one: the other looks for its modules where they are installed."""
    tree = SERVERS / "zsh"
    unpack_packages(tree, [], alone=["zsh-static", "zsh-common"])
    functions = {found.parent for found in tree.glob("usr/share/zsh/functions/**/*")}
    write_start(program, tree / "bin/zsh-static", FPATH=searched(functions).rstrip(":"))


def fetch_fish(program: Path) -> None:
    """It finds what is its own beside itself, if all of it is there: `etc` is below `usr` then."""
    tree = SERVERS / "fish"
    unpack_packages(tree, [], alone=["fish", "fish-common", "libpcre2-32-0"])
    (tree / "usr/etc").symlink_to("../etc")
    write_start(program, tree / "usr/bin/fish")


def fetch_groff(program: Path) -> None:
    tree = SERVERS / "groff"
    unpack_packages(tree, [], alone=["groff-base"])
    current = "$here/groff/usr/share/groff/current"
    write_start(
        program,
        tree / "usr/bin/groff",
        GROFF_BIN_PATH="$here/groff/usr/bin",
        GROFF_FONT_PATH=f"{current}/font",
        GROFF_TMAC_PATH=f"{current}/tmac",
    )
