"""The end of the process: what is still held is ended here first, and given back only then.

Threads that do not keep a program from ending still run meanwhile, inside their locks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import losing, pacing
from locknut.core.timetable import BATCH
from locknut.core.values import Capability, State

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.ports import Backend, Runtime


def dies_with_us(client: Client) -> bool:
    """Whether the engine frees what we hold at the moment the process ends: then nothing needs to
    be given back, and whoever still runs keeps its locks until then.
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
    for lease in ended:  # `on_lost` is not called: this is no trouble, the program ends
        for signal in lease._signals:
            signal.notify()
    give_up = runtime.now() + pacing.RELEASE_PATIENCE
    for start in range(0, len(holds), BATCH):
        await _give_back(holds[start : start + BATCH], backend, runtime, give_up)


async def _give_back(holds: list[Hold], backend: Backend, runtime: Runtime, give_up: float) -> None:
    """What fails keeps nobody else from being tried, but nobody waits for ever for the end."""
    release_all = getattr(backend, "release_all", None)
    if release_all is not None and len(holds) > 1:
        doubtful = any(hold.doubtful for hold in holds)
        with suppress(Exception):
            await release_all([hold.claim for hold in holds], doubtful=doubtful)
        return
    for hold in holds:
        if runtime.now() < give_up:
            with suppress(Exception):
                await backend.release(hold.claim, doubtful=hold.doubtful)
