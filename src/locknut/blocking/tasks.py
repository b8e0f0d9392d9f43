"""A blocking lock in asyncio code: its hold is the thread's, and tasks of one thread share it.

By thread alone it would exclude nobody there, so a task may not enter what another one is inside.
The same holds for greenlets. Where gevent patched `threading` in time, each greenlet has holds of
its own, as a thread has, and nobody is refused here.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from locknut.core.values import Mode
from locknut.errors import DeadlockDetected
from locknut.runtimes.cpython import may_run_tasks, running_loop

if TYPE_CHECKING:
    from locknut.blocking.lease import Lease
    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest


_OTHER_TASK = (
    "another asyncio task of this thread is inside: a blocking lock excludes threads, not the "
    "tasks of one thread; use locknut.aio in asyncio code"
)
_OTHER_GREENLET = (
    "another greenlet of this thread is inside: a blocking lock excludes threads, not the "
    "greenlets of one thread; call gevent.monkey.patch_all() before locknut is imported, then each "
    "greenlet counts as a thread"
)


def running_task(*, again: bool) -> object | None:
    """Return the task that this thread runs, or the greenlet if no loop runs; None without both.

    A callback of the loop has no task. If it enters a lock `again`, this returns the loop itself; a
    callback that enters for the first time also leaves before it returns.
    """
    tasks: Any = sys.modules.get("asyncio.tasks")  # not imported for this: then no loop runs either
    if tasks is None or not (again or may_run_tasks(tasks)):
        return _greenlet() if "greenlet" in sys.modules else None
    loop: object | None = running_loop()
    return _greenlet() if loop is None else tasks.current_task(loop) or loop


def _greenlet() -> object | None:
    greenlets: Any = sys.modules.get("greenlet")
    current = getattr(greenlets, "getcurrent", None)  # it may be in the middle of its import
    return None if current is None else current()


def refuse_other_task(client: Client, request: LockRequest, caller: Caller, task: object) -> None:
    """Raise if another task of this thread is inside what is to be entered again."""
    lease: Any = caller.get(request.slot)
    if lease is None or isinstance(lease, list) or lease._ended is not None:
        return
    inside = getattr(lease, "_inside", None)
    if inside is None or request.options.owner is not None or lease.mode is Mode.SHARED:
        return
    before, entered = inside
    other = entered()
    if lease._count <= before or other is None or other is task or _is_over(other):
        return
    is_greenlet = hasattr(other, "gr_frame")
    if is_greenlet and other is _greenlet():
        return  # it entered before the loop began, and runs the loop and all of its tasks
    message = _OTHER_GREENLET if is_greenlet else _OTHER_TASK
    raise DeadlockDetected(message, key=client.bare(request.key), backend=client.backend.name)


def note_task(lease: Lease, task: object) -> None:
    """This task has entered, and is inside until the count is as it was before."""
    lease._inside = (lease._count - 1, weakref.ref(task))


def _is_over(task: Any) -> bool:
    """A greenlet says so by `dead`; a loop does not end while it runs."""
    done = getattr(task, "done", None)
    return bool(getattr(task, "dead", False) if done is None else done())
