"""Locks in a table of a database: one row a lock, on PostgreSQL, MySQL, MariaDB and SQLite."""
