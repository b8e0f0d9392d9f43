"""One module per question; each has `measure(plan) -> Table`."""

WORKLOADS = {
    "core.pairs": "core_pairs",
    "core.layers": "core_layers",
    "core.handover": "core_handover",
    "core.leases": "core_leases",
    "core.churn": "core_churn",
    "file.pairs": "file_pairs",
    "file.handover": "file_handover",
    "file.contention": "file_contention",
    "file.kill": "file_kill",
    "file.waiters": "file_waiters",
    "redis.pairs": "redis_pairs",
    "redis.contention": "redis_contention",
    "redis.handover": "redis_handover",
    "redis.leases": "redis_leases",
    "redlock.pairs": "redlock_pairs",
    "redlock.handover": "redlock_handover",
    "zookeeper.pairs": "zookeeper_pairs",
    "zookeeper.contention": "zookeeper_contention",
    "zookeeper.handover": "zookeeper_handover",
    "postgresql.pairs": "postgresql_pairs",
    "postgresql.handover": "postgresql_handover",
}
"""What the command line calls them, and the module of each."""
