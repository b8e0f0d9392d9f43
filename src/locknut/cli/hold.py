"""The verbs `acquire`, `renew` and `release`: a hold that lives in the engine, for scripts.

No process keeps it: `acquire` detaches it and prints its text, which is a secret; whoever has the
text renews or releases the hold, on any machine. It ends by itself when its ttl is over. A renewal
takes the hold over and detaches it again, so it prints another text, and the old one is worth
nothing: of two scripts that have the same text, one goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.cli import arguments, run_lock, target
from locknut.cli.exit_codes import Exit, of_signal
from locknut.cli.messages import Messenger, as_json, quoted, span
from locknut.cli.signals import Interrupted, Signals
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut import Lease, Locks
    from locknut.cli.arguments import Options

VARIABLE = "LOCKNUT_HOLD"


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of(verb, argv)
    if verb == "acquire":
        options.ttl, options.fair = None, False  # until it is detached it is a hold like any other
    else:
        options.hold = options.hold or os.environ.get(VARIABLE) or ""
        if not options.hold:
            message = f"give the text that `acquire` printed, or set {VARIABLE} to it"
            arguments.parser_of(verb).error(message)
    if verb != "release" and options.hold_ttl is None:
        arguments.parser_of(verb).error("say for how long: --ttl DURATION")
    with Signals() as signals:
        try:
            with signals.interrupting():
                return _perform(verb, options)
        except Interrupted as interruption:
            return of_signal(interruption.signum)


def _perform(verb: str, options: Options) -> int:
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    label = options.owner or target.user() if verb == "acquire" else target.user()
    with target.locks(options, label=label, require=("detaching",)) as locks:
        if verb == "acquire":
            lease = run_lock.acquire(locks, options, messenger)
            if lease is None:
                return options.conflict_exit_code
            return _leave(locks, lease, options)
        lease = locks.attach(options.hold or "")  # if it is gone: LeaseLost, which ends with 79
        if verb == "renew":
            return _leave(locks, lease, options)
        lease.release()
        messenger.detail("released", f"released {quoted(lease.name)}, fence {lease.fence}")
        return Exit.OK


def _leave(locks: Locks, lease: Lease, options: Options) -> int:
    """Detach the hold and print how to come back to it; if nobody reads that, give it back."""
    name, fence = lease.name, lease.fence
    try:
        text = lease.detach(options.hold_ttl)
    except BaseException:
        with suppress(LocknutError):
            lease.release()
        raise
    facts = {"lock": name, "fence": fence, "expires_in": options.hold_ttl, "hold": text}
    try:
        sys.stdout.write((as_json(facts) if options.json else text) + "\n")
        sys.stdout.flush()
    except BaseException:
        with suppress(LocknutError):
            locks.attach(text).release()
        raise
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    message = f"holding {quoted(name)} for {span(options.hold_ttl or 0)}, fence {fence}"
    messenger.detail("holding", message, lock=name, fence=fence)
    return Exit.OK
