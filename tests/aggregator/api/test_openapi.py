"""The OpenAPI document: it describes what the service does, and the service does nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hubbub.refusals import REFUSALS
from hubbub.wire import BATCH_TYPE
from hubbub_aggregator.api import examples
from hubbub_aggregator.api.arrow_tables import ARROW_TYPE
from hubbub_aggregator.api.openapi import DOCUMENTED
from hubbub_aggregator.app import create_app
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.batch_verdict import Verdict
from hubbub_aggregator.models.comparison import Comparison
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.ledger import LedgerAnswer
from hubbub_aggregator.models.metrics import MetricList
from hubbub_aggregator.models.release import ReleaseList, ReleaseModel
from hubbub_aggregator.models.series import Series
from hubbub_aggregator.operations.status import FullStatus
from tests.aggregator.world import CODEBOOK, DAY, START, Site

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = sorted(DOCUMENTED)
WITH_INPUT = [one for one in OPERATIONS if DOCUMENTED[one].asked or DOCUMENTED[one].table]
Message = MutableMapping[str, Any]


@schemathesis.serializer(BATCH_TYPE)
def as_it_is(_context: Any, value: Any) -> bytes:
    """Batches are bytes; what the fuzzer sends instead goes out as text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    """A site with releases of two metrics, one of them on two days; no test here adds one."""
    site = Site.open(tmp_path_factory.mktemp("busy"), pool, CODEBOOK.partition("[metrics.startup_ms]")[0])
    site.settle(site.batch("dark_mode", [True] * 300))
    for day in range(2):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("theme", ["light"] * 600))
    yield site
    site.close()


@pytest.fixture(scope="module")
def schema(busy: Site) -> Any:
    """As schemathesis reads it, over the app without its lifespan: that would close the storage after one request."""
    app = create_app(busy.service)

    async def served(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
        else:
            await app(scope, receive, send)

    return schemathesis.openapi.from_asgi("/openapi.json", served)


def fuzz(schema: Any, operation: tuple[str, str], mode: GenerationMode, amount: int) -> None:
    method, path = operation

    @settings(
        max_examples=amount, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=schema[path][method.upper()].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    check()


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_nothing_that_fits_the_document_is_answered_in_a_way_it_does_not_name(
    schema: Any, operation: tuple[str, str]
) -> None:
    fuzz(schema, operation, GenerationMode.POSITIVE, 5 if operation in WITH_INPUT else 2)


@pytest.mark.parametrize("operation", WITH_INPUT, ids=" ".join)
def test_nothing_that_breaks_the_document_is_either(schema: Any, operation: tuple[str, str]) -> None:
    fuzz(schema, operation, GenerationMode.NEGATIVE, 5)


@pytest.mark.full
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("operation", WITH_INPUT, ids=" ".join)
def test_however_much_is_tried(schema: Any, operation: tuple[str, str], mode: GenerationMode) -> None:
    fuzz(schema, operation, mode, 300)


def test_every_route_is_documented_with_its_caller_its_refusals_and_an_example(busy: Site) -> None:
    """A new route that nobody described fails here."""
    document = busy.json("/openapi.json")
    there = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert there == set(DOCUMENTED)
    for method, path in there:
        operation, known = document["paths"][path][method], DOCUMENTED[method, path]
        assert bool(operation.get("security")) == (known.caller != "anyone")
        assert "default" not in operation["responses"]
        for name in known.refuses:
            answer = operation["responses"][str(REFUSALS[name].status)]
            assert list(answer["content"]) == ["application/problem+json"]
            shown = answer["content"]["application/problem+json"]["examples"][name]["value"]
            assert shown["type"] == f"urn:hubbub:problem:{name}"
        content = operation["responses"]["200"]["content"]
        assert path == "/v1/bundle" or all(
            "example" in media for kind, media in content.items() if kind not in {"text/csv", ARROW_TYPE}
        )
    assert document["components"]["schemas"]["Problem"]["properties"].keys() >= {"type", "title", "status", "detail"}


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (Estimate, examples.ESTIMATE),
        (Series, examples.SERIES),
        (Comparison, examples.COMPARISON),
        (MetricList, examples.METRICS),
        (ReleaseModel, examples.RELEASE),
        (ReleaseList, examples.RELEASES),
        (LedgerAnswer, examples.LEDGER),
        (Verdict, examples.VERDICT),
        (FullStatus, examples.STATUS),
    ],
)
def test_every_example_is_an_answer(model: type[ResponseModel], example: dict[str, Any]) -> None:
    """Nothing is missing, nothing is there that a real answer would not have."""
    assert model.model_validate(example, extra="forbid").model_dump(mode="json", by_alias=True) == example


def test_no_page_elsewhere_may_read_answers_in_a_browser(busy: Site) -> None:
    """CORS is off: no answer names an origin, and a preflight is a method that is not there."""
    asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "GET"}
    for answer in (busy.get("/v1/metrics", headers=asked), busy.call("OPTIONS", "/v1/metrics", headers=asked)):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert busy.call("OPTIONS", "/v1/metrics", headers=asked).status_code == 405
