"""The etcd engine: locks between machines, kept by a majority, in line with `etcdctl lock`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locknut.backends.etcd.engine import EtcdEngine
    from locknut.urls import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> EtcdEngine:
    """`etcd://h1:2379,h2:2379,h3:2379/prefix`, and `etcd+tls://`."""
    from locknut.backends.etcd import settings
    from locknut.backends.etcd.engine import EtcdEngine

    return EtcdEngine(settings.from_url(url))
