"""The verb `wait`: return when nobody holds the lock, without ever taking it.

It only looks, again and again with growing pauses. In the line it would learn it sooner, but
then a `run -n` that asks at the moment of our turn would be refused because of an onlooker.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit, of_signal
from locknut.cli.ls import facts_of
from locknut.cli.messages import Messenger, as_json, plain, quoted
from locknut.cli.run_lock import describe
from locknut.cli.signals import Interrupted, Signals
from locknut.runtimes import clock

if TYPE_CHECKING:
    from locknut import LockInfo, Locks
    from locknut.cli.arguments import Options

_FIRST_PAUSE = 0.02
_LAST_PAUSE = 1.0
_GROWTH = 1.5


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("wait", argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    with Signals() as signals:
        try:
            with signals.interrupting(), target.locks(options) as locks:
                info = _until_free(locks, options, signals)
                place = locks.place
        except Interrupted as interruption:
            return of_signal(interruption.signum)
    if options.json:
        sys.stdout.write(as_json(facts_of(info, place)) + "\n")
    elif info.locked:
        messenger.say("busy", describe(info, place))
    else:
        messenger.detail("free", f"{quoted(options.name)} is free in {plain(place)}")
    return Exit.BUSY if info.locked else Exit.OK


def _until_free(locks: Locks, options: Options, signals: Signals) -> LockInfo:
    until = clock.now() + options.wait
    pause = _FIRST_PAUSE
    while (info := locks.info(options.name)).locked and (left := until - clock.now()) > 0:
        signals.wait(min(pause, left))
        pause = min(pause * _GROWTH, _LAST_PAUSE)
    return info
