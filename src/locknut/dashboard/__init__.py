"""The dashboard: pages about locks, as an ASGI application of its own or inside another one.

>>> from locknut.dashboard import Dashboard
>>> pages = Dashboard("file:")                     # URLs, or Locks that you have
>>> # application.mount("/locks", pages)           # FastAPI, Starlette; Django: dashboard.in_django

`locknut dash` serves the same pages by itself. Both need the extra `dash`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.dashboard.application import Dashboard

__all__ = ["Dashboard"]


def __getattr__(name: str) -> object:
    if name != "Dashboard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from locknut.dashboard.application import Dashboard
    except ImportError as missing:
        raise ConfigurationError(
            f"the dashboard needs packages that are not installed ({missing.name}); "
            'get them with: pip install "locknut[dash]"'
        ) from missing
    return Dashboard
