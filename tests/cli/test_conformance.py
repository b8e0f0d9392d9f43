"""`locknut conformance`: what holds at a server, what does not and why, and nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from locknut.testing.trial import Failure, Rule, Trial, Verdict, Wanted
from locknut.testing.trial.rules import first_words, spelled
from tests.cli.harness import Shell
from tests.contracts.sources import ROOT
from tests.servers.databases import Database
from tests.servers.etcd import EtcdServer
from tests.servers.memcached import MemcachedServer
from tests.servers.ports import Ports
from tests.servers.redis import RedisServer
from tests.servers.zookeeper import ZooKeeperServer

EVERY_RULE = len([name for name in dir(Conformance) if name.startswith("test_")])


def test_it_prints_a_line_for_each_rule_and_each_capability(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell.run("conformance", f"file://{tmp_path}/other", "--only", "lock names")
    assert (code, err) == (0, "")
    assert out.startswith(f"file:{tmp_path}/other, Locknut {locknut.__version__}\n")
    assert "\nlock names\n  holds         all of them can be held at once\n" in out
    for capability in Capability:
        assert f"\n  {capability.value:<14}" in out
    assert ": 5 hold, 0 fail, 0 not declared, 0 not tried, in " in out
    assert not list((tmp_path / "locks").glob("*")), "$LOCKNUT_URL is not the one to try"


def test_the_page_shows_how_many_rules_there_are() -> None:
    page = (ROOT / "docs/redis-compatible.md").read_text()
    every = EVERY_RULE + 1
    assert f"\n{every} rules: {every} hold, 0 fail, 0 not declared, 0 not tried, in " in page


def test_quiet_prints_the_summary_alone_and_json_one_object(shell: Shell) -> None:
    words = ("conformance", "--only", "namespaces never meet", "--colour", "asyncio")
    code, out, _ = shell.run(*words, "-q")
    assert code == 0
    assert len(out.split("\n")) == 4
    code, out, err = shell.run(*words, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["holds"]
    assert told["backend"] == "file"
    assert [each["verdict"] for each in told["rules"]] == ["holds", "holds"]
    assert set(told["capabilities"]) == {each.value for each in Capability}


@pytest.mark.redis
@pytest.mark.slow
def test_it_names_the_server(redis_server: RedisServer, valkey_server: RedisServer) -> None:
    words = ("--only", "two closes are one", "--colour", "blocking")
    for server, name in ((redis_server, "redis "), (valkey_server, "valkey ")):
        code, out, _ = Shell("").run("conformance", server.url, *words)
        place, said, *_ = out.splitlines()[0].split(", ")
        assert code == 0
        assert place == f"redis:127.0.0.1:{server.port}/0"
        assert said.startswith(name)
        assert said.split()[1][0].isdigit()


@pytest.mark.redis
def test_a_server_that_lacks_a_command_is_named_with_what_it_said() -> None:
    with RedisServer(more={"rename-command": "EVALSHA gone"}) as server:
        code, out, err = Shell(server.url).run("conformance")
    assert (code, err) == (1, "")
    assert "  FAILS         a lock can be taken and released\n" in out
    assert "unknown command 'EVALSHA'" in out
    assert "Locknut does not work there, so the other rules were not tried." in out


@pytest.mark.redis
@pytest.mark.slow
def test_a_rule_that_fails_says_in_which_colour_and_why() -> None:
    """Without pub/sub, threads can use it and loops cannot."""
    rules = "~* +@all resetchannels"
    with RedisServer(user="locks", password="x", rules=rules) as server:
        only = "another client cannot release"
        code, out, err = Shell(server.url).run("conformance", "--only", only)
        assert (code, err) == (1, "")
        assert f"  FAILS         {only}\n" in out
        assert "  asyncio: reason 1: BackendError: the server's ACL forbids" in out
        assert "\nreason 1, in 1 rule: BackendError: the server's ACL forbids" in out
        assert "it needs the permission &locknut:*" in out
        assert "blocking: " not in out
        assert ": 1 hold, 1 fail, 0 not declared, 0 not tried" in out
        told = json.loads(Shell(server.url).run("conformance", "--json", "--only", only)[1])
        assert not told["holds"]
        assert [each["run"] for each in told["rules"][1]["failures"]] == ["asyncio"]


@pytest.mark.redis
def test_what_a_failed_rule_left_is_freed_and_nothing_else(redis_server: RedisServer) -> None:
    trial = Trial(redis_server.url, Wanted())
    spaces = ["conformance-0a", "conformance-0a-2", "conformance-0b"]
    clients = [locknut.connect(redis_server.url, namespace=each) for each in spaces]
    for each in clients:
        each.lock("x", ttl=60).acquire()
    assert trial._clear(["conformance-0a"]) == 0
    assert [len(each.list()) for each in clients] == [0, 0, 1]
    for each in clients:
        each.close()


@pytest.mark.redis
def test_no_lock_of_others_is_touched(redis_server: RedisServer) -> None:
    """Not even in a namespace that begins like those of the suite."""
    with locknut.connect(redis_server.url, namespace="conformance") as locks:
        with locks.lock("x", ttl=60) as lease:
            before = lease.fence
            words = ("conformance", "--only", "mutual exclusion", "--colour", "blocking")
            assert Shell(redis_server.url).run(*words)[0] == 0
            lease.check()
            (holder,) = locks.info("x").holders
            assert holder.fence == before
        assert locks.list() == []


def test_the_time_is_bounded_and_what_was_not_tried_is_counted(shell: Shell) -> None:
    code, out, err = shell.run("conformance", "-q", "--timeout", "0.5")
    assert (code, err) == (75, "")
    assert "0 fail" in out
    assert ", 0 not tried" not in out
    assert "not everything was tried" in out


def test_a_run_that_is_cut_off_in_the_middle_leaves_no_lock(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/locks"
    only = "renewed over several ttls"
    assert Shell(url).run("conformance", "--only", only, "--timeout", "0.2")[0] == 75
    done = subprocess.run(
        [sys.executable, "-m", "locknut", "ls", "-u", url, "--json"],
        env=Shell(url).environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []


@pytest.mark.slow
def test_an_interrupt_ends_it_and_leaves_no_lock(shell: Shell) -> None:
    running = shell.start("conformance", stdin=subprocess.DEVNULL)
    while "queues and timeouts" not in running.line():
        assert running.process.poll() is None
    running.send(signal.SIGINT)
    code, out, err = running.finish()
    assert (code, err) == (130, "")
    assert "Nothing failed before it was interrupted." in out
    assert json.loads(shell.run("ls", "--json")[1]) == []


def test_an_engine_out_of_reach_is_69() -> None:
    ports = Ports()
    (port,) = ports.reserve(1)
    code, out, err = Shell("").run("conformance", f"redis://:s3cret@127.0.0.1:{port}")
    ports.close()
    assert (code, out, err.count("\n")) == (69, "", 1)
    assert "s3cret" not in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nosuch:"], 78),
        (["--only", "no such words"], 78),
        (["--colour", "green"], 64),
        (["one:", "two:"], 64),
    ],
)
def test_what_cannot_be_is_refused(shell: Shell, words: list[str], code: int) -> None:
    assert shell.run("conformance", *words)[0] == code


def test_it_asks_which_engine() -> None:
    code, _, err = Shell("").run("conformance")
    assert code == 78
    assert "locknut conformance redis://host" in err


def test_without_pytest_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise ImportError('not here')\n")
    shell = Shell("memory:")
    path = f"{tmp_path}:{shell.environment['PYTHONPATH']}"
    code, out, err = shell.run("conformance", env={"PYTHONPATH": path})
    assert (code, out) == (78, "")
    assert 'get it with: pip install "pytest>=8.2"' in err
    (tmp_path / "pytest.py").write_text("version_tuple = (7, 4)\n__version__ = '7.4.0'\n")
    code, out, err = shell.run("conformance", env={"PYTHONPATH": path})
    assert (code, out) == (78, "")
    assert "7.4.0 is older" in err


def test_no_setting_of_a_project_changes_the_suite(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not to be imported')\n")
    monkeypatch.chdir(tmp_path)
    env = {"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "no_such_plugin"}
    code, _, err = shell.run("conformance", "--only", "two closes are one", env=env)
    assert (code, err) == (0, "")


def test_rules_are_told_in_words() -> None:
    assert spelled("LeaseLossOnALoop") == "lease loss on a loop"
    assert spelled("test_raw_numbers_grow") == "raw numbers grow"
    assert (
        first_words("locknut.errors.BackendError: it said: no\nmore") == "BackendError: it said: no"
    )
    assert first_words("assert 1 == 2\n +  where") == "assert 1 == 2"
    assert first_words("") == "no reason given"


@pytest.mark.parametrize(
    ("to_come", "skipped", "failed", "verdict"),
    [
        (2, "", False, Verdict.NOT_TRIED),
        (0, "", False, Verdict.HOLDS),
        (0, "not declared", False, Verdict.NOT_DECLARED),
        (1, "not declared", True, Verdict.FAILS),
    ],
)
def test_a_rule_is_judged_by_the_worst_of_its_runs(
    to_come: int, skipped: str, failed: bool, verdict: Verdict
) -> None:
    rule = Rule("a part", "a rule", ())
    rule.to_come, rule.skipped = to_come, skipped
    rule.failures = [Failure("asyncio", "it broke", "where")] * failed
    assert rule.verdict is verdict


def _whole(url: str, most_undeclared: int = 0) -> None:
    """Every rule was tried, and holds, or is not declared."""
    process = Shell(url).start("conformance", "--json", stdin=subprocess.DEVNULL)
    out, err = process.process.communicate(timeout=1500)
    told = json.loads(out)
    verdicts = [each["verdict"] for each in told["rules"]]
    failed = [each for each in told["rules"] if each["verdict"] == "fails"]
    assert (process.process.returncode, failed, err) == (0, [], "")
    assert len(verdicts) == EVERY_RULE + 1
    assert verdicts.count("not declared") <= most_undeclared
    assert told["left_behind"] == 0


@pytest.mark.slow
@pytest.mark.timeout(1600)
class TestWholeRuns:
    """All of it, on one server of each kind, as a user would."""

    @pytest.mark.redis
    def test_redis(self, redis_server: RedisServer) -> None:
        _whole(redis_server.url)

    @pytest.mark.redis
    def test_valkey(self, valkey_server: RedisServer) -> None:
        _whole(valkey_server.url)

    @pytest.mark.memcached
    def test_memcached(self, memcached_server: MemcachedServer) -> None:
        _whole(memcached_server.url, most_undeclared=70)

    @pytest.mark.etcd
    def test_etcd(self, etcd_server: EtcdServer) -> None:
        _whole(etcd_server.url, most_undeclared=50)

    @pytest.mark.postgresql
    def test_postgresql(self, postgresql_database: Database) -> None:
        _whole(postgresql_database.url, most_undeclared=10)

    @pytest.mark.mariadb
    def test_mariadb(self, mariadb_database: Database) -> None:
        _whole(mariadb_database.url, most_undeclared=10)

    @pytest.mark.zookeeper
    def test_zookeeper(self, zookeeper_server: ZooKeeperServer) -> None:
        _whole(zookeeper_server.url, most_undeclared=20)

    def test_sqlite(self, tmp_path: Path) -> None:
        _whole(f"sqlite:{tmp_path}/locks.db", most_undeclared=10)

    def test_file(self, tmp_path: Path) -> None:
        _whole(f"file:{tmp_path}/locks", most_undeclared=20)
