"""No thread of ours begins while the interpreter goes away: CPython 3.11.2 would crash.

Each program first registers what is called last, once Locknut has seen that the process ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
BEGINNING = """
import atexit, os, threading, time
atexit.register(lambda: last())
from locknut.runtimes import cpython
"""
SLOW_MACHINE = """
name = "_start_joinable_thread"  # as it is called from 3.13 on
name = name if hasattr(threading, name) else "_start_new_thread"
really = getattr(threading, name)
def slowly(function, *arguments, **facts):
    def late(*given):
        time.sleep(0.3)
        function(*given)
    return really(late, *arguments, **facts)
setattr(threading, name, slowly)
"""
BEGINS = """
begun = []
thread = cpython.UnawaitedThread(target=lambda: begun.append(1), daemon=True)
def last():
    print(thread._begun.is_set())
thread.start()
"""
LATE = """
begun = []
def last():
    thread = cpython.UnawaitedThread(target=lambda: begun.append(1), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        print(error)
    else:
        print(thread._begun.is_set())
"""
OTHERS = """
ended, told = threading.Event(), threading.Event()
def other():
    ended.wait()
    try:
        cpython.UnawaitedThread(target=int, daemon=True).start()
    except RuntimeError as error:
        print(error)
    told.set()
threading.Thread(target=other, daemon=True).start()
def last():
    ended.set()
    told.wait()
"""
FORKED = """
def last():
    if os.getpid() != parent:
        return
    try:
        child = os.fork()
    except RuntimeError as error:
        print(error)
        return
    if child == 0:
        thread = cpython.UnawaitedThread(target=int, daemon=True)
        threading.Thread(target=thread.start).start()
        os._exit(0 if thread._begun.wait(20) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
parent = os.getpid()
"""
MANY = """
def starts():
    while True:
        try:
            for _ in range(20):
                cpython.UnawaitedThread(target=int, daemon=True).start()
        except RuntimeError:  # the end, or more than the machine can have
            return
def last():
    pass
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # a thread that begins has to wait for us
for _ in range(4):
    threading.Thread(target=starts, daemon=True).start()
time.sleep(0.05)
"""
REFUSED = "can't start new thread at interpreter shutdown"
NOTHING_LATE = sys.version_info[:2] == (3, 12)
"""Whether CPython itself refuses, by then, whatever begins."""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        pytest.param(SLOW_MACHINE + BEGINS, "True", id="one-on-its-way"),
        pytest.param(
            SLOW_MACHINE + LATE,
            "can't create new thread at interpreter shutdown" if NOTHING_LATE else "True",
            id="by-whoever-ends-the-process",
        ),
        pytest.param(OTHERS, REFUSED, id="by-others"),
        pytest.param(
            FORKED, "can't fork at interpreter shutdown" if NOTHING_LATE else "0", id="in-a-child"
        ),
        pytest.param(MANY, "", id="many"),
    ],
)
def test_a_thread_has_begun_before_the_interpreter_goes_away(program: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program],
        # Freed memory is overwritten: whoever looks there crashes.
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, says), done.stderr
