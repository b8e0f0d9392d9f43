"""memcached, simulated: its commands, its whole seconds, and all that it forgets."""
