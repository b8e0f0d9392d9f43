"""A blocking lock in asyncio code: its hold is the thread's, and tasks of one thread share it.

By thread alone it would exclude nobody there, so a task may not enter what another one is inside.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from locknut.core.values import Mode
from locknut.errors import DeadlockDetected

if TYPE_CHECKING:
    from locknut.core.client import Client, Want
    from locknut.core.holding import Mine
    from locknut.lease import Lease


_LOOKING_COSTS = sys.version_info < (3, 12)
"""There, asking for the running loop is a system call each time."""


def running_task(*, again: bool) -> object | None:
    """The task that this thread runs just now; None without a loop. To enter it `again`, in a
    callback of the loop, the loop: whoever enters there for the first time leaves at once.
    """
    tasks: Any = sys.modules.get("asyncio.tasks")  # not imported for this: then no loop runs either
    if tasks is None or (_LOOKING_COSTS and not again and not tasks._current_tasks):
        return None
    loop: object | None = tasks.events._get_running_loop()
    return None if loop is None else tasks.current_task(loop) or loop


def refuse_other_task(client: Client, want: Want, mine: Mine, task: object) -> None:
    """Raise if another task of this thread is inside what is to be entered again."""
    lease: Any = mine.get(want.slot)
    if lease is None or isinstance(lease, list) or lease._ended is not None:
        return
    inside = getattr(lease, "_inside", None)
    if inside is None or want.terms.owner is not None or lease.mode is Mode.SHARED:
        return
    before, entered = inside
    other = entered()
    if lease._count <= before or other is None or other is task or _is_over(other):
        return
    message = (
        "another asyncio task of this thread is inside: a blocking lock excludes threads, not the "
        "tasks of one thread; use locknut.aio in asyncio code"
    )
    raise DeadlockDetected(message, key=client.bare(want.key), backend=client.backend.name)


def note_task(lease: Lease, task: object) -> None:
    """This task has entered, and is inside until the count is as it was before."""
    lease._inside = (lease._count - 1, weakref.ref(task))


def _is_over(task: Any) -> bool:
    done = getattr(task, "done", None)
    return done is not None and bool(done())
