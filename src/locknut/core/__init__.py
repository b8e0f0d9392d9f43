"""The algorithm: pure coroutines over the ports of `ports.py`.

Nothing in this folder imports threading, asyncio, time, socket or a driver, so the same code runs
on threads, on an event loop, and in the simulator. `tests/contracts/test_layers.py` checks it.

What travels, and the ports:  values, ports, runtime_port, base
What a user may pass in:      validation, lock_request
State:                        client, callers, holding, queueing
Into a lock, and out again:   acquiring, asking, giving_up, outcome_events
Release:                      releasing, releasing_many, undoing
Keeping:                      keeper, keeper_thread, schedule, timetable, renewing, losing, tidying
Several locks as one:         acquiring_all, acquiring_at_once
To another process:           detaching
What people ask for:          inspecting, naming_holder, breaking, notes, pinging
History:                      recording, history_entries, reading_history
The end:                      closing, exiting, forking
Deadlocks:                    wait_graph, wait_circles, lookout
Barriers and latches:         register, meeting, counting_down
Doctor:                       examining, findings
Arithmetic and rules:         pacing, durations, admission, families, plain_text
"""
