"""One module per question; each has `measure(plan) -> Table`."""

WORKLOADS = {
    "core.pairs": "core_pairs",
    "core.layers": "core_layers",
    "core.handover": "core_handover",
    "core.leases": "core_leases",
    "core.churn": "core_churn",
}
"""What the command line calls them, and the module of each."""
