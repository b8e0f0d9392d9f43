"""A database whose clock is set back by hours: what the dead left seems to be of the future."""

from __future__ import annotations

from locknut.core.values import LockInfo
from tests.simulation.memory.node import NOBODY
from tests.simulation.sql.database import Database

HOURS = 2 * 3600.0


class SetFarBack(Database):
    """Whatever is held then an operator frees by force, as the pages say. Nobody can do so with a
    place in line.
    """

    def set_back(self, seconds: float) -> None:
        for key, row in list(self.table.rows.items()):
            if row.holders:
                stamp = self.world.random.getrandbits(60)
                self.table.rows[key] = row._replace(holders="", stamp=stamp)
                self.broken(key[1:].decode(), LockInfo(""))
        super().set_back(seconds)
        self.wall_ahead -= HOURS
        self.tell(NOBODY)
