"""Our own sessions with a PostgreSQL server, over libpq: what to send is another layer's business.

psycopg's connections have no time limit for a statement, and cancel it with its task. libpq, which
psycopg wraps as well, sends and receives without waiting, so each colour waits in its own way.
"""
