"""The simulator: the production code of many clients under virtual time, with faults from a seed.

    python -m tests.simulation --seeds 0:2000                    # the core, on a store in memory
    python -m tests.simulation --seeds 0:2000 --engine redis     # the production Lua; needs lupa
    python -m tests.simulation --seeds 0:2000 --engine redlock --size duel    # several nodes
    python -m tests.simulation --seeds 0:60 --bug no-tombstone   # a bug put in, which must be found

`simulator.py` runs one seed, `campaign.py` runs many. `world.py`, `process.py`, `coroutines.py` and
`network.py` are the machine that everything runs on. `customer.py` and `workload.py` are the users,
and `chaos.py` strikes them. The folders with the name of an engine are the engines; `sql/session/`
is the session mode of databases. `checker/` judges histories, also those of real processes. The
bugs in `bugs/` and in `<engine>/bugs.py` are put in on purpose: the simulator must find each of
them, or it proves nothing.

The simulator edits scripts and replaces parts of the package, so it fits only the commit that it
belongs to. That is why it is in the repository and not in the wheel.
"""
