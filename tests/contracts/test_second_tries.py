"""What fails among many workers may try again alone, is named, and hides nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT

sys.path.append(str(ROOT / "scripts"))

import run_tests  # after the path is set

ONCE = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    mark = pathlib.Path(__file__).with_name(f"mark{{number}}")
    before = mark.exists()
    mark.touch()
    assert before or not {fails}
"""
ALWAYS = "def test_never(): assert False\n"
FINE = "def test_fine(): pass\n"
MEETING = """
import pathlib, time
def test_meet():
    here = pathlib.Path(__file__).parents[{up}]
    (here / "{me}").touch()
    until = time.monotonic() + 60
    while not (here / "{you}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
"""
SKIPPED = """
def pytest_sessionfinish(session):
    session.exitstatus = 10
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another tree, with tests of its own."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests" / "conformance").mkdir(parents=True)
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "WORKERS", 2)
    return tmp_path


def passed() -> bool:
    return run_tests._whole([sys.executable], ["-q"])


def write(
    project: Path,
    count: int,
    *,
    fails: bool = True,
    more: str = "",
    contract: str = FINE,
) -> None:
    text = ONCE.format(count=count, fails=fails) + more
    (project / "tests" / "test_it.py").write_text(text)
    (project / "tests" / "conformance" / "test_them.py").write_text(contract)


def test_it_passes_alone_and_is_named(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(project, 2)
    assert passed()
    told = capfd.readouterr().out
    assert told.endswith("test_it.py::test_it[0]\ntests/test_it.py::test_it[1]\n")
    assert "Passed alone only" in told


def test_what_passes_at_once_is_not_run_again(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(project, 2, fails=False)
    assert passed()
    assert "again" not in capfd.readouterr().out


def test_what_fails_alone_too_fails(project: Path) -> None:
    write(project, 1, more=ALWAYS)
    assert not passed()


def test_many_failures_are_failures(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(project, run_tests.FEW + 1)
    assert not passed()
    assert "again" not in capfd.readouterr().out


def test_a_skipped_engine_stays_a_failure(project: Path) -> None:
    (project / "conftest.py").write_text(SKIPPED)
    write(project, 1)
    assert not passed()


def test_what_waits_runs_beside_what_computes(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        project,
        1,
        fails=False,
        more=MEETING.format(up=0, me="computes", you="waits"),
        contract=MEETING.format(up=1, me="waits", you="computes"),
    )
    assert passed()
    told = capfd.readouterr().out
    assert told.index("2 passed") < told.index("1 passed")  # both are shown, one after the other


def test_what_waits_may_try_again_and_is_named_too(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(project, 1, fails=False, contract=ONCE.format(count=1, fails=True))
    assert passed()
    assert capfd.readouterr().out.endswith("tests/conformance/test_them.py::test_it[0]\n")


def test_what_waits_and_fails_alone_too_fails(project: Path) -> None:
    write(project, 1, fails=False, contract=ALWAYS)
    assert not passed()
