"""A data folder is made once, whoever asks for it, and copied since."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import templates
from tests.servers.templates import copy_template


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(templates, "TEMPLATES", tmp_path / "templates")
    return []


def maker(made: list[Path]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        (folder / "data").write_text("fresh")

    return make


def test_whoever_comes_at_the_same_time_waits_for_it(made: list[Path], tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def copy(number: int) -> str:
        together.wait(60)
        copy_template("db", "1", maker(made), tmp_path / str(number))
        return (tmp_path / str(number) / "data").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(copy, range(4))) == ["fresh"] * 4
    assert len(made) == 1


def test_another_version_has_a_template_of_its_own(made: list[Path], tmp_path: Path) -> None:
    for number, version in enumerate(["1", "2", "2"]):
        copy_template("db", version, maker(made), tmp_path / str(number))
    copy_template("other", "1", maker(made), tmp_path / "other")
    assert len(made) == 3
    left = [each.name for each in (tmp_path / "templates").iterdir() if each.is_dir()]
    assert len(left) == 2, "the old one is of no use"


def test_one_that_failed_is_not_used(made: list[Path], tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        maker(made)(folder)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        copy_template("db", "1", fail, tmp_path / "1")
    copy_template("db", "1", maker(made), tmp_path / "2")
    assert len(made) == 2


def test_where_nothing_can_be_kept_it_is_made_on_the_spot(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forbidden(type(tmp_path)):  # type: ignore[misc]  # root may write everywhere
        def mkdir(self, *_: object, **__: object) -> None:
            raise PermissionError

    monkeypatch.setattr(templates, "TEMPLATES", Forbidden(tmp_path / "templates"))
    copy_template("db", "1", maker(made), tmp_path / "here")
    assert made == [tmp_path / "here"]
