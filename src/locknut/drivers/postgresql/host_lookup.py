"""The name of a server is looked up by us and not by libpq, which waits for the resolver without
any limit: one name that nobody answers for would hold up the way to all other servers.
"""

from __future__ import annotations

from psycopg import pq
from psycopg.conninfo import make_conninfo

from locknut.runtimes import host_names

_ELSEWHERE = ("/", "@")
"""What the directory of a socket begins with; the second, one without a file."""


def looked_up(way: bytes, seconds: float) -> bytes:
    """The same way, with the addresses of its host. libpq tries them in turn, and goes on by the
    name where that counts: certificates, password files.
    """
    told = {each.keyword: each.val for each in pq.Conninfo.parse(way) if each.val}
    host, port = (told.get(word, b"").decode() for word in (b"host", b"port"))
    if not host or not port or b"hostaddr" in told:
        return way  # one of a service, or all is said
    if host.startswith(_ELSEWHERE) or host_names.is_address(host):
        return way
    found = host_names.addresses(host, int(port), seconds)
    places = list(dict.fromkeys(str(each[4][0]) for each in found))
    lists = {"host": [host] * len(places), "hostaddr": places, "port": [port] * len(places)}
    return make_conninfo(
        way.decode(), **{key: ",".join(values) for key, values in lists.items()}
    ).encode()
