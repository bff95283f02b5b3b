"""Warnings: what is wrong but does not stop the aggregator. Every page and route that shows them says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator
    from hubbub_service_common.http.health import Warn

__all__ = ["warnings_of"]


def warnings_of(service: Aggregator) -> dict[str, Warn]:
    """The warnings by name. None waits for anything, and none uses the service before it is called.

    The documentation lists routes without a service.
    """

    def clock() -> str | None:
        return service.clock.warning()

    def codebook() -> str | None:
        return service.late_start()

    def keys() -> str | None:
        return service.collecting.warning()

    return {"clock": clock, "codebook": codebook, "keys": keys}
