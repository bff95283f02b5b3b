"""Responses as JSON, CSV or Arrow, with an ETag: a caller that has the newest answer gets an empty 304."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from fastapi import Query, Response

from hubbub_aggregator.api.arrow_tables import ARROW_TYPE, to_arrow
from hubbub_aggregator.api.csv_tables import CSV_TYPE, to_csv
from hubbub_service_common.http.entity_tags import is_known, tag_of_basis

if TYPE_CHECKING:
    from fastapi import Request

    from hubbub_aggregator.models.base import ResponseModel

__all__ = ["Format", "form", "reply"]

Form: TypeAlias = Literal["json", "csv", "arrow"]
Format = Annotated[
    Form | None,
    Query(description="`json`, `csv` or `arrow`; unset: what Accept prefers, JSON if it has no preference."),
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
    if made == "json":
        return Response(answer.model_dump_json(by_alias=True), media_type="application/json", headers=headers)
    written, media_type, ending = _TABLES[made]
    headers["Content-Disposition"] = f'inline; filename="{name}.{ending}"'
    return Response(written(answer), media_type=media_type, headers=headers)


_TABLES: dict[Form, tuple[Callable[[ResponseModel], bytes], str, str]] = {
    "csv": (to_csv, CSV_TYPE, "csv"),
    "arrow": (to_arrow, ARROW_TYPE, "arrows"),
}
"""How each form of a table is written, its media type, and the ending of its file's name."""
_MEDIA: dict[Form, tuple[str, str]] = {
    "json": ("application", "json"),
    "csv": ("text", "csv"),
    "arrow": ("application", "vnd.apache.arrow.stream"),
}


def form(chosen: Form | None, accept: str | None) -> Form:
    """What is asked for, or else what the Accept header prefers. A caller that prefers none of them gets JSON."""
    if chosen is not None:
        return chosen
    return max(_MEDIA, key=lambda made: _quality(accept or "", *_MEDIA[made]))  # the first of equals


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
