"""MySQL and MariaDB by PyMySQL: connections that are bounded, timed and dropped after any doubt."""
