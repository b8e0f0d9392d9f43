"""The algorithm: pure coroutines over the two ports of `ports.py`.

Nothing in this folder imports threading, asyncio, time, socket or a driver, so the same code runs
on threads, on an event loop, and in the simulator. `tests/contracts/test_layers.py` checks it.
"""
