"""The bundle: public, signed, relayed byte for byte by the shuffler."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from hubbub_aggregator.api.request_dependencies import PROBLEMS, Anyone
from hubbub_service_common.http.entity_tags import is_known, tag_of_bytes

__all__ = ["BUNDLE_TYPE", "router"]

BUNDLE_TYPE = "application/vnd.hubbub.bundle"

router = APIRouter(tags=["devices"], responses=PROBLEMS)


@router.get(
    "/v1/bundle",
    response_class=Response,
    responses={200: {"content": {BUNDLE_TYPE: {}}}, 304: {"description": "It has not changed."}},
)
def bundle(request: Request, service: Anyone) -> Response:
    """Codebooks and sealing keys, signed by the aggregator's identity."""
    with service.storage_faults():
        raw = service.bundle().raw
    tag = tag_of_bytes(raw)
    headers = {"ETag": tag, "Cache-Control": f"public, max-age={service.publisher.max_age}"}
    if is_known(tag, request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(raw, media_type=BUNDLE_TYPE, headers=headers)
