"""What is wrong and does not keep the aggregator from its work; all that tell of it say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator
    from hubbub_service_common.http.health import Warn

__all__ = ["warnings_of"]


def warnings_of(service: Aggregator) -> dict[str, Warn]:
    """By name. None of them waits for anything. The documentation lists routes without a service: see when asked."""

    def clock() -> str | None:
        return service.clock.warning()

    def codebook() -> str | None:
        return service.late_start()

    def keys() -> str | None:
        return service.collecting.warning()

    return {"clock": clock, "codebook": codebook, "keys": keys}
