"""The verb `break`: open a lock by force, but only the hold that was looked at.

The fence says which hold is meant. If the lock changed hands meanwhile nothing is broken. The old
holder may still be running: it is notified, but only a check of the fence at the resource stops it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit
from locknut.cli.ls import card, facts_of
from locknut.cli.messages import Messenger, as_json, plain, quoted

if TYPE_CHECKING:
    from locknut import LockInfo
    from locknut.cli.arguments import Options


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("break", argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    label = target.identity(target.user())  # the holder sees who broke its lock
    with target.locks(options, label=label) as locks:
        info = locks.info(options.name)
        if not info.holders:
            return _report(info, options, messenger, locks.place, broken=False)
        refusal = _settle_fence(info, options) or _settle_consent(info, options, locks.place)
        if refusal is not None:
            code, message = refusal
            messenger.error("not_broken", message)
            return code
        # Another fence than the one seen raises StaleFence, which ends with 75.
        broken = locks.force_release(options.name, fence=options.fence, reason=options.reason or "")
    return _report(info, options, messenger, locks.place, broken=broken)


def _settle_fence(info: LockInfo, options: Options) -> tuple[Exit, str] | None:
    """Without --fence the one hold that is shown in the question is meant."""
    seen = [holder.fence for holder in info.holders if holder.fence is not None]
    if options.fence is not None or not seen:
        return None
    if _can_ask(options) and len(seen) == 1:
        options.fence = seen[0]
        return None
    fences = ", ".join(str(fence) for fence in seen)
    return Exit.USAGE, f"say which hold to break: --fence N ({quoted(info.name)} has {fences})"


def _settle_consent(info: LockInfo, options: Options, place: str) -> tuple[Exit, str] | None:
    if options.yes:
        return None
    if not _can_ask(options):
        return Exit.USAGE, "breaking a lock needs --yes where nobody can be asked"
    sys.stderr.write(card(info, place) + "\nThe holder may still be running. ")
    sys.stderr.write(f"Break the hold with fence {options.fence}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return None
    return Exit.BUSY, "nothing was broken"


def _can_ask(options: Options) -> bool:
    return not options.yes and sys.stdin.isatty() and sys.stderr.isatty()


def _report(
    info: LockInfo, options: Options, messenger: Messenger, place: str, *, broken: bool
) -> int:
    if options.json:
        facts = {"broken": broken, "fence": options.fence, "reason": options.reason}
        sys.stdout.write(as_json({**facts_of(info, place), **facts}) + "\n")
    elif broken:
        why = f" ({options.reason})" if options.reason else ""
        messenger.say("broken", f"broke {quoted(info.name)}, fence {options.fence}{why}")
    else:
        messenger.say(
            "free", f"{quoted(info.name)} is not held in {plain(place)}: nothing to break"
        )
    return Exit.OK
