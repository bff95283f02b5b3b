"""For whoever keeps it running: is it alive, is it ready, what has it refused."""

from __future__ import annotations

from fastapi import APIRouter, Response

from hubbub.refusals import Refused
from hubbub_aggregator.routes.access import PROBLEMS, Analyst, Service
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.status import FullStatus, status_of

__all__ = ["refuse_unless_ready", "router"]

router = APIRouter(tags=["operators"], responses=PROBLEMS)


@router.get("/healthz", response_class=Response)
async def healthz() -> Response:
    """The process answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz", response_class=Response)
def readyz(service: Service) -> Response:
    """Storage can be written, and the bundle that devices need is at hand."""
    refuse_unless_ready(service)
    return Response("ready\n", media_type="text/plain")


@router.get("/v1/status", response_model=FullStatus)
def status(service: Analyst) -> FullStatus:
    """Batches by state, what was refused and why, keys and codebooks."""
    with service.storage_faults():
        return status_of(service)


def refuse_unless_ready(service: Aggregator) -> None:
    """Refused, with what is missing, unless batches would be taken and devices served."""
    service.check_storage()
    with service.storage_faults():
        missing = not service.healthy or service.storage.bundle() is None
    if missing:
        raise Refused("no-bundle", "keys and bundle are not up to date yet; the log says why", retry_after=1)
