"""Routes for operators: is it alive, is it ready, what has it refused."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from hubbub_aggregator.api.request_dependencies import PROBLEMS, Analyst
from hubbub_aggregator.operations.health_warnings import warnings_of
from hubbub_aggregator.operations.status import FullStatus, status_of
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.storage import StorageError
from hubbub_service_common.http.health import Health
from hubbub_service_common.process.single_flight import PATIENCE

__all__ = ["health_of", "router"]

router = APIRouter(tags=["operators"], responses=PROBLEMS)


@router.get("/v1/status", response_model=FullStatus)
def status(service: Analyst) -> FullStatus:
    """Batches by state, what was refused and why, keys and codebooks."""
    with service.storage_faults():
        return status_of(service)


def health_of(service: Aggregator, patience: float = PATIENCE) -> Health:
    """Ready if batches can be taken and devices served."""

    async def storage() -> str | None:
        return await asyncio.to_thread(service.storage_fault)

    async def bundle() -> str | None:
        try:
            missing = not service.healthy or await asyncio.to_thread(service.storage.bundle) is None
        except StorageError:  # the check of the storage reports it
            return None
        return "keys and bundle are not up to date yet; the log says why" if missing else None

    return Health(
        "The storage can be written, and the bundle that devices need is at hand.",
        {"storage": storage, "bundle": bundle},
        warnings=warnings_of(service),
        patience=patience,
    )
