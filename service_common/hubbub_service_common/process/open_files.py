"""The operating system's limit on open files, and the number of connections that it allows."""

from __future__ import annotations

import logging
import resource

__all__ = ["connections_within_limit"]

_FEWEST = 20


def connections_within_limit(wanted: int, others: int, log: logging.Logger) -> int:
    """The number of connections wanted, or fewer if there are not enough descriptors. The limit is raised if possible.

    `others`: descriptors for everything but connections to the public listener.
    """
    # -1 means that there is no limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + others
    if 0 <= soft < needed:
        soft = needed if hard < 0 else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = wanted if not 0 <= soft < needed else max(_FEWEST, soft - others)
    if most < wanted:
        log.warning("only %d connections at once: the limit of open files is %d", most, soft)
    return most
