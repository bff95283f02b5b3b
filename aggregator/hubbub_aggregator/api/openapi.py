"""The OpenAPI document: what each route answers and refuses, with examples, and which token it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI

from hubbub_aggregator.api import examples
from hubbub_aggregator.api.arrow_tables import ARROW_TYPE
from hubbub_service_common.http.health import READY
from hubbub_service_common.http.problem_documents import problem_answers

__all__ = ["DOCUMENTED", "Documented", "DocumentedAPI"]

_SCHEMES = {
    "analyst": {"type": "http", "scheme": "bearer", "description": "Not needed if no analyst token is set."},
    "analyst-basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The same token as the password, for browsers.",
    },
    "shuffler": {"type": "http", "scheme": "bearer", "description": "Not needed if no shuffler token is set."},
}
_CALLERS: dict[str, list[dict[str, list[str]]]] = {
    "analyst": [{"analyst": []}, {"analyst-basic": []}],
    "shuffler": [{"shuffler": []}],
    "anyone": [],
}
_HEADERS = {
    "ETag": {"schema": {"type": "string"}, "description": "Strong; send it as If-None-Match."},
    "Cache-Control": {"schema": {"type": "string"}},
    "Vary": {"schema": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Documented:
    """What a route does that its signature does not show."""

    caller: Literal["analyst", "shuffler", "anyone"]
    refuses: tuple[str, ...]
    """Names of the problems it may answer with."""
    example: Any = None
    """A whole answer."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Examples of its parameters."""
    table: bool = False
    """Whether it is also answered as CSV and as Arrow."""
    tagged: bool = False
    """Whether there is an ETag, and a 304 for a caller that has it."""
    text: str | None = None
    """Media type of an answer that is not JSON."""


def _query(example: Any, *refuses: str, table: bool = True, asked: Mapping[str, Any] | None = None) -> Documented:
    names = ("unauthorized", "invalid-query", "overloaded", *refuses)
    return Documented("analyst", names, example, asked or {}, table=table, tagged=True)


_RANGE = {"name": "dark_mode", "from": "2027-01-15", "to": "2027-01-16"}
_SIDES = {
    "name": "dark_mode",
    "a_from": "2027-01-15",
    "a_to": "2027-01-16",
    "b_from": "2027-01-16",
    "b_to": "2027-01-17",
}
_BATCH = {"batch_id": examples.VERDICT["id"]}
_UNFIT = ("period-in-future", "batch-conflict", "unknown-key", "revoked-key", "batch-too-late", "unknown-metric")
_UNREAD = ("malformed-batch", "wrong-length", "too-large", "unsupported-media-type")

DOCUMENTED: dict[tuple[str, str], Documented] = {
    ("put", "/v1/batches/{batch_id}"): Documented(
        "shuffler",
        (
            "malformed-batch",
            "wrong-length",
            "unauthorized",
            "too-large",
            "unsupported-media-type",
            *_UNFIT,
            "overloaded",
            "clock-in-doubt",
        ),
        examples.VERDICT,
        _BATCH,
    ),
    ("get", "/v1/batches/{batch_id}"): Documented(
        "shuffler", ("unauthorized", "not-found", "overloaded"), examples.VERDICT, _BATCH
    ),
    ("get", "/v1/bundle"): Documented("anyone", ("overloaded",), tagged=True, text="application/vnd.hubbub.bundle"),
    ("get", "/healthz"): Documented("anyone", (), READY),
    ("get", "/readyz"): Documented("anyone", ("not-ready",), READY),
    ("get", "/v1/status"): Documented("analyst", ("unauthorized", "overloaded"), examples.STATUS),
    ("get", "/v1/metrics"): _query(examples.METRICS),
    ("get", "/v1/metrics/{name}/estimate"): _query(examples.ESTIMATE, "not-found", "nothing-released", asked=_RANGE),
    ("get", "/v1/metrics/{name}/distribution"): _query(
        examples.DISTRIBUTION, "not-found", "nothing-released", asked=_RANGE
    ),
    ("get", "/v1/metrics/{name}/series"): _query(examples.SERIES, "not-found", "nothing-released", asked=_RANGE),
    ("get", "/v1/metrics/{name}/compare"): _query(examples.COMPARISON, "not-found", "nothing-released", asked=_SIDES),
    ("get", "/v1/releases"): _query(examples.RELEASES, "not-found", asked={"metric": "dark_mode", "limit": 100}),
    ("get", "/v1/releases/{release_id}"): _query(
        examples.RELEASE, "not-found", table=False, asked={"release_id": examples.RELEASE["id"]}
    ),
    ("get", "/v1/privacy"): _query(examples.LEDGER, asked={"periods": 30}),
    ("get", "/v1/privacy/curve"): _query(examples.CURVE, "not-found", asked={"delta": 1e-6, "group": 3}),
    ("get", "/v1/metrics/{name}/tradeoff"): _query(examples.TRADEOFF, "not-found", asked={"reports": 30000}),
}


class DocumentedAPI(FastAPI):
    """An app whose OpenAPI document also says what `DOCUMENTED` knows about its routes."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = _described(super().openapi())
        return self.openapi_schema


def _described(document: dict[str, Any]) -> dict[str, Any]:
    document["components"]["securitySchemes"] = _SCHEMES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (known := DOCUMENTED.get((method, path))) is not None:
                _describe(operation, known)
    return document


def _describe(operation: dict[str, Any], known: Documented) -> None:
    answers = operation["responses"]
    answers.pop("default", None)  # each refusal is named instead
    answers.pop("422", None)
    good = answers["200"]
    if known.text is not None:
        shown = {} if known.example is None else {"example": known.example}
        good["content"] = {known.text: {"schema": {"type": "string"}, **shown}}
    elif known.example is not None:
        for status in sorted({"200", "202"} & set(answers)):
            answers[status]["content"]["application/json"]["example"] = known.example
    if known.table:
        good["content"]["text/csv"] = {"schema": {"type": "string", "description": "One row per value; RFC 4180."}}
        good["content"][ARROW_TYPE] = {
            "schema": {"type": "string", "format": "binary", "description": "The same rows as an Arrow IPC stream."}
        }
    if known.tagged:
        good["headers"] = _HEADERS
        answers["304"] = {"description": "Nothing has changed since the answer with this ETag."}
    if known.caller != "anyone":
        operation["security"] = _CALLERS[known.caller]
    for parameter in operation.get("parameters", []):
        if parameter["name"] in known.asked:
            parameter["example"] = known.asked[parameter["name"]]
    refusals = problem_answers(*known.refuses, schema={"$ref": "#/components/schemas/Problem"})
    answers.update({str(status): answer for status, answer in sorted(refusals.items())})
