"""Our own connections to Redis and Valkey: one server, one behind Sentinels, a cluster."""
