"""Several Redis servers for the simulator, and the production Redlock on them.

Verbs, ballots, connections and Lua are the production code, under virtual clocks. What is replaced
is the kernel: sockets, the poll, and the loop of asyncio. Needs what `redis/` needs.
"""
