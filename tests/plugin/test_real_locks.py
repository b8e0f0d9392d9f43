"""A test that would use a real lock unasked: it is refused, told of, or given a fake one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.projects import passes, run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.file

JOB = """
    import locknut
    from locknut import aio

    def job(name="job"):
        with locknut.lock(name, timeout=5) as lease:
            return lease.fence

    async def job_async():
        async with aio.lock("job", timeout=5) as lease:
            return lease.fence
"""
FORGETS = """
    from job import job

    def test_busy(locknut_hold):
        job()

    def test_forgets():
        job()
"""


def real_files(pytester: pytest.Pytester) -> list[str]:
    """What is left of real locks."""
    folder = pytester.path / "real_locks"
    return [path.name for path in folder.rglob("*") if path.is_file()]


def setting(pytester: pytest.Pytester, value: str) -> None:
    pytester.makeini(f"[pytest]\nlocknut_real_locks = {value}\n")


@pytest.mark.parametrize("selected", ["test_forgets.py", "test_forgets.py::test_forgets"])
def test_a_test_that_forgets_the_fixture_fails(pytester: pytest.Pytester, selected: str) -> None:
    """Whichever tests of the file are chosen."""
    write(pytester, job=JOB, test_forgets=FORGETS)
    result = run(pytester, selected)
    result.assert_outcomes(failed=1, passed=int("::" not in selected))
    result.stdout.fnmatch_lines(
        [
            "*this test would use a real lock: 'job' on file:*real_locks*",
            "*job.py:5, in job*",
            "*another test in test_forgets.py uses a fixture of Locknut's*",
            "*def test_forgets(locknut_locks)*",
            "*@pytest.mark.locknut_real*",
        ]
    )
    assert not real_files(pytester)
    result.stdout.no_fnmatch_line("*used real locks*")


def test_marked_it_may(pytester: pytest.Pytester) -> None:
    marked = FORGETS.replace("    def test_forgets", "    @mark.locknut_real\n    def test_forgets")
    write(pytester, job=JOB, test_forgets="    from pytest import mark\n" + marked)
    result = passes(pytester, 2, "--strict-markers")
    assert real_files(pytester)
    result.stdout.no_fnmatch_line("*used real locks*")


UNDECIDED = """
    import asyncio
    from locknut import connect
    from job import job, job_async

    def test_job():
        job()

    def test_asyncio():
        asyncio.run(job_async())

    def test_in_memory():
        with connect("memory:").lock("job"):
            pass

    def test_without():
        pass
"""


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["one process", "xdist"])
@pytest.mark.slow
def test_a_project_that_says_nothing_is_left_alone(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    write(pytester, job=JOB, test_undecided=UNDECIDED)
    result = passes(pytester, 4, *options)
    assert real_files(pytester)
    result.stdout.fnmatch_lines(["Locknut: 2 tests used real locks*locknut_real_locks*"])
    line = next(line for line in result.outlines if line.startswith("Locknut: "))
    assert "file:" in line
    assert any(name in line for name in ("::test_job", "::test_asyncio"))


def test_allowed_it_says_nothing(pytester: pytest.Pytester) -> None:
    write(pytester, job=JOB, test_undecided=UNDECIDED, test_forgets=FORGETS)
    setting(pytester, "allow")
    passes(pytester, 6).stdout.no_fnmatch_line("*used real locks*")


def test_nothing_is_said_where_no_lock_is_used(pytester: pytest.Pytester) -> None:
    write(pytester, test_plain="def test_it(): pass")
    passes(pytester, 1).stdout.no_fnmatch_line("*ocknut:*")


REFUSED = """
    import asyncio, threading
    import locknut, pytest
    from job import job, job_async

    def test_plain():
        job()

    def test_asyncio():
        asyncio.run(job_async())

    def test_swallowed():
        try:
            job()
        except Exception:
            pass

    def test_swallowed_all():
        try:
            job()
        except BaseException:
            pass

    def test_in_a_thread(monkeypatch):
        monkeypatch.setattr(threading, "excepthook", lambda args: None)
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()

    def test_several():
        locknut.connect("file:").all("a", "b").acquire()

    def test_break():
        locknut.connect("file:").force_release("a")

    @pytest.mark.locknut_real
    def test_asked_for():
        job()

    def test_faked(locknut_locks):
        job()
"""


def test_refused_everywhere(pytester: pytest.Pytester) -> None:
    """In threads too, and whatever the code under test catches."""
    write(pytester, job=JOB, test_refused=REFUSED)
    setting(pytester, "refuse")
    result = run(pytester, "--deselect", "test_refused.py::test_asked_for")
    result.assert_outcomes(failed=7, passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*pytest's settings say locknut_real_locks = refuse*"])
    assert not real_files(pytester)
    passes(pytester, 1, "-k", "asked_for")


REPLACED = """
    import unittest
    import locknut, pytest

    locks = locknut.connect("redis://localhost:1/0")

    @pytest.mark.parametrize("turn", [1, 2])
    def test_without_a_fixture(turn):
        assert locks.lock("a").acquire(blocking=False)

    def test_with_one(locknut_hold):
        with locknut_hold("a"):
            assert locks.lock("a").acquire(blocking=False) is None

    class Case(unittest.TestCase):
        def test_unittest(self):
            assert locks.lock("a").acquire(blocking=False)

    @pytest.mark.locknut_real
    def test_real():
        with pytest.raises(locknut.BackendUnavailable):
            locks.lock("a").acquire(timeout=0.1)

    @pytest.fixture(scope="module")
    def shared():
        with locknut.connect("redis://localhost:1/0") as made:
            yield made

    @pytest.mark.parametrize("turn", [1, 2])
    def test_a_locks_of_a_wider_fixture(shared, turn):
        assert shared.lock("a").acquire(blocking=False)
"""
WIDER = """
    import pytest
    from job import job

    @pytest.fixture(scope="module")
    def taken():
        return job()

    def test_a_lock_of_a_wider_fixture(taken):
        pass
"""


def test_replaced_everywhere(pytester: pytest.Pytester) -> None:
    write(pytester, test_replaced=REPLACED)
    setting(pytester, "replace")
    passes(pytester, 7)


def test_a_lock_taken_by_a_wider_fixture_is_refused(pytester: pytest.Pytester) -> None:
    write(pytester, job=JOB, test_wider=WIDER)
    setting(pytester, "replace")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture of a wider scope*fake_locks()*"])
    assert not real_files(pytester)


def test_a_wrong_setting_is_told(pytester: pytest.Pytester) -> None:
    setting(pytester, "never")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*locknut_real_locks*allow, refuse or replace*'never'*"])


def test_real_and_fake_at_once_is_a_contradiction(pytester: pytest.Pytester) -> None:
    test = """
        import pytest

        @pytest.mark.locknut_real
        def test_it(locknut_hold):
            pass
    """
    write(pytester, test_both=test)
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*locknut_real*and*fixture*"])


def test_the_conformance_suite_is_meant_to_be_real(pytester: pytest.Pytester) -> None:
    test = """
        from locknut.testing import Conformance

        class TestMine(Conformance):
            url = "file:"
    """
    write(pytester, test_mine=test)
    setting(pytester, "refuse")
    passes(pytester, 2, "-k", "test_with_inside_with")


def test_ours_allows_real_locks(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("locknut_real_locks") == "allow"
    assert Path(str(pytestconfig.inipath)).name == "pyproject.toml"
