"""Address of a Redis: one server or a cluster, with or without TLS, user and password.

    redis://user:password@host:6379/0        one server
    rediss://...                             the same with TLS
    redis+cluster://host:6379                one node of a cluster, which names the others
    rediss+cluster://...                     the same with TLS

Options after a `?` are those of redis-py's connections for timeouts and TLS, such as `ssl_ca_certs` or
`socket_timeout`.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from redis.connection import Connection, SSLConnection, parse_url
from redis.exceptions import RedisError

from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["Address", "Node"]

Node: TypeAlias = tuple[str, int]
"""Host and port of a server."""

_TIMEOUTS = ("socket_timeout", "socket_connect_timeout")
_TAKEN = {*_TIMEOUTS, "client_name", "db", "password", "socket_keepalive", "socket_read_size", "username"}
"""Options that may be given, beside those of TLS. Other options can't be written in an address, change what an answer
looks like, or send a command twice without our knowledge."""
_MALFORMED = "the address of Redis is malformed: write redis://user:password@host:port/0"


@dataclass(frozen=True)
class Address:
    """What a connection needs. Neither its repr nor its errors contain a credential."""

    first: Node
    """The server, or the cluster node that is asked first."""
    cluster: bool
    connection: Any = field(repr=False)
    """The class of its connections."""
    options: dict[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, url: str, timeout: float) -> Address:
        """Parse an address; StorageError names a wrong option. `timeout`: seconds to connect and to answer, unless the
        address gives its own."""
        scheme, _, rest = url.partition("://")
        plain = f"{scheme.removesuffix('+cluster')}://{rest}"
        try:
            _refuse_unknown_options(plain)
            found: dict[str, Any] = parse_url(plain)  # type: ignore[no-untyped-call]  # redis-py has no types here
        except ValueError as error:
            # the error itself could show the address, and with it the password
            option = re.match(r"Invalid value for '(\w+)'", str(error))
            wrong = f"the address of Redis has a wrong value for its option {option[1]}" if option else _MALFORMED
            raise StorageError(wrong) from None
        for name in _TIMEOUTS:
            if not 0 < found.setdefault(name, timeout) < float("inf"):
                raise StorageError(f"the address of Redis has a wrong value for its option {name}")
        kind: Any = found.pop("connection_class", Connection)
        first = (found.pop("host", "localhost"), found.pop("port", 6379))
        address = cls(first, scheme.endswith("+cluster"), kind, {**found, "protocol": 2})
        try:
            address.connect(first)
        except (RedisError, TypeError, ValueError):
            raise StorageError("the address of Redis has a wrong value for one of its options for TLS") from None
        return address

    def connect(self, node: Node) -> Any:
        """A connection to one server, not opened yet."""
        return self.connection(host=node[0], port=node[1], **self.options)


def _refuse_unknown_options(url: str) -> None:
    parts = urlsplit(url)
    kinds = [Connection, SSLConnection] if parts.scheme == "rediss" else [Connection]
    known = {name for kind in kinds for base in kind.__mro__ for name in inspect.signature(base).parameters}
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name in known - _TAKEN and not name.startswith("ssl_"):
            raise StorageError(f"the address of Redis has the option {name}, which can't be set: leave it out")
        if name not in known or not name.isidentifier():
            shown = name if name.isidentifier() and len(name) <= 40 else "that has no known name"
            raise StorageError(f"the address of Redis has an option {shown} after its ?: redis-py has no such option")
