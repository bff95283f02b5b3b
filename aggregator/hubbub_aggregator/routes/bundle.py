"""The bundle: public, signed, relayed byte for byte by the shuffler."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter, Request, Response

from hubbub_aggregator.routes.access import PROBLEMS, Service

__all__ = ["BUNDLE_TYPE", "router"]

BUNDLE_TYPE = "application/vnd.hubbub.bundle"

router = APIRouter(tags=["devices"], responses=PROBLEMS)


@router.get(
    "/v1/bundle",
    response_class=Response,
    responses={200: {"content": {BUNDLE_TYPE: {}}}, 304: {"description": "It has not changed."}},
)
def bundle(request: Request, service: Service) -> Response:
    """Codebooks and sealing keys, signed by the aggregator's identity."""
    with service.storage_faults():
        raw = service.publisher.current(service.clock()).raw
    tag = f'"{hashlib.sha256(raw).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": f"public, max-age={service.publisher.max_age}"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(raw, media_type=BUNDLE_TYPE, headers=headers)
