"""What every SQL backend has of history: a door to its table, opened when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from locknut.core.base import BaseBackend
from locknut.core.values import Capability, History

if TYPE_CHECKING:
    from locknut.backends.sql.history_table import HistoryTable


class RememberingBackend(BaseBackend):
    """One that may have been told where its history is."""

    _open_history: Callable[[], HistoryTable] | None = None

    def keep_history(self, open_history: Callable[[], HistoryTable]) -> None:
        """It has a connection of its own: whatever becomes of it, no lock waits for it."""
        self._open_history = open_history
        self.capabilities |= {Capability.HISTORY}

    def _history(self) -> HistoryTable | None:
        found: HistoryTable | None = self.__dict__.get("_table_of_history")
        if found is None and self._open_history is not None:
            found = self.__dict__.setdefault("_table_of_history", self._open_history())
        return found

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        history = self._history()
        if history is None:
            await super().write_history(stream, texts, keep)
        else:
            await history.write(stream, texts, keep)

    async def read_history(self, stream: str, back: float | None = None) -> History:
        history = self._history()
        if history is None:
            return await super().read_history(stream, back)
        return await history.read(stream, back)

    def drop_history(self) -> None:
        """From any thread: its connection is closed; it would open another one."""
        if "_table_of_history" in self.__dict__:
            self.__dict__["_table_of_history"].dropped()

    def forked(self) -> None:
        if "_table_of_history" in self.__dict__:
            self.__dict__.pop("_table_of_history").forked()
