"""The engines of a verb that looks at several together: which URLs were asked for.

A URL with a password belongs into a file: `ps` shows arguments to everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from locknut.cli import option_values, target
from locknut.cli.arguments import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from locknut import Locks


class NamedEngine(NamedTuple):
    """One of them, and the words that would lead to it alone."""

    locks: Locks
    options: Options


def engines(options: Options, *, label: str = "") -> Iterator[NamedEngine]:
    """All the URLs that were given, each once, or the one that every verb would take."""
    for url in dict.fromkeys(_urls(options)) or [None]:
        asked = Options(**vars(options))
        asked.url = url
        if url != options.url:
            asked.from_environment -= {"url"}
        yield NamedEngine(target.locks(asked, label=label), asked)


def _urls(options: Options) -> list[str]:
    urls = [*options.addresses]
    if options.urls_file:
        lines = option_values.lines_of_file(options.urls_file)
        urls += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if options.url is not None and (not urls or "url" not in options.from_environment):
        urls.insert(0, options.url)
    return urls
