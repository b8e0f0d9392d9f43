"""Places that cannot hold locks safely are refused, with what to do."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import locknut
from locknut.errors import BackendUnavailable, ConfigurationError, LeaseLost
from locknut.runtimes import file_systems
from tests.backends.sql.sqlite.place import url

pytestmark = pytest.mark.sqlite


def _lock(address: str) -> None:
    with locknut.connect(address) as locks, locks.lock("x", timeout=5):
        pass


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sqlite:", "names a file"),
        ("sqlite://", "names a file"),
        ("sqlite::memory:", "names a file"),
        ("sqlite:///:memory:", "names a file"),
        ("sqlite:locks.db", "current directory"),
        ("sqlite://host/locks.db", "names a host"),
        ("sqlite:///tmp/x.db?tables=a", "table"),
        ("sqlite:///tmp/x.db?table=a.b", "letters"),
        ("sqlite:///tmp/x.db?table=", "letters"),
        ("sqlite:///tmp/x.db?table=sqlite_locks", "for itself"),
        ("sqlite:///tmp/x.db?timeout=0", "50 ms"),
        ("sqlite:///tmp/x.db?timeout=soon", "timeout"),
    ],
)
def test_a_wrong_url_is_refused_at_once(address: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        locknut.connect(address)


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_systems, "network_kind", lambda _: "NFS")
    with pytest.raises(ConfigurationError, match="network file system"):
        _lock(url(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a file"):
        _lock(f"sqlite://{tmp_path}")


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="directory"):
        _lock(f"sqlite://{tmp_path}/nowhere/locks.db")


def test_what_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "locks.db").write_text("dear diary, " * 1000)
    with pytest.raises(ConfigurationError, match="not a database"):
        _lock(url(tmp_path))
    assert (tmp_path / "locks.db").read_text() == "dear diary, " * 1000


def test_a_table_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "locks.db")
    database.execute("CREATE TABLE locknut_locks (name TEXT, colour TEXT)")
    database.execute("INSERT INTO locknut_locks VALUES ('a', 'green')")
    database.commit()
    with pytest.raises(ConfigurationError, match="table="):
        _lock(url(tmp_path))
    _lock(url(tmp_path, "?table=others"))
    assert database.execute("SELECT * FROM locknut_locks").fetchall() == [("a", "green")]
    database.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="needs root not to be: root may write to all files")
def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    _lock(url(tmp_path))
    (tmp_path / "locks.db").chmod(0o400)
    with pytest.raises(ConfigurationError, match="readonly"):
        _lock(url(tmp_path))


def test_a_table_that_was_dropped_is_made_again(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks:
        with locks.lock("x"):
            pass
        database = sqlite3.connect(tmp_path / "locks.db")
        database.execute("DROP TABLE locknut_locks")
        database.commit()
        database.close()
        with locks.lock("x"):
            pass


def test_a_file_that_was_removed_is_made_again_and_its_holds_are_lost(tmp_path: Path) -> None:
    """Others lock in the new one: to go on in the old one would exclude nobody."""
    with locknut.connect(url(tmp_path)) as locks, locknut.connect(url(tmp_path)) as others:
        lock = locks.lock("x", ttl=30)
        lease = lock.acquire()
        assert lease is not None
        for each in tmp_path.glob("locks.db*"):
            each.unlink()
        with others.lock("x", timeout=5):
            with pytest.raises(LeaseLost):
                lease.renew()
            assert locks.rwlock("x").read().acquire(timeout=0) is None


def test_numbers_grow_over_a_backup_that_is_put_in_its_place(tmp_path: Path) -> None:
    """Its row is free, as its client expects, and its number is one that was given since."""
    with locknut.connect(url(tmp_path)) as locks:
        _lock(url(tmp_path))
        with (
            closing(sqlite3.connect(tmp_path / "locks.db")) as file,
            closing(sqlite3.connect(tmp_path / "kept.db")) as kept,
        ):
            file.backup(kept)
        fences = []
        for turn in range(5):
            with locks.lock("x") as lease:
                fences.append(lease.fence or 0)
            if turn == 2:
                for each in tmp_path.glob("locks.db*"):
                    each.unlink()
                (tmp_path / "kept.db").rename(tmp_path / "locks.db")
    assert fences == sorted(set(fences))


def test_two_tables_of_one_file_have_different_locks(tmp_path: Path) -> None:
    one, two = locknut.connect(url(tmp_path)), locknut.connect(url(tmp_path, "?table=two"))
    assert one.place != two.place
    with one, two, one.lock("x"), two.lock("x", timeout=5):
        pass


def test_a_link_leads_to_the_same_locks(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "locks.db")
    locks, others = locknut.connect(url(tmp_path)), locknut.connect(f"sqlite://{tmp_path}/link.db")
    with locks, others, locks.lock("x"):
        assert others.place == locks.place
        assert others.lock("x").acquire(timeout=0) is None


def test_a_foreign_writer_is_waited_for_and_no_longer_than_allowed(tmp_path: Path) -> None:
    _lock(url(tmp_path))
    writer = sqlite3.connect(tmp_path / "locks.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with locknut.connect(url(tmp_path, "?timeout=300ms")) as locks:
        with pytest.raises(BackendUnavailable, match="locked by another writer"):
            locks.lock("x").acquire(timeout=0)
        writer.execute("ROLLBACK")
        with locks.lock("x"):
            pass
    writer.close()
