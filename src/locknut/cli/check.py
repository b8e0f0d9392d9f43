"""The verb `check`: whether a lock is free, or whether the hold with a fence is still there."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit
from locknut.cli.ls import facts_of
from locknut.cli.messages import Messenger, as_json, plain, quoted
from locknut.cli.run_lock import describe


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of(verb, argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    with target.locks(options) as locks:
        info, place = locks.info(options.name), locks.place
    if options.json:
        sys.stdout.write(as_json(facts_of(info, place)) + "\n")
    elif info.locked:
        messenger.say("held", describe(info, place))
    else:
        messenger.detail("free", f"{quoted(options.name)} is free in {plain(place)}")
    if options.fence is None:
        return Exit.BUSY if info.locked else Exit.OK
    still = any(options.fence // each.fence_step == each.raw for each in info.holders)
    return Exit.OK if still else Exit.LOST
