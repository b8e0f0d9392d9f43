"""The ZooKeeper engine: locks between machines, kept by an ensemble, as Curator and kazoo do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.backends.zookeeper.engine import ZooKeeperEngine
    from holdfast.connect import Url

__all__ = ["adopt", "open_engine"]


def open_engine(url: Url) -> ZooKeeperEngine:
    """`zookeeper://h1:2181,h2:2181,h3:2181/chroot`, and `zookeeper+tls://`."""
    try:
        from holdfast.backends.zookeeper import settings
        from holdfast.backends.zookeeper.engine import ZooKeeperEngine
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "holdfast[zookeeper]"'
        )
        raise ConfigurationError(message, backend="zookeeper") from error
    return ZooKeeperEngine(settings.read(url))


def adopt(client: Any) -> ZooKeeperEngine:
    """The same for a `KazooClient` that the user has; its driver is there, then."""
    from holdfast.backends.zookeeper import clients
    from holdfast.backends.zookeeper.engine import ZooKeeperEngine

    return ZooKeeperEngine(clients.settings_of(client))
