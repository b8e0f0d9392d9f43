"""Whose process a server is: PostgreSQL and PgBouncer refuse to be root's."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from unittest import SkipTest

ORDINARY = "nobody"


def ordinary_rights() -> list[str]:
    """Words for `setpriv`: nothing for an ordinary user, and for root those of `nobody`, who may
    however read what is root's: the tree of the tests, or the temporary folder, may be private.
    """
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise SkipTest("no setpriv here: run the tests as an ordinary user")
    account = pwd.getpwnam(ORDINARY)
    return [
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    ]


def hand_over(folder: Path) -> None:
    """Make that account the owner of a folder and all that is in it."""
    if os.geteuid() != 0:
        return
    account = pwd.getpwnam(ORDINARY)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
