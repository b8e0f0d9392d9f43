"""The end of the process: what is still held is ended here first, and given back only then.

Threads that do not keep a program from ending still run meanwhile, inside their locks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import losing, pacing
from locknut.core.releasing_many import give_back
from locknut.core.values import Capability, State

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.ports import Backend, Runtime


def dies_with_us(client: Client) -> bool:
    """Whether the engine frees what we hold at the moment the process ends: then nothing needs to
    be given back, and threads that still run keep their locks until then.
    """
    backend = client.backend
    return Capability.SESSION in backend.capabilities and backend.default_ttl is None


async def leave(client: Client, backend: Backend, runtime: Runtime) -> None:
    """Nobody may believe in a lease any more when its lock is given back. `backend` and `runtime`
    are blocking ones, because by now loops are closed.
    """
    client.closed = "the interpreter is exiting"
    with client.guard:
        holds = list(client.holds.values())
        ended = [lease for hold in holds for lease in losing.end_leases(hold, State.LOST, "exit")]
        for hold in holds:
            client.drop(hold)
    for lease in ended:  # `on_lost` is not called: nothing is wrong, the program ends
        for signal in lease._signals:
            signal.notify()
    until = runtime.now() + pacing.RELEASE_PATIENCE
    with suppress(Exception):  # nobody is left to see it; one failure must not stop the rest
        work = give_back(backend, runtime, holds, until, insist=False)
        await runtime.finish(work, until)
