"""The command `locknut`: which verb was asked for, and how its errors end.

Each verb is imported when it is asked for, so that `locknut run` starts fast.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from locknut import __version__
from locknut.cli.verbs import VERBS
from locknut.errors import LocknutError


def main(argv: Sequence[str] | None = None) -> int:
    """The console script. Returns the exit code."""
    _fill_closed()
    _show_what_cannot_be_shown()
    words = list(sys.argv[1:] if argv is None else argv)
    first = words[0] if words else ""
    if first in VERBS:
        return _perform(first, words[1:])
    if first in {"-h", "--help", "help"}:
        sys.stdout.write(_overview())
        return 0
    if first in {"-V", "--version"}:
        sys.stdout.write(f"locknut {__version__}\n")
        return 0
    return _no_such(first)


def _fill_closed() -> None:
    """Where stdin, stdout or stderr is closed, the next file we open would get its number.

    Then our messages would go into a lock file, or into the pipe of our own signals. The command
    that we run finds them closed all the same: these descriptors are not inherited.
    """
    for descriptor, stream in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which gets this number: all lower ones are taken
        if getattr(sys, stream) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, stream, open(descriptor, mode, closefd=False))  # noqa: SIM115  # for good


def _show_what_cannot_be_shown() -> None:
    """A name that the encoding of stdout lacks is escaped, as Python does on stderr by itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _perform(verb: str, words: Sequence[str]) -> int:
    """Run a verb: errors become one line and a code, never a traceback."""
    from locknut.cli import exit_codes, messages

    try:
        code: int = import_module(f"locknut.cli.{VERBS[verb].module}").main(verb, words)
        sys.stdout.flush()
    except LocknutError as error:
        _trace()
        messages.complain(words, type(error).__name__, str(error))
        return exit_codes.of_error(error)
    except KeyboardInterrupt:
        return exit_codes.of_signal(2)
    except BrokenPipeError:
        # Our reader has gone (`| head`); point stdout away so that nothing is flushed to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.of_signal(13)
    except OSError as error:
        _trace()
        messages.complain(words, "refused", f"the system says no: {error}")
        return exit_codes.Exit.REFUSED
    except Exception as error:  # noqa: BLE001  # the last line of defence: no traceback for users
        _trace()
        hint = "please report it; LOCKNUT_DEBUG=1 shows where"
        messages.complain(words, "internal", f"internal error: {error!r} ({hint})")
        return exit_codes.Exit.INTERNAL
    return code


def _trace() -> None:
    if os.environ.get("LOCKNUT_DEBUG"):
        import traceback  # only when somebody debugs

        traceback.print_exc()


def _overview() -> str:
    verbs = "".join(f"  {name:<12}{verb.about}\n" for name, verb in VERBS.items())
    return (
        "usage: locknut VERB [options] ...\n\n"
        "Locks across processes and machines, for the command line.\n\n"
        f"{verbs}\n"
        "`locknut VERB --help` lists the options of a verb.\n"
        "-u URL or $LOCKNUT_URL says where the locks live. Without either they are files in this\n"
        "user's home directory: other users and other machines do not see them.\n"
    )


def _no_such(word: str) -> int:
    from locknut.cli.exit_codes import Exit
    from locknut.core.validation import nearest

    problem = f"there is no verb {word!r}" if word else "no verb given"
    known = nearest(word, VERBS) or f"; there are: {', '.join(VERBS)}"
    sys.stderr.write(f"locknut: {problem}{known} (try: locknut --help)\n")
    return Exit.USAGE
