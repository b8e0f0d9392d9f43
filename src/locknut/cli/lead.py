"""The verb `lead`: stand by until nobody else leads, then run the command for as long as we lead.

Everything about the command is as in `run`. It ends with the command, as `run` does, so that what
restarts services decides about a restart; with --restart it goes back to standing by.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from locknut.cli import arguments
from locknut.cli.exit_codes import Exit, of_signal
from locknut.cli.messages import Messenger, quoted
from locknut.cli.run import Run
from locknut.errors import BackendUnavailable

_PAUSE = 1.0
"""Seconds before it stands by again: a command that fails at once must not fill the log."""
_POINTLESS = (Exit.NOT_EXECUTABLE, Exit.NOT_FOUND)


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of_command(verb, argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    while True:
        term = Run(options)
        try:
            code = term.perform()
        except BackendUnavailable as error:
            if not options.restart:
                raise
            if term.signals.first is not None:  # it came while the lock was given up
                return of_signal(term.signals.first)
            messenger.error("no_engine", f"{error}; nobody can lead without it")
        else:
            if not options.restart or term.signals.first is not None or code in _POINTLESS:
                return code
            message = f"the command ended with {code}; standing by for {quoted(options.name)} again"
            messenger.say("standing_by", message, lock=options.name, code=code)
        time.sleep(_PAUSE)
