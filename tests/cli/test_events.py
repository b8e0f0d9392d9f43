"""`locknut events`: what happened, for people and for scripts."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import locknut
from locknut.cli import events_
from tests.cli.harness import Shell, until
from tests.cli.test_contention import hold, let_go


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(f"file://{tmp_path}/locks?history=100")
    try:
        yield made
    finally:
        made.close()


def test_a_run_and_a_break_are_remembered(kept: Shell) -> None:
    holder, fence = hold(kept, "order:1", "--owner", "nightly")
    code, _, err = kept.run("break", "order:1", "--fence", str(fence), "--reason", "stuck", "-y")
    assert code == 0, err
    holder.finish()
    assert kept.run("run", "report", "--", "true")[0] == 0
    code, out, err = kept.run("events", "order:*")
    assert (code, err) == (0, "")
    found = {line.split()[1]: line for line in out.splitlines()}
    assert set(found) == {"granted", "broken", "lost"}
    who = f"nightly@{os.uname().nodename}:{holder.process.pid}"
    assert (
        f'granted "order:1", fence {fence}, {who} (thread MainThread), waited ' in found["granted"]
    )
    assert found["broken"].endswith(": stuck")
    assert f'lost "order:1", fence {fence}, {who}' in found["lost"]
    facts = [
        json.loads(line) for line in kept.run("events", "--json", "--since", "1h")[1].splitlines()
    ]
    assert {each["lock"] for each in facts} == {"order:1", "report"}
    assert facts[-1]["command"] == "true"
    assert facts[0]["fence"] == fence
    assert [each["time"] for each in facts] == sorted(each["time"] for each in facts)


def test_nothing_says_where_it_looked_and_how_to_keep_events(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("run", "x", "--", "true")[0] == 0
    code, out, err = shell.run("events", "x*", "--since", "10m")
    assert (code, out) == (0, "")
    assert err == (
        f'locknut: no event of locks like "x*" of the last 10m is kept in file:{tmp_path}/locks; '
        "programs keep them with history=1000\n"
    )
    assert shell.run("events", "-q") == (0, "", "")
    assert shell.run("events", "--json") == (0, "", "")


@pytest.mark.slow
def test_follow_goes_on_and_prints_each_event_once(kept: Shell) -> None:
    assert kept.run("run", "before", "--", "true")[0] == 0
    following = kept.start("events", "--follow", "--json")
    first = [json.loads(following.line()) for _ in range(2)]
    assert [each["lock"] for each in first] == ["before", "before"]
    holder, _ = hold(kept, "after")
    assert json.loads(following.line())["kind"] == "granted"
    let_go(holder)
    assert json.loads(following.line())["kind"] == "released"
    following.send(signal.SIGINT)
    assert following.process.wait(timeout=60) == 130


def test_follow_prints_nothing_older_than_it_was_asked_for(kept: Shell) -> None:
    assert kept.run("run", "first", "--", "true")[0] == 0
    until(lambda: "first" in kept.run("events")[1])
    following, heard = kept.start("events", "--follow", "--since", "1ms"), threading.Event()

    def go_on() -> None:
        while not heard.is_set():
            kept.run("run", "later", "--", "true")

    later = threading.Thread(target=go_on)
    later.start()
    said = following.line()
    heard.set()
    later.join()
    assert '"later"' in said, "and not the first one"
    following.send(signal.SIGINT)
    assert '"first"' not in following.finish()[1]


def test_an_engine_without_history_is_refused(shell: Shell) -> None:
    code, _, err = shell.run("events", "-u", "memcached://localhost:1")
    assert code == 78
    assert "history" in err


def test_a_name_cannot_write_to_a_terminal() -> None:
    entry = locknut.HistoryEntry(0.0, "lost", "\x1b[2J", reason="\x1b]0;x", label="\x07", host="h")
    assert events_.line(entry).isprintable()
    assert events_.line(entry).endswith(r'lost "\x1b[2J", \x07@h: \x1b]0;x')


def test_a_line_has_what_is_known() -> None:
    entry = locknut.HistoryEntry(0.0, "omitted", pid=7, host="web", reason="3 granted")
    assert events_.line(entry).endswith("omitted, web:7: 3 granted")
