"""An aggregator behind HTTP with two days of releases, a gap and an open day, and its token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from hubbub_aggregator.intake.open_reports import Pool
from hubbub_query import Query
from tests.aggregator.conftest import pool
from tests.aggregator.served import served_by_http
from tests.aggregator.world import DAY, START, Site

__all__ = ["pool"]

TOKEN = "a-token-of-an-analyst"  # noqa: S105  of this test alone


@pytest.fixture(scope="package")
def asked(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    site = Site.open(tmp_path_factory.mktemp("asked"), pool, analyst_token=SecretStr(TOKEN))
    for day, light in ((0, 100), (2, 500)):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("theme", ["light"] * light + ["dark"] * (600 - light), seed=day))
        site.settle(site.batch("startup_ms", [100.0 + day] * 1000, seed=day))
    yield site
    site.close()


@pytest.fixture(scope="package")
def address(asked: Site) -> Iterator[str]:
    with served_by_http(asked.service) as address:
        yield address


@pytest.fixture
def query(address: str) -> Query:
    return Query(address, token=TOKEN)
