"""Writes the programs of `.servers/bin`, which start a server with the libraries it came with.

Each ends in `exec`, so that its process id is the server's, and finds the tree from its own place:
a tree may be moved.
"""

from __future__ import annotations

from pathlib import Path

from unpacking import SERVERS, Unobtainable

_PLAIN = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: {name} with the libraries it came with.
here=$(cd "$(dirname "$0")/.." && pwd)
{settings}LD_LIBRARY_PATH="{libraries}$LD_LIBRARY_PATH" exec "$here/{program}" "$@"{options}
"""
_BY_ITS_OWN_LOADER = """\
#!/bin/sh
# Made by scripts/fetch_servers.py: {name} of another release, with everything of that release.
here=$(cd "$(dirname "$0")/.." && pwd)
exec "$here/{loader}" --library-path "{libraries}" "$here/{program}" "$@"{options}
"""


def write_start(program: Path, real: Path, options: str = "", **settings: str) -> None:
    """Of the machine's own release: it lacks some libraries at most. `options` come last."""
    folders = {found.parent for found in _tree_of(real).glob("**/*.so*")}
    text = _PLAIN.format(
        name=program.name,
        settings="".join(f'export {name}="{value}"\n' for name, value in settings.items()),
        libraries=searched(folders),
        program=real.relative_to(SERVERS),
        options=f" {options}" if options else "",
    )
    write_program(program, text)


def write_start_by_own_loader(program: Path, real: Path, options: str) -> None:
    """Of another release: its C library is not the machine's, and only its own loader fits."""
    tree = _tree_of(real)
    loaders = sorted(tree.glob("usr/lib/*-linux-*/ld-linux*.so.*"))
    if not loaders:
        raise Unobtainable("the packages have no loader for this machine")
    folders = {found.parent for found in tree.glob("usr/lib/*-linux-*/*.so*")}
    text = _BY_ITS_OWN_LOADER.format(
        name=program.name,
        loader=loaders[0].relative_to(SERVERS),
        libraries=searched(folders).rstrip(":"),
        program=real.relative_to(SERVERS),
        options=f" {options}" if options else "",
    )
    write_program(program, text)


def write_program(program: Path, text: str) -> None:
    """In a file of its own: the old one may be shared with another tree by a hard link."""
    program.unlink(missing_ok=True)
    program.write_text(text)
    program.chmod(0o755)


def searched(folders: set[Path]) -> str:
    """As a search path that starts from the tree's place."""
    return "".join(f"$here/{folder.relative_to(SERVERS)}:" for folder in sorted(folders))


def _tree_of(real: Path) -> Path:
    return SERVERS / real.relative_to(SERVERS).parts[0]
