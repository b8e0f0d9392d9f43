"""From a URL, or from a driver's own client, to an engine, by the entry points of the engines.

Unknown options are refused by the engine that reads them, and no message shows a password.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from locknut.core import validation
from locknut.core.ports import Backend, Engine
from locknut.errors import ConfigurationError, Unsupported

DEFAULT_URL = "file:"
_REDIS = tuple(
    f"{product}{kind}"
    for product in ("redis", "valkey")
    for kind in ("", "s", "+unix", "+sentinel", "s+sentinel", "+cluster", "s+cluster")
)
_ENGINES = {
    "memory": "locknut.backends.memory:open_engine",
    "file": "locknut.backends.file:open_engine",
    **dict.fromkeys(_REDIS, "locknut.backends.redis:open_engine"),
    **dict.fromkeys(("redlock", "redlocks"), "locknut.backends.redlock:open_engine"),
    **dict.fromkeys(("zookeeper", "zookeeper+tls"), "locknut.backends.zookeeper:open_engine"),
    **dict.fromkeys(("memcached", "memcached+unix"), "locknut.backends.memcached:open_engine"),
    **dict.fromkeys(("etcd", "etcd+tls"), "locknut.backends.etcd:open_engine"),
    "sqlite": "locknut.backends.sql.sqlite:open_engine",
    **dict.fromkeys(("mysql", "mariadb"), "locknut.backends.sql.mysql:open_engine"),
    **dict.fromkeys(("postgresql", "postgres"), "locknut.backends.sql.postgresql:open_engine"),
}
"""Our own entry points `locknut.backends`, as in pyproject.toml (`tests/contracts` compares the
two). They stand here as well because to look them up takes longer than all of `import locknut`.
"""
_CLIENTS = {
    "redis": "locknut.backends.redis:from_client",
    "valkey": "locknut.backends.redis:from_client",
    "kazoo": "locknut.backends.zookeeper:from_client",
}
"""The same for `locknut.clients`: drivers whose clients can be handed in, by their top module."""


_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(//(?P<netloc>[^/?#]*))?(?P<path>[^?#]*)"
    r"(\?(?P<query>[^#]*))?(#(?P<fragment>.*))?",
    re.DOTALL,
)
"""Appendix B of RFC 3986. The standard library's way refuses lists of hosts with IPv6 addresses."""

_HOST = r"(\[[^\],]*\]|[^:,]*)(:\d*)?"
_LOGIN_IN_PATH = r"/?[^/:@]*:[^@]*@"


class Url:
    """A URL taken apart; its text never shows a password."""

    __slots__ = ("netloc", "options", "path", "scheme")

    def __init__(
        self, scheme: str, netloc: str = "", path: str = "", options: dict[str, str] | None = None
    ):
        self.scheme = scheme
        self.netloc = netloc
        self.path = path
        self.options = {} if options is None else options

    def __repr__(self) -> str:
        return f"Url({self.text!r})"

    def servers(self) -> tuple[str, list[str]]:
        """The login, as it stands there, and the hosts that have commas between them."""
        login, _, hosts = self.netloc.rpartition("@")
        if "@" in login:
            message = (
                f"a {self.scheme}: URL has one login, for all hosts: user:password@h1,h2 "
                "(an @ in a password is written %40)"
            )
            raise ConfigurationError(message)
        found = hosts.split(",")
        if len(found) > 1 and "" in found:
            message = f"a {self.scheme}: URL has a comma without a host behind or before it"
            raise ConfigurationError(message)
        return login, found

    @property
    def text(self) -> str:
        """What may be shown: without user, password and options."""
        hosts = self.netloc.rpartition("@")[2]
        return f"{self.scheme}:{'//' + hosts if hosts else ''}{self.path}"


class Address(ABC):
    """What leads to an engine where one URL cannot say it all; it may be given instead of a URL.

    It goes into pickles, so that another process opens the same engine. Its repr shows no password.
    """

    @abstractmethod
    def open_engine(self) -> Engine:
        """Return a new engine, as an entry point does for a URL."""


def parse(text: str) -> Url:
    if not isinstance(text, str) or ":" not in text:
        message = f"a URL like 'file:' or 'redis://localhost' is needed, got {_shown(text)}"
        raise ConfigurationError(message)
    parts = _URL.fullmatch(text.strip())
    if parts is None:
        raise ConfigurationError(f"a URL begins with a scheme, like 'file:'; got {_shown(text)}")
    scheme = parts["scheme"].lower()
    _refuse_misread_login(scheme, parts["netloc"] or "", parts["path"], parts["query"] or "")
    if parts["fragment"]:
        raise ConfigurationError(f"the {scheme}: URL has a fragment ('#...'), which means nothing")
    options: dict[str, str] = {}
    for key, value in _query(parts["query"] or ""):
        if key in options:
            raise ConfigurationError(f"the {scheme}: URL gives the option {key!r} twice")
        options[key] = value
    url = Url(scheme, parts["netloc"] or "", _unquoted(parts["path"]), options)
    if any("\0" in part for part in (url.path, *options, *options.values())):
        raise ConfigurationError(f"the {scheme}: URL has a NUL (%00) in it")
    return url


def _refuse_misread_login(scheme: str, netloc: str, path: str, query: str) -> None:
    """Where a part of a login was taken for something else no message may show that part."""
    login, _, hosts = netloc.rpartition("@")
    fit = all(re.fullmatch(_HOST, each) for each in hosts.split(","))
    names = [each.partition("=")[0] for each in query.split("&")]
    behind = any("@" in each for each in (path, *names) if ":" in netloc)
    empty = not fit or hosts.endswith(":")
    if behind or any("@" in each for each in names) or (empty and not login and "@" in query):
        message = (
            f"the {scheme}: URL has an @ behind its hosts: a / ? or # in a password is written "
            "%2F, %3F or %23, and an @ in a path %40"
        )
        raise ConfigurationError(message)
    if not fit:
        message = (
            f"the {scheme}: URL has a port that is not a number, or a login without an @ behind "
            "it: user:password@host:port"
        )
        raise ConfigurationError(message)
    if not netloc and re.match(_LOGIN_IN_PATH, path):
        message = (
            f"the {scheme}: URL has a login without // before it: {scheme}://user:password@host "
            "(an @ in a path is written %40)"
        )
        raise ConfigurationError(message)


def _query(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    from urllib.parse import parse_qsl  # only here: it takes long to import

    return parse_qsl(text, keep_blank_values=True)


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # as above

    return unquote(text)


def _shown(text: object) -> str:
    """A text without a scheme, unless it may have a login in it: what `host:port` looks like."""
    plain = not isinstance(text, str) or re.fullmatch(r"[^@:/]*(:\d*)?", text)
    return repr(text) if plain else "a text without a scheme"


def open_engine(text: Any) -> tuple[Engine, Url]:
    """The engine that serves this URL, and the URL without the options every engine has.

    In place of a URL it may be an Address, or a client of the engine's own driver, whose settings
    are used.
    """
    if isinstance(text, Address):
        return text.open_engine(), Url("")
    if text is not None and not isinstance(text, str):
        return _from_client(text), Url("")
    url = parse(chosen(text))
    opener = _opener(url)
    common = {key: url.options.pop(key) for key in validation.COMMON_OPTIONS if key in url.options}
    engine = opener(url)
    return engine, Url(url.scheme, url.netloc, url.path, common)


def schema(text: Any) -> str:
    """The statements that make what the engine of this URL needs; raises where it needs nothing."""
    engine, url = open_engine(text)
    if not engine.schema:
        message = f"{url.scheme}: has no table, so there is nothing to make beforehand"
        raise Unsupported(message, backend=url.scheme or None)
    return engine.schema


def chosen(text: str | None) -> str:
    """The URL that is used: the one given, the one of the environment, or `file:`."""
    return text if text is not None else os.environ.get("LOCKNUT_URL") or DEFAULT_URL


def _from_client(client: Any) -> Engine:
    for kind in type(client).__mro__:
        make = _entry("locknut.clients", _CLIENTS, kind.__module__.partition(".")[0])
        if make is not None:
            return make(client)
    known = ", ".join(_names("locknut.clients", _CLIENTS))
    message = (
        f"a URL like 'file:' or 'redis://localhost' is needed, or a client of {known}; "
        f"got a {type(client).__name__}"
    )
    raise ConfigurationError(message)


def _opener(url: Url) -> Callable[[Url], Engine]:
    scheme = url.scheme
    found = _entry("locknut.backends", _ENGINES, scheme)
    if found is not None:
        return found
    if url.path.isdigit() and not url.netloc:
        address = f"{scheme}:{url.path}"
        message = f"{address!r} is an address without a scheme, did you mean 'redis://{address}'?"
        raise ConfigurationError(message)
    known = _names("locknut.backends", _ENGINES)
    meant = validation.nearest(scheme, known) or f"; there are: {', '.join(_plain(known))}"
    raise ConfigurationError(f"no engine is installed for {scheme!r} URLs{meant}")


def _entry(group: str, ours: dict[str, str], name: str) -> Callable[[Any], Engine] | None:
    """What an entry point of this name leads to; ours are found without a search."""
    if name in ours:
        from importlib import import_module

        module, _, attribute = ours[name].partition(":")
        own: Callable[[Any], Engine] = getattr(import_module(module), attribute)
        return own
    from importlib.metadata import entry_points

    for entry in entry_points(group=group, name=name):
        found: Callable[[Any], Engine] = entry.load()
        return found
    return None


def _names(group: str, ours: dict[str, str]) -> list[str]:
    from importlib.metadata import entry_points

    return sorted({*ours, *entry_points(group=group).names})


def _plain(schemes: list[str]) -> list[str]:
    """Those that say which engine it is, without the ways to reach it: no `rediss+cluster`."""
    secure = {f"{each}s" for each in schemes}
    return [each for each in schemes if "+" not in each and each not in secure]


def ensure(backend: Backend, require: Iterable[str]) -> None:
    """Refuse an engine that lacks what the user insists on."""
    missing = sorted(set(map(validation.capability, require)) - backend.capabilities)
    if missing:
        message = f"the {backend.name} engine lacks: {', '.join(missing)}"
        raise Unsupported(message, backend=backend.name)
