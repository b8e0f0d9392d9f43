"""Fetches etcd with its command line, and a newer one where the machine's own release has an old.

Debian 12 has etcd 3.4, which many still run, and Debian 13 has 3.5. The tests want both.
"""

from __future__ import annotations

from pathlib import Path

from start_programs import write_start, write_start_by_own_loader
from unpacking import SERVERS, Packages

NEWER = "trixie"


def fetch_etcd(program: Path) -> None:
    tree = SERVERS / "etcd"
    Packages().unpack(tree, ["etcd-server", "etcd-client"])
    write_start(program, tree / "usr/bin/etcd")
    write_start(program.with_name("etcdctl"), tree / "usr/bin/etcdctl")


def fetch_newer_etcd(program: Path) -> None:
    tree = SERVERS / "etcd35"
    Packages(NEWER).unpack(tree, alone=["etcd-server", "libc6"])
    write_start_by_own_loader(program, tree / "usr/bin/etcd", "")
