"""Those who look at one observer: each is rung after every listing, whatever others do then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger("locknut")


class Viewers:
    """Any thread may come and go."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._guard = threading.Lock()
        self._rings: list[Callable[[], object]] = []

    def add(self, ring: Callable[[], object]) -> Callable[[], None]:
        with self._guard:
            self._rings.append(ring)

        def stop() -> None:
            with self._guard:
                if ring in self._rings:
                    self._rings.remove(ring)

        return stop

    def ring(self) -> None:
        with self._guard:
            rings = list(self._rings)
        for each in rings:
            try:
                each()
            except Exception:  # noqa: BLE001  # the others want to know, and the observer to look on
                _log.exception("a viewer of %s failed", self._place)
