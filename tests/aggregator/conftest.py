"""An aggregator for every test: a stopped clock, real files and real worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub_aggregator.intake.open_reports import Pool
from tests.aggregator.world import Site
from tests.support.redis_server import RedisCluster, RedisServer, one_server, three_nodes


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Worker processes for the whole run: starting them takes longer than most tests."""
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.fixture
def site(tmp_path: Path, pool: Pool) -> Iterator[Site]:
    site = Site.open(tmp_path, pool)
    yield site
    site.close()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server of this suite's own; each test has names of its own on it."""
    with one_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with three_nodes(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
