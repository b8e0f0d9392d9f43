"""Who may see the pages, and who may break a lock: hosts, sessions, forms and headers.

Nothing here depends on the pages. A browser that is made to visit us by a foreign page gets
nowhere: its Host is not ours (DNS rebinding), its form lacks the stamp of ours, and its cookies are
not sent along (SameSite).
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request

Scope = Mapping[str, Any]
Authorize = Callable[[Scope], "str | Awaitable[str | None] | None"]
"""The host application's own decision: the name of the user, or None for nobody."""

USER: Final = "locknut.user"
"""Where a request says who it is; `scope["state"]` is the host application's."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
LONGEST_FORM: Final = 16_384
"""Bytes."""
SESSION_SECONDS: Final = 12 * 3600.0
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Access:
    """The rules of one dashboard.

    `passphrase`: what a visitor has to know; None where the host application decides, or everybody
    who can reach us may look. `hosts`: the names we are known by; None: the host application checks
    that. `secret`: what all processes of one server have in common, so that each of them knows the
    forms of the others.
    """

    def __init__(
        self,
        *,
        passphrase: str | None = None,
        hosts: frozenset[str] | None = None,
        authorize: Authorize | None = None,
        allow_break: bool = False,
        secret: str | None = None,
    ) -> None:
        self.allow_break = allow_break
        self.authorize = authorize
        self.hosts = None if hosts is None else frozenset(each.lower() for each in hosts)
        self._passphrase = None if passphrase is None else passphrase.encode()
        self._is_shared = False
        self._seal = secrets.token_bytes(32)
        if secret:
            self.share(secret)

    def share(self, secret: str) -> None:
        """Know the forms of every process that was told the same; the first secret counts."""
        if not self._is_shared:
            self._is_shared = True
            self._seal = hmac.new(secret.encode(), b"locknut.dashboard", sha256).digest()

    @property
    def asks(self) -> bool:
        """Whether a visitor must know a passphrase."""
        return self._passphrase is not None

    def knows_host(self, header: str) -> bool:
        """Whether the Host header names us: a name of somebody else's may lead here as well."""
        return self.hosts is None or host_of(header) in self.hosts

    def accepts(self, given: str) -> bool:
        known = self._passphrase
        return known is not None and hmac.compare_digest(known, given.strip().encode())

    def new_session(self) -> str:
        """What a visitor who knew the passphrase keeps: a time, and our seal on it."""
        began = str(int(time.time()))
        return f"{began}.{self._sealed('session', began)}"

    def admits(self, request: Request) -> bool:
        """Whether this visitor gave the passphrase, now or before."""
        if not self.asks:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # A header comes as latin-1, whatever its bytes mean: curl sends what the shell has.
            return self.accepts(given.encode("latin-1").decode("utf-8", "replace"))
        began, _, seal = request.cookies.get(cookie_name(request, "session"), "").partition(".")
        genuine = hmac.compare_digest(seal.encode(), self._sealed("session", began).encode())
        return genuine and time.time() - float(began) < SESSION_SECONDS

    def stamp(self, visit: str) -> str:
        """What a form of ours carries: nobody else can make it for this visitor's cookie."""
        return self._sealed("form", visit)

    def is_ours(self, request: Request, stamp: str) -> bool:
        """Whether a form that was sent is one that we gave to this very visitor."""
        visit = request.cookies.get(cookie_name(request, "visit"), "")
        return (
            bool(visit)
            and same_origin(request)
            and hmac.compare_digest(stamp.encode(), self.stamp(visit).encode())
        )

    def _sealed(self, purpose: str, text: str) -> str:
        return hmac.new(self._seal, f"{purpose}:{text}".encode(), sha256).hexdigest()


def host_of(header: str) -> str:
    """`localhost` of `LocalHost:8437`; `[::1]` of `[::1]:8437`."""
    name = header.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def same_origin(request: Request) -> bool:
    """What a browser says of the page that sent a form; silence is left to the stamp."""
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host", "")


def cookie_name(request: Request, purpose: str) -> str:
    """Cookies are shared by all ports of a host: two dashboards must not log each other out."""
    _, port = request.scope.get("server") or ("", 0)
    return f"locknut_{purpose}_{port or 0}"


def cookie(request: Request, purpose: str, value: str) -> dict[str, Any]:
    """The arguments of `set_cookie`: for this site alone, and not for scripts."""
    return {
        "key": cookie_name(request, purpose),
        "value": value,
        "path": request.scope.get("root_path", "") or "/",
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, each once; a body that is longer than a form of ours is not read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}
