"""For whoever keeps it running: is it alive, is it ready, what has it refused."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from hubbub.refusals import Refused
from hubbub_aggregator.routes.access import PROBLEMS, Analyst
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.status import FullStatus, status_of
from hubbub_service_common.health import AS_TEXT, Health
from hubbub_service_common.one_question import PATIENCE, OneQuestion

__all__ = ["health_of", "router"]

router = APIRouter(tags=["operators"], responses=PROBLEMS)


@router.get("/v1/status", response_model=FullStatus)
def status(service: Analyst) -> FullStatus:
    """Batches by state, what was refused and why, keys and codebooks."""
    with service.storage_faults():
        return status_of(service)


def health_of(service: Aggregator, patience: float = PATIENCE) -> Health:
    """Ready when batches would be taken and devices served."""
    asked: OneQuestion[None] = OneQuestion(patience)

    def look() -> None:
        service.check_storage()
        with service.storage_faults():
            missing = not service.healthy or service.storage.bundle() is None
        if missing:
            raise Refused("no-bundle", "keys and bundle are not up to date yet; the log says why", retry_after=1)

    async def refuse_unless_ready() -> None:
        with service.storage_faults():
            await asked.answer(lambda: asyncio.to_thread(look))

    return Health(AS_TEXT, refuse_unless_ready, "Storage can be written, and the bundle that devices need is at hand.")
