"""One link to Redis and the one thread that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from hubbub_shuffler.storage._redis_link import Link

__all__ = ["RedisLane"]

T = TypeVar("T")
P = ParamSpec("P")


class RedisLane:
    """Work on one link, one piece after the other, beside the event loop."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hubbub-shuffler-redis")

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do it in this lane's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*arguments, **named))

    async def aclose(self) -> None:
        """Finish what was begun, then let go of the connections."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.link.close)
        self._thread.shutdown()

    def close(self) -> None:
        """The same before anything was begun."""
        self.link.close()
        self._thread.shutdown()
