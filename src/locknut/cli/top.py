"""The verb `top`: a live view of locks for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit
from locknut.errors import ConfigurationError


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("top", argv)
    try:
        from locknut.terminal.top_app import TopApp
    except ImportError as missing:
        raise ConfigurationError(
            f"`locknut top` needs a package that is not installed ({missing.name}); "
            'get it with: pip install "locknut[tui]"; `locknut ls --watch` needs none'
        ) from missing
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise ConfigurationError("`locknut top` needs a terminal; `locknut ls --watch` does not")
    label = target.identity(target.user())
    with target.locks(options, label=label) as locks:
        app = TopApp(locks, refresh=options.every, pattern=options.pattern or "")
        try:
            app.run()
        finally:
            app.observer.close()
    return Exit.OK
