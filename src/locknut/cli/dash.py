"""The verb `dash`: pages about locks for a browser, safe as they are unless more is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.cli import arguments, option_values, several_engines, target
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import Messenger, plain
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.cli.arguments import Options


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("dash", argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    try:
        from locknut.dashboard import uvicorn_server
        from locknut.dashboard.application import Dashboard
    except ImportError as missing:
        raise ConfigurationError(
            f"`locknut dash` needs packages that are not installed ({missing.name}); "
            'get them with: pip install "locknut[dash]"'
        ) from missing
    asked = uvicorn_server.Listening(
        options.host,
        options.port,
        options.allow_break,
        _passphrase(options),
        tuple(options.names),
    )
    access, made = uvicorn_server.access_for(asked)
    listener = uvicorn_server.bind(asked.host, asked.port)
    label = target.identity(target.user())  # the holder sees who broke its lock
    shown_here = [each.locks for each in several_engines.engines(options, label=label)]
    dashboard = Dashboard(*shown_here, refresh=options.every, access=access)
    port = listener.getsockname()[1]
    shown = uvicorn_server.in_address(asked.host)
    address = f"http://{'localhost' if shown in uvicorn_server.EVERYWHERE else shown}:{port}/"

    def ready() -> None:
        places = ", ".join(plain(each.place) for each in dashboard.places.all.values())
        mode = "locks can be broken" if asked.allow_break else "read-only"
        messenger.say("serving", f"{address} shows {places} ({mode}); Ctrl-C ends it", url=address)
        if made is not None:
            messenger.error("passphrase", f"log in with this passphrase: {made}", passphrase=made)

    uvicorn_server.serve(dashboard, listener, ready)
    return Exit.OK


def _passphrase(options: Options) -> str | None:
    """The first line of a file: on the command line `ps` would show it."""
    if not options.passphrase_file:
        return None
    lines = option_values.lines_of_file(options.passphrase_file)
    if not lines or not lines[0].strip():
        raise ConfigurationError(f"{options.passphrase_file} is empty")
    return lines[0].strip()
