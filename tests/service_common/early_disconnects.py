"""Early disconnects over raw sockets: at any byte, by FIN or RST, with requests sent ahead."""

from __future__ import annotations

import random
import select
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

__all__ = ["WAYS", "leave_often"]


def _close(connection: socket.socket) -> None:
    connection.close()


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _say_no_more(connection: socket.socket) -> None:
    """Close the sending side alone, and wait for the other to end it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass
    connection.close()


def _after_the_first_byte(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)
    _reset(connection)


WAYS: tuple[Callable[[socket.socket], None], ...] = (_close, _reset, _say_no_more, _after_the_first_byte)


def leave_often(address: str, requests: Sequence[bytes], rounds: int, seed: int) -> None:
    """So many connections, each with some of these requests; the last one may be cut anywhere."""
    rng = random.Random(seed)
    parts = urlsplit(address)
    for number in range(rounds):
        said, whole = b"".join(rng.choices(requests, k=rng.choice([1, 2, 3, 8]))), rng.random() < 0.6
        way = WAYS[number % len(WAYS)]
        if way is _after_the_first_byte and not whole:
            way = _reset  # no answer may be due
        with socket.create_connection((parts.hostname, parts.port), 60) as connection:
            with suppress(OSError):
                connection.sendall(said if whole else said[: rng.randrange(len(said))])
                if rng.random() < 0.5:
                    select.select([connection], [], [], rng.random() / 100)  # as far as it gets in a moment
            way(connection)
