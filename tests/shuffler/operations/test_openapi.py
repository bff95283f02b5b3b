"""The OpenAPI document: schemathesis asks the real service for everything in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from hubbub.wire import REPORTS_TYPE, encode_upload
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.http.tokens import Tokens
from hubbub_shuffler.forwarding.lag import Lag
from hubbub_shuffler.operations.admin_listener import create_admin
from hubbub_shuffler.operations.metrics import Sources
from tests.shuffler.process import AppServer
from tests.shuffler.raw_connections import METRIC, SIZE, body, daily_aggregator
from tests.shuffler.world import World
from tests.support import http
from tests.support.clock import Clock

UPLOADS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.binary(min_size=1, max_size=2 * SIZE), max_size=3).map(encode_upload),
    st.just(METRIC.id).map(lambda metric: encode_upload([b"\x01" + metric + bytes(SIZE + 5)])),
    st.builds(body, st.integers(1, 3)),
)


class Listeners(NamedTuple):
    public: str
    admin: str


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    """The real application on real ports; its process is tested elsewhere."""
    schemathesis.openapi.media_type(REPORTS_TYPE, UPLOADS)
    world = World(tmp_path_factory.mktemp("openapi"), daily_aggregator(), Clock(time.time()))
    asyncio.run(world.bundles.refresh())  # the loops in which it works are those of its servers
    admin = create_admin(
        Sources(world.ingest, world.bundles, Lag(time.time), None, TrustedClock()), world.storage, Tokens([])
    )
    with AppServer(world.app) as public, AppServer(admin) as private:
        yield Listeners(public, private)
    asyncio.run(world.storage.aclose())


def test_the_upload_is_described_though_the_framework_never_sees_it(listeners: Listeners) -> None:
    document = http.get(f"{listeners.public}/openapi.json").json()
    assert set(document["paths"]) == {"/v1/reports", "/v1/bundle", "/v1/status", "/healthz", "/readyz"}
    upload = document["paths"]["/v1/reports"]["post"]
    assert set(upload["requestBody"]["content"]) == {REPORTS_TYPE}
    assert set(upload["responses"]) == {"200", "202", "400", "413", "415", "429", "503"}


@pytest.mark.parametrize("listener", ["public", "admin"])
@pytest.mark.parametrize("examples", [pytest.param(8), pytest.param(500, marks=pytest.mark.full)])
def test_no_request_gets_an_answer_that_is_not_in_the_document(
    listeners: Listeners, listener: str, examples: int
) -> None:
    """All of schemathesis' checks: no 5xx, statuses, content types, headers and schemas as documented, and so on."""
    address = getattr(listeners, listener)
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    statuses: set[int] = set()
    with requests.Session() as session:
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)

            @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case=found.ok().as_strategy(GenerationMode.POSITIVE))
            def hold(case: Case[Any]) -> None:
                answer = case.call_and_validate(
                    base_url=address,
                    session=session,
                    # a schema can only say that the body is binary: most of these are no reports
                    excluded_checks=[positive_data_acceptance],
                )
                statuses.add(answer.status_code)

            hold()
    assert statuses >= ({200, 400} if listener == "public" else {200})
