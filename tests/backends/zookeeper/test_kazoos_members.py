"""kazoo's private members that we build on are there: a release without one fails here, by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from locknut.backends import zookeeper

OF_THE_CLIENT = {
    *("_call", "_child_watchers", "_conn_retry", "_connection", "_data_watchers"),
    *("_notify_pending", "_pending", "_queue", "_session_id", "_session_timeout", "_stopped"),
}
OF_THE_CONNECTION = {
    *("_connect", "_connection_routine", "_invoke", "_read", "_read_sock", "_read_socket"),
    *("_send_request", "_socket", "_socket_error_handling", "_write", "_write_sock", "_xid"),
}
OF_THE_HANDLER = {"_running"}
KNOWN = OF_THE_CLIENT | OF_THE_CONNECTION | OF_THE_HANDLER


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_kazoo_has_it(name: str) -> None:
    client = KazooClient()
    owners = {
        "client": (client, OF_THE_CLIENT),
        "connection": (client._connection, OF_THE_CONNECTION),
        "handler": (client.handler, OF_THE_HANDLER),
    }
    missing = [of for of, (owner, names) in owners.items() if name in names - set(dir(owner))]
    assert not missing


def test_no_other_is_used() -> None:
    """Whatever of kazoo's parts begins with an underscore and stands in our code is listed."""
    client = KazooClient()
    theirs = {name for each in (client, client._connection, client.handler) for name in dir(each)}
    private = {name for name in theirs if name.startswith("_") and not name.startswith("__")}
    used = {
        node.attr
        for path in Path(zookeeper.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert used & private == KNOWN
