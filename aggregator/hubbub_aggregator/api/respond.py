"""Responses as JSON or CSV, with an ETag: a caller that has the newest answer gets an empty 304."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from fastapi import Query, Response

from hubbub_aggregator.api.csv_tables import CSV_TYPE, to_csv
from hubbub_service_common.http.entity_tags import is_known, tag_of_basis

if TYPE_CHECKING:
    from fastapi import Request

    from hubbub_aggregator.models.base import ResponseModel

__all__ = ["Format", "form", "reply"]

Form: TypeAlias = Literal["json", "csv"]
Format = Annotated[
    Form | None,
    Query(description="`csv` or `json`; unset: what the Accept header prefers, JSON if it has no preference."),
]
REVALIDATE = "private, no-cache"
"""The caller may keep the answer, and must check each time that it is current. The tag makes that cheap."""


def reply(
    request: Request,
    chosen: Form | None,
    basis: list[object],
    build: Callable[[], ResponseModel],
    *,
    next_page: Callable[[ResponseModel], str | None] | None = None,
    name: str = "",
) -> Response:
    """The answer, built only if the caller does not have it. `basis` is everything that it depends on."""
    made = form(chosen, request.headers.get("accept"))
    current = tag_of_basis(request.url.path, made, *basis)
    headers = {"ETag": current, "Cache-Control": REVALIDATE, "Vary": "Accept"}
    if is_known(current, request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    answer = build()
    if next_page is not None and (following := next_page(answer)) is not None:
        headers["Link"] = f'<{following}>; rel="next"'
    if made == "csv":
        headers["Content-Disposition"] = f'inline; filename="{name}.csv"'
        return Response(to_csv(answer), media_type=CSV_TYPE, headers=headers)
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json", headers=headers)


def form(chosen: Form | None, accept: str | None) -> Form:
    """CSV if it is asked for, or preferred to JSON. A caller that accepts neither gets JSON."""
    if chosen is not None:
        return chosen
    return "csv" if _quality(accept or "", "text", "csv") > _quality(accept or "", "application", "json") else "json"


def _quality(accept: str, kind: str, subtype: str) -> float:
    """The weight of a media type in an Accept header; the most specific range that fits it decides (RFC 9110)."""
    best, found = -1, 0.0
    for part in accept.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        fit = {f"{kind}/{subtype}": 2, f"{kind}/*": 1, "*/*": 0}.get(media, -1)
        if fit > best:
            weights = [piece[2:] for piece in parameters if piece.startswith("q=")]
            best, found = fit, _weight(weights[0]) if weights else 1.0
    return found


def _weight(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
