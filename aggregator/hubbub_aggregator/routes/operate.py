"""For whoever keeps it running: is it alive, is it ready, what has it refused."""

from __future__ import annotations

from fastapi import APIRouter, Response

import hubbub
from hubbub.refusals import Refused
from hubbub_aggregator.models import CodebookStatus, KeyStatus, Status
from hubbub_aggregator.routes.access import PROBLEMS, Analyst, Service

__all__ = ["router"]

router = APIRouter(tags=["operators"], responses=PROBLEMS)


@router.get("/healthz", response_class=Response)
async def healthz() -> Response:
    """The process answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz", response_class=Response)
def readyz(service: Service) -> Response:
    """Storage answers, and the bundle that devices need is at hand."""
    if not service.healthy or service.storage.bundle() is None:
        raise Refused("no-bundle", "keys and bundle are not up to date yet; the log says why", retry_after=1)
    return Response("ready\n", media_type="text/plain")


@router.get("/v1/status", response_model=Status)
def status(service: Analyst) -> Status:
    """Batches by state, what was refused and why, keys and codebooks."""
    found = service.storage.tallied()
    now, calendar = service.clock(), service.codebooks.collection.calendar
    bundle = service.publisher.current(now)
    return Status(
        batches={state: found.get(f"batch:{state}", 0) for state in ("pending", "accepted", "refused")},
        discards=found.get("discard:accepted", 0),
        refused_batches=_named(found, "refused:"),
        invalid_reports=_named(found, "invalid:"),
        refused_requests=dict(sorted(service.refused.items())),
        keys=[
            KeyStatus(
                id=key.id,
                first_period=calendar.period(key.first_period).label,
                last_period=calendar.period(key.last_period).label,
                state=key.state,
            )
            for key in service.ring.published(now)
        ],
        codebooks=[
            CodebookStatus(id=version.codebook.id.hex(), first_period=calendar.period(version.first_period).label)
            for version in service.codebooks
        ],
        trust_anchor=service.anchor,
        bundle_sequence=bundle.sequence,
        software=f"hubbub {hubbub.__version__}",
    )


def _named(found: dict[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in sorted(found.items()) if name.startswith(prefix)}
