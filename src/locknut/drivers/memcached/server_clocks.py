"""How far a memcached's clock is ahead of ours, so that an item can be given the moment of its end.

Asked for "30 seconds", a memcached counts from what its clock shows, which its main thread turns
once a second. If that thread is held up (the machine is far too busy, or the process was stopped
and goes on), the others answer meanwhile by a clock that stands still: after 4 such seconds an item
of 6 lived for one. So an item is given a moment of the server's clock, worked out from ours and
from what the server says once a minute. The main thread also accepts connections, so nobody who
connects for the first time believes a clock that stands still; later two answers are compared.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from locknut.drivers.memcached.server_identity import Greeted

FRESH: Final = 60.0
"""Seconds for which an answer is good."""
DRIFT: Final = 0.01
"""How much two clocks may drift apart, as a share: the margin that every validity has."""


class _Heard(NamedTuple):
    ahead: float
    """What the server's clock shows more than ours, by the last answer."""
    before: float
    """The same, by the answer before that."""
    at: float
    """When we asked for the last one, by our clock."""


class ServerClocks:
    """The clocks of all instances of one server. Shared by the connections of an engine, in single
    steps, so that threads need no mutex.
    """

    def __init__(self) -> None:
        self._heard: dict[tuple[int, int], _Heard] = {}

    def heard(self, greeted: Greeted) -> None:
        """Take in what an instance said."""
        said, known = greeted.clock - greeted.asked, self._heard.get(greeted.instance)
        before = said if known is None else known.ahead
        self._heard[greeted.instance] = _Heard(said, before, greeted.asked)

    def shows(self, instance: tuple[int, int], now: float) -> float | None:
        """What its clock shows now, or a little more; None if it has to be asked first. A clock is
        turned late at times, and never early: so the greater of two answers is right.
        """
        known = self._heard.get(instance)
        if known is None or now - known.at > FRESH:
            return None
        ahead, before, at = known
        return now + (max(before, ahead)) + (now - at) * DRIFT
