"""What a node is asked, as Lua, one file per verb."""

from __future__ import annotations

from locknut.drivers.redis.lua_scripts import load

VOTE = load(__name__, "vote")
RAISE = load(__name__, "raise")
EXTEND = load(__name__, "extend")
WITHDRAW = load(__name__, "withdraw")
DOWNGRADE = load(__name__, "downgrade")
ATTACH = load(__name__, "attach")
LOOK = load(__name__, "look")
LIST = load(__name__, "list")
WATCH = load(__name__, "watch")
INIT = load(__name__, "init")
ALL = (VOTE, RAISE, EXTEND, WITHDRAW, DOWNGRADE, ATTACH, LOOK, WATCH)
"""What every connection loads at its beginning: few of them ever list anything."""
