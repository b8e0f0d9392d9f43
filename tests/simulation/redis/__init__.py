"""A Redis server for the simulator: it runs the production Lua, on keys that live by virtual time.

An imitation, made of the few commands that the scripts use: a test plays random commands and
scripts to it and to real servers, and compares. Needs `lupa` and the drivers of `locknut[redis]`.
"""
