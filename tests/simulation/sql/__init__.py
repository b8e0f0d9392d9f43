"""The SQL engines' table, simulated."""
