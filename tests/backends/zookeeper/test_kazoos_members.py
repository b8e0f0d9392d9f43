"""A canary for kazoo's private members: a release that changes one fails here, by its name.

`pyproject.toml` keeps out releases that have not been tried. To let one in, raise the upper bound
there, run this file, and then all tests of the engine against real servers.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

from locknut.backends import zookeeper
from locknut.backends.zookeeper.kazoo_client import Handler, SharedKazooClient
from locknut.backends.zookeeper.kazoo_connection import Connection
from tests.contracts.sources import ROOT
from tests.parsing import parse

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
        for node in ast.walk(parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert used & private == KNOWN


OVERRIDDEN = [
    (ours, theirs, name)
    for ours, theirs in (
        (SharedKazooClient, KazooClient),
        (Connection, ConnectionHandler),
        (Handler, SequentialThreadingHandler),
    )
    for name in sorted(vars(ours).keys() & set(dir(theirs)) - set(dir(object)))
    if inspect.isfunction(getattr(theirs, name))
]


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    OVERRIDDEN,
    ids=[f"{each[1].__name__}.{each[2]}" for each in OVERRIDDEN],
)
def test_what_we_override_is_called_as_before(ours: type, theirs: type, name: str) -> None:
    """kazoo calls these by itself: ours have to take what it gives them."""
    given = inspect.signature(getattr(theirs, name)).parameters.values()
    taken = inspect.signature(getattr(ours, name)).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in (*given, *taken)):
        assert [each.name for each in taken] == [each.name for each in given]


def test_all_that_kazoo_calls_is_overridden_where_it_should_be() -> None:
    """A method of ours that kazoo has no more would never be called, and nothing would say so."""
    assert {name for _, theirs, name in OVERRIDDEN if theirs is ConnectionHandler} == {
        *("_connect", "_invoke", "_read", "_read_socket", "_send_request", "_write"),
    }
    assert {name for _, theirs, name in OVERRIDDEN if theirs is KazooClient} == {"_notify_pending"}
    assert {name for _, theirs, name in OVERRIDDEN if theirs is SequentialThreadingHandler} == {
        *("create_connection", "create_socket_pair", "dispatch_callback"),
        *("select", "start", "stop"),
    }


def test_releases_that_were_never_tried_are_kept_out() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = re.findall(r"\"(kazoo\b[^\"]*)\"", (ROOT / "pyproject.toml").read_text())
    (extra,) = project["project"]["optional-dependencies"]["zookeeper"]
    assert {each for each in wanted if not each.startswith("kazoo.")} == {extra}
    below = re.fullmatch(r"kazoo>=([\d.]+),<([\d.]+)", extra)
    assert below is not None, "a lower and an upper bound"
    lowest, above, installed = (
        tuple(map(int, each.split("."))) for each in (*below.groups(), version("kazoo"))
    )
    assert lowest <= installed < above
