"""The places that one dashboard shows: an observer for each, by a short name for addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import locknut
from locknut.errors import ConfigurationError
from locknut.observer.circles_across import CirclesAcross
from locknut.observer.place_observer import PlaceObserver

Source = str | locknut.Locks


class Places:
    """What is observed. It closes what it opened itself."""

    def __init__(self, sources: Sequence[Source], refresh: float, label: str = "") -> None:
        if not sources:
            raise ConfigurationError("a dashboard needs a URL or a Locks to show")
        self.refresh = refresh
        self._opened: list[locknut.Locks] = []
        self.all: dict[str, PlaceObserver] = {}
        for each in sources:
            locks = self._open(each, label) if isinstance(each, str) else each
            self.all[self._slug(locks.backend)] = PlaceObserver(locks, refresh=refresh)
        self.across = CirclesAcross(self.all)
        if len(self.all) > 1:
            self.view(self.across.look)

    def start(self) -> None:
        for each in self.all.values():
            each.start()

    def close(self) -> None:
        for each in self.all.values():
            each.close()
        for locks in self._opened:
            locks.close()

    def of(self, slug: str) -> PlaceObserver | None:
        return self.all.get(slug)

    def chosen(self, slug: str) -> Iterator[tuple[str, PlaceObserver]]:
        """The one that is asked for, or all of them."""
        return ((at, each) for at, each in self.all.items() if slug in {"", at})

    def view(self, ring: Callable[[], object]) -> Callable[[], None]:
        """Ring after each listing of any of them, until the returned function is called."""
        with ExitStack() as stack:
            for each in self.all.values():
                stack.callback(each.view(ring))
            return stack.pop_all().close

    def _open(self, url: str, label: str) -> locknut.Locks:
        locks = locknut.connect(url, label=label)
        self._opened.append(locks)
        return locks

    def _slug(self, backend: str) -> str:
        """redis, redis-2: what stands in addresses is neither a URL nor a host."""
        base = re.sub(r"[^a-z0-9]+", "-", backend.lower()).strip("-") or "engine"
        number, slug = 1, base
        while slug in self.all:
            number += 1
            slug = f"{base}-{number}"
        return slug
