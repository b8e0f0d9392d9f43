"""Commands that people can copy from a message into their shell, whatever the name of the lock.

A command leads to the engine and the namespace of the Locks that it is about. No hint shows a
password: where the URL has one, the hint says how to give it.
"""

from __future__ import annotations

from typing import NamedTuple

from locknut.urls import parse

_AS_IT_IS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _./:@%+=,-")
_PLAIN_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~/")
_NO_SECRET = frozenset({
    "acl", "db", "durable", "id", "layout", "max_ttl", "namespace", "network", "node_timeout",
    "sentinel_tls", "session_timeout", "set_name", "socket_connect_timeout", "socket_timeout",
    "ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname",
    "ssl_keyfile", "wait_replicas", "wait_timeout",
})  # fmt: skip
"""Options of a URL that may be shown; an option that is not listed here may be a secret."""


class Way(NamedTuple):
    """How a shell of another user or machine reaches the locks of one Locks."""

    place: str
    url: str | None = None
    """The value of -u; empty if -u is not needed, None if the URL must not be shown."""
    namespace: str | None = None

    def command(self, verb: str, name: str, *more: str) -> str:
        """Return the command, with every word quoted for a shell."""
        words = ["locknut", verb, typed(name), *more]
        if self.url:
            words += ["-u", typed(self.url)]
        if self.namespace:
            words += ["--namespace", typed(self.namespace)]
        return " ".join(words)

    @property
    def note(self) -> str:
        """What the user has to do before the command works; empty if there is nothing to do."""
        where = f" of {self.place}" if self.place else ""
        return "" if self.url is not None else f", with the URL{where} in LOCKNUT_URL"

    def look(self, name: str) -> str:
        """Return how to see who has a lock. No other process sees the locks of `memory:`."""
        if self.place.startswith("memory:"):
            return f"see who has it: locks.info({name!r})"
        return f"see who has it{self.note}: {self.command('show', name)}"


def shown(text: str, place: str = "") -> str | None:
    """Return the URL, or None if it may carry a password.

    `file:` means another directory to another user, so the directory itself is named.
    """
    url = parse(text)
    if "@" in url.netloc or not url.options.keys() <= _NO_SECRET:
        return None
    if url.scheme == "file" and place.startswith("file:/"):
        return "file:" + _escaped(place.removeprefix("file:"), url.options)
    return text.strip()


def _escaped(path: str, options: dict[str, str]) -> str:
    if not options and _PLAIN_PATH.issuperset(path):
        return path
    from urllib.parse import quote, urlencode  # only here: it takes long to import

    return quote(path) + (f"?{urlencode(options)}" if options else "")


def typed(text: str) -> str:
    """Return the text quoted for a shell, on one line and without anything a terminal would obey.

    What cannot be shown is written in octal, byte by byte, between the quotes of bash, ksh and zsh:
    that way it means the same in every locale.
    """
    if text.isprintable():
        import shlex  # only here: few programs show a command

        return shlex.quote(text)
    return "$'" + "".join(map(_octal, text.encode())) + "'"


def _octal(byte: int) -> str:
    return chr(byte) if byte in _AS_IT_IS else f"\\{byte:03o}"
