"""A statement that takes long, because it waits for a lock: sent now, and looked at now and then.

The session can do nothing else meanwhile. Whoever watches its descriptor learns when something has
arrived; nobody has to wait in between.
"""

from __future__ import annotations

from psycopg import pq

from locknut.drivers.postgresql.exchange import Refused
from locknut.drivers.postgresql.server_session import Session


class LongStatement:
    """One, from its sending to its answer."""

    def __init__(self, session: Session, text: str):
        self._connection = session.connection
        self._connection.send_query(text.encode())
        self._connection.flush()
        self._failed: pq.abc.PGresult | None = None

    def is_done(self) -> bool:
        """Whether the whole answer is here. `Refused`, if the server said no."""
        connection = self._connection
        connection.flush()
        connection.consume_input()
        while not connection.is_busy():
            result = connection.get_result()
            if result is None:
                if self._failed is not None:
                    raise Refused(self._failed)
                return True
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                self._failed = self._failed or result
        return False
