"""The verbs as Lua, one file each."""

from __future__ import annotations

from locknut.drivers.redis.lua_scripts import load

ACQUIRE = load(__name__, "acquire")
ATTEND = load(__name__, "attend")
RELEASE = load(__name__, "release")
RENEW = load(__name__, "renew")
DOWNGRADE = load(__name__, "downgrade")
ATTACH = load(__name__, "attach")
INSPECT = load(__name__, "inspect")
GATHER = load(__name__, "gather")
REMEMBER = load(__name__, "remember")
RECALL = load(__name__, "recall")
