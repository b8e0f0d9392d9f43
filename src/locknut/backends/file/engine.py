"""The file engine of one directory: both colours share its claims; `clean` removes unused files."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

from locknut.backends.file import cleanup
from locknut.backends.file.backend import ACROSS_MACHINES, LOCAL, FileBackend
from locknut.backends.file.directory import Directory
from locknut.backends.file.lock_files import Files
from locknut.backends.file.recipe import Recipe
from locknut.backends.file.sync import PollBell
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime

CLEAN_AFTER: Final = 3600.0
_recipes: WeakValueDictionary[str, Recipe] = WeakValueDictionary()
"""One per directory, by its path: what one connection of this process took, another may release."""


class FileEngine(BaseEngine):
    """The claims of one directory in this process: its backends of both colours share them."""

    def __init__(self, directory: Directory, *, network: bool = False) -> None:
        self.id = f"file:{directory.path}"
        self._capabilities = ACROSS_MACHINES if network else LOCAL
        self._recipe = _recipes.setdefault(directory.path, Recipe(Files(directory)))

    def blocking(self, runtime: Runtime) -> FileBackend:
        return FileBackend(self._recipe, runtime, PollBell, self._capabilities)

    def asyncio(self, runtime: Runtime) -> FileBackend:
        from locknut.backends.file.aio import LoopBell  # `locknut run` needs no event loop

        return FileBackend(self._recipe, runtime, LoopBell, self._capabilities)

    def clean(self, unused_for: float = CLEAN_AFTER) -> int:
        """Remove files of names that nobody holds, waits for, or was granted for `unused_for`
        seconds.
        """
        return cleanup.clean(self._recipe.files, self._recipe.me, unused_for)
