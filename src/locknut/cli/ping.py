"""The verb `ping`: whether the engine works, for probes and for people who have just set it up."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import as_json, plain


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code; errors are reported as for every verb."""
    options = arguments.of("ping", argv)
    with target.locks(options) as locks:
        answer = locks.ping(options.wait)
    if options.json:
        sys.stdout.write(as_json(answer._asdict()) + "\n")
    elif not options.quiet:
        took = f"{answer.seconds * 1000:.1f} ms"
        sys.stdout.write(f"{plain(answer.place)} works: a lock taken and released in {took}\n")
    return Exit.OK
