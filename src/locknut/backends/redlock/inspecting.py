"""Looking at locks, and breaking them: every node is asked, not a majority alone."""

from __future__ import annotations

from locknut.backends.redlock import looking
from locknut.backends.redlock.asking import Asking
from locknut.backends.redlock.ballots import Round
from locknut.backends.redlock.nodes import in_words
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.recipe import Words
from locknut.backends.redlock.refusing import too_few
from locknut.core.values import LockInfo


class Inspecting(Asking):
    """What people ask."""

    async def break_hold(self, key: str, raw: int | None) -> LockInfo | None:
        return await self.break_with_note(key, raw, "")

    async def break_with_note(self, key: str, raw: int | None, note: str) -> LockInfo | None:
        handle = None
        if raw is not None:
            views = await self._views(self._recipe.look(key))
            handle = looking.handle_of(list(views.answers.values()), raw)
            if handle is None:
                return None
        broken = await self._views(self._recipe.break_hold(key, handle, note))
        return looking.broken(key, list(broken.answers.values()))

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        keys = [key] if key is not None else await self._keys()
        found = [await self._look(each) for each in keys]
        return [info for info in found if info.holders or info.waiters]

    async def _look(self, key: str) -> LockInfo:
        views = await self._views(self._recipe.look(key))
        places = [node.name for node in self._set.nodes]
        problems = {at: in_words(why) for at, why in views.failures.items()}
        return looking.majority_view(key, places, views.answers, problems)

    async def _views(self, words: Words) -> Round:
        views = await self._round(words, lambda each: not each.out, plain=True)
        if len(views.answers) < views.needed:
            raise too_few(self._set, views)
        return views

    async def _keys(self) -> list[str]:
        """Every lock that any node has a key of."""
        found: set[str] = set()
        cursors = dict.fromkeys(self._all, b"0")
        while cursors:
            scans = Round(list(cursors), len(self._all))
            heard = self._hears(scans, lambda each: not each.out, plain=True)
            asked = [Question(at, looking.scan(cursor)) for at, cursor in cursors.items()]
            await self._ask(asked, heard, self._until(scans))
            if len(scans.failures) + len(scans.out) > len(self._all) - scans.needed:
                raise too_few(self._set, scans)
            for cursor, keys in scans.answers.values():
                del cursor
                found.update(each for key in keys if (each := looking.key_of(key)) is not None)
            cursors = {at: answer[0] for at, answer in scans.answers.items() if answer[0] != b"0"}
        return sorted(found)
