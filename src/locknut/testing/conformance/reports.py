"""What metrics are made of: every wait has an outcome, every hold an end, every command a time."""

from __future__ import annotations

from typing import Any

import pytest

from locknut import opening
from locknut.core.values import Capability, Event, RenewalReport
from locknut.errors import ConfigurationError, LeaseLost
from locknut.faces.events import Candidacy, CommandReport
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


class ReportLog:
    """A sink and its observer in one: keeps what it is told."""

    def __init__(self) -> None:
        self.sink = self
        self.events: list[Event] = []
        self.renewals: list[RenewalReport] = []
        self.commands: list[CommandReport] = []

    def observer(self) -> ReportLog:
        return self

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_renewal(self, report: RenewalReport) -> None:
        self.renewals.append(report)

    def on_command(self, report: CommandReport) -> None:
        self.commands.append(report)

    def on_election(self, report: Candidacy) -> None:
        """No part of an engine's conformance."""

    def stop(self) -> None:
        """Keep what there is."""

    def names(self) -> set[str]:
        return {report.command for report in self.commands}


class Reports(Part):
    """What listeners and observers are told, so that counting it comes out right."""

    async def test_commands_are_timed_while_somebody_measures(self, scene: Scene) -> None:
        locks, recorder = scene.connect(), ReportLog()
        stop = opening.observe(recorder, locks)
        async with locks.lock("x"):
            await locks.info("x")
        assert {"acquire", "inspect", "release"} <= recorder.names()
        assert all(each.backend == scene.backend for each in recorder.commands)
        assert all(each.seconds >= 0 and each.error is None for each in recorder.commands)
        stop()
        recorder.commands.clear()
        async with locks.lock("x"):
            pass
        assert not recorder.commands

    async def test_a_renewal_tells_how_much_was_left(self, scene: Scene) -> None:
        locks, recorder = scene.connect(), ReportLog()
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        opening.observe(recorder, locks)
        await lease.renew()
        report = next(each for each in recorder.renewals if each.outcome == "confirmed")
        assert (report.name, report.backend) == ("x", scene.backend)
        if report.left is not None:  # else it has no end of its own
            assert report.ttl is None or 0 < report.left <= report.ttl
        await lease.release()

    async def test_whoever_waited_is_told_so(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        async with scene.stranger("x"):
            assert await locks.lock("x").acquire(timeout=0.5) is None
            assert await locks.lock("x").acquire(blocking=False) is None
        waited, asked = [event for event in news.events if event.kind == "timed_out"]
        assert (waited.contended, asked.contended) == (True, False)
        assert news.kinds().count("waiting") == 1

    async def test_a_wait_in_two_lines_is_one_wait(self, scene: Scene) -> None:
        """In the line of the process first, and then in the engine's."""
        locks, other = scene.connect(), scene.connect()
        news = scene.news(locks)

        async def wait() -> None:
            async with locks.lock("x"):
                pass

        async with scene.stranger("x"):
            crowd = [scene.spawn(wait) for _ in range(3)]
            await news.heard("waiting", 3)
        for each in crowd:
            await each.result()
        kinds = news.kinds()
        assert kinds.count("waiting") == 3
        assert kinds.count("granted") + kinds.count("handed_over") == 3
        begun = [event for event in news.events if event.kind in {"granted", "handed_over"}]
        assert all(event.contended for event in begun)
        await scene.free(other, "x")

    async def test_a_wait_that_ends_with_an_error_has_failed(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)

        async def wait() -> None:
            await locks.lock("x").acquire()

        async with scene.stranger("x"):
            waiter = scene.spawn(wait)
            await news.heard("waiting")
            await locks.close()
            with pytest.raises(ConfigurationError):
                await waiter.result()
            event = await news.heard("failed")
        assert (event.contended, event.reason) == (True, "ConfigurationError")
        assert news.kinds() == ["waiting", "failed"]

    async def test_closing_ends_what_is_held(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        await locks.close()
        event = await news.heard("released")
        assert (event.fence, event.reason) == (lease.fence, "closed")

    async def test_a_release_that_comes_too_late_is_a_loss(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        news = scene.news(locks)
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        await other.force_release("x", fence=lease.fence)
        with pytest.raises(LeaseLost):
            await lease.release()
        event = await news.heard("lost")
        assert event.fence == lease.fence
        assert event.reason.partition(":")[0] in {"broken", "taken", "expired", "session"}
        assert news.kinds() == ["granted", "lost"]

    @needs(Capability.DETACHING)
    async def test_a_detached_hold_has_an_end_here(self, scene: Scene) -> None:
        locks = scene.connect()
        news: Any = scene.news(locks)
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        text = await lease.detach(ttl=scene.safe_ttl)
        assert news.kinds() == ["granted", "detached"]
        attached = await locks.attach(text)
        assert (news.events[-1].kind, news.events[-1].reason) == ("granted", "attached")
        await attached.release()
        assert news.kinds()[-1] == "released"
