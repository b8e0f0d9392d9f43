"""SQLite: a table in a file, for the processes of one machine."""
