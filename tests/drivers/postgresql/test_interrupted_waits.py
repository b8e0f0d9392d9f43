"""Ctrl-C at every moment of a wait for a session: nobody is told anything else, or stands still."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import signal, sys, threading, time
from locknut.drivers.postgresql import session_pool
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.settings import Settings
from locknut.drivers.postgresql.sync import BlockingLine
from locknut.runtimes.threads import run
from tests.api.stepping import Shot, Survey, traced

class Session:
    epoch = 0
    used = 0.0
    lent_to = True
    def alive(self): return True
    def close(self): closed.append(self)

closed, opened = [], []
def slowly(settings, primary):
    time.sleep(0.005)
    opened.append(Session())
    return opened[-1]
session_pool.open_session = slowly

def waits(line):
    session = run(line.session(time.monotonic() + 20))
    lent_to = session.lent_to
    try:
        line.pool.give_back(session)
    except BaseException:
        if session.lent_to is lent_to:  # it had not begun
            line.pool.give_back(session)
        raise

def new_line():
    return BlockingLine(session_pool.SessionPool(Settings("nowhere", (), 1.0), Primary()))

at = tried = 0
while True:
    found = Survey()
    traced(waits, new_line(), found)
    if at >= len(found.aims):
        break
    line, shot = new_line(), Shot(found.aims[at])
    signal.signal(signal.SIGINT, shot.hit)
    try:
        traced(waits, line, shot)
    except BaseException as error:
        print(f"{at}: {error!r} after {shot.where}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    others = [threading.Thread(target=waits, args=(line,), daemon=True) for _ in range(3)]
    for each in others:
        each.start()
    for each in others:
        each.join(10)
        if each.is_alive():
            print(f"{at}: nobody gets a session after {shot.where}")
    holders = [each for each in opened if each.lent_to is not None and each not in closed]
    if holders:
        print(f"{at}: a session is lent to nobody after {shot.where}")
    opened.clear()
    closed.clear()
    at += 1
    tried += 1
print(tried > 40)
"""


def test_an_interrupt_is_an_interrupt_and_the_pool_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout.strip() == "True", done.stderr
