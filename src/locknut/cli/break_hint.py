"""The command that breaks a hold, as the message about a busy lock offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.cli.target import namespace_of
from locknut.faces.hints import Way, shown

if TYPE_CHECKING:
    from locknut.cli.arguments import Options


def break_command(name: str, fence: int, options: Options, place: str = "") -> tuple[str, str]:
    """What breaks this hold, at the engine and in the namespace that were asked; and what has to
    be done before, where the URL cannot be shown: of several engines, it is that of this place.
    """
    given = options.url is not None and "url" not in options.from_environment
    way = Way(place, shown(options.url) if given and options.url else "", namespace_of(options))
    return way.command("break", name, "--fence", str(fence)), way.note
