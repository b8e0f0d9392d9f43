"""What the two colours of the conformance suite do with their workers."""

from __future__ import annotations

import asyncio
import gc

import pytest

from locknut.testing.conformance.colours import Asyncio

pytestmark = pytest.mark.memory


@pytest.mark.parametrize("why", [KeyboardInterrupt, AssertionError])
def test_workers_of_what_is_cut_off_complain_to_nobody(
    why: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """`locknut conformance --timeout` printed a traceback for each."""

    async def fail() -> None:
        raise ValueError

    async def body() -> None:
        worker = Asyncio().spawn(fail)
        await asyncio.sleep(0)
        raise why(worker)

    with pytest.raises(why):
        Asyncio().run(body())
    gc.collect()
    assert caplog.messages == []


def test_a_worker_that_fails_unseen_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError

    async def body() -> None:
        Asyncio().spawn(fail)
        await asyncio.sleep(0)

    Asyncio().run(body())
    gc.collect()
    assert "never retrieved" in caplog.text
