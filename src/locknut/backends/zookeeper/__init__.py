"""The ZooKeeper engine: locks between machines, kept by an ensemble, as Curator and kazoo do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.zookeeper.engine import ZooKeeperEngine
    from locknut.urls import Url

__all__ = ["from_client", "open_engine"]


def open_engine(url: Url) -> ZooKeeperEngine:
    """`zookeeper://h1:2181,h2:2181,h3:2181/chroot`, and `zookeeper+tls://`."""
    try:
        from locknut.backends.zookeeper import settings
        from locknut.backends.zookeeper.engine import ZooKeeperEngine
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "kazoo>=2.11,<2.12"'
        )
        raise ConfigurationError(message, backend="zookeeper") from error
    return ZooKeeperEngine(settings.from_url(url))


def from_client(client: Any) -> ZooKeeperEngine:
    """The same for a `KazooClient` that the user has; its driver is there, then."""
    from locknut.backends.zookeeper import settings
    from locknut.backends.zookeeper.engine import ZooKeeperEngine

    return ZooKeeperEngine(settings.from_client(client))
