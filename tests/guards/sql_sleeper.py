"""A holder that falls asleep, between its transactions or in the middle of one.

Run as `python sql_sleeper.py URL NAME FENCE [STATEMENT]`. It enters, says what it read, commits,
stops itself (SIGSTOP), and when it is woken it enters again and writes what it computed. With a
statement, it runs that instead of committing, and writes when it is woken.
"""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError

import locknut
from locknut.guards.sql import SqlGuard


def say(*words: object) -> None:
    print(*words, flush=True)


def main(url: str, name: str, fence: str, instead: str = "") -> None:
    connection = create_engine(url, poolclass=NullPool).connect()
    guard = SqlGuard(connection, name).enter(int(fence))
    ((found,),) = connection.exec_driver_sql("SELECT amount FROM stock WHERE id = 7")
    if instead:
        connection.exec_driver_sql(instead)
    else:
        connection.commit()
    say("read", found)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        if not instead:
            guard.enter(int(fence))
        connection.exec_driver_sql(f"UPDATE stock SET amount = {found + 1} WHERE id = 7")
        connection.commit()
    except locknut.StaleFence:
        say("refused")
    except DBAPIError as error:
        say("failed", error.orig)
    else:
        say("written")


if __name__ == "__main__":
    main(*sys.argv[1:])
