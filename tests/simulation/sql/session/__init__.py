"""Session mode of the SQL engines, on simulated sessions with the locks of a database."""
